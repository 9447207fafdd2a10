//! The clock by which all processes of a run are compared: `CLOCK_MONOTONIC_RAW`, which all processes of a machine share and nobody
//! slews.

use rustix::time::{ClockId, clock_gettime};
pub(crate) use zklock_contest::clock::Instant;

pub(crate) fn now() -> Instant {
    shown(ClockId::MonotonicRaw)
}

pub(crate) fn shown(clock: ClockId) -> Instant {
    let now = clock_gettime(clock);
    // Neither part is ever negative.
    Instant(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}
