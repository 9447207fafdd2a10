//! What an observer of a leader, or of a lock's holder, is told, and when it looks.
//!
//! ```text
//!                Connected                Seen
//!   Away ----------------------> Looking ------> Watching
//!    ^                           ^  |  ^            |
//!    |                           |  |  +- Changed --+
//!    +------ Disconnected -------+--+   Doubted
//! ```
//!
//! Four rules make up what an observer is told:
//!
//! 1. A look sets its watch before it reads, so no change falls between the two. A change that the watch reports while a
//!    look is under way leads to another look, unless that change is the one that the look was sent for.
//! 2. A watch ends with its connection. On the next connection a look sets another one.
//! 3. The stamps of those who are told do not go back in silence. The server that shows a lower stamp may be behind, so the
//!    observer looks again, behind a sync. If that look shows a lower stamp, too, the servers have lost or restored their data, or
//!    somebody put an old node back. The machine tells the observer that the data went back, and begins anew. A node that the
//!    observer may not read shows no stamp, and changes nothing of this.
//! 4. If the same is seen again, nobody is told again.

use alloc::{vec, vec::Vec};

/// When something came to lead: first the token, and then the transaction that made it known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The fencing token.
    pub token: i64,
    /// The `czxid` of the node that was read. One leader may announce itself several times.
    pub zxid: i64,
}

impl Stamp {
    const LOWEST: Self = Self { token: i64::MIN, zxid: i64::MIN };
}

/// One input of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Observation<T> {
    /// Requests can be sent, or wait for a connection from here on.
    Connected,
    /// Reply to `Look`: who leads, if anybody does, and the stamp, unless the observer may not read it. The watch stands.
    Seen(Option<(Option<Stamp>, T)>),
    /// The watch reports a change, by the transaction with this zxid. Servers before 3.9 do not name it.
    Changed(Option<i64>),
    /// Nothing was heard for a long time. A server withholds events from a session that may no longer read the node.
    Doubted,
    /// The server refused the look.
    Refused,
    /// A server gave no answer to the look.
    Unanswered,
    /// The connection was lost, and the watch with it.
    Disconnected,
}

/// One output of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction<T> {
    /// Look who leads.
    Look(Footing),
    /// Have the server catch up with the leader, and look then. The watch stands, as with [`Footing::Watched`].
    SyncAndLook,
    /// Tell the observer that the servers' data went back. The next instruction tells the present leader.
    TellWentBack {
        /// The highest stamp seen before.
        before: Stamp,
        /// The stamp that the servers show instead.
        now: Stamp,
    },
    /// Tell the observer who leads, if anybody does.
    Tell(Option<T>),
}

/// Whether a look must set a watch before it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Footing {
    /// No watch stands, or the watch is in doubt.
    Unwatched,
    /// A watch of this connection stands, if it is one that stays.
    Watched,
}

/// One observer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObserverMachine<T> {
    state: ObserverState,
    /// The highest stamp seen so far.
    highest: Stamp,
    /// What the observer was told last.
    told: Option<Option<T>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ObserverState {
    /// No connection.
    Away,
    /// A look is under way.
    Looking {
        cause: Cause,
        /// Whether another change was reported since.
        outdated: bool,
    },
    /// A watch stands, and nothing is under way.
    Watching,
    /// The server has refused to say who leads.
    Refused,
}

/// What a look was sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cause {
    /// A change by this transaction.
    Change(i64),
    /// A change that the server has not named; or none is known.
    Unknown,
    /// The last look showed a lower stamp than an earlier one. So this one is behind a sync.
    LowerStamp,
}

impl<T> Default for ObserverMachine<T> {
    /// Makes an observer that was told nothing yet.
    fn default() -> Self {
        Self { state: ObserverState::Away, highest: Stamp::LOWEST, told: None }
    }
}

impl<T: Clone + PartialEq> ObserverMachine<T> {
    /// Takes in an event. Returns what to do, in this order.
    pub fn handle(&mut self, event: Observation<T>) -> Vec<Instruction<T>> {
        use Observation as E;
        match (self.state, event) {
            (ObserverState::Away, E::Connected)
            | (ObserverState::Looking { .. }, E::Unanswered)
            | (ObserverState::Watching | ObserverState::Refused, E::Doubted) => {
                self.look_at_observed(Cause::Unknown, Footing::Unwatched)
            }
            (ObserverState::Watching | ObserverState::Refused, E::Changed(change)) => {
                self.look_at_observed(change.map_or(Cause::Unknown, Cause::Change), Footing::Watched)
            }
            (ObserverState::Looking { cause, outdated }, E::Changed(change)) => {
                // All events of the transaction that the look was sent for are behind us: the look was sent after it.
                let covered = change.map(Cause::Change) == Some(cause);
                self.state = ObserverState::Looking { cause, outdated: outdated || !covered };
                Vec::new()
            }
            (ObserverState::Looking { cause, outdated }, E::Seen(seen)) => {
                let stamp = seen.as_ref().and_then(|(stamp, _)| *stamp);
                let lower = stamp.filter(|stamp| *stamp < self.highest);
                if lower.is_some() && cause != Cause::LowerStamp {
                    self.state = ObserverState::Looking { cause: Cause::LowerStamp, outdated: false };
                    return vec![Instruction::SyncAndLook];
                }
                let mut instructions = lower.map_or_else(Vec::new, |now| self.begin_anew(now));
                self.highest = stamp.unwrap_or(self.highest);
                instructions.extend(self.tell_sight(seen.map(|(_, what)| what)));
                if outdated {
                    instructions.extend(self.look_at_observed(Cause::Unknown, Footing::Watched));
                } else {
                    self.state = ObserverState::Watching;
                }
                instructions
            }
            // The change that came meanwhile may have made what may be read.
            (ObserverState::Looking { outdated: true, .. }, E::Refused) => {
                self.look_at_observed(Cause::Unknown, Footing::Watched)
            }
            (ObserverState::Looking { .. }, E::Refused) => {
                self.state = ObserverState::Refused;
                Vec::new()
            }
            (_, E::Disconnected) => {
                self.state = ObserverState::Away;
                Vec::new()
            }
            (_, E::Connected | E::Seen(_) | E::Changed(_) | E::Doubted | E::Refused | E::Unanswered) => {
                Vec::new()
            }
        }
    }

    /// Whether a watch stands, and nothing is under way. So what was told last holds until the watch reports a change.
    pub fn is_watching(&self) -> bool {
        self.state == ObserverState::Watching
    }

    fn look_at_observed(&mut self, cause: Cause, footing: Footing) -> Vec<Instruction<T>> {
        self.state = ObserverState::Looking { cause, outdated: false };
        vec![Instruction::Look(footing)]
    }

    /// The servers show this stamp, which is lower than one of before.
    fn begin_anew(&mut self, now: Stamp) -> Vec<Instruction<T>> {
        self.told = None;
        vec![Instruction::TellWentBack { before: self.highest, now }]
    }

    fn tell_sight(&mut self, now: Option<T>) -> Vec<Instruction<T>> {
        if self.told.as_ref() == Some(&now) {
            return Vec::new();
        }
        self.told = Some(now.clone());
        vec![Instruction::Tell(now)]
    }
}

#[cfg(test)]
mod tests;
