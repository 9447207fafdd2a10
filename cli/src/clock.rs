//! The clock of leases: the time since boot. It does not stop while the machine is suspended.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Neither part is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
