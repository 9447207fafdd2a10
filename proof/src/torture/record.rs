//! What contenders say about themselves, each time before they go on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::harness::{Instant, say};

/// A contender: a client process, and one of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Who {
    pub(crate) client: u16,
    pub(crate) task: u16,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) at: Instant,
    pub(crate) who: Who,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// What has happened, or is about to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// It begins to contend. With patience for so many milliseconds; without any, for as long as it takes.
    /// Whether it has a takeover delay is said, too.
    Asks { how: How, patience: Option<u64>, delayed: bool },
    /// It contends no more, and has no guard.
    LeftWithout { why: Leaving },
    /// It has not polled its acquisition for a while, and its session has queued again so many times meanwhile or then.
    Neglected { requeued: u64 },
    /// It has a guard, which was valid at this instant.
    Granted { session: i64, token: Option<i64>, node: String, seen: Seen },
    /// It holds on: what it last saw of its guard.
    Holds { seen: Seen },
    /// Its guard is lost. This instant is behind the look that said so.
    Lost { seen: Seen, reason: String },
    /// It is about to release.
    Releases { seen: Seen },
    /// What came of that; an empty text if it was confirmed.
    Released { unconfirmed: String },
    /// It is about to drop its guard, which is valid.
    Drops { seen: Seen },
    /// It has been granted once more after the last fault, and contends no more.
    Finished,
}

/// What a holder saw of its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The last instant before a look that said "valid".
    pub(crate) valid: Instant,
    /// The end of the lease, as it was known then.
    pub(crate) promised: Option<Instant>,
}

/// How a contender contends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// As long as it takes.
    Wait,
    /// With a time limit.
    Timeout,
    /// Its future is dropped after a while.
    Cancel,
    /// At once or not at all.
    Try,
}

/// How an acquisition ended without a guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Leaving {
    TimedOut,
    Cancelled,
    Busy,
    /// Somebody deleted its node.
    Deleted,
    Failed(String),
}

impl Who {
    /// Says this, and returns once it is written.
    pub(crate) fn says(self, event: Event) -> anyhow::Result<()> {
        self.says_at(Instant::now(), event)
    }

    pub(crate) fn says_at(self, at: Instant, event: Event) -> anyhow::Result<()> {
        say(&Record { at, who: self, event })
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}.{}", self.client, self.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_and_comes_back() {
        let seen = Seen { valid: Instant(5), promised: Some(Instant(9)) };
        let record = Record {
            at: Instant(7),
            who: Who { client: 3, task: 1 },
            event: Event::Lost { seen, reason: "two\nlines".to_owned() },
        };
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
    }
}
