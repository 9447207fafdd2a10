//! What runs come to.

use std::time::Duration;

use serde::Serialize;

use crate::harness::Instant;

/// What one run came to, or the worst of several.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Outcome {
    /// Pairs of holds at the same time.
    pub(super) double_holds: usize,
    /// The longest of them.
    pub(super) longest: Duration,
    /// Writes of former holders that the register accepted after a later holder was granted the lock.
    pub(super) late_writes: usize,
    /// Writes that the register refused.
    pub(super) refused: u64,
    /// From the fault to the next grant, at the longest.
    pub(super) recovery: Option<Duration>,
    /// Nobody could get the lock any more.
    pub(super) stuck: bool,
    /// How the former holder was told that it holds the lock no more, or never did.
    pub(super) told: Option<Told>,
}

/// How a former holder is told; the later ones are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Told {
    /// It was never given the lock, and waits for its turn.
    Waits,
    /// Its acquisition fails.
    AcquireFails,
    /// The lock says so at the first check after the fault.
    Check,
    /// The servers say so if it asks them; else its release fails.
    IfItAsks,
    /// Its release fails.
    ReleaseFails,
    /// Not at all: its release succeeds.
    Nothing,
}

impl Outcome {
    /// The next acquisition after a fault: when it was granted, if it ever was.
    pub(super) fn next(&mut self, fault: Instant, next: Option<Instant>) {
        self.recovery = next.map(|next| next.since(fault));
        self.stuck |= next.is_none();
    }

    /// A former holder was told nothing before it released.
    pub(super) fn told_by_release(&mut self, succeeded: bool) {
        self.told = self.told.or(Some(if succeeded { Told::Nothing } else { Told::ReleaseFails }));
    }

    /// Takes in another run: the worse of both stays.
    pub(super) fn add(&mut self, other: Self) {
        self.double_holds = self.double_holds.max(other.double_holds);
        self.longest = self.longest.max(other.longest);
        self.late_writes = self.late_writes.max(other.late_writes);
        self.refused = self.refused.max(other.refused);
        self.recovery = self.recovery.max(other.recovery);
        self.stuck |= other.stuck;
        self.told = self.told.max(other.told);
    }
}
