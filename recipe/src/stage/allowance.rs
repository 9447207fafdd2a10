//! For how long a hold may be offered.

use core::time::Duration;

use super::{Half, Left};

/// The times that bound the offers of a hold.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// For how long a hold may be passed on. It may be offered for as long, and for as long as two looks take at least.
    pub time: Duration,
    /// How long a task may leave an offer, as each acquisition that is not polled.
    pub patience: Duration,
    /// How far looks are apart.
    pub pace: Duration,
}

impl Allowance {
    /// How long half of the time is for which a hold may be offered.
    pub fn half(&self) -> Half {
        if self.share() / 2 > 2 * self.pace { Half::Long } else { Half::Short }
    }

    /// How much is left for a hold of this age, for which no task has had a turn for so long.
    pub fn left(&self, age: Duration, idle: Duration) -> Left {
        let share = self.share();
        match idle {
            idle if idle >= share || age >= self.offers() => Left::Nothing,
            idle if idle >= share / 2 => Left::LessThanHalf,
            _ => Left::Half,
        }
    }

    fn offers(&self) -> Duration {
        self.time.max(2 * self.pace)
    }

    fn share(&self) -> Duration {
        self.offers().min(self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(time: u64, patience: u64) -> Allowance {
        let [time, patience, pace] = [time, patience, 100].map(Duration::from_millis);
        Allowance { time, patience, pace }
    }

    fn left(allowance: Allowance, age: u64, idle: u64) -> Left {
        allowance.left(Duration::from_millis(age), Duration::from_millis(idle))
    }

    #[test]
    fn a_half_is_long_if_more_than_two_looks_fit_in() {
        let halves = [(400, 9_000), (401, 9_000), (1_000, 400), (1_000, 401), (0, 9_000)];
        let halves = halves.map(|(time, patience)| allowance(time, patience).half());
        assert_eq!(halves, [Half::Short, Half::Long, Half::Short, Half::Long, Half::Short]);
    }

    #[test]
    fn an_offer_ends_with_the_hold_or_with_what_a_task_may_take() {
        for (age, idle, expected) in [
            (0, 0, Left::Half),
            (999, 299, Left::Half),
            (999, 300, Left::LessThanHalf),
            (999, 599, Left::LessThanHalf),
            (999, 600, Left::Nothing),
            (1_000, 0, Left::Nothing),
        ] {
            assert_eq!(left(allowance(1_000, 600), age, idle), expected, "{age} {idle}");
        }
        assert_eq!(left(allowance(1_000, 9_000), 500, 500), Left::LessThanHalf);
    }

    #[test]
    fn without_time_an_offer_stands_for_two_looks() {
        let left = [0, 199, 200].map(|age| left(allowance(0, 9_000), age, 0));
        assert_eq!(left, [Left::Half, Left::Half, Left::Nothing]);
    }
}
