//! Why a lock was not acquired: what every member of the family can meet.

use std::time::Duration;

use zklock_recipe::{ForeignClient, OtherKind, PathKind, Refusal};

use crate::text::{LONGEST, harmless};
use crate::wire::ConnectError;
use crate::zk::Over;

/// Why a lock was not acquired. The acquisition leaves no node behind, unless the variant says so. [`KeyError`](crate::KeyError),
/// [`CampaignError`](crate::election::CampaignError), [`PoolError`](crate::semaphore::PoolError) and
/// [`ClaimError`](crate::once::ClaimError) hold it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// An ACL forbids the acquisition: creating the lock's directory; creating, listing or deleting children in it; or
    /// reading the predecessor's node (a server reports the deletion of a node only to sessions that may read the
    /// node). If the ACL forbids the deletion, the contender's node stays in the queue until its session ends.
    #[error(
        "an ACL does not allow this session to queue at {path}; authenticate the session as an identity that the ACLs \
         name, or change the ACLs so that they grant READ, CREATE and DELETE on the directory (or CREATE on the nearest \
         ancestor, if the directory does not exist), and READ on the node of every contender"
    )]
    NotAuthorized {
        /// The lock's path.
        path: String,
    },
    /// An ancestor, or the path itself, is an ephemeral node, which can have no children. If the ephemeral node is the
    /// announcement of a leader, a lock at its path gets [`OtherKind`](Self::OtherKind) instead.
    #[error(
        "{path} is an ephemeral node or below one, and such a node cannot have children; use another path"
    )]
    EphemeralParent {
        /// The lock's path.
        path: String,
    },
    /// The lock's path is that of an [ask](crate::Session::ask)'s node, which can have no children: somebody asks the holder of
    /// the path above to let go. The node goes once the holder has let go, or when the asker's time is over. If the asker
    /// does not wait for the answer, the node goes once it drops the ask, or with its session.
    #[error(
        "{path} is the node of an ask by {who}, who waits for up to {within:?} until the holder of the path above lets go; try \
         again after that, or use another path"
    )]
    Asked {
        /// The lock's path.
        path: String,
        /// Who asks.
        who: String,
        /// How long after the ask was made the holder is to have let go. The asker takes the ask back then, if it waits for
        /// the answer.
        within: Duration,
    },
    /// The server cannot reach a quorum, and serves only reads.
    #[error("the server is read-only, so nobody can queue at {path}; bring the quorum back and try again")]
    ReadOnly {
        /// The lock's path.
        path: String,
    },
    /// The server does not accept the ACL in the lock's options.
    #[error("the server does not accept the ACL for {path}; `creator_only` needs an authenticated session")]
    InvalidAcl {
        /// The lock's path.
        path: String,
    },
    /// The sequence numbers of the lock's directory are close to the largest one. Beyond that number ZooKeeper no
    /// longer keeps the order.
    #[error(
        "the sequence numbers at {path} are near their end (last: {sequence}); stop the contenders until the queue is \
         empty, delete the directory, and try again (if zklock created the directory, ZooKeeper deletes it within \
         about a minute)"
    )]
    SequenceExhausted {
        /// The lock's path.
        path: String,
        /// The number that the server gave this contender.
        sequence: i32,
    },
    /// The lock's directory has a contender of another client, or a node with a contender's name that somebody made by
    /// hand. Other clients may ignore zklock's nodes, so both could hold the lock. A contender that is not ephemeral,
    /// as kazoo's `acquire(ephemeral=False)` makes it, stays until somebody deletes it.
    #[error(
        "{node} is a contender of {client}, and zklock shares no queue with it; use zklock for all \
         contenders at {path}, or use another path, or wait until that node is gone (if the node is not ephemeral and \
         nobody needs it, delete it)",
        node = harmless(node, LONGEST)
    )]
    ForeignContender {
        /// The lock's path.
        path: String,
        /// The path of the foreign contender's node.
        node: String,
        /// The client that the node's name points to.
        client: ForeignClient,
        /// The id of the session that owns the node; `None` if this session may not read the node, or if the node is
        /// not ephemeral.
        session: Option<i64>,
    },
    /// The path is used for something else. A lock, an election, a semaphore and slots at one path would not see each
    /// other's contenders, so none of them would keep the others out.
    #[error(
        "{path} cannot be used as {expected}, because {at} is already used as {found}; use another path; only if nobody \
         uses {at} any more, delete the nodes that {found} left there"
    )]
    OtherKind {
        /// The path that the caller gave.
        path: String,
        /// What the caller wants it for.
        expected: PathKind,
        /// The path that is used for something else: the caller's path, or a path right above or below it that belongs
        /// to the same election or pool.
        at: String,
        /// What that path is used for.
        found: PathKind,
    },
    /// The connect string's chroot was there when the session was opened, and is gone. Somebody deleted it, or the ensemble
    /// has other data.
    #[error(
        "the chroot of this session does not exist any more, so nothing can be acquired at {path}; create the chroot again, \
         or build the session with `create_chroot`"
    )]
    NoChroot {
        /// The lock's path.
        path: String,
    },
    /// Somebody else deleted this contender's node, or the whole directory.
    #[error(
        "somebody deleted this contender's node at {path}, so the contender has lost its place in the queue; try again"
    )]
    NodeDeleted {
        /// The lock's path.
        path: String,
    },
    /// The session is closed.
    #[error("the session was closed, so it cannot queue at {path}; connect a new session")]
    SessionClosed {
        /// The lock's path.
        path: String,
    },
    /// ZooKeeper did not answer in time, or its answers did not prove the lease yet. The calls that begin with `try_` return
    /// this error, and so do
    /// [`Semaphore::set_capacity`](crate::Semaphore::set_capacity) and [`Slots::set_count`](crate::Slots::set_count): then
    /// the number may have changed.
    #[error(
        "ZooKeeper did not confirm the state of {path} within {waited:?}; check the servers, and try again"
    )]
    Unanswered {
        /// The lock's path.
        path: String,
        /// How long zklock waited: half a session timeout.
        waited: Duration,
    },
    /// The ZooKeeper session has ended, and the servers reject the credentials or refuse to open another one like it. Or the session's
    /// runtime has shut down.
    #[error("the session has failed, so it cannot queue at {path}: {cause}")]
    SessionFailed {
        /// The lock's path.
        path: String,
        /// Why it has failed, and what to do.
        cause: Box<ConnectError>,
    },
    /// The session has so many nodes that the servers may be unable to end it: the paths of its guards' and waiters'
    /// nodes, with the chroot, would have more than 900 KiB together. ZooKeeper ends a session with one transaction,
    /// which has the paths of all nodes of the session. No server reads a transaction of more than 2 MiB
    /// (`jute.maxbuffer`), so the whole ensemble would stop working
    /// ([ZOOKEEPER-4306](https://issues.apache.org/jira/browse/ZOOKEEPER-4306)).
    #[error(
        "the session has too many nodes, so it cannot queue at {path}; release some of its locks, connect a second \
         session, or use shorter paths"
    )]
    SessionFull {
        /// The lock's path.
        path: String,
    },
    /// The server refused for another reason.
    #[error("the server refused a request for {path}: {cause}; remove the cause, and try again")]
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
            Refusal::Asked(who, within) => Self::Asked { path, who, within },
            Refusal::ReadOnly => Self::ReadOnly { path },
            Refusal::InvalidAcl => Self::InvalidAcl { path },
            Refusal::NoChroot => Self::NoChroot { path },
            Refusal::SessionFull => Self::SessionFull { path },
            Refusal::Other(cause) => Self::Refused { path, cause },
        }
    }

    pub(crate) fn over(path: String, over: Over) -> Self {
        match over {
            Over::Closed => Self::SessionClosed { path },
            Over::Failed(cause) => Self::SessionFailed { path, cause: Box::new(cause) },
        }
    }

    pub(crate) fn other_kind(path: String, expected: PathKind, other: OtherKind) -> Self {
        let OtherKind { found, at } = other;
        Self::OtherKind { path, expected, at, found }
    }

    /// Returns true if the same call may succeed later with nothing changed by hand. This is the case if the node was
    /// deleted, if ZooKeeper did not answer, if the server is read-only, if another client's contender is in the directory, if
    /// an ask stands at the path, and if the session is full.
    ///
    /// Returns false if somebody must act first: on the session, the permissions, the path or the directory. It is also
    /// false for [`SequenceExhausted`](Self::SequenceExhausted): somebody must stop the contenders until the queue is
    /// empty, so that ZooKeeper removes the directory.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::NodeDeleted { .. }
                | Self::Asked { .. }
                | Self::Unanswered { .. }
                | Self::ReadOnly { .. }
                | Self::ForeignContender { .. }
                | Self::SessionFull { .. }
        )
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::SessionClosed { .. } | Self::SessionFailed { .. })
    }
}
