//! An instant, by two clocks.

use core::time::Duration;

/// An instant by two clocks. One goes on while the machine is suspended, and NTP may slew it (`CLOCK_BOOTTIME`). Nobody
/// slews the other, which may stop while the machine is suspended (`CLOCK_MONOTONIC_RAW`). Each clock counts from some
/// instant of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Moment {
    pub(super) boot: Duration,
    pub(super) raw: Duration,
}

impl Moment {
    /// Makes the instant at which the clocks show these times.
    pub fn new(boot: Duration, raw: Duration) -> Self {
        Self { boot, raw }
    }

    /// Returns the instant that is later by `length`, by both clocks.
    pub fn plus(self, length: Duration) -> Self {
        Self { boot: self.boot.saturating_add(length), raw: self.raw.saturating_add(length) }
    }

    /// Returns the time since `earlier`, by the clock that says more. Use it if something must be over in time.
    pub fn most_since(self, earlier: Self) -> Duration {
        self.boot.saturating_sub(earlier.boot).max(self.raw.saturating_sub(earlier.raw))
    }

    /// Returns the time since `earlier`, by the clock that says less. Use it if something must have lasted long enough.
    pub fn least_since(self, earlier: Self) -> Duration {
        self.boot.saturating_sub(earlier.boot).min(self.raw.saturating_sub(earlier.raw))
    }

    /// Returns the time until `later`, by the clock that says less. It is zero once either clock has reached `later`.
    pub fn until(self, later: Self) -> Duration {
        later.least_since(self)
    }

    /// Returns how much is left of a pause that began at `start`. It is zero once both clocks say that the pause is
    /// over. A timer runs on another clock. So a pause that safety depends on sleeps for the time left, and asks again.
    pub fn left_of(self, pause: Duration, start: Self) -> Duration {
        pause.saturating_sub(self.least_since(start))
    }

    /// Whether both clocks have reached `instant`.
    pub(super) fn has_reached(self, instant: Self) -> bool {
        self.boot >= instant.boot && self.raw >= instant.raw
    }

    /// Takes from each clock the earlier of the two instants.
    pub(super) fn earliest(self, other: Self) -> Self {
        Self { boot: self.boot.min(other.boot), raw: self.raw.min(other.raw) }
    }
}
