//! The wall clock of one client, which may be set wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
