//! How long to wait before a request that was not answered is repeated.

use std::time::Duration;

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Returns the pause before a repetition: 10 ms, doubled so many times, and `longest` at most.
pub(crate) fn pause(doublings: u32, longest: Duration) -> Duration {
    longest.min(SHORTEST_PAUSE * 2u32.saturating_pow(doublings))
}
