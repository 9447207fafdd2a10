//! How often, and for how long, a process may keep a key's lock among its tasks.

use std::time::Duration;

/// A task that does not take the lock that it was offered, and for which others wait, is passed over after this time, or twice
/// that.
pub(super) const LATE_AFTER: Duration = Duration::from_millis(100);

/// The budget of a hold.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) turns: u32,
    pub(super) time: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { turns: 16, time: Duration::from_secs(1) }
    }
}

impl Budget {
    /// Whether a hold of this age, for which no task has had a turn for so long, may still be offered: within the budget's time,
    /// but until two looks at least, and for no longer than `patience` to each task.
    pub(super) fn lets_offer(&self, age: Duration, idle: Duration, patience: Duration) -> bool {
        let time = self.time.max(2 * LATE_AFTER);
        age < time && idle < time.min(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_ends_with_the_hold_or_with_what_a_task_may_take() {
        let lets_offer = |time, age, idle| {
            let [time, age, idle, patience] = [time, age, idle, 600].map(Duration::from_millis);
            Budget { time, ..Budget::default() }.lets_offer(age, idle, patience)
        };
        assert_eq!([lets_offer(1_000, 999, 599), lets_offer(1_000, 999, 600)], [true, false]);
        assert_eq!([lets_offer(1_000, 1_000, 0), lets_offer(500, 500, 500)], [false, false]);
        assert_eq!([lets_offer(0, 199, 199), lets_offer(0, 200, 200)], [true, false], "two looks");
    }
}
