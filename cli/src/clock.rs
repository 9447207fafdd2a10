//! The clocks of this machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns this instant, for two processes of one machine. This clock does not stop while the machine is suspended, and NTP does
/// not slew it.
pub(crate) fn now() -> Duration {
    // NTP slews the first two alike, and only a suspension parts them.
    let boot = by(ClockId::Boottime);
    let monotonic = by(ClockId::Monotonic);
    (by(ClockId::MonotonicRaw) + boot).saturating_sub(monotonic)
}

pub(crate) fn by(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Neither part is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
