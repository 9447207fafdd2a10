//! How long to wait before a request that was not answered is repeated: the rule by which most requests are.

use core::time::Duration;

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause before a request is repeated.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The number of unanswered requests that leads to a pause of 40 to 80 ms.
const STEADY: u32 = 3;

/// Counts the requests in a row that were not answered: the rule by which requests are repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries(u32);

impl Tries {
    /// A request was not answered.
    pub fn failed(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// A request was answered.
    pub fn answered(&mut self) {
        self.0 = 0;
    }

    /// Makes the repetitions steady. A lapsed lease takes two confirmations, so the second one is asked for at once.
    /// After that the answered requests only have to grow older.
    pub(crate) fn steady(&mut self) {
        self.0 = if self.0 == 0 { 0 } else { STEADY };
    }

    /// Returns the pause before the next request. The first repetition follows at once, because the request itself
    /// waits for a connection. If that one is not answered either, something else is wrong, and the servers need time.
    pub fn pause(self) -> Option<Duration> {
        Some(LONGEST_PAUSE.min(SHORTEST_PAUSE * 2u32.saturating_pow(self.0.checked_sub(2)?)))
    }
}
