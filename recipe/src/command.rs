//! The commands of a contender: the outputs of [`Machine`](super::Machine).

use crate::contender::{Own, QueuePlace, Sequence};
use crate::event::Refusal;
use crate::lease::{SessionEnd, Term};
use crate::path_kind::Stranger;

/// One output of the machine. `Together` and `Alone` are requests, and one event answers each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// One request does this for the whole [group](crate::Group), once each member has asked for it.
    Together(Together),
    /// A request of this contender.
    Alone(Alone),
    /// The contender holds the lock: give the guard to the caller.
    Grant(Own, Term),
    /// The guard is lost: tell the holder, and then give up.
    Lose(Breach),
    /// Nobody can tell which node is ours. It would keep the lock from everybody for as long as the session lives.
    EndSession(Refusal),
    /// The contender has ended, and gives no further command.
    End(End),
}

/// Why a guard is lost while the session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breach {
    /// Somebody else wrote to our own node, or deleted it.
    Touched,
    /// A contender that blocks us is there. So it was not the holder who made the release that granted us.
    Forged,
}

/// What the contenders of one acquisition do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Together {
    /// Create our nodes and look at the queues, in one round trip.
    Enter,
    /// Create the locks' directories, with their ancestors.
    CreateDirectory,
    /// Make sure that the lease is valid and that our nodes exist.
    Confirm,
    /// Write to our own nodes and delete them, in one transaction. The group asks for this if each member has asked for its `Release`.
    Release,
}

/// What a contender does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alone {
    /// Find our node, if it exists: the reply to its create was lost.
    Find,
    /// Find out whether our node exists: the reply to its release or its deletion was lost, or somebody has touched it.
    Recover(Own),
    /// List the directory's children.
    List,
    /// Watch the predecessor's node, for its end. The second node is ours.
    WatchPredecessor(QueuePlace, Own),
    /// Wait for the takeover delay: a predecessor vanished, and may have work in flight.
    Delay,
    /// Watch our own node.
    WatchOwn(Own),
    /// List the names of the directory's children, for a holder. Other clients' contenders do not count.
    Review,
    /// Write to our own node and delete it, in one transaction. A writer's release grants the lock to its successors.
    Release(Own),
    /// Delete our own node.
    Delete(Own),
}

/// Why a contender ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The caller went away before it held the lock, or dropped a guard whose lease had ended.
    GivenUp,
    /// The lock was held or was about to be, and we removed our own node.
    Released,
    /// Another contender is lower, and the caller did not want to wait.
    Busy,
    /// The server refused a request.
    Refused(Refusal),
    /// The queue's sequence numbers are near their end.
    Exhausted(Sequence),
    /// A contender of another client, or of another kind, is there.
    Foreign(Stranger),
    /// Somebody else deleted our node.
    NodeDeleted,
    /// Somebody else wrote to our node while the contender waited, and so asked it to leave.
    Displaced,
    /// The session is over.
    SessionOver(SessionEnd),
}
