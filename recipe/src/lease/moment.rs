//! An instant, by two clocks.

use std::time::Duration;

/// An instant by two clocks: one that goes on while the machine is suspended, and that NTP may slew (`CLOCK_BOOTTIME`);
/// and one that nobody slews, and that may stop while the machine is suspended (`CLOCK_MONOTONIC_RAW`). Each is the time
/// since some instant of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Moment {
    pub(super) boot: Duration,
    pub(super) raw: Duration,
}

impl Moment {
    /// An instant, as both clocks show it.
    pub fn new(boot: Duration, raw: Duration) -> Self {
        Self { boot, raw }
    }

    /// So much later, by both clocks.
    pub fn plus(self, length: Duration) -> Self {
        Self { boot: self.boot.saturating_add(length), raw: self.raw.saturating_add(length) }
    }

    /// The most that has passed since `earlier`, by either clock: for what must be over in time.
    pub fn most_since(self, earlier: Self) -> Duration {
        self.boot.saturating_sub(earlier.boot).max(self.raw.saturating_sub(earlier.raw))
    }

    /// The least that has passed since `earlier`, by either clock: for what must have lasted long enough.
    pub fn least_since(self, earlier: Self) -> Duration {
        self.boot.saturating_sub(earlier.boot).min(self.raw.saturating_sub(earlier.raw))
    }

    /// How long it certainly is until `later`: zero once either clock has come to it.
    pub fn until(self, later: Self) -> Duration {
        later.least_since(self)
    }

    /// How much of a pause that began at `start` is left: zero once both clocks say that it is over. A timer runs on a
    /// clock of its own, so a pause that safety depends on sleeps for so long, and asks again.
    pub fn left_of(self, pause: Duration, start: Self) -> Duration {
        pause.saturating_sub(self.least_since(start))
    }

    /// Whether both clocks have come to `instant`.
    pub(super) fn has_reached(self, instant: Self) -> bool {
        self.boot >= instant.boot && self.raw >= instant.raw
    }

    /// What either clock comes to first.
    pub(super) fn earliest(self, other: Self) -> Self {
        Self { boot: self.boot.min(other.boot), raw: self.raw.min(other.raw) }
    }
}
