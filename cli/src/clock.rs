//! The clocks of this machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The clock of leases: the time since boot. It does not stop while the machine is suspended.
pub(crate) fn now() -> Duration {
    by(ClockId::Boottime)
}

pub(crate) fn by(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    // Neither part is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
