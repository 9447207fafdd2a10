//! What happened, put together from what the contenders said and what was done to them: small enough to keep for hours.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use zklock::FencingToken;

use crate::announcements::Announcements;
use crate::clock::Instant;
use crate::member::Member;
use crate::record::{Entry, Reply, Seen, Who};
use crate::register::Ledger;
use crate::request::{Claim, conflict};
use crate::runs::Runs;

/// What a world lets be judged.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Whether guards are compared by what their holders saw of them, and no operator acts. A world that asks the guards themselves has
    /// compared them already.
    pub sampled: bool,
    /// Whether the run was long enough to show what it is to show.
    pub proves: bool,
    /// Nobody is told of a leadership that has been over for so long. Until then its node may be there, or the observer's process may have
    /// been stopped, or its server partitioned.
    pub stale: Duration,
    /// By how many parts in a million a process's clocks may differ from the one by which contenders are compared.
    pub drift: u32,
}

impl Default for Scope {
    fn default() -> Self {
        Self { sampled: true, proves: true, stale: Duration::from_secs(40), drift: 0 }
    }
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub scope: Scope,
    pub attempts: Vec<Attempt>,
    pub holds: Vec<Hold>,
    pub faults: Vec<Fault>,
    /// One for each lock.
    pub ledgers: Vec<Ledger>,
    /// What was entered in each lock's log, in the order in which ZooKeeper committed it.
    pub logs: Vec<Vec<Entry>>,
    /// Those with a claim that was current after their release.
    pub outlived: Vec<Who>,
    pub remains: Remains,
    /// Acquisitions that failed, in their own words.
    pub failures: BTreeMap<String, u64>,
    /// Releases that were not confirmed, likewise.
    pub unconfirmed: BTreeMap<String, u64>,
    /// Acquisitions that were not polled for a while, and how often their sessions queued again meanwhile or then.
    pub neglected: u64,
    pub requeued: u64,
    pub announcements: Announcements,
    pub asks: Asks,
    pub runs: Runs,
    /// The contenders that were not granted once more after all faults were over.
    pub starved: Vec<Who>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub who: Who,
    pub outcome: Outcome,
}

impl History {
    /// How many guards were kept after their limit while somebody else was granted what they had held.
    pub fn given_up(&self) -> usize {
        let is_next = |hold: &Hold, next: &Hold| {
            next.granted >= hold.over
                && Some(next.granted) < hold.kept
                && conflict(&hold.claims, &next.claims)
        };
        self.holds.iter().filter(|hold| self.holds.iter().any(|next| is_next(hold, next))).count()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
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
pub struct Asks {
    /// By their names. No two are alike.
    pub made: BTreeMap<String, MadeAsk>,
    pub heard: Vec<HeardAsk>,
    pub replies: BTreeMap<Reply, u64>,
}

/// An ask that stood.
#[derive(Clone, Debug)]
pub struct MadeAsk {
    /// The transactions that created the nodes of those who were asked.
    pub of: Vec<i64>,
    /// When its asker was told that all of them have let go.
    pub let_go: Option<Instant>,
}

#[derive(Clone, Debug)]
pub struct HeardAsk {
    pub who: Who,
    pub token: Option<FencingToken>,
    pub ask: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub member: Member,
    pub who: Who,
    pub session: i64,
    pub token: Option<FencingToken>,
    /// Which locks it holds, in the order in which they were named.
    pub claims: Vec<Claim>,
    /// Whether it has one node in the queue of each of them.
    pub is_whole: bool,
    pub weight: Option<u32>,
    pub is_keyed: bool,
    /// How many other guards its holder made of it.
    pub shares: usize,
    pub has_claimed: bool,
    pub entries: Entries,
    pub asked: Instant,
    /// It was valid at this instant.
    pub granted: Instant,
    pub seen: Seen,
    /// When its holder released or dropped it; the instant behind the look that said "lost"; just before the signal that
    /// killed the holder.
    pub over: Instant,
    pub end: End,
    /// Whether its acquisition may have queued again, because nobody polled it.
    pub requeued: bool,
    /// For how long it may be valid at most.
    pub limit: Option<Duration>,
    /// When its holder dropped a guard that it kept after its limit.
    pub kept: Option<Instant>,
}

/// The entries of a holder in the lock's log, as far as it has heard of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    pub committed: u64,
    /// Those that it sent, or was about to, and of which it does not know what came.
    pub open: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Released,
    Dropped,
    /// Why, in the guard's own words.
    Lost(String),
    Killed,
}

/// How zklock's guard says that its lease has ended (`LostReason::Unconfirmed`).
const UNCONFIRMED: &str = "ZooKeeper did not confirm the session in time";

/// How it says that its limit is over (`LostReason::MaxHold`).
pub const MAX_HOLD: &str = "it was held for as long as it may be";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// As reports call it.
    pub name: String,
    pub effect: Effect,
    pub at: Instant,
    pub until: Instant,
    pub servers: Vec<usize>,
    pub client: Option<u16>,
    /// The session that was closed, or whose node was deleted.
    pub session: Option<i64>,
    /// The transaction that created the node that was written to.
    pub node: Option<i64>,
}

/// What a fault itself can do to a hold, from least to most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Only what a lease foresees.
    #[default]
    Foreseen,
    /// A process is stopped, as well foreseen.
    Stops,
    /// An operator writes to the node of one that waits, and may hold by then.
    Writes,
    /// An operator deletes the node of a contender, or closes its session.
    TakesHold,
}

impl Fault {
    /// A fault that begins now, and of which no more is known.
    pub fn begins(name: String, effect: Effect, at: Instant) -> Self {
        Self { name, effect, at, until: at, ..Self::default() }
    }

    #[cfg(test)]
    pub fn sample(effect: Effect, at: u64) -> Self {
        Self::begins(String::new(), effect, Instant(at))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Remains {
    /// Contenders' nodes and an announcement, while all contenders were idle.
    pub nodes: Vec<Left>,
    pub watches: u64,
    /// Ephemeral nodes, after all clients were gone.
    pub ephemerals: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// With its directory.
    pub path: String,
    pub session: i64,
    /// Whose it is, unless its data was overwritten.
    pub who: Option<Who>,
    /// The servers that have it, and whether these are all.
    pub servers: Vec<usize>,
    pub is_everywhere: bool,
}

impl Left {
    /// One of the first contender, for tests.
    #[cfg(test)]
    pub fn sample(servers: &[usize]) -> Self {
        let who = Some(Who { client: 1, task: 1 });
        Self {
            path: "lock-0000000007".to_owned(),
            session: 1,
            who,
            servers: servers.to_vec(),
            is_everywhere: servers.len() == 3,
        }
    }
}

impl Hold {
    /// The last instant at which the guard was valid, or would have said so: a stopped process cannot ask it. The promise of
    /// the lease stands, unless the holder gave the lock away or an operator took it.
    pub fn valid_until(&self, is_taken: bool) -> Instant {
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
    pub fn is_lost(&self) -> bool {
        matches!(self.end, End::Lost(_) | End::Killed)
    }

    /// Whether nobody else may hold any of it.
    pub fn is_exclusive(&self) -> bool {
        self.claims.iter().all(|claim| !claim.shared)
    }

    /// Whether its limit ended it, or may have. One is given up as soon as one of its clocks says so, and that one may be faster than
    /// the promise was reckoned by. So it counts to its last look only, though it may have been valid for longer.
    fn ends_early(&self) -> bool {
        self.has_reached_its_limit() || self.limit.is_some() && matches!(self.end, End::Killed)
    }

    pub fn has_reached_its_limit(&self) -> bool {
        matches!(&self.end, End::Lost(reason) if reason == MAX_HOLD)
    }

    /// A hold that begins now, and of which no more is known.
    pub fn begins(member: Member, who: Who, at: Instant, seen: Seen) -> Self {
        Self {
            member,
            who,
            session: 0,
            token: None,
            claims: Vec::new(),
            is_whole: true,
            weight: None,
            is_keyed: false,
            shares: 0,
            has_claimed: false,
            entries: Entries::default(),
            asked: at,
            granted: at,
            seen,
            over: at,
            end: End::Killed,
            requeued: false,
            limit: None,
            kept: None,
        }
    }

    /// One that was released, for tests.
    pub fn sample(who: Who, token: i64, granted: u64, valid: u64, claims: &[Claim]) -> Self {
        let (session, token, claims) = (who.client.into(), Some(FencingToken::new(token)), claims.to_vec());
        let (over, seen) =
            (Instant(valid + 1), Seen { valid: Instant(valid), promised: Some(Instant(valid)) });
        let begins = Self::begins(Member::Lock, who, Instant(granted), seen);
        Self { session, token, claims, over, end: End::Released, ..begins }
    }
}
