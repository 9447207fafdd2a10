//! The end of a run that happens once: written to its record while the guard lives, and confirmed.
//!
//! ```text
//!   Begin ---> Write ---------------------> Tell(Written)
//!              ^   |
//!              |   | no answer, or it had no effect
//!              |   v
//!              |  Verify ---> Look -------> Tell(Written); Tell(Changed)
//!              |    ^          | |
//!              |    +----------+ | the run has begun, and has not ended
//!              |     no answer   |
//!              +-----------------+
//!
//!   the guard is lost, or the servers refuse:                  Tell(Failed)
//!   that, or another's record, while the end may be written:  Tell(Unconfirmed)
//! ```
//!
//! # Invariants
//!
//! 1. `Written` is told only of an end that is in the record. The server has said so, or a look has shown it with our token, and
//!    nobody else writes that.
//! 2. After `Changed` and `Failed` the end is not in the record, and never comes into it. A look follows a quorum's answer, so each
//!    write before it has taken effect by then, or never does. Only from a write without an answer to the next look may the end
//!    be written unseen. Then `Unconfirmed` is told in place of `Changed` or `Failed`.
//! 3. The end is written over the very version of the record with which the run began. So it takes no other record's place, and
//!    is written once.

use crate::claim::{Progress, RunEnd, SeenRecord};
use crate::transaction::Operation;

/// How often the end is written, or a quorum is asked so that the record can be looked at.
const TRIES: u32 = 16;

/// The end of a run, on its way to the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    end: RunEnd,
    /// The token of the guard under which the run began.
    token: i64,
    /// The version of the record with which the run began.
    version: i32,
    state: EndingState,
    tries: u32,
}

/// `unsure`: a write that was not answered may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndingState {
    Idle,
    /// `Write` is out.
    Writing,
    /// `Verify` is out.
    Verifying {
        unsure: bool,
    },
    /// `Look` is out.
    Looking {
        unsure: bool,
    },
    Ended,
}

/// One input. `E` is an error that no repetition mends. A reply belongs to the last request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndingEvent<E> {
    /// The run is over.
    Begin,
    /// Reply to `Write`: it took effect.
    Written,
    /// Reply to `Write`: it had no effect. The record is not as it was, or the server had too much to do.
    Rejected,
    /// Reply to `Verify`: a quorum has answered, and the lock is held.
    Verified,
    /// Reply to `Look`; nothing if there is no record that can be read.
    Looked(Option<SeenRecord>),
    /// The last request had no effect, and none will have one: the guard is lost, or the server refuses.
    Failed(E),
    /// The last request was not answered. It may have taken effect.
    Unanswered,
}

/// One output. All but `Tell` are requests, and one event answers each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndingCommand<E> {
    /// Write this end over this version of the record.
    Write(RunEnd, i32),
    /// Ask a quorum whether the lock is held.
    Verify,
    /// Read the record.
    Look,
    /// Tell the caller.
    Tell(EndingOutcome<E>),
}

/// What becomes of the end of a run, for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndingOutcome<E> {
    /// It is in the record.
    Written,
    /// Somebody else has deleted the record, or has written to it. The end is not in it.
    Changed,
    /// Nobody knows whether it is in the record.
    Unconfirmed,
    /// It is not in the record, for this reason.
    Failed(E),
}

/// The transaction that writes the end to the record, behind a check that the lock is held.
pub fn write(version: i32) -> Operation<()> {
    Operation::Set((), Some(version))
}

impl Ending {
    /// Makes the end of a run that began under the guard with this token, and whose record has this version.
    pub fn new(end: RunEnd, token: i64, version: i32) -> Self {
        Self { end, token, version, state: EndingState::Idle, tries: 0 }
    }

    /// Whether there is nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.state == EndingState::Ended
    }

    /// Takes in one event, and returns the command that follows from it.
    pub fn handle<E>(&mut self, event: EndingEvent<E>) -> Option<EndingCommand<E>> {
        use EndingState::{Idle, Looking, Verifying, Writing};
        match (self.state, event) {
            (Idle, EndingEvent::Begin) => self.write(),
            (Writing, EndingEvent::Written) => self.tell_outcome(EndingOutcome::Written),
            (Writing, EndingEvent::Rejected) => self.verify(false),
            (Writing, EndingEvent::Unanswered) => self.verify(true),
            (Verifying { unsure }, EndingEvent::Verified) => {
                self.request(Looking { unsure }, EndingCommand::Look)
            }
            (Looking { unsure }, EndingEvent::Looked(record)) => self.weigh(record, unsure),
            // The next look must come after a quorum's answer.
            (Looking { unsure }, EndingEvent::Unanswered) => self.verify(unsure),
            (Verifying { unsure: true } | Looking { unsure: true }, EndingEvent::Failed(_)) => {
                self.tell_outcome(EndingOutcome::Unconfirmed)
            }
            (Writing | Verifying { .. } | Looking { .. }, EndingEvent::Failed(error)) => {
                self.tell_outcome(EndingOutcome::Failed(error))
            }
            // No reply to the last request.
            _ => None,
        }
    }

    /// Decides by the record. No write is on its way any more.
    fn weigh<E>(&mut self, record: Option<SeenRecord>, unsure: bool) -> Option<EndingCommand<E>> {
        match record.filter(|record| record.token == self.token) {
            Some(record) if record.progress == Progress::Ended(self.end) => {
                self.tell_outcome(EndingOutcome::Written)
            }
            Some(record) if (record.progress, record.version) == (Progress::Begun, self.version) => {
                self.write()
            }
            // What is there may have taken the place of the end.
            _ if unsure => self.tell_outcome(EndingOutcome::Unconfirmed),
            _ => self.tell_outcome(EndingOutcome::Changed),
        }
    }

    fn write<E>(&mut self) -> Option<EndingCommand<E>> {
        self.again(EndingState::Writing, EndingCommand::Write(self.end, self.version))
    }

    fn verify<E>(&mut self, unsure: bool) -> Option<EndingCommand<E>> {
        self.again(EndingState::Verifying { unsure }, EndingCommand::Verify)
    }

    fn again<E>(&mut self, state: EndingState, command: EndingCommand<E>) -> Option<EndingCommand<E>> {
        if self.tries == TRIES {
            return self.tell_outcome(EndingOutcome::Unconfirmed);
        }
        self.tries += 1;
        self.request(state, command)
    }

    fn request<E>(&mut self, state: EndingState, command: EndingCommand<E>) -> Option<EndingCommand<E>> {
        self.state = state;
        Some(command)
    }

    fn tell_outcome<E>(&mut self, outcome: EndingOutcome<E>) -> Option<EndingCommand<E>> {
        self.request(EndingState::Ended, EndingCommand::Tell(outcome))
    }
}

#[cfg(test)]
mod tests;
