//! The records in which a contender says what it does, each time before it goes on. A record is a line of JSON in the
//! journal and in the pipe to the conductor.

use std::fs::{File, OpenOptions};
use std::io::{Stdout, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) at: Instant,
    pub(crate) contender: u16,
    pub(crate) pid: u32,
    #[serde(flatten)]
    pub(crate) event: Event,
}

/// An event that has happened, or is about to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A session is established.
    Connected { session: i64 },
    /// The contender is in the queue; this is the token that it will have.
    Waiting { token: i64 },
    /// The contender has acquired the lock.
    Entered { token: i64 },
    /// The contender has read the counter, and sleeps now.
    Read { token: i64, value: u64 },
    /// The contender writes the counter next, if it still holds the lock.
    Writing { value: u64 },
    /// The contender has written the counter.
    Wrote { value: u64 },
    /// The contender does nothing more that needs the lock, and releases it next. Or it has lost its guard, for this
    /// reason.
    Exited { lost: Option<String> },
    /// The release was not confirmed, for this reason. The increment counts, because it was written under the lock.
    Unconfirmed { cause: String },
    /// The contender has made all its increments.
    Finished,
}

/// An instant of the monotonic clock, which all processes of a machine share: nanoseconds since some start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Instant(pub(crate) u64);

impl Instant {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        // Neither part is ever negative.
        Self(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Writes a contender's records.
pub(crate) struct Recorder {
    contender: u16,
    journal: File,
    pipe: Stdout,
}

impl Recorder {
    pub(crate) fn open(contender: u16, journal: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().append(true).open(journal);
        let journal = file.with_context(|| format!("cannot open the journal {}", journal.display()))?;
        Ok(Self { contender, journal, pipe: std::io::stdout() })
    }

    /// Writes a record, and returns once it is written. So everything after this call happens after the record.
    pub(crate) fn say(&mut self, event: Event) -> anyhow::Result<()> {
        let record = Record { at: Instant::now(), contender: self.contender, pid: std::process::id(), event };
        let line = serde_json::to_string(&record)? + "\n";
        // Each record is one write: the kernel keeps lines of this length whole, even if others write to the same file.
        self.journal.write_all(line.as_bytes()).context("cannot write the journal")?;
        self.pipe.write_all(line.as_bytes()).context("the conductor is gone")
    }
}

/// Reads every record in the journal.
pub(crate) fn read_journal(journal: &Path) -> anyhow::Result<Vec<Record>> {
    let text = std::fs::read_to_string(journal)
        .with_context(|| format!("cannot read the journal {}", journal.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("no record: {line}")))
        .collect()
}
