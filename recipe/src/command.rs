//! What a contender wants done: the outputs of [`Machine`](super::Machine).

use crate::contender::{Own, Sequence};
use crate::event::{Look, Refusal, SessionEnd};
use crate::foreign::Foreign;

/// One output of the machine. All but `Grant`, `Lose` and `End` are requests, and each is answered by one event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Create our node and look at the queue, in one go.
    Enter(Look),
    /// Create the lock's directory, with its ancestors.
    CreateDirectory,
    /// Find our node, if there is one: the reply to a create, a release or a deletion was lost.
    Recover,
    /// List the directory's children.
    List,
    /// Watch the predecessor for its end.
    WatchPredecessor(Sequence),
    /// Wait for the takeover delay: a predecessor vanished, and may have work in flight.
    Delay,
    /// Make sure that the lease is valid.
    Confirm,
    /// The lock is held: give the guard to the caller.
    Grant(Own),
    /// The lock is lost: tell the holder, and then give up.
    Lose,
    /// Watch our own node.
    WatchOwn(Sequence),
    /// Write to our own node and delete it, in one transaction, which grants the successor.
    Release(Sequence),
    /// Delete our own node.
    Delete(Sequence),
    /// It is over; nothing more will be asked for.
    End(End),
}

/// How a contender ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The caller went away before there was anything to hold.
    GivenUp,
    /// The lock was held, and our own transaction removed our own node.
    Released,
    /// Another contender is lower, and the caller did not want to wait.
    Busy,
    /// The server refused.
    Refused(Refusal),
    /// The queue's sequence numbers are near their end.
    Exhausted(Sequence),
    /// A contender of another client is in the queue.
    Foreign(Foreign),
    /// Somebody else deleted our node.
    NodeDeleted,
    /// The session is over.
    SessionOver(SessionEnd),
}
