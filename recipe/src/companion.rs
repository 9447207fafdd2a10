//! A companion: a node that a holder makes beside its own one, and that goes with it.
//!
//! Every end of the hold takes the companion along, unless a server refuses that. The transaction that removes the holder's own
//! node deletes it, whosever it is: while our node is there, nobody else can have made one. If our node goes otherwise, or
//! without its companion, the companion is read, and deleted if it is ours.
//!
//! ```text
//!   Kept --- our node has gone without it ---> Read ---> Delete ---> gone
//!     |                                         ^ |        | somebody has written to it; nobody answers
//!     |                                         +-|--------+
//!     +--- it went along --> gone                 +--- it is not ours, or not there --> gone
//! ```
//!
//! The deletion names a version, because ZooKeeper knows nothing else, and the next holder's companion has the same name and version.
//! If that one is made between the read and the deletion, it is deleted. Its maker keeps it up, and makes another one.

use alloc::vec::Vec;

use crate::transaction::Operation;

/// The companion of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Companion {
    /// The holder's session, and its token.
    session: i64,
    token: i64,
    state: CompanionState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CompanionState {
    /// The holder has made it, or may do so at any time.
    Kept,
    /// `Read` is out.
    Reading,
    /// `Delete` is out.
    Deleting,
    /// It is there no more, or it is not ours.
    Gone,
}

/// A companion, as a server shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeenCompanion {
    /// The session that has made it.
    pub session: i64,
    /// The token that it names, if it names one.
    pub token: Option<i64>,
    /// How often somebody has written to it. Holders do not.
    pub version: i32,
}

/// One input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompanionEvent {
    /// The transaction that removed our own node has deleted it.
    WentAlong,
    /// Our own node has gone without it, or is not ours alone any more.
    Left,
    /// Reply to `Read`.
    Seen(Option<SeenCompanion>),
    /// Reply to `Delete`: it is gone, no matter who deleted it.
    Deleted,
    /// Reply to `Delete`: somebody has written to it.
    Changed,
    /// The server refused the last request.
    Refused,
    /// The last request was not answered. It may have taken effect.
    Unanswered,
}

/// One output. One event answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompanionCommand {
    /// Read the companion.
    Read,
    /// Delete it, if it has this version.
    Delete(i32),
}

/// A node of the transaction that removes a holder's own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompanionTarget {
    /// The holder's own node.
    Own,
    /// Its companion.
    Companion,
}

/// The transaction that removes our own node, and perhaps its companion: a release writes to our node before.
///
/// The companion is deleted by its name, whosever it is. That is safe: the transaction fails as a whole unless our own node exists,
/// and until our node is gone, nobody behind us can have made one.
pub fn removal(releases: bool, along: bool) -> Vec<Operation<CompanionTarget>> {
    let write = releases.then_some(Operation::Set(CompanionTarget::Own, None));
    let along = along.then_some(Operation::Delete(CompanionTarget::Companion, None));
    write.into_iter().chain([Operation::Delete(CompanionTarget::Own, None)]).chain(along).collect()
}

impl Companion {
    /// Makes the companion of a holder in this session, with this token.
    pub fn new(session: i64, token: i64) -> Self {
        Self { session, token, state: CompanionState::Kept }
    }

    /// Whether it is to go along with our own node.
    pub fn goes_along(&self) -> bool {
        self.state != CompanionState::Gone
    }

    /// Takes in one event, and returns the command that follows from it, if any.
    pub fn handle(&mut self, event: CompanionEvent) -> Option<CompanionCommand> {
        use CompanionState::{Deleting, Gone, Kept, Reading};
        let (state, command) = match (self.state, event) {
            (Kept, CompanionEvent::Left)
            | (Deleting, CompanionEvent::Changed)
            | (Reading | Deleting, CompanionEvent::Unanswered) => (Reading, Some(CompanionCommand::Read)),
            (Reading, CompanionEvent::Seen(Some(seen))) if self.is_ours(seen) => {
                (Deleting, Some(CompanionCommand::Delete(seen.version)))
            }
            (_, CompanionEvent::WentAlong)
            | (Reading, CompanionEvent::Seen(_))
            | (Deleting, CompanionEvent::Deleted) => (Gone, None),
            // It may still go along.
            (Reading | Deleting, CompanionEvent::Refused) => (Kept, None),
            (state, _) => (state, None),
        };
        self.state = state;
        command
    }

    /// If somebody has written to it, its data says nothing. It may be that of another contender of our session then, which makes it
    /// anew.
    fn is_ours(&self, seen: SeenCompanion) -> bool {
        seen.session == self.session && (seen.version != 0 || seen.token == Some(self.token))
    }
}

#[cfg(test)]
mod tests;
