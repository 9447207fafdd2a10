//! What the servers of an ensemble tell each other.

use std::sync::Arc;

use crate::{auth::Identity, operation::Operation, transaction::Transaction, tree::Tree};

/// A message from one server of an ensemble to another.
#[derive(Clone, Debug)]
pub struct PeerMessage {
    /// The connection between a follower and its leader that the message belongs to. Messages of another one are late.
    pub(crate) link: u64,
    pub(crate) message: Message,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// A follower joins, and says what is the last transaction in its log.
    Join { epoch: u32, logged: i64 },
    /// A follower has logged everything up to this. The zxid before an epoch's first one answers `NewLeader`.
    Ack(i64),
    /// A client of a follower wants a write, or a sync.
    Request { session: i64, xid: i32, identities: Vec<Identity>, operation: Operation },
    /// A client of a follower wants its session back.
    Revalidate { session: i64, timeout: i32 },
    /// The answer to a ping: the sessions that the follower has heard of since the last one, with their timeouts.
    Touched(Vec<(i64, i32)>),

    /// The follower's log goes on behind this transaction. The leader's log lacks the later ones.
    Truncate(i64),
    /// The follower is too far behind: here is everything.
    Snapshot(Box<Tree>),
    /// The followers are to log this.
    Proposal(Arc<Transaction>),
    /// A majority has logged it.
    Commit(i64),
    /// The follower has the leader's log now.
    NewLeader,
    /// The follower may serve clients.
    UpToDate,
    /// A sync has come back.
    Synced,
    /// Whether the session lives that a client wants back.
    Revalidated { session: i64, lives: bool },
    /// The leader lives, and asks who else does.
    Ping,

    /// The sender leaves: the connection is over.
    Leave,
}

impl PeerMessage {
    /// The number of the connection that the message belongs to, which the follower gave to it. A follower opens a connection for
    /// each time it joins a leader (`quorum/Learner.java:376`).
    pub fn link(&self) -> u64 {
        self.link
    }

    /// The kind of the message, for traces.
    pub fn kind(&self) -> String {
        format!("{:?}", self.message)
            .split(|letter: char| !letter.is_alphabetic())
            .next()
            .unwrap_or_default()
            .into()
    }
}
