//! The report of an audit.

use serde::Serialize;
use zklock_recipe::PathKind;

use crate::read::Unread;

/// How many of a sort are told one by one.
pub(crate) const EXAMPLES: usize = 20;

/// The verdict of an audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No two guards that exclude each other were valid at once.
    Proven,
    /// The records show no overlap, and do not show that there was none.
    #[default]
    Unproven,
    /// Two guards were valid at once.
    Overlap,
}

/// The outcome of an audit.
#[derive(Clone, Debug, Serialize)]
pub struct Audit {
    /// The worst of all.
    pub verdict: Verdict,
    /// Without missing lines, the window that all records cover; `None` if there is none.
    pub covered: Option<Covered>,
    /// The paths that somebody held.
    pub paths: Vec<PathAudit>,
    /// The processes whose records were read.
    pub processes: Vec<Seen>,
    /// The gaps of the records, for people.
    pub unseen: Vec<String>,
    /// Files, and parts of them, that could not be read.
    pub unread: Vec<Unread>,
    /// All paths on record, with the chroots of their sessions.
    pub recorded: Vec<String>,
}

/// A time by the leader's clock, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// Since when; `None` if all records begin with their processes.
    pub from_ms: Option<i64>,
    /// Until when; `None` if all processes have ended.
    pub to_ms: Option<i64>,
}

/// The record of a process.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// The process, for people.
    pub name: String,
    /// When it begins and ends, in milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// See [`from_ms`](Self::from_ms).
    pub to_ms: i64,
    /// How often it has the leader's clock.
    pub stamps: usize,
}

/// The findings of one path.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PathAudit {
    /// The path.
    pub path: String,
    /// The kind of the path.
    pub used_for: String,
    /// The worst.
    pub verdict: Verdict,
    /// The holds, in the order of their grants.
    pub holds: Vec<HoldAudit>,
    /// Guards that were valid at once: the first ones.
    pub overlaps: Vec<Pair>,
    /// How many there are.
    pub overlap_count: usize,
    /// Pairs of guards that may have been valid at once: the first ones.
    pub unproven: Vec<Pair>,
    /// How many there are.
    pub unproven_count: usize,
    /// Contenders that no record has, and reasons to doubt that all are of one ensemble.
    pub unknown: Vec<String>,
    /// The least time between a guard that ended by itself and the next grant.
    pub nearest: Option<Margin>,
    /// The longest waits, the longest first.
    pub waits: Vec<Wait>,
}

/// One hold.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HoldAudit {
    /// The process.
    pub who: String,
    /// `exclusive`, `shared`, a permit or a slot.
    pub kind: String,
    /// The fencing token, without its turn.
    pub token: i64,
    /// How many turns it had, one after the other, in the process. The last one may be nobody's.
    pub turns: u32,
    /// ZooKeeper's id of the session.
    pub session: i64,
    /// When it was granted, in milliseconds since the Unix epoch: by the leader's clock, if that is known.
    pub granted_ms: f64,
    /// For how long it was valid at most; `None` if the record does not show that.
    pub held_ms: Option<f64>,
    /// How it ended.
    pub ended: String,
    /// Whether it was lost, and not let go.
    pub is_lost: bool,
}

/// Two holds, as their places in [`PathAudit::holds`].
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// The first hold.
    pub first: usize,
    /// The hold that excludes it.
    pub second: usize,
    /// The reason, for people.
    pub what: String,
    /// For how long both were valid, at the least.
    pub least_ms: Option<f64>,
}

/// The time between two holds.
#[derive(Clone, Debug, Serialize)]
pub struct Margin {
    /// The first hold.
    pub first: usize,
    /// The next one.
    pub second: usize,
    /// The time between them.
    pub ms: f64,
    /// By how much that may be wrong.
    pub error_ms: f64,
}

/// One wait.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// The process.
    pub who: String,
    /// For how long.
    pub ms: f64,
    /// Behind whom it waited first.
    pub behind: Option<String>,
    /// How it ended.
    pub ended: String,
}

impl PathAudit {
    pub(crate) fn overlap(&mut self, pair: Pair, listed: usize) {
        self.overlap_count += 1;
        if self.overlaps.len() < listed {
            self.overlaps.push(pair);
        }
    }

    pub(crate) fn doubt(&mut self, pair: Pair, listed: usize) {
        self.unproven_count += 1;
        if self.unproven.len() < listed {
            self.unproven.push(pair);
        }
    }

    /// Whether it is a pool of permits.
    pub fn is_semaphore(&self) -> bool {
        self.used_for == PathKind::Semaphore.to_string()
    }
}
