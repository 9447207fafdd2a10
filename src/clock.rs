//! The clocks that leases are computed with.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use zklock_recipe::Moment;

/// Goes on while the machine is suspended, as the ensemble's clocks do; `Instant` and `CLOCK_MONOTONIC` stop. NTP slews it.
#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;

/// On macOS and the BSDs, the clock of this name counts suspension, or nothing does.
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

/// Nobody slews it. It stops while the machine is suspended, at least on Linux.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const RAW: ClockId = ClockId::MonotonicRaw;

/// The BSDs have no such clock.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
const RAW: ClockId = ClockId::Monotonic;

/// This instant. Neither clock ever goes back, and no one sets them.
pub(crate) fn now() -> Moment {
    Moment::new(read(BOOT), read(RAW))
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // Neither is negative on these clocks; and nanoseconds are below a thousand million.
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}
