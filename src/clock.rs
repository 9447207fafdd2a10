//! The clocks that a lease is compared with.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::lease::Moment;

/// Now.
pub(crate) fn now() -> Moment {
    Moment::new(read(ClockId::Boottime), read(ClockId::MonotonicRaw))
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // Neither is negative on these clocks; and nanoseconds are below a thousand million.
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}
