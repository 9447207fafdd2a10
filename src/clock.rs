//! The boot-time clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Goes on while the machine is suspended, as the ensemble's clocks do; `Instant` and `CLOCK_MONOTONIC` stop.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;

/// On macOS and the BSDs, the clock of this name counts suspension, or nothing does.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since boot. Never goes back, and no one sets it.
pub(crate) fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    // Neither is negative on this clock; and nanoseconds are below a thousand million.
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}
