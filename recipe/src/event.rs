//! The events of a contender: the inputs of [`Machine`](super::Machine).

use alloc::{string::String, vec::Vec};
use core::fmt;
use core::time::Duration;

use crate::contender::Own;
use crate::lease::{SessionEnd, Term};
use crate::path_kind::Stranger;

/// The result of the read that follows the create at once. The read is a listing or a count, as the executor chooses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// The names of the directory's children, none of which is a contender of another client.
    Children(Vec<String>),
    /// A contender of another client that is among the children, or another kind that the path has.
    Foreign(Stranger),
    /// The number of the directory's children.
    Count(usize),
    /// Nobody but us is there, and the last one that left was a contender of ours that released the lock.
    Free,
    /// The read got no answer, or the server refused it. The node exists all the same.
    Nothing,
}

/// A definite refusal. The request had no effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The ACL does not allow the request.
    NotAuthorized,
    /// The directory is an ephemeral node, which can have no children.
    EphemeralParent,
    /// The directory is the node of an ask: who asks, and how long the holders have.
    Asked(String, Duration),
    /// The server takes only reads.
    ReadOnly,
    /// The server does not accept the ACL in the request.
    InvalidAcl,
    /// The connect string's chroot is gone.
    NoChroot,
    /// The session has as many nodes as servers can surely end at once. The request was not sent.
    SessionFull,
    /// Another refusal, in the server's words.
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAuthorized => "not authorized",
            Self::EphemeralParent => "ephemeral nodes can have no children",
            Self::Asked(..) => "the node of an ask can have no children",
            Self::ReadOnly => "the server is read-only",
            Self::InvalidAcl => "invalid ACL",
            Self::NoChroot => "the chroot does not exist",
            Self::SessionFull => "the session has too many nodes",
            Self::Other(cause) => cause,
        })
    }
}

/// One input of the machine. A reply always belongs to the machine's last request: later replies to earlier ones
/// are dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The caller wants the lock.
    Begin,
    /// Reply to `Enter`: our node exists.
    Entered {
        /// The new node.
        own: Own,
        /// The result of the read that followed the create.
        sight: Sight,
    },
    /// Reply to `Enter` or to a read: the directory does not exist.
    NoDirectory,
    /// Reply to `CreateDirectory`: the directory exists now.
    DirectoryReady,
    /// Reply to `Enter`, `CreateDirectory`, `Confirm` or `Release`: it was not sent, or had no effect, because of another
    /// member of the contender's group. Or the caller gave up before `Enter` was sent.
    Withheld,
    /// Reply to `Find` or `Recover`: our node, if it exists.
    Recovered(Option<Own>),
    /// Reply to `List`: the children's names, none of which is a contender of another client. Reply to `Review`: all names.
    Listed(Vec<String>),
    /// As `Listed`, and the last change of the children was the release of a holder of ours.
    ListedAfterRelease(Vec<String>),
    /// Reply to `List` or `WatchPredecessor`: a contender of another client, or another kind that the path has. Reply to
    /// `Enter`: the same, and the server refused the create.
    Foreign(Stranger),
    /// Reply to `WatchPredecessor`: whether the node existed, and is watched from now on.
    PredecessorWatched(bool),
    /// Reply to `Delay`: the takeover delay is over.
    Delayed,
    /// Reply to `Confirm`: our nodes exist, and the lease is valid at this instant, in this term.
    Confirmed(Term),
    /// Reply to `Delete`: the node is gone, no matter who deleted it.
    Deleted,
    /// Reply to `Release`: whether our transaction found the node and so removed it.
    Released(bool),
    /// Reply to `WatchOwn`: whether our node existed, and is watched from now on.
    OwnWatched(bool),
    /// The server refused the last request.
    Refused(Refusal),
    /// The last request was not answered. It may have taken effect.
    Unanswered,
    /// The predecessor's node is gone. One transaction wrote to it and deleted it, so its holder released the lock.
    PredecessorReleased,
    /// The predecessor's node is gone, and nothing shows that its holder released the lock.
    PredecessorDeleted,
    /// The connection was lost, and the watch that stood was lost with it.
    WatchLost,
    /// Somebody else wrote to our own node, or deleted it. The watch on the node shows it, or any other look at the node.
    OwnTouched,
    /// Reply to `List` or `Confirm` in a queue that is shared: somebody else has written to our own node.
    OwnWritten,
    /// The contender has just been granted, and its node exists for a while.
    Aged,
    /// The holder has held the lock for a while.
    Settled,
    /// The holder releases the lock.
    Release,
    /// The caller no longer waits for the lock, or has dropped its guard.
    GiveUp,
    /// The caller has dropped a guard that was lost because the lease ended.
    Forfeit,
    /// The session is over, and its nodes go with it.
    SessionOver(SessionEnd),
}
