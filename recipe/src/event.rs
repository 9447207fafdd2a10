//! What happens to a contender: the inputs of [`Machine`](super::Machine).

use std::fmt;

use crate::contender::Own;
use crate::foreign::Foreign;

/// Which read goes out behind the create, back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// List the children: for a queue that was short when it was last seen.
    List,
    /// Count the children: for a queue that was long, or was never seen.
    Count,
}

/// What that read saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// The names of the directory's children, none of which is a contender of another client.
    Children(Vec<String>),
    /// A contender of another client among the children.
    Foreign(Foreign),
    /// The number of the directory's children.
    Count(usize),
    /// The read got no answer, or a refusal; the create stands all the same.
    Nothing,
}

/// A definite refusal by the server: the request had no effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The ACL does not allow it.
    NotAuthorized,
    /// The directory is an ephemeral node, which can have no children.
    EphemeralParent,
    /// The server only takes reads.
    ReadOnly,
    /// The server does not accept the ACL that was to be set.
    InvalidAcl,
    /// Anything else, in the server's words.
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAuthorized => "not authorized",
            Self::EphemeralParent => "ephemeral nodes can have no children",
            Self::ReadOnly => "the server is read-only",
            Self::InvalidAcl => "invalid ACL",
            Self::Other(cause) => cause,
        })
    }
}

/// Why a session's nodes are gone, or soon will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEnd {
    /// ZooKeeper expired it.
    Expired,
    /// It was closed by its owner.
    Closed,
    /// ZooKeeper rejected its credentials.
    AuthFailed,
}

/// One input of the machine. A reply belongs to the last request the machine asked for; the driver drops
/// whatever is still to come for an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The caller wants the lock; look at the queue like this.
    Begin(Look),
    /// Reply to `Enter`: our node exists.
    Entered {
        /// The new node.
        own: Own,
        /// What the read behind it saw.
        sight: Sight,
    },
    /// Reply to `Enter` or to a read: the directory does not exist.
    NoDirectory,
    /// Reply to `CreateDirectory`: it exists now.
    DirectoryReady,
    /// Reply to `Recover`: our node, if it is there.
    Recovered(Option<Own>),
    /// Reply to `List`: the children's names, none of which is a contender of another client.
    Listed(Vec<String>),
    /// Reply to `List` or `WatchPredecessor`: a contender of another client.
    Foreign(Foreign),
    /// Reply to `WatchPredecessor`: whether the node was there, and so is watched from now on.
    PredecessorWatched(bool),
    /// Reply to `Delay`: the time is over.
    Delayed,
    /// Reply to `Confirm`: the lease is valid at this instant.
    Confirmed,
    /// Reply to `Delete`: the node is gone, by us or otherwise.
    Deleted,
    /// Reply to `Release`: whether our transaction found the node, and so removed it.
    Released(bool),
    /// Reply to `WatchOwn`: whether the node was there, and so is watched now.
    OwnWatched(bool),
    /// The server refused the last request.
    Refused(Refusal),
    /// The last request was not answered: whether it took effect is unknown.
    Unanswered,
    /// The predecessor is gone: one transaction wrote to its node and deleted it, so its holder released the lock.
    PredecessorReleased,
    /// The predecessor is gone, and nothing shows that its holder released the lock.
    PredecessorDeleted,
    /// The connection was lost, and with it the watch that stood.
    WatchLost,
    /// Somebody else changed or deleted the node of ours that we watch.
    OwnTouched,
    /// The lock has been held for a while.
    Settled,
    /// The holder is done.
    Release,
    /// Nobody waits for the lock, or holds its guard, any more.
    GiveUp,
    /// Nobody holds the guard any more, which was lost by the lease while it was held.
    Forfeit,
    /// The session is over, and the node with it.
    SessionOver(SessionEnd),
}
