//! An instant, by three clocks.

use core::time::Duration;

/// An instant by three clocks, each of which counts from some instant of its own. NTP may slew the first (`CLOCK_BOOTTIME`). Nobody
/// slews the others. The last one stops while the machine is suspended (on Linux, `CLOCK_MONOTONIC_RAW`). The second one is the
/// last one and the time of suspensions.
///
/// The kernel may err about the length of a suspension, by a second or more in either direction. So each question is answered by
/// the clock that is safe for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Moment {
    pub(super) boot: Duration,
    steady: Duration,
    pub(super) raw: Duration,
}

impl Moment {
    /// Makes the instant at which the clocks show these times, on a machine that has been suspended for so long.
    pub fn new(boot: Duration, raw: Duration, suspended: Duration) -> Self {
        Self { boot, steady: raw.saturating_add(suspended), raw }
    }

    /// Makes an instant of each clock from the instants of two moments.
    fn each(self, other: Self, function: fn(Duration, Duration) -> Duration) -> [Duration; 3] {
        [function(self.boot, other.boot), function(self.steady, other.steady), function(self.raw, other.raw)]
    }

    /// Returns the instant that is later by `length`, by all clocks.
    pub fn plus(self, length: Duration) -> Self {
        let by = |clock: Duration| clock.saturating_add(length);
        Self { boot: by(self.boot), steady: by(self.steady), raw: by(self.raw) }
    }

    /// Returns the time since `earlier`, by the clock that says most. Use it if something must be over in time.
    pub fn most_since(self, earlier: Self) -> Duration {
        let [boot, steady, raw] = self.each(earlier, Duration::saturating_sub);
        boot.max(steady).max(raw)
    }

    /// Returns the time since `earlier`, by the clock that says least. Use it if something must have lasted long enough.
    pub fn least_since(self, earlier: Self) -> Duration {
        let [boot, steady, raw] = self.each(earlier, Duration::saturating_sub);
        boot.min(steady).min(raw)
    }

    /// Returns the time until `later`, by the clock that says least. It is zero once any clock has reached `later`.
    pub fn until(self, later: Self) -> Duration {
        later.least_since(self)
    }

    /// Returns how much is left of a pause that began at `start`. It is zero once all clocks say that the pause is
    /// over. A timer runs on another clock. So a pause that safety depends on sleeps for the time left, and asks again.
    pub fn left_of(self, pause: Duration, start: Self) -> Duration {
        pause.saturating_sub(self.least_since(start))
    }

    /// Whether all clocks have reached `instant`.
    pub(super) fn has_reached(self, instant: Self) -> bool {
        self.boot >= instant.boot && self.steady >= instant.steady && self.raw >= instant.raw
    }

    /// Whether this instant is later by some clock, and earlier by none. Of two readings at nearly the same time neither may be: the time
    /// of suspensions is known to some 100 microseconds only.
    pub(super) fn is_after(self, other: Self) -> bool {
        self != other && self.has_reached(other)
    }

    /// Takes from each clock the earlier of the two instants.
    pub(super) fn earliest(self, other: Self) -> Self {
        let [boot, steady, raw] = self.each(other, Duration::min);
        Self { boot, steady, raw }
    }
}
