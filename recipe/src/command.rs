//! The commands of a contender: the outputs of [`Machine`](super::Machine).

use crate::contender::{Own, Place, Sequence};
use crate::event::{Look, Refusal, SessionEnd};
use crate::foreign::Stranger;

/// One output of the machine. `Grant`, `Lose` and `End` go to the caller. Every other command is a request, and one
/// event answers it. The [group](crate::Group) of the contender sends some requests for all its members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Create our node and look at the queue, in one round trip.
    Enter(Look),
    /// Create the lock's directory, with its ancestors.
    CreateDirectory,
    /// Find our node, if it exists: the reply to a create, a release or a deletion was lost.
    Recover,
    /// List the directory's children.
    List,
    /// Watch the predecessor's node, for its end.
    WatchPredecessor(Place),
    /// Wait for the takeover delay: a predecessor vanished, and may have work in flight.
    Delay,
    /// Make sure that the lease is valid and that our node exists.
    Confirm,
    /// The contender holds the lock: give the guard to the caller.
    Grant(Own),
    /// The guard is lost: tell the holder, and then give up.
    Lose,
    /// Watch our own node.
    WatchOwn(Place),
    /// Write to our own node and delete it, in one transaction. A writer's release grants the lock to its successors.
    Release(Place),
    /// Delete our own node.
    Delete(Place),
    /// The contender has ended, and gives no further command.
    End(End),
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
    /// The session is over.
    SessionOver(SessionEnd),
}
