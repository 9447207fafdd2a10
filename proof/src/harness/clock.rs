//! The clock by which all processes of a run are compared.

use std::ops::Add;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Nanoseconds since boot by `CLOCK_MONOTONIC_RAW`, which all processes of a machine share and nobody slews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Instant(pub(crate) u64);

/// The clock, or what shows it in a process whose every clock is slewed (`slew.c`).
static CLOCK: LazyLock<ClockId> = LazyLock::new(|| match std::env::var_os("SLEW_RAW") {
    Some(slewed) if !slewed.is_empty() => ClockId::RealtimeCoarse,
    _ => ClockId::MonotonicRaw,
});

impl Instant {
    pub(crate) fn now() -> Self {
        Self::of(*CLOCK)
    }

    /// What this clock shows.
    pub(crate) fn of(clock: ClockId) -> Self {
        let now = clock_gettime(clock);
        // Neither part is ever negative.
        Self(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }

    /// How long after `earlier` this is; zero if it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds from `earlier` to this; negative if it is the other way round.
    pub(crate) fn seconds_after(self, earlier: Self) -> f64 {
        (self.0 as f64 - earlier.0 as f64) / 1e9
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}
