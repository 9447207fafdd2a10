//! The two clocks that leases are computed with.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use zklock_recipe::Moment;

/// This clock goes on while the machine is suspended, as the ensemble's clocks do; `Instant` and `CLOCK_MONOTONIC`
/// stop. NTP slews it.
#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;

/// On macOS and the BSDs, the clock of this name goes on during suspension, or no clock does.
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

/// Nobody slews this clock. It stops while the machine is suspended, at least on Linux.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const RAW: ClockId = ClockId::MonotonicRaw;

/// The BSDs have no clock that nobody slews.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
const RAW: ClockId = ClockId::Monotonic;

/// Returns this instant. Neither clock ever goes back, and nobody can set them.
pub(crate) fn now() -> Moment {
    Moment::new(read(BOOT), read(RAW))
}

/// Returns the instant that was now before the machine was suspended for this long.
#[cfg(test)]
pub(crate) fn before_a_suspension(length: Duration) -> Moment {
    Moment::new(read(BOOT) - length, read(RAW))
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // Neither part is negative on these clocks, and the nanoseconds are below a thousand million.
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}
