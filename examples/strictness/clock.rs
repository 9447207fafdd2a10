//! The two clocks: the boot-time clock, which all processes of a machine share and by which everything is measured, and the
//! wall clock of one client, which may be set wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Goes on while a machine is suspended, on Linux.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;

#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Instant(pub(crate) u64);

impl Instant {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(CLOCK);
        // Neither part is ever negative.
        Self(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }

    /// How long after `earlier` this is; zero if it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A client's wall clock, ahead of the true time by an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    pub(crate) ahead: Duration,
}

impl WallClock {
    /// Milliseconds since 1970, by this clock.
    pub(crate) fn milliseconds(self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + self.ahead;
        since.as_millis().try_into().unwrap_or(i64::MAX)
    }
}
