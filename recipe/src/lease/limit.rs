//! The longest time for which a holder may hold, whatever its lease says.

use core::time::Duration;

use super::Moment;

/// Until when a holder may hold at most. It never puts the end of a lease off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limit(Option<Moment>);

impl Limit {
    /// The end of this longest time, which began then. Without one, and if no clock reaches it, there is no limit.
    pub fn of(longest: Option<Duration>, began: Moment) -> Self {
        Self(longest.map(|longest| began.plus(longest)))
    }

    /// How much is left of it; `None` without a limit. It is zero once any clock has reached it: one of them may stop while the
    /// machine is suspended, and the holder must not gain by that.
    pub fn left(self, now: Moment) -> Option<Duration> {
        self.0.map(|limit| now.until(limit))
    }

    /// The instant of the limit, once it is reached.
    pub fn reached(self, now: Moment) -> Option<Moment> {
        self.0.filter(|limit| now.until(*limit).is_zero())
    }

    /// What is left of a hold whose lease lasts for so long, and whether that is less by this limit.
    pub fn bound(self, lease: Duration, now: Moment) -> (Duration, bool) {
        match self.left(now) {
            Some(left) if left < lease => (left, true),
            Some(_) | None => (lease, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(boot: u32, raw: u32) -> Moment {
        Moment::new(SECOND * boot, SECOND * raw, Duration::ZERO)
    }

    #[test]
    fn the_earlier_of_the_limit_and_the_lease_ends_a_hold() {
        let limit = Limit::of(Some(SECOND * 10), at(100, 50));
        assert_eq!(limit.bound(SECOND * 4, at(103, 53)), (SECOND * 4, false));
        assert_eq!(
            limit.bound(SECOND * 7, at(103, 53)),
            (SECOND * 7, false),
            "the lease, if both end at once"
        );
        assert_eq!(limit.bound(SECOND * 8, at(103, 53)), (SECOND * 7, true));
        assert_eq!(
            limit.bound(Duration::ZERO, at(120, 70)),
            (Duration::ZERO, false),
            "a lease that has ended"
        );
        assert_eq!(Limit::default().bound(SECOND * 8, at(103, 53)), (SECOND * 8, false));
    }

    #[test]
    fn either_clock_ends_it() {
        let limit = Limit::of(Some(SECOND * 10), at(100, 50));
        assert_eq!((limit.left(at(109, 59)), limit.reached(at(109, 59))), (Some(SECOND), None));
        // Ten seconds of work; or one, a suspension of nine in which one clock stands still; or a clock that is slewed.
        for now in [at(110, 60), at(110, 51), at(103, 60)] {
            assert_eq!((limit.left(now), limit.reached(now)), (Some(Duration::ZERO), Some(at(110, 60))));
        }
        assert_eq!((Limit::default().left(at(110, 60)), Limit::default().reached(at(110, 60))), (None, None));
    }

    #[test]
    fn no_clock_reaches_the_longest_of_all() {
        let limit = Limit::of(Some(Duration::MAX), at(100, 50));
        assert_eq!(limit.bound(SECOND, at(u32::MAX, u32::MAX)), (SECOND, false));
    }
}
