//! The machine of one contender, with its one transition function.

use crate::command::{Command, End};
use crate::contender::{Own, Sequence, Standing, standing};
use crate::event::{Event, Look, Sight};

/// Whether a contender waits behind others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// The contender waits in the queue.
    Wait,
    /// The contender leaves at once if another contender is lower.
    Try,
}

/// What a waiter does once it is first in the queue and its predecessor did not release the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Takeover {
    /// The waiter takes the lock at once.
    AtOnce,
    /// The waiter waits for the takeover delay, because the last holder may have work in flight.
    Delayed,
}

/// Whether a holder may have vanished unseen since the contender came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The contender has just come, and has not had anybody to wait for.
    New,
    /// The contender has waited or was without a connection, or it comes again because the session in which it queued
    /// has ended.
    Queued,
}

/// One contender: what it knows now, and what it does on each event. The [crate] has a diagram.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    patience: Patience,
    takeover: Takeover,
    /// The contender's arrival when it was made.
    arrival: Arrival,
    state: State,
}

/// Each variant carries exactly what the contender knows then. Each state whose description names a request waits for
/// the reply to that one request. `Idle`, `Waiting`, `Held`, `Guarded`, `Lost` and `Ended` wait for no reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// The contender has not begun.
    Idle,
    /// `Enter` is out.
    Entering(Look),
    /// `CreateDirectory` is out.
    CreatingDirectory(Look),
    /// `Recover` is out, because an earlier `Enter` was not answered.
    Recovering,
    /// `List` is out.
    Looking(Own, Arrival),
    /// `WatchPredecessor` is out.
    Watching(Own, Sequence, Arrival),
    /// As `Watching`, and a listing that showed our node showed only this one lower contender.
    WatchingFirst(Own, Sequence, Arrival),
    /// The contender watches its predecessor.
    Waiting(Own, Sequence),
    /// No contender is lower, but one vanished; `Delay` is out.
    Delaying(Own),
    /// No contender is lower; `Confirm` is out.
    Confirming(Own),
    /// The caller has the guard; our own node is not watched yet.
    Held(Own),
    /// The caller has the guard; `WatchOwn` is out.
    Guarding(Own),
    /// The caller has the guard; our own node is watched.
    Guarded(Own),
    /// The guard is lost, because somebody else touched our own node.
    Lost(Own),
    /// `Release` is out.
    Releasing(Own),
    /// `Recover` is out, because an earlier `Release` was not answered.
    ReleaseUnknown(Own),
    /// As `Entering`, but the caller no longer wants the lock.
    EnteringInVain,
    /// As `Recovering`, but the caller no longer wants the lock.
    RecoveringInVain,
    /// `Delete` is out; after it the machine ends like this.
    Leaving(Own, End),
    /// `Recover` is out, because an earlier `Delete` was not answered, or our node may be gone. After it the machine
    /// ends like this.
    LeaveUnknown(Own, End),
    /// The machine has ended.
    Ended,
}

impl Machine {
    /// Makes the machine of a contender that has not begun.
    pub fn new(patience: Patience, takeover: Takeover, arrival: Arrival) -> Self {
        Self { patience, takeover, arrival, state: State::Idle }
    }

    /// Returns the contender's own node, once it is known and until it is gone.
    pub fn own(&self) -> Option<Own> {
        use State::*;
        match self.state {
            Looking(own, _)
            | Watching(own, ..)
            | WatchingFirst(own, ..)
            | Waiting(own, _)
            | Delaying(own)
            | Confirming(own)
            | Held(own)
            | Guarding(own)
            | Guarded(own)
            | Lost(own)
            | Releasing(own)
            | ReleaseUnknown(own)
            | Leaving(own, _)
            | LeaveUnknown(own, _) => Some(own),
            Idle | Entering(_) | CreatingDirectory(_) | Recovering | EnteringInVain | RecoveringInVain
            | Ended => None,
        }
    }

    /// Returns true once the machine has nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Takes in one event, and returns the command that follows from it, if any. An event that means nothing in the
    /// present state changes nothing.
    pub fn handle(&mut self, event: Event) -> Option<Command> {
        let (state, command) = self.transition(event)?;
        self.state = state;
        command
    }

    /// Returns the next state and its command. `None` means that the event means nothing in this state.
    fn transition(&self, event: Event) -> Option<(State, Option<Command>)> {
        use State::*;
        match (&self.state, event) {
            (Ended, _) => None,
            (_, Event::SessionOver(end)) => Some(ended(End::SessionOver(end))),

            (Idle, Event::Begin(look)) => Some(enter(look)),
            (Idle, Event::GiveUp) => Some(ended(End::GivenUp)),

            (Entering(_), Event::Entered { own, sight }) => Some(self.admitted(own, sight, self.arrival)),
            (Entering(look), Event::NoDirectory) => Some(create_directory(*look)),
            // The create may have taken effect. A second one now could leave two nodes.
            (Entering(_), Event::Unanswered) => Some((Recovering, Some(Command::Recover))),
            (Entering(_), Event::Refused(refusal)) => Some(ended(End::Refused(refusal))),
            // The create may still take effect. Only its reply shows which node to delete.
            (Entering(_), Event::GiveUp) => Some((EnteringInVain, None)),

            (CreatingDirectory(look), Event::DirectoryReady) => Some(enter(*look)),
            (CreatingDirectory(look), Event::Unanswered) => Some(create_directory(*look)),
            (CreatingDirectory(_), Event::Refused(refusal)) => Some(ended(End::Refused(refusal))),
            (CreatingDirectory(_), Event::GiveUp) => Some(ended(End::GivenUp)),

            (Recovering, Event::Recovered(Some(own))) => {
                Some(self.admitted(own, Sight::Nothing, Arrival::Queued))
            }
            (Recovering, Event::Recovered(None)) => Some(enter(Look::Count)),
            (Recovering, Event::Unanswered) => Some((Recovering, Some(Command::Recover))),
            (Recovering, Event::Refused(refusal)) => Some(ended(End::Refused(refusal))),
            (Recovering, Event::GiveUp) => Some((RecoveringInVain, None)),

            (Looking(own, arrival), Event::Listed(children)) => {
                Some(self.placed(*own, standing(&children, own.sequence), *arrival))
            }
            (Looking(..), Event::NoDirectory) => Some(ended(End::NodeDeleted)),
            (
                Watching(own, predecessor, _) | WatchingFirst(own, predecessor, _),
                Event::PredecessorWatched(true),
            ) => Some((Waiting(*own, *predecessor), None)),
            // No lower contender is left, and none can be created any more.
            (WatchingFirst(own, _, arrival), Event::PredecessorWatched(false)) => {
                Some(self.placed(*own, Standing::First, *arrival))
            }
            (Watching(own, _, arrival), Event::PredecessorWatched(false)) => Some(look(*own, *arrival)),
            // While the connection was lost, a predecessor may have vanished unseen.
            (Looking(own, _), Event::Unanswered) => Some(look(*own, Arrival::Queued)),
            // The same holds here. The contender watches the predecessor again and does not list the whole queue: after
            // a lost connection, thousands of waiters do this at once.
            (Watching(own, predecessor, _) | WatchingFirst(own, predecessor, _), Event::Unanswered)
            | (Waiting(own, predecessor), Event::WatchLost) => {
                Some(watch(*own, *predecessor, Arrival::Queued))
            }
            (Looking(own, _) | Watching(own, ..) | WatchingFirst(own, ..), Event::Refused(refusal)) => {
                Some(leave(*own, End::Refused(refusal)))
            }
            (Looking(own, _) | Watching(own, ..) | WatchingFirst(own, ..), Event::Foreign(foreign)) => {
                Some(leave(*own, End::Foreign(foreign)))
            }
            (Waiting(own, _), Event::PredecessorReleased) => Some(confirm(*own)),
            (Waiting(own, _), Event::PredecessorDeleted) => Some(look(*own, Arrival::Queued)),
            (Delaying(own), Event::Delayed) => Some(confirm(*own)),
            // We have not held the lock, so we leave by a plain deletion. Our successor then waits for its own delay.
            (
                Looking(own, _)
                | Watching(own, ..)
                | WatchingFirst(own, ..)
                | Waiting(own, _)
                | Delaying(own),
                Event::GiveUp,
            ) => Some(leave(*own, End::GivenUp)),

            (Confirming(own), Event::Confirmed) => Some((Held(*own), Some(Command::Grant(*own)))),
            (Confirming(own), Event::Unanswered) => Some(confirm(*own)),
            (Confirming(own), Event::Refused(refusal)) => Some(leave(*own, End::Refused(refusal))),
            (Watching(..) | WatchingFirst(..) | Confirming(_), Event::OwnTouched) => {
                Some(ended(End::NodeDeleted))
            }
            // No contender is lower, so we leave by a release, as a holder does. Then the successor need not list.
            (Confirming(own), Event::GiveUp) => Some(release(*own)),

            (Held(own), Event::Settled) => Some(guard(*own)),
            (Guarding(own), Event::OwnWatched(true)) => Some((Guarded(*own), None)),
            (Guarding(own), Event::OwnWatched(false)) => Some(lose(*own)),
            (Guarding(own), Event::Unanswered) => Some(guard(*own)),
            // The lock stays held, for as long as the connection lasts on which the node was seen.
            (Guarding(own), Event::Refused(_)) => Some((Guarded(*own), None)),
            (Guarded(own), Event::OwnTouched) => Some(lose(*own)),
            (Guarded(own), Event::WatchLost) => Some(guard(*own)),
            // A node that was written to still exists, and its successor waits for its end. A node that was deleted may
            // have left its name to another contender. So we look first.
            (Lost(own), Event::Release | Event::GiveUp | Event::Forfeit) => {
                Some((LeaveUnknown(*own, End::NodeDeleted), Some(Command::Recover)))
            }
            (Held(own) | Guarding(own) | Guarded(own), Event::Release | Event::GiveUp) => Some(release(*own)),
            // We leave by a plain deletion, so our successor takes us as vanished.
            (Held(own) | Guarding(own) | Guarded(own), Event::Forfeit) => Some(leave(*own, End::GivenUp)),

            (Releasing(_), Event::Released(true)) => Some(ended(End::Released)),
            (Releasing(_), Event::Released(false)) => Some(ended(End::NodeDeleted)),
            // If the release took effect, another contender may have our node's name by now. So we look before we
            // write.
            (Releasing(own), Event::Unanswered) => Some((ReleaseUnknown(*own), Some(Command::Recover))),
            // Even if we may not write to the node, we may be able to delete it. The successor then lists.
            (Releasing(own), Event::Refused(_)) => Some(leave(*own, End::Released)),
            (ReleaseUnknown(own), Event::Recovered(Some(_))) => Some(release(*own)),
            // The earlier transaction removed the node: the session lives, so only an operator could have removed it
            // otherwise.
            (ReleaseUnknown(_), Event::Recovered(None)) => Some(ended(End::Released)),

            (EnteringInVain, Event::Entered { own, .. }) => Some(leave(own, End::GivenUp)),
            (EnteringInVain, Event::Unanswered) => Some((RecoveringInVain, Some(Command::Recover))),
            (EnteringInVain, Event::NoDirectory | Event::Refused(_)) => Some(ended(End::GivenUp)),
            (RecoveringInVain, Event::Recovered(Some(own))) => Some(leave(own, End::GivenUp)),
            (RecoveringInVain, Event::Recovered(None)) => Some(ended(End::GivenUp)),
            (RecoveringInVain, Event::Unanswered) => Some((RecoveringInVain, Some(Command::Recover))),
            (RecoveringInVain, Event::Refused(_)) => Some(ended(End::GivenUp)),

            (Leaving(_, end), Event::Deleted) => Some(ended(end.clone())),
            (Leaving(own, end), Event::Unanswered) => {
                Some((LeaveUnknown(*own, end.clone()), Some(Command::Recover)))
            }
            (LeaveUnknown(own, end), Event::Recovered(Some(_))) => Some(leave(*own, end.clone())),
            (LeaveUnknown(_, end), Event::Recovered(None)) => Some(ended(end.clone())),
            (ReleaseUnknown(_) | LeaveUnknown(..), Event::Unanswered) => {
                Some((self.state.clone(), Some(Command::Recover)))
            }
            // The node may stay until the session ends, so the caller must learn of the refusal.
            (Leaving(..) | ReleaseUnknown(_) | LeaveUnknown(..), Event::Refused(refusal)) => {
                Some(ended(End::Refused(refusal)))
            }

            _ => None,
        }
    }

    /// Our node exists, and the read behind its create gave `sight`. Decides what comes next.
    fn admitted(&self, own: Own, sight: Sight, arrival: Arrival) -> (State, Option<Command>) {
        if own.sequence.is_exhausted() {
            return leave(own, End::Exhausted(own.sequence));
        }
        match (sight, own.sequence.previous()) {
            (Sight::Children(children), _) => self.placed(own, standing(&children, own.sequence), arrival),
            // The other client may ignore our node.
            (Sight::Foreign(foreign), _) => leave(own, End::Foreign(foreign)),
            // The read came after our create in the same session, so the one child is our node.
            (Sight::Count(1), _) => self.placed(own, Standing::First, arrival),
            // Mostly our predecessor is the node that was created just before ours. If that node is gone, we list. A
            // `Try` must know at once, so it lists now. So do we if only one other child exists: it holds the lock, and
            // may be gone before a watch arrives.
            (Sight::Count(count), Some(previous)) if count > 2 && self.patience == Patience::Wait => {
                watch(own, previous, arrival)
            }
            (Sight::Count(_), _) => look(own, arrival),
            // The read got no answer, so a predecessor may have vanished unseen.
            (Sight::Nothing, _) => look(own, Arrival::Queued),
        }
    }

    /// Our place in the queue is known. Decides what comes next.
    fn placed(&self, own: Own, standing: Standing, arrival: Arrival) -> (State, Option<Command>) {
        match (standing, self.patience) {
            (Standing::First, Patience::Wait)
                if (arrival, self.takeover) == (Arrival::Queued, Takeover::Delayed) =>
            {
                delay(own)
            }
            (Standing::First, _) => confirm(own),
            (Standing::Second(first), Patience::Wait) => {
                (State::WatchingFirst(own, first, arrival), Some(Command::WatchPredecessor(first)))
            }
            (Standing::Behind(predecessor), Patience::Wait) => watch(own, predecessor, arrival),
            (Standing::Second(_) | Standing::Behind(_), Patience::Try) => leave(own, End::Busy),
            (Standing::Missing, _) => ended(End::NodeDeleted),
        }
    }
}

fn enter(look: Look) -> (State, Option<Command>) {
    (State::Entering(look), Some(Command::Enter(look)))
}

fn create_directory(look: Look) -> (State, Option<Command>) {
    (State::CreatingDirectory(look), Some(Command::CreateDirectory))
}

fn look(own: Own, arrival: Arrival) -> (State, Option<Command>) {
    (State::Looking(own, arrival), Some(Command::List))
}

fn watch(own: Own, predecessor: Sequence, arrival: Arrival) -> (State, Option<Command>) {
    (State::Watching(own, predecessor, arrival), Some(Command::WatchPredecessor(predecessor)))
}

fn delay(own: Own) -> (State, Option<Command>) {
    (State::Delaying(own), Some(Command::Delay))
}

fn confirm(own: Own) -> (State, Option<Command>) {
    (State::Confirming(own), Some(Command::Confirm))
}

fn guard(own: Own) -> (State, Option<Command>) {
    (State::Guarding(own), Some(Command::WatchOwn(own.sequence)))
}

fn lose(own: Own) -> (State, Option<Command>) {
    (State::Lost(own), Some(Command::Lose))
}

fn release(own: Own) -> (State, Option<Command>) {
    (State::Releasing(own), Some(Command::Release(own.sequence)))
}

fn leave(own: Own, end: End) -> (State, Option<Command>) {
    (State::Leaving(own, end), Some(Command::Delete(own.sequence)))
}

fn ended(end: End) -> (State, Option<Command>) {
    (State::Ended, Some(Command::End(end)))
}

#[cfg(test)]
mod tests;
