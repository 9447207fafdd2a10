//! The clocks of this machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns this instant, for two processes of one machine. This clock does not stop while the machine is suspended, and NTP does
/// not slew it.
pub(crate) fn now() -> Duration {
    // NTP slews the first two alike, and only a suspension parts them.
    let boot = read_clock(ClockId::Boottime);
    let monotonic = read_clock(ClockId::Monotonic);
    (read_clock(ClockId::MonotonicRaw) + boot).saturating_sub(monotonic)
}

pub(crate) fn read_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Neither part is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
