//! What a server is in its ensemble, and what it knows as that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::id::{ConnectionId, ServerId};
use crate::prep::Preparation;
use crate::queue::Request;
use crate::transaction::Transaction;

#[derive(Debug)]
pub(crate) enum Role {
    /// A standalone server that has not heard of its clocks yet.
    Starting,
    /// No leader is known. Nobody is served.
    Looking,
    Leading(Box<Leading>),
    Following(Following),
}

#[derive(Debug)]
pub(crate) struct Leading {
    /// Requests that the leader has not decided about, and when it does.
    pub(crate) waiting: VecDeque<(Duration, Request)>,
    pub(crate) preparation: Preparation,
    /// When the leader looks for empty containers next, and those that it has found.
    pub(crate) container_check: Duration,
    pub(crate) dying: Vec<String>,
    /// `None` for a standalone server.
    pub(crate) reign: Option<Reign>,
}

/// A leader among followers.
#[derive(Debug)]
pub(crate) struct Reign {
    pub(crate) epoch: u32,
    /// Whether a majority has the leader's log. The leader serves from then on.
    pub(crate) established: bool,
    pub(crate) followers: BTreeMap<ServerId, Follower>,
    pub(crate) outstanding: VecDeque<Proposal>,
    /// What followers have been told to commit, and when the leader commits it itself.
    pub(crate) committed: VecDeque<(Duration, Arc<Transaction>)>,
    /// Syncs of followers' clients, each behind the transaction that was proposed last.
    pub(crate) syncs: VecDeque<(i64, ServerId)>,
    /// Whole ticks, as the leader counts them. After a pause it goes on where it was.
    pub(crate) tick: u32,
    pub(crate) is_half: bool,
    pub(crate) next_half: Duration,
    /// Until when a majority has to have the log.
    pub(crate) patience: Duration,
}

/// A follower, as its leader sees it.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) link: u64,
    /// The last transaction that was in its log when it came.
    pub(crate) logged: i64,
    /// Whether it gets proposals: its log is being completed, or complete.
    pub(crate) forwarded: bool,
    pub(crate) complete: bool,
    /// The leader's tick up to which it counts as synced.
    pub(crate) deadline: u32,
    /// When the leader drops it, unless it hears from it.
    pub(crate) patience: Duration,
    /// Proposals that it has not acknowledged, with the time of each.
    pub(crate) unacknowledged: VecDeque<(i64, Duration)>,
}

#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) transaction: Arc<Transaction>,
    pub(crate) acknowledged: BTreeSet<ServerId>,
}

#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) leader: ServerId,
    pub(crate) epoch: u32,
    pub(crate) link: u64,
    pub(crate) stage: Stage,
    /// When the follower gives the leader up, unless it hears from it.
    pub(crate) deadline: Duration,
    /// Proposals that are not committed yet; in order. Those of the time before `UpToDate` are not logged yet.
    pub(crate) proposals: VecDeque<Arc<Transaction>>,
    /// Sessions that clients have shown signs of life of, since the last ping.
    pub(crate) touched: BTreeMap<i64, i32>,
    pub(crate) revalidations: BTreeMap<i64, ConnectionId>,
    /// Syncs that the leader has not answered: session and number.
    pub(crate) syncs: VecDeque<(i64, i32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The log is being completed.
    Joining,
    /// The log is complete. The leader has to have a majority.
    Complete,
    /// Clients are served.
    Serving,
}

impl Role {
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Starting => true,
            Self::Looking => false,
            Self::Leading(leading) => leading.reign.as_ref().is_none_or(|reign| reign.established),
            Self::Following(following) => following.stage == Stage::Serving,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Starting => "standalone",
            Self::Looking => "looking",
            Self::Leading(leading) if leading.reign.is_none() => "standalone",
            Self::Leading(_) => "leader",
            Self::Following(_) => "follower",
        }
    }
}

impl Reign {
    /// Whether these followers and the leader are a majority.
    pub(crate) fn is_quorum(voters: u8, followers: usize) -> bool {
        (followers + 1) * 2 > usize::from(voters)
    }
}

/// The zxid of an epoch before its first transaction.
pub(crate) fn first_zxid(epoch: u32) -> i64 {
    i64::from(epoch) << 32
}
