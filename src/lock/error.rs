//! Why there is no lock, no guard, or no answer about a queue.

use std::time::Duration;

use zklock_recipe::{Foreign, ForeignClient, Refusal, Sequence};

use crate::path::PathProblem;
use crate::zk::ConnectError;

/// Why a lock cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLock {
    /// The path is not one a lock can have.
    #[error("the lock path {path:?} cannot be used: {problem}")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it.
        problem: PathProblem,
    },
    /// An option is too long for a node that is read with every look at the queue.
    #[error("the {option} of the lock {path} has {length} bytes; shorten it to {longest} at most")]
    TooLong {
        /// The lock's path.
        path: String,
        /// `owner` or `data`.
        option: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The longest it may be.
        longest: usize,
    },
    /// Guards would have to wind down though nothing is wrong.
    #[error(
        "a stop margin of {stop_margin:?} for {path} is too long: with the session timeout of {timeout:?} that the servers \
         granted, a lease may fall to {longest:?} between heartbeats; shorten it, or ask for a longer session timeout"
    )]
    StopMargin {
        /// The lock's path.
        path: String,
        /// As it was given.
        stop_margin: Duration,
        /// The longest it may be in this session.
        longest: Duration,
        /// The session timeout that may be in force.
        timeout: Duration,
    },
}

/// Why a lock was not acquired. No node is left behind, but where the variant says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// An ACL forbids it: to create the lock's directory, to create, list or delete children there, or to read the
    /// predecessor's node (the server tells its fate only to those who may). If it is the deletion that is forbidden, the
    /// contender's node stays in the queue until its session ends.
    #[error(
        "no permission to queue at {path}; authenticate the session, or have ACLs grant READ, CREATE and DELETE on \
         the directory and READ on every contender's node"
    )]
    NotAuthorized {
        /// The lock's path.
        path: String,
    },
    /// An ancestor, or the path itself, is an ephemeral node, which can have no children.
    #[error("{path} is, or is below, an ephemeral node, which can have no children; use another path")]
    EphemeralParent {
        /// The lock's path.
        path: String,
    },
    /// The server takes only reads: it has lost its ensemble.
    #[error("the server is read-only, so nobody can queue at {path}; bring the quorum back and try again")]
    ReadOnly {
        /// The lock's path.
        path: String,
    },
    /// The server does not accept the ACL given in the lock's options.
    #[error("the server does not accept the ACL for {path}; `creator_only` needs an authenticated session")]
    InvalidAcl {
        /// The lock's path.
        path: String,
    },
    /// The sequence numbers of the lock's directory are near their end, where ZooKeeper no longer keeps the order.
    #[error(
        "the sequence numbers at {path} are near their end (last: {sequence}); let the queue drain and delete the \
         directory (ZooKeeper does within about a minute if zklock made it), then try again"
    )]
    SequenceExhausted {
        /// The lock's path.
        path: String,
        /// The number this contender was given.
        sequence: i32,
    },
    /// A contender of another client is in the lock's directory, or a node with a contender's name that was made by hand. Such
    /// a client may ignore zklock's nodes, so both could hold the lock.
    #[error(
        "{node} is a contender of {client}, and zklock shares no queue with other clients; let all that contend at {path} \
         use zklock, use another path, or wait until that node is gone (delete it if \
         it was made by hand)"
    )]
    ForeignContender {
        /// The lock's path.
        path: String,
        /// The path of the other contender's node.
        node: String,
        /// Whose it seems to be, by its name.
        client: ForeignClient,
        /// The id of the session that the node lives with; `None` if the node is not ours to read, or not ephemeral.
        session: Option<i64>,
    },
    /// Somebody else deleted this contender's node, or the whole directory.
    #[error("the contender's node at {path} was deleted by somebody else, and with it its place; try again")]
    NodeDeleted {
        /// The lock's path.
        path: String,
    },
    /// The session is closed.
    #[error("the session was closed, so nothing can queue at {path}; connect a new one")]
    SessionClosed {
        /// The lock's path.
        path: String,
    },
    /// The server rejected the session's credentials.
    #[error(
        "the server rejected the session's credentials while queueing at {path}; check them and connect anew"
    )]
    AuthFailed {
        /// The lock's path.
        path: String,
    },
    /// ZooKeeper did not answer in time; from [`try_acquire`](crate::Lock::try_acquire) only.
    #[error(
        "ZooKeeper did not answer within {waited:?} whether {path} is free; check the servers, and try again"
    )]
    Unanswered {
        /// The lock's path.
        path: String,
        /// How long it was given: half a session timeout.
        waited: Duration,
    },
    /// The ZooKeeper session has ended, and the servers refuse to open another one like it.
    #[error("no session can be opened any more, so nothing can queue at {path}: {cause}")]
    SessionFailed {
        /// The lock's path.
        path: String,
        /// What the servers said, and what to do.
        cause: Box<ConnectError>,
    },
    /// The server refused for another reason.
    #[error("the server refused a request for {path}: {cause}")]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

impl AcquireError {
    pub(crate) fn refused(path: String, refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotAuthorized => Self::NotAuthorized { path },
            Refusal::EphemeralParent => Self::EphemeralParent { path },
            Refusal::ReadOnly => Self::ReadOnly { path },
            Refusal::InvalidAcl => Self::InvalidAcl { path },
            Refusal::Other(cause) => Self::Refused { path, cause },
        }
    }

    pub(crate) fn foreign(path: String, foreign: Foreign) -> Self {
        let Foreign { name, client, session } = foreign;
        Self::ForeignContender { node: format!("{path}/{name}"), path, client, session }
    }

    pub(crate) fn exhausted(path: String, sequence: Sequence) -> Self {
        Self::SequenceExhausted { path, sequence: sequence.0 }
    }

    /// True if the same call may succeed later on, with nothing changed by hand: the node was deleted, ZooKeeper did not
    /// answer, is read-only, or another client's contender is there. False if somebody must act first: on the session, the
    /// permissions, the path or the directory.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::NodeDeleted { .. }
                | Self::Unanswered { .. }
                | Self::ReadOnly { .. }
                | Self::ForeignContender { .. }
        )
    }

    /// True if the session is over, so that only a new one can help.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::SessionClosed { .. } | Self::AuthFailed { .. } | Self::SessionFailed { .. })
    }
}

/// Why the queue could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The path is not one that can be asked about.
    #[error("the path {path:?} cannot be used: {problem}")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it.
        problem: PathProblem,
    },
    /// An ACL forbids it.
    #[error("no permission to list {path}; authenticate the session, or have the directory's ACL grant READ")]
    NotAuthorized {
        /// The lock's path.
        path: String,
    },
    /// The session is over.
    #[error("the session is over, so {path} cannot be read; connect a new one")]
    SessionOver {
        /// The lock's path.
        path: String,
    },
    /// The connection was lost before the answer came.
    #[error("the connection was lost while reading {path}; try again")]
    Disconnected {
        /// The lock's path.
        path: String,
    },
    /// ZooKeeper did not answer in time.
    #[error(
        "ZooKeeper did not answer within {waited:?} while {path} was read; check the servers, and try again"
    )]
    Unanswered {
        /// The lock's path.
        path: String,
        /// How long it was given: half a session timeout.
        waited: Duration,
    },
    /// The server refused for another reason.
    #[error("the server refused to read {path}: {cause}")]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}
