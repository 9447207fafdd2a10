//! What happened, put together from what the contenders said and what was done to them: small enough to keep for hours.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use zklock::FencingToken;

use super::announcements::Announcements;
use super::record::{Entry, How, Reply, Seen, Who};
use super::runs::Runs;
use super::schedule::Kind;
use super::wish::{Claim, conflict};
use crate::harness::Instant;
use crate::harness::register::Ledger;

/// All that is judged, reported and drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) faults: Vec<Fault>,
    /// One for each lock.
    pub(crate) ledgers: Vec<Ledger<Who>>,
    /// What was entered in each lock's log, in the order in which ZooKeeper committed it.
    pub(crate) logs: Vec<Vec<Entry>>,
    /// Those with a claim that was current after their release.
    pub(crate) outlived: Vec<Who>,
    pub(crate) remains: Remains,
    /// Acquisitions that failed, in their own words.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Releases that were not confirmed, likewise.
    pub(crate) unconfirmed: BTreeMap<String, u64>,
    /// Acquisitions that were not polled for a while, and how often their sessions queued again meanwhile or then.
    pub(crate) neglected: u64,
    pub(crate) requeued: u64,
    pub(crate) crashes: Vec<u16>,
    pub(crate) announcements: Announcements,
    pub(crate) asks: Asks,
    pub(crate) runs: Runs,
    /// The contenders that were not granted once more after all faults were over.
    pub(crate) starved: Vec<Who>,
}

/// One acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) who: Who,
    pub(crate) how: How,
    /// The lock for which it stood in line in its process.
    pub(crate) key: Option<usize>,
    pub(crate) asked: Instant,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

impl History {
    /// How many guards were kept after their limit while somebody else was granted what they had held.
    pub(crate) fn given_up(&self) -> usize {
        let is_next = |hold: &Hold, next: &Hold| {
            next.granted >= hold.over
                && Some(next.granted) < hold.kept
                && conflict(&hold.claims, &next.claims)
        };
        self.holds.iter().filter(|hold| self.holds.iter().any(|next| is_next(hold, next))).count()
    }
}

impl Attempt {
    /// The one that led to this guard, for tests.
    #[cfg(test)]
    pub(crate) fn of(hold: &Hold) -> Self {
        let Hold { who, asked, granted: ended, .. } = *hold;
        let key = hold.is_keyed.then_some(0);
        Self { who, how: How::Wait, key, asked, ended, outcome: Outcome::Granted }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Granted,
    TimedOut,
    Cancelled,
    Busy,
    NodeDeleted,
    /// Its slot has run, or may have.
    Done,
    Failed,
    /// Its process was.
    Killed,
    /// It has none, though its process lives.
    Pending,
}

/// Who asked holders to let go, who heard of it, and what became of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    /// By their names. No two are alike.
    pub(crate) made: BTreeMap<String, MadeAsk>,
    pub(crate) heard: Vec<HeardAsk>,
    pub(crate) replies: BTreeMap<Reply, u64>,
}

/// An ask that stood.
#[derive(Clone, Debug)]
pub(crate) struct MadeAsk {
    /// The transactions that created the nodes of those who were asked.
    pub(crate) of: Vec<i64>,
    /// When its asker was told that all of them have let go.
    pub(crate) let_go: Option<Instant>,
}

/// A holder heard of an ask.
#[derive(Clone, Debug)]
pub(crate) struct HeardAsk {
    pub(crate) who: Who,
    pub(crate) token: Option<FencingToken>,
    pub(crate) ask: String,
}

/// One guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) who: Who,
    pub(crate) session: i64,
    pub(crate) token: Option<FencingToken>,
    /// Which locks it holds, in the order in which they were named.
    pub(crate) claims: Vec<Claim>,
    /// Its nodes, each with its directory, as long as it holds.
    pub(crate) nodes: Vec<String>,
    /// Whether it has one node in the queue of each of them.
    pub(crate) is_whole: bool,
    /// The weight of a permit.
    pub(crate) weight: Option<u32>,
    /// Whether it was acquired by key.
    pub(crate) is_keyed: bool,
    /// How many other guards its holder made of it.
    pub(crate) shares: usize,
    pub(crate) has_claimed: bool,
    pub(crate) entries: Entries,
    /// When its acquisition began.
    pub(crate) asked: Instant,
    /// It was valid at this instant.
    pub(crate) granted: Instant,
    pub(crate) seen: Seen,
    /// When its holder released or dropped it; the instant behind the look that said "lost"; just before the signal that
    /// killed the holder.
    pub(crate) over: Instant,
    pub(crate) end: End,
    /// For how long it may be valid at most.
    pub(crate) limit: Option<Duration>,
    /// When its holder dropped a guard that it kept after its limit.
    pub(crate) kept: Option<Instant>,
}

/// The entries of a holder in the lock's log, as far as it has heard of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) committed: u64,
    /// Those that it sent, or was about to, and of which it does not know what came.
    pub(crate) open: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Dropped,
    /// Why, in the guard's own words.
    Lost(String),
    Killed,
}

/// How zklock's guard says that its lease has ended (`LostReason::Unconfirmed`).
const UNCONFIRMED: &str = "ZooKeeper did not confirm the session in time";

/// How it says that its limit is over (`LostReason::MaxHold`).
pub(crate) const MAX_HOLD: &str = "it was held for as long as it may be";

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) at: Instant,
    pub(crate) until: Instant,
    pub(crate) servers: Vec<usize>,
    pub(crate) client: Option<u16>,
    /// The session that was closed, or whose node was deleted.
    pub(crate) session: Option<i64>,
    /// The transaction that created the node that was written to.
    pub(crate) node: Option<i64>,
    /// The holder at that moment.
    pub(crate) holder: Option<Who>,
}

impl Fault {
    /// One that begins now, and of which no more is known.
    pub(crate) fn begins(kind: Kind, at: Instant) -> Self {
        let (servers, until) = (Vec::new(), at);
        Self { kind, at, until, servers, client: None, session: None, node: None, holder: None }
    }
}

/// What was left on the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Remains {
    /// Contenders' nodes and an announcement, while all contenders were idle.
    pub(crate) nodes: Vec<Left>,
    pub(crate) watches: u64,
    /// Ephemeral nodes, after all clients were gone.
    pub(crate) ephemerals: u64,
}

/// A node that was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Left {
    /// With its directory.
    pub(crate) path: String,
    pub(crate) session: i64,
    /// Whose it is, unless its data was overwritten.
    pub(crate) who: Option<Who>,
    /// The servers that have it.
    pub(crate) servers: Vec<usize>,
}

impl Left {
    /// One of the first contender, for tests.
    #[cfg(test)]
    pub(crate) fn sample(servers: &[usize]) -> Self {
        let who = Some(Who { client: 1, task: 1 });
        Self { path: "lock-0000000007".to_owned(), session: 1, who, servers: servers.to_vec() }
    }
}

impl Hold {
    /// Whether this is one of its nodes.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.nodes.iter().any(|node| node == path)
    }

    /// The last instant at which the guard was valid, or would have said so: a stopped process cannot ask it. The promise of
    /// the lease stands, unless the holder gave the lock away or an operator took it.
    pub(crate) fn valid_until(&self, is_taken: bool) -> Instant {
        let promised = self.seen.promised.unwrap_or(self.seen.valid);
        match &self.end {
            End::Released | End::Dropped => self.seen.valid,
            _ if self.ends_early() => self.seen.valid,
            End::Lost(_) if is_taken => self.seen.valid,
            // A guard may be lost before the promised end: the lease of a session that moves to a server with a lower limit
            // is cut. If the servers say that the session has expired, the promise stands, because they would say so for a
            // lease that is too long as well.
            End::Lost(reason) if reason == UNCONFIRMED => promised.min(self.over).max(self.seen.valid),
            End::Lost(_) => promised.max(self.seen.valid),
            // The dead ask nobody.
            End::Killed if self.seen.promised.is_some() => promised.min(self.over).max(self.seen.valid),
            End::Killed => self.over,
        }
    }

    /// Whether it was lost, with its process or without. If not, its holder gave it back.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.end, End::Lost(_) | End::Killed)
    }

    /// Whether nobody else may hold any of it.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.claims.iter().all(|claim| !claim.shared)
    }

    /// Whether its limit ended it, or may have. One is given up as soon as one of its clocks says so, and that one may be faster than
    /// the promise was reckoned by. So it counts to its last look only, though it may have been valid for longer.
    fn ends_early(&self) -> bool {
        self.has_reached_its_limit() || self.limit.is_some() && matches!(self.end, End::Killed)
    }

    /// Whether its limit ended it.
    pub(crate) fn has_reached_its_limit(&self) -> bool {
        matches!(&self.end, End::Lost(reason) if reason == MAX_HOLD)
    }

    /// One that was released, for tests.
    #[cfg(test)]
    pub(crate) fn sample(who: Who, token: i64, granted: u64, valid: u64, claims: &[Claim]) -> Self {
        let (granted, valid, over) = (Instant(granted), Instant(valid), Instant(valid + 1));
        Self {
            who,
            session: i64::from(who.client),
            token: Some(FencingToken::new(token)),
            claims: claims.to_vec(),
            nodes: Vec::new(),
            is_whole: true,
            weight: None,
            is_keyed: false,
            shares: 0,
            has_claimed: false,
            entries: Entries::default(),
            asked: granted,
            granted,
            seen: Seen { valid, promised: Some(valid) },
            over,
            end: End::Released,
            limit: None,
            kept: None,
        }
    }
}
