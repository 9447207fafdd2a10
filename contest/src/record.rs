//! What contenders say about themselves, each time before they go on.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zklock::FencingToken;

use crate::clock::Instant;
use crate::member::Member;
use crate::request::{Claim, Request};

/// A contender: a client process, and one of its tasks. The task 0 is the process: an observer, or what its tasks share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Who {
    pub client: u16,
    pub task: u16,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub at: Instant,
    pub member: Member,
    pub who: Who,
    #[serde(flatten)]
    pub event: Event,
}

/// What has happened, or is about to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It begins to contend. With this patience; without any, for as long as it takes. Its guard is valid for so long at most.
    Asks { request: Request, how: How, patience: Option<Duration>, limit: Option<Duration> },
    /// It contends no more, and has no guard.
    LeftWithout { why: Leaving },
    /// It is about to leave its acquisition or its release unpolled for a while.
    Neglects,
    /// It has not polled its acquisition or its release for a while, and its session has queued again so many times meanwhile or then.
    Neglected { requeued: u64 },
    /// It has a guard of these locks, which was valid at this instant; the nodes are in the order of the claims.
    Granted { session: i64, token: Option<FencingToken>, claims: Vec<Claim>, nodes: Vec<String>, seen: Seen },
    /// It holds on: what it last saw of its guard.
    Holds { seen: Seen },
    /// Its guard is lost. This instant is behind the look that said so.
    Lost { seen: Seen, reason: String },
    /// It has made so many other guards of its hold.
    Shares { number: usize },
    /// It has made a claim.
    Claims,
    /// It is about to send an entry for the lock's log.
    Enters,
    /// What came of that, for certain: whether the entry is there.
    Entered { done: bool },
    /// A transaction with an ephemeral node was refused, though it holds.
    Unmarked,
    /// It has asked those to let go whose nodes these transactions have created, under this name.
    AsksHolders { ask: String, of: Vec<i64> },
    /// What came of that, or why it asked nobody.
    Answered { ask: String, reply: Reply },
    /// It holds, and has heard of this ask, and lets go or not.
    Hears { ask: String, heeds: bool },
    /// It is about to drop a guard that it has kept after its limit.
    LetsGo,
    /// It is about to release.
    Releases { seen: Seen },
    /// What came of that; an empty text if it was confirmed.
    Released { unconfirmed: String },
    /// Its claim is current, though its release was confirmed.
    Outlived,
    /// It is about to drop its guard, which is valid.
    Drops { seen: Seen },
    /// It leads, and is about to proclaim this value.
    Proclaims { value: String },
    /// The servers refused to announce what it proclaimed, though it leads.
    Unannounced { why: String },
    /// It begins to observe who leads, and knows nothing yet.
    Observes,
    /// It was told who leads, or that nobody does.
    Told { leader: Option<Told> },
    /// It was told that it cannot follow who leads any more, because servers have lost their data.
    Blinded { why: String },
    /// Its process has a guard beside the lock since the first instant. That was valid at the second one.
    Witnesses { since: Instant, valid: Instant },
    /// It has been granted once more after the last fault, and contends no more.
    Finished,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    LetGo,
    TimeOver,
    /// Its asker did not wait for that.
    TakenBack,
    NobodyHolds,
    AskedAlready,
    Unanswered,
    Refused(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The last instant before a look that said "valid".
    pub valid: Instant,
    /// The end of the lease, as it was known then.
    pub promised: Option<Instant>,
}

/// A leader, as an observer was told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub value: String,
    pub token: FencingToken,
}

/// An entry in the log of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub who: Who,
    pub token: FencingToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// As long as it takes.
    Wait,
    /// With a time limit.
    Timeout,
    /// Its future is dropped after a while.
    Cancel,
    /// At once or not at all.
    Try,
}

/// Why a claim failed whose record may say that its run has begun.
pub const UNCONFIRMED: &str = "the begin of a run was not confirmed";

/// How the reason of a contender begins whose guard was lost before it looked at it.
pub const LOST_BY_THEN: &str = "granted, and lost by then";

/// As that, if no time has passed since the guard was granted.
pub const LOST_BEFORE: &str = "granted, and lost by then, in the same instant";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaving {
    TimedOut,
    Cancelled,
    Busy,
    /// Somebody deleted its node.
    Deleted,
    /// Its run must not happen: its record says so.
    Done(RunRecord),
    /// The record of its run was dropped.
    Forgotten,
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub state: String,
    pub owner: String,
    pub token: i64,
    pub attempt: u32,
}

impl Who {
    /// The process of this client: its observer, or the contender that its tasks share.
    pub fn process(client: u16) -> Self {
        Self { client, task: 0 }
    }
}

impl Entry {
    /// The name of its node, but for the number that the server appends.
    pub fn name(self) -> String {
        format!("{}-{}-", self.who, self.token)
    }
}

impl FromStr for Entry {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let mut parts = name.split('-');
        let (Some(who), Some(token)) = (parts.next(), parts.next()) else { return Err(()) };
        Ok(Self { who: who.parse()?, token: token.parse().map_err(drop)? })
    }
}

impl FromStr for Who {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (client, task) = text.strip_prefix('c').and_then(|text| text.split_once('.')).ok_or(())?;
        Ok(Self { client: client.parse().map_err(drop)?, task: task.parse().map_err(drop)? })
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}.{}", self.client, self.task)
    }
}
