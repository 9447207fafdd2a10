//! The candidacy of one that leads: its announcement, and how that is kept up.
//!
//! A leader announces a value by a transaction that takes effect only while its lock is held. It deletes what is there and creates
//! the announcement, and never writes to one: so an announcement that somebody wrote to can be told from the leader's.
//!
//! ```text
//!                   +----- Proclaimed -----+
//!                   v                      |
//!   Begin ---> Announce --- at first ---> Settle
//!               ^   ^ |                    |
//!               |   | +-- later --> Look <-+
//!               |   |               | ^  |
//!               |   |               | |  | ours
//!               |   +---- Pause <---+ |  v
//!               |        not ours     +- Wait  changed; the watch is lost, or in doubt
//!               |                         |
//!               +------- Proclaimed ------+
//!
//!   the hold is lost, or nobody wants it kept up:  the end
//! ```
//!
//! # Invariants
//!
//! 1. One request is out at a time, so no two announcements of a leader overlap.
//! 2. A proclamation is told as announced only after a server has confirmed this very one, or a later one.
//! 3. A wait follows a look behind the last announcement, and that look has found the leader's own, unless the session may not read
//!    it. The watch reports what comes after the look.
//! 4. An announcement that was not answered is sent again as it was: to announce the same again changes nothing.

use alloc::vec;
use alloc::vec::Vec;

use crate::observer::Footing;
use crate::transaction::Operation;

/// A value that the leader proclaims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proclamation<V> {
    /// The leader's proclamations are numbered from 1.
    pub number: u64,
    /// What is to be announced.
    pub value: V,
}

/// An announcement, as a look shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeenAnnouncement<V> {
    /// The session that has made it.
    pub session: i64,
    /// What it says.
    pub value: V,
}

/// The candidacy of one that leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidacy<V> {
    session: i64,
    wanted: Proclamation<V>,
    /// What was announced last, or was tried to.
    said: Proclamation<V>,
    state: CandidacyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CandidacyState {
    Idle,
    /// `Announce` is out, and this follows.
    Announcing {
        replace: bool,
        next: AfterAnnouncing,
    },
    /// `Settle` is out.
    Settling,
    /// `Look` is out.
    Looking,
    /// `Wait` is out.
    Waiting,
    /// `Pause` is out.
    Pausing,
    Ended,
}

/// What follows an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AfterAnnouncing {
    Settle,
    Look(Footing),
}

/// One input of a candidacy. `E` is an error that no repetition mends. A reply belongs to the last request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CandidacyEvent<V, E> {
    /// The lock is held.
    Begin,
    /// The leader proclaims this. One that is not newer than the last one changes nothing.
    Proclaimed(Proclamation<V>),
    /// Reply to `Announce`: it took effect.
    Announced,
    /// Reply to `Announce`: it had no effect, because a node is there that it was not to replace, or none that it was to replace.
    Contested,
    /// Reply to `Announce`: the server refused it for good. It had no effect.
    Refused(E),
    /// Reply to `Settle`.
    Settled,
    /// Reply to `Look`: the announcement, if there is one that nobody has written to. The watch stands.
    Looked(Option<SeenAnnouncement<V>>),
    /// Reply to `Look`: the session may not read the announcement. The watch stands all the same.
    Hidden,
    /// The wait is over: the watch reports a change.
    Changed,
    /// The wait is over: the watch was lost, or is in doubt because nothing was heard for long.
    Doubted,
    /// Reply to `Pause`.
    Paused,
    /// The last request was not answered. It may have taken effect.
    Unanswered,
    /// The hold is lost, or nobody wants the announcement kept up.
    Over,
}

/// One output of a candidacy. All but `Tell` are requests, and one event answers each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CandidacyCommand<V, E> {
    /// In one transaction that takes effect only while the lock is held: delete what is there, if it is to be replaced, and create
    /// the announcement.
    Announce {
        /// What it says.
        value: V,
        /// Whether what is there is to be replaced.
        replace: bool,
    },
    /// Wait until the leader has led for a while: a short leadership need not pay for the watch.
    Settle,
    /// Read the announcement, and set a watch before that if none stands.
    Look(Footing),
    /// Wait until the watch reports a change, or is lost, or has reported nothing for long.
    Wait,
    /// Pause before the next announcement, because the last one is not there. If that has happened several times in a row, the
    /// pause grows.
    Pause,
    /// Tell the leader what became of its proclamations until this one.
    Tell(u64, Result<(), E>),
}

/// The transaction of an announcement, behind a check that the lock is held.
pub fn announcement(replace: bool) -> Vec<Operation<()>> {
    let delete = replace.then_some(Operation::Delete((), None));
    delete.into_iter().chain([Operation::Create(())]).collect()
}

impl<V, E> CandidacyEvent<V, E> {
    /// Whether this answers the last request in a way that brings the candidacy on. If several in a row do not, the next request
    /// should follow after a pause.
    pub fn is_news(&self) -> bool {
        !matches!(self, Self::Unanswered | Self::Contested)
    }
}

impl<V: Clone + PartialEq> Candidacy<V> {
    /// Makes the candidacy of a leader in this session, whose first proclamation is this. It has not begun.
    pub fn new(session: i64, value: V) -> Self {
        let wanted = Proclamation { number: 1, value };
        Self { session, said: wanted.clone(), wanted, state: CandidacyState::Idle }
    }

    /// Whether there is nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.state == CandidacyState::Ended
    }

    /// Takes in one event, and returns the commands that follow from it.
    pub fn handle<E>(&mut self, event: CandidacyEvent<V, E>) -> Vec<CandidacyCommand<V, E>> {
        use CandidacyState::{Announcing, Ended, Idle, Looking, Pausing, Settling, Waiting};
        match (core::mem::replace(&mut self.state, Ended), event) {
            (Ended, _) | (_, CandidacyEvent::Over) => vec![],
            (Idle, CandidacyEvent::Begin) => self.announce(AfterAnnouncing::Settle),

            (state, CandidacyEvent::Proclaimed(proclamation)) if proclamation.number > self.wanted.number => {
                self.wanted = proclamation;
                match state {
                    Settling => self.announce(AfterAnnouncing::Settle),
                    Waiting => self.announce(AfterAnnouncing::Look(Footing::Watched)),
                    // It follows the reply to what is out.
                    state => {
                        self.state = state;
                        vec![]
                    }
                }
            }

            (Announcing { next, .. }, CandidacyEvent::Announced) => self.announced(next, Ok(())),
            (Announcing { next, .. }, CandidacyEvent::Refused(error)) => self.announced(next, Err(error)),
            // It may be a leftover, or an announcement of somebody else's. We lead, so nobody else should.
            (Announcing { replace, next }, CandidacyEvent::Contested) => self.send(!replace, next),
            (Announcing { replace, next }, CandidacyEvent::Unanswered) => self.send(replace, next),

            // The wait was over as the leader proclaimed. No watch may stand, so the look that follows sets one.
            (Announcing { replace, next: AfterAnnouncing::Look(_) }, CandidacyEvent::Doubted) => {
                self.state = Announcing { replace, next: AfterAnnouncing::Look(Footing::Unwatched) };
                vec![]
            }
            (Settling, CandidacyEvent::Settled)
            | (Looking, CandidacyEvent::Unanswered)
            | (Waiting, CandidacyEvent::Doubted) => self.look_at_announcement(Footing::Unwatched),
            (Looking, CandidacyEvent::Looked(Some(seen))) if self.is_ours(&seen) => self.rest(),
            (Looking, CandidacyEvent::Looked(_)) => self.request(Pausing, CandidacyCommand::Pause),
            // It cannot be kept up then.
            (Looking, CandidacyEvent::Hidden) => self.rest(),
            (Waiting, CandidacyEvent::Changed) => self.look_at_announcement(Footing::Watched),
            // The look comes again: somebody may have taken it away by then.
            (Pausing, CandidacyEvent::Paused) => self.announce(AfterAnnouncing::Look(Footing::Watched)),

            // No reply to the last request.
            (state, _) => {
                self.state = state;
                vec![]
            }
        }
    }

    fn is_ours(&self, seen: &SeenAnnouncement<V>) -> bool {
        (seen.session, &seen.value) == (self.session, &self.said.value)
    }

    fn request<E>(
        &mut self,
        state: CandidacyState,
        command: CandidacyCommand<V, E>,
    ) -> Vec<CandidacyCommand<V, E>> {
        self.state = state;
        vec![command]
    }

    fn look_at_announcement<E>(&mut self, footing: Footing) -> Vec<CandidacyCommand<V, E>> {
        self.request(CandidacyState::Looking, CandidacyCommand::Look(footing))
    }

    /// Announces what is wanted. A leader that proclaims another value replaces its own announcement.
    fn announce<E>(&mut self, next: AfterAnnouncing) -> Vec<CandidacyCommand<V, E>> {
        self.said = self.wanted.clone();
        self.send(self.said.number > 1, next)
    }

    fn send<E>(&mut self, replace: bool, next: AfterAnnouncing) -> Vec<CandidacyCommand<V, E>> {
        let value = self.said.value.clone();
        self.request(
            CandidacyState::Announcing { replace, next },
            CandidacyCommand::Announce { value, replace },
        )
    }

    /// Something newer may have been proclaimed meanwhile.
    fn is_outdated(&self) -> bool {
        self.said.number < self.wanted.number
    }

    fn announced<E>(&mut self, next: AfterAnnouncing, outcome: Result<(), E>) -> Vec<CandidacyCommand<V, E>> {
        let mut commands = vec![CandidacyCommand::Tell(self.said.number, outcome)];
        commands.extend(match next {
            next if self.is_outdated() => self.announce(next),
            AfterAnnouncing::Settle => self.request(CandidacyState::Settling, CandidacyCommand::Settle),
            AfterAnnouncing::Look(footing) => self.look_at_announcement(footing),
        });
        commands
    }

    fn rest<E>(&mut self) -> Vec<CandidacyCommand<V, E>> {
        if self.is_outdated() {
            self.announce(AfterAnnouncing::Look(Footing::Watched))
        } else {
            self.request(CandidacyState::Waiting, CandidacyCommand::Wait)
        }
    }
}

#[cfg(test)]
mod tests;
