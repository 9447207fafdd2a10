//! The machine of one contender, with its one transition function.

use alloc::{collections::BTreeSet, string::String, vec::Vec};

use crate::command::{Alone, Breach, Command, End, Together};
use crate::contender::{Ahead, Kind, Others, Own, QueuePlace, SHORT_QUEUE, Sequence, Standing, standing};
use crate::event::{Event, Sight};

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
    /// As `Delayed`, and another client's contenders are in the queue ([`QueueLayout`](crate::QueueLayout)). Any of them may have held
    /// the lock and not know yet that its node is gone. So a contender also waits for the delay if it finds nobody.
    Mixed,
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
    state: MachineState,
}

/// Each variant carries exactly what the contender knows then. Each state whose description names a request waits for
/// the reply to that one request. `Idle`, `Admitted`, `Waiting`, `Held`, `HeldWatched`, `Lost` and
/// `Ended` wait for no reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MachineState {
    /// The contender has not begun.
    Idle,
    /// The contender has not begun, and its node exists: another transaction has created it, and nobody blocks it.
    Admitted(Own),
    /// `Enter` is out.
    Entering,
    /// `CreateDirectory` is out.
    CreatingDirectory,
    /// `Find` is out, because an earlier `Enter` was not answered.
    Recovering,
    /// `List` is out. Each of these readers must be in the listing: the contender has seen them, and not their end.
    Looking(Own, Arrival, Vec<Sequence>),
    /// `List` is out, because the predecessor's node says that its holder released the lock. Another client may have forged that.
    Succeeding(Own),
    /// `WatchPredecessor` is out.
    Watching(Own, Ahead, Arrival),
    /// The contender watches its predecessor.
    Waiting(Own, Ahead, Arrival),
    /// No contender is lower, but one vanished; `Delay` is out.
    Delaying(Own),
    /// No contender is lower; `Confirm` is out.
    Confirming(Own, Unblocked),
    /// The caller has the guard; our own node is not watched yet.
    Held(Own, Unblocked),
    /// The caller has the guard; `WatchOwn` is out.
    WatchingOwn(Own, Unblocked),
    /// The caller has the guard; our own node is watched.
    HeldWatched(Own, Unblocked),
    /// The caller has the guard, and our own node is watched; `Review` is out.
    Reviewing(Own),
    /// The guard is lost, and the session lives.
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

/// What shows that nobody blocks a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unblocked {
    /// We have seen it. Or the queue is too long for a look.
    Seen,
    /// Only the release of our predecessor, which another client may have forged.
    Told,
    /// As `Told`, and the look at the queue is due.
    Due,
}

/// The next state, and its command.
type MachineStep = (MachineState, Option<Command>);

impl Machine {
    /// Makes the machine of a contender that has not begun.
    pub fn new(patience: Patience, takeover: Takeover, arrival: Arrival) -> Self {
        Self { patience, takeover, arrival, state: MachineState::Idle }
    }

    /// Makes the machine of a contender that needs no queue: a transaction has created its node, and that alone has
    /// granted it. At `Begin` it asks for confirmation.
    pub fn of_admitted(own: Own) -> Self {
        let state = MachineState::Admitted(own);
        Self { patience: Patience::Wait, takeover: Takeover::AtOnce, arrival: Arrival::New, state }
    }

    /// Returns the contender's own node, once it is known and until it is gone.
    pub fn own(&self) -> Option<Own> {
        use MachineState::*;
        match self.state {
            Admitted(own)
            | Looking(own, ..)
            | Succeeding(own)
            | Watching(own, ..)
            | Waiting(own, ..)
            | Delaying(own)
            | Confirming(own, _)
            | Held(own, _)
            | WatchingOwn(own, _)
            | HeldWatched(own, _)
            | Reviewing(own)
            | Lost(own)
            | Releasing(own)
            | ReleaseUnknown(own)
            | Leaving(own, _)
            | LeaveUnknown(own, _) => Some(own),
            Idle | Entering | CreatingDirectory | Recovering | EnteringInVain | RecoveringInVain | Ended => {
                None
            }
        }
    }

    /// Returns true once the machine has nothing more to do.
    pub fn is_ended(&self) -> bool {
        self.state == MachineState::Ended
    }

    /// Returns true once the contender is about to leave the queue, or has left it.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.state, MachineState::Leaving(..) | MachineState::LeaveUnknown(..) | MachineState::Ended)
    }

    /// Takes in one event, and returns the command that follows from it, if any. An event that means nothing in the
    /// present state changes nothing.
    pub fn handle(&mut self, event: Event) -> Option<Command> {
        let (state, command) = self.transition(event)?;
        self.state = state;
        command
    }

    /// Returns the next state and its command. `None` means that the event means nothing in this state.
    fn transition(&self, event: Event) -> Option<MachineStep> {
        use MachineState::*;
        Some(match (&self.state, event) {
            (Ended, _) => return None,
            (_, Event::SessionOver(end)) => ended(End::SessionOver(end)),

            (Idle, Event::Begin) => enter(),
            (Idle, Event::GiveUp) => ended(End::GivenUp),
            (Admitted(own), Event::Begin) => confirm(*own, Unblocked::Seen),
            (Admitted(own), Event::GiveUp) => release(*own),

            (Entering, Event::Entered { own, sight }) => self.admitted(own, sight, self.arrival),
            (Entering, Event::NoDirectory) => create_directory(),
            // The create may have taken effect. A second one now could leave two nodes.
            (Entering, Event::Unanswered) => find(Recovering),
            (Entering, Event::Refused(refusal)) => ended(End::Refused(refusal)),
            (Entering, Event::Foreign(foreign)) => ended(End::Foreign(foreign)),
            // The create may still take effect. Only its reply shows which node to delete.
            (Entering, Event::GiveUp) => (EnteringInVain, None),

            (CreatingDirectory, Event::DirectoryReady) => enter(),
            (CreatingDirectory, Event::Unanswered) => create_directory(),
            (CreatingDirectory, Event::Refused(refusal)) => ended(End::Refused(refusal)),
            (CreatingDirectory, Event::GiveUp) => ended(End::GivenUp),

            (Recovering, Event::Recovered(Some(own))) => self.admitted(own, Sight::Nothing, Arrival::Queued),
            (Recovering, Event::Recovered(None)) => enter(),
            (Recovering, Event::Unanswered) => find(Recovering),
            (Recovering, Event::GiveUp) => (RecoveringInVain, None),

            (Looking(own, arrival, seen), Event::Listed(children)) => {
                let arrival = if are_there(seen, &children) { *arrival } else { Arrival::Queued };
                self.placed(*own, standing(&children, own.place), arrival)
            }
            // That holder was first, and nobody came or went since.
            (Looking(own, ..), Event::ListedAfterRelease(children)) => match standing(&children, own.place) {
                Standing::First => confirm(*own, Unblocked::Seen),
                standing => self.placed(*own, standing, Arrival::Queued),
            },
            (Succeeding(own), Event::Listed(children) | Event::ListedAfterRelease(children)) => {
                match standing(&children, own.place) {
                    Standing::First | Standing::Beside => confirm(*own, Unblocked::Seen),
                    // Somebody has forged the release.
                    standing => self.placed(*own, standing, Arrival::Queued),
                }
            }
            (Looking(..) | Succeeding(_), Event::NoDirectory) => ended(End::NodeDeleted),
            (Watching(own, ahead, arrival), Event::PredecessorWatched(true)) => {
                wait(*own, ahead.clone(), *arrival)
            }
            (Watching(own, ahead, arrival), Event::PredecessorWatched(false)) => {
                self.missed(*own, ahead, *arrival)
            }
            // While the connection was lost, a predecessor may have vanished unseen.
            (Looking(own, ..) | Succeeding(own), Event::Unanswered) => list_queue(*own, Arrival::Queued),
            // The same holds here. The contender watches the predecessor again and does not list the whole queue: after
            // a lost connection, thousands of waiters do this at once.
            (Watching(own, ahead, _), Event::Unanswered) => watch(*own, ahead.clone(), Arrival::Queued),
            (Waiting(own, ahead, _), Event::WatchLost) => watch_again(*own, ahead.clone()),
            (Looking(own, ..) | Succeeding(own) | Watching(own, ..), Event::Refused(refusal)) => {
                leave(*own, End::Refused(refusal))
            }
            (Looking(own, ..) | Succeeding(own) | Watching(own, ..), Event::Foreign(foreign)) => {
                leave(*own, End::Foreign(foreign))
            }
            (Waiting(own, ahead, arrival), Event::PredecessorReleased) => self.succeed(*own, ahead, *arrival),
            (Waiting(own, ahead, _), Event::PredecessorDeleted) => self.deserted(*own, ahead),
            (Delaying(own), Event::Delayed) => confirm(*own, Unblocked::Seen),
            // We have not held the lock, so we leave by a plain deletion. Our successor then waits for its own delay.
            (
                Looking(own, ..) | Succeeding(own) | Watching(own, ..) | Waiting(own, ..) | Delaying(own),
                Event::GiveUp,
            ) => leave(*own, End::GivenUp),

            (Confirming(own, proof), Event::Confirmed(term)) => {
                (Held(*own, *proof), Some(Command::Grant(*own, term)))
            }
            (Confirming(own, proof), Event::Unanswered | Event::Withheld) => confirm(*own, *proof),
            (Confirming(own, _), Event::Refused(refusal)) => leave(*own, End::Refused(refusal)),
            (Watching(..) | Confirming(..), Event::OwnTouched) => ended(End::NodeDeleted),
            // As the holder's guard would be lost. What checks that nobody has touched the node fails under it, too.
            (Looking(own, ..) | Succeeding(own) | Confirming(own, _), Event::OwnWritten) => {
                leave(*own, End::Displaced)
            }
            // No contender is lower, so we leave by a release, as a holder does. Then the successor need not list.
            (Confirming(own, _), Event::GiveUp) => release(*own),

            (Held(own, proof), Event::Aged) => watch_own(*own, *proof),
            (Held(own, proof), Event::Settled) => watch_own(*own, proof.due()),
            (WatchingOwn(own, proof), Event::Settled) => (WatchingOwn(*own, proof.due()), None),
            (HeldWatched(own, Unblocked::Told), Event::Settled) => review(*own),
            // If the server refuses the watch, the lock stays held, for as long as the connection lasts on which the node was
            // seen.
            (WatchingOwn(own, Unblocked::Due), Event::OwnWatched(true) | Event::Refused(_)) => review(*own),
            (WatchingOwn(own, proof), Event::OwnWatched(true) | Event::Refused(_)) => {
                (HeldWatched(*own, *proof), None)
            }
            (WatchingOwn(own, _), Event::OwnWatched(false)) => lose(*own, Breach::Touched),
            (WatchingOwn(own, proof), Event::Unanswered) => watch_own(*own, *proof),
            (Reviewing(own), Event::Listed(children)) => match standing(&children, own.place) {
                Standing::First | Standing::Beside => (HeldWatched(*own, Unblocked::Seen), None),
                Standing::Behind(_) => lose(*own, Breach::Forged),
                Standing::Missing => lose(*own, Breach::Touched),
            },
            (Reviewing(own), Event::NoDirectory) => lose(*own, Breach::Touched),
            // We may not list the queue. As in a queue that is too long, only the release shows that nobody blocks us.
            (Reviewing(own), Event::Refused(_)) => (HeldWatched(*own, Unblocked::Seen), None),
            (Reviewing(own), Event::Unanswered) => review(*own),
            (Reviewing(own), Event::WatchLost) => watch_own(*own, Unblocked::Due),
            (
                Held(own, _) | WatchingOwn(own, _) | HeldWatched(own, _) | Reviewing(own),
                Event::OwnTouched,
            ) => lose(*own, Breach::Touched),
            (HeldWatched(own, proof), Event::WatchLost) => watch_own(*own, *proof),
            // A node that was written to still exists, and its successor waits for its end. A node that was deleted may
            // have left its name to another contender. So we look first.
            (Lost(own), Event::Release | Event::GiveUp | Event::Forfeit) => {
                recover(*own, LeaveUnknown(*own, End::NodeDeleted))
            }
            (
                Held(own, _) | WatchingOwn(own, _) | HeldWatched(own, _) | Reviewing(own),
                Event::Release | Event::GiveUp,
            ) => release(*own),
            // We leave by a plain deletion, so our successor takes us as vanished.
            (Held(own, _) | WatchingOwn(own, _) | HeldWatched(own, _) | Reviewing(own), Event::Forfeit) => {
                leave(*own, End::GivenUp)
            }

            (Releasing(_), Event::Released(true)) => ended(End::Released),
            (Releasing(_), Event::Released(false)) => ended(End::NodeDeleted),
            (Releasing(own), Event::Withheld) => release(*own),
            // If the release took effect, another contender may have our node's name by now. So we look before we
            // write.
            (Releasing(own), Event::Unanswered) => recover(*own, ReleaseUnknown(*own)),
            // Even if we may not write to the node, we may be able to delete it. The successor then lists.
            (Releasing(own), Event::Refused(_)) => leave(*own, End::Released),
            (ReleaseUnknown(own), Event::Unanswered) => recover(*own, ReleaseUnknown(*own)),
            (ReleaseUnknown(own), Event::Recovered(Some(_))) => release(*own),
            // The earlier transaction removed the node: the session lives, so only an operator could have removed it
            // otherwise.
            (ReleaseUnknown(_), Event::Recovered(None)) => ended(End::Released),

            (EnteringInVain, Event::Entered { own, .. }) => leave(own, End::GivenUp),
            (EnteringInVain | RecoveringInVain, Event::Unanswered) => find(RecoveringInVain),
            (EnteringInVain, Event::NoDirectory | Event::Refused(_) | Event::Foreign(_)) => {
                ended(End::GivenUp)
            }
            // Another member of the group has an end of its own, which the caller hears of.
            (Entering | CreatingDirectory | EnteringInVain, Event::Withheld) => ended(End::GivenUp),
            (RecoveringInVain, Event::Recovered(Some(own))) => leave(own, End::GivenUp),
            (RecoveringInVain, Event::Recovered(None)) => ended(End::GivenUp),

            (Leaving(_, end), Event::Deleted) => ended(end.clone()),
            (Leaving(own, end) | LeaveUnknown(own, end), Event::Unanswered) => {
                recover(*own, LeaveUnknown(*own, end.clone()))
            }
            (LeaveUnknown(own, end), Event::Recovered(Some(_))) => leave(*own, end.clone()),
            (LeaveUnknown(_, end), Event::Recovered(None)) => ended(end.clone()),
            // The node may stay until the session ends, so the caller must learn of the refusal.
            (Leaving(..), Event::Refused(refusal)) => ended(End::Refused(refusal)),
            // The end of the session answers this.
            (
                Recovering | RecoveringInVain | ReleaseUnknown(_) | LeaveUnknown(..),
                Event::Refused(refusal),
            ) => (self.state.clone(), Some(Command::EndSession(refusal))),

            _ => return None,
        })
    }

    /// Our node exists, and the read behind its create gave `sight`. Decides what comes next.
    fn admitted(&self, own: Own, sight: Sight, arrival: Arrival) -> MachineStep {
        let QueuePlace { sequence, kind } = own.place;
        if sequence.is_exhausted() {
            return leave(own, End::Exhausted(sequence));
        }
        match (sight, sequence.previous()) {
            (Sight::Children(children), _) => self.placed(own, standing(&children, own.place), arrival),
            (Sight::Free, _) => confirm(own, Unblocked::Seen),
            // The other client may ignore our node.
            (Sight::Foreign(foreign), _) => leave(own, End::Foreign(foreign)),
            // The read came after our create in the same session, so the one child is our node.
            (Sight::Count(1), _) => self.placed(own, Standing::First, arrival),
            // Mostly our predecessor is the node that was created just before ours, by a contender of our kind. If that
            // node is gone, we list. A `Try` must know at once, so it lists now. So do we if only one other child
            // exists: it holds the lock, and may be gone before a watch arrives. A reader cannot guess the nearest
            // writer.
            (Sight::Count(count), Some(previous))
                if count > 2 && self.patience == Patience::Wait && kind == Kind::Exclusive =>
            {
                let nearest = QueuePlace { sequence: previous, kind };
                let others = Others::Some(Vec::new());
                watch(own, Ahead { nearest, others, is_short: count <= SHORT_QUEUE }, arrival)
            }
            (Sight::Count(_), _) => list_queue(own, arrival),
            // The read got no answer, so a predecessor may have vanished unseen.
            (Sight::Nothing, _) => list_queue(own, Arrival::Queued),
        }
    }

    /// Whether another client's contenders are in the queue.
    fn is_shared(&self) -> bool {
        self.takeover == Takeover::Mixed
    }

    /// Our place in the queue is known. Decides what comes next.
    fn placed(&self, own: Own, standing: Standing, arrival: Arrival) -> MachineStep {
        let delayed = self.takeover != Takeover::AtOnce;
        // Somebody may have vanished before we came.
        let arrival = if self.is_shared() { Arrival::Queued } else { arrival };
        match (standing, self.patience) {
            (Standing::First, Patience::Wait) if delayed && arrival == Arrival::Queued => delay(own),
            // A holder may have vanished while those behind us waited, and our release would grant them at once.
            (Standing::First, Patience::Try) if delayed && arrival == Arrival::Queued => {
                leave(own, End::Busy)
            }
            // The readers beside us may hold the lock, or wait for the delay after a writer that vanished. Nothing shows
            // which.
            (Standing::Beside, Patience::Wait) if delayed => delay(own),
            (Standing::Beside, Patience::Try) if delayed => leave(own, End::Busy),
            (Standing::First | Standing::Beside, _) => confirm(own, Unblocked::Seen),
            // Only a listing may show that one of ours released the lock last.
            (Standing::Behind(ahead), Patience::Wait) if self.is_shared() => {
                watch(own, Ahead { others: Others::Some(Vec::new()), ..ahead }, arrival)
            }
            (Standing::Behind(mut ahead), Patience::Wait) => {
                // Only a delay depends on how each of them went.
                if let Others::Some(readers) = &mut ahead.others
                    && !delayed
                {
                    readers.clear();
                }
                watch(own, ahead, arrival)
            }
            (Standing::Behind(_), Patience::Try) => leave(own, End::Busy),
            (Standing::Missing, _) => ended(End::NodeDeleted),
        }
    }

    /// The predecessor has released the lock.
    fn succeed(&self, own: Own, ahead: &Ahead, arrival: Arrival) -> MachineStep {
        match (ahead.nearest.kind, &ahead.others) {
            // A writer held the lock alone, so nobody was lower than it. Of that we need no other proof if we have seen it.
            (Kind::Exclusive | Kind::Permit(_) | Kind::Slot(_), Others::All(left)) if left.is_empty() => {
                confirm(own, Unblocked::Seen)
            }
            (Kind::Exclusive | Kind::Permit(_) | Kind::Slot(_), _) => match self.takeover {
                Takeover::AtOnce if ahead.is_short => confirm(own, Unblocked::Told),
                Takeover::AtOnce => confirm(own, Unblocked::Seen),
                Takeover::Delayed | Takeover::Mixed => {
                    (MachineState::Succeeding(own), Some(Command::Alone(Alone::List)))
                }
            },
            // A reader did not: other readers may hold the lock beside it.
            (Kind::Shared, Others::All(left)) => self.follow(own, ahead, left, arrival),
            (Kind::Shared, Others::Some(readers)) => look_for(own, arrival, readers.clone()),
        }
    }

    /// The predecessor is gone, and did not release the lock.
    fn deserted(&self, own: Own, ahead: &Ahead) -> MachineStep {
        match (own.place.kind, &ahead.others) {
            // All readers behind a writer hear of its end at once. None of them lists the queue.
            (Kind::Shared, Others::All(left)) => self.follow(own, ahead, left, Arrival::Queued),
            // An operator may have deleted our node, too, and a listing shows that.
            _ => list_queue(own, Arrival::Queued),
        }
    }

    /// The predecessor was gone before we watched it.
    fn missed(&self, own: Own, ahead: &Ahead, arrival: Arrival) -> MachineStep {
        // Readers release one by one, so a reader that is missing may have vanished.
        let arrival = if ahead.nearest.kind == Kind::Shared { Arrival::Queued } else { arrival };
        match &ahead.others {
            Others::All(left) => self.follow(own, ahead, left, arrival),
            Others::Some(_) => list_queue(own, arrival),
        }
    }

    /// The nearest of those that blocked us is gone, and these are left. Goes on to the nearest of them.
    fn follow(&self, own: Own, ahead: &Ahead, left: &[Sequence], arrival: Arrival) -> MachineStep {
        match (left.split_last(), own.place.kind) {
            (Some((nearest, left)), _) => {
                let nearest = QueuePlace { sequence: *nearest, kind: Kind::Exclusive };
                let others = Others::All(left.to_vec());
                watch(own, Ahead { nearest, others, is_short: ahead.is_short }, arrival)
            }
            (None, Kind::Shared) => self.placed(own, Standing::Beside, arrival),
            (None, _) => self.placed(own, Standing::First, arrival),
        }
    }
}

impl Unblocked {
    /// The holder has held the lock for long enough to list the queue.
    fn due(self) -> Self {
        match self {
            Self::Seen => Self::Seen,
            Self::Told | Self::Due => Self::Due,
        }
    }
}

/// Whether each of these readers is among the children.
fn are_there(readers: &[Sequence], children: &[String]) -> bool {
    let places = children.iter().filter_map(|name| QueuePlace::parse(name)).collect::<BTreeSet<_>>();
    readers.iter().all(|reader| places.contains(&QueuePlace { sequence: *reader, kind: Kind::Shared }))
}

fn enter() -> MachineStep {
    (MachineState::Entering, Some(Command::Together(Together::Enter)))
}

fn create_directory() -> MachineStep {
    (MachineState::CreatingDirectory, Some(Command::Together(Together::CreateDirectory)))
}

fn find(state: MachineState) -> MachineStep {
    (state, Some(Command::Alone(Alone::Find)))
}

fn recover(own: Own, state: MachineState) -> MachineStep {
    (state, Some(Command::Alone(Alone::Recover(own))))
}

fn list_queue(own: Own, arrival: Arrival) -> MachineStep {
    look_for(own, arrival, Vec::new())
}

fn look_for(own: Own, arrival: Arrival, readers: Vec<Sequence>) -> MachineStep {
    (MachineState::Looking(own, arrival, readers), Some(Command::Alone(Alone::List)))
}

fn watch(own: Own, ahead: Ahead, arrival: Arrival) -> MachineStep {
    let nearest = ahead.nearest;
    (MachineState::Watching(own, ahead, arrival), Some(Command::Alone(Alone::WatchPredecessor(nearest, own))))
}

/// While the connection was lost, somebody may have vanished unseen, and an operator may have deleted our node. So an exclusive
/// contender lists the queue once its predecessor is gone.
fn watch_again(own: Own, mut ahead: Ahead) -> MachineStep {
    if (own.place.kind, ahead.nearest.kind) == (Kind::Exclusive, Kind::Exclusive) {
        ahead.others = Others::Some(Vec::new());
    }
    watch(own, ahead, Arrival::Queued)
}

fn wait(own: Own, mut ahead: Ahead, mut arrival: Arrival) -> MachineStep {
    // The release of a writer settles everything. After any other end of it, somebody may have vanished, and an
    // exclusive contender lists the queue.
    if ahead.nearest.kind == Kind::Exclusive {
        arrival = Arrival::Queued;
        if let (Kind::Exclusive, Others::Some(readers)) = (own.place.kind, &mut ahead.others) {
            readers.clear();
        }
    }
    (MachineState::Waiting(own, ahead, arrival), None)
}

fn delay(own: Own) -> MachineStep {
    (MachineState::Delaying(own), Some(Command::Alone(Alone::Delay)))
}

fn confirm(own: Own, proof: Unblocked) -> MachineStep {
    (MachineState::Confirming(own, proof), Some(Command::Together(Together::Confirm)))
}

fn watch_own(own: Own, proof: Unblocked) -> MachineStep {
    (MachineState::WatchingOwn(own, proof), Some(Command::Alone(Alone::WatchOwn(own))))
}

fn review(own: Own) -> MachineStep {
    (MachineState::Reviewing(own), Some(Command::Alone(Alone::Review)))
}

fn lose(own: Own, breach: Breach) -> MachineStep {
    (MachineState::Lost(own), Some(Command::Lose(breach)))
}

fn release(own: Own) -> MachineStep {
    (MachineState::Releasing(own), Some(Command::Alone(Alone::Release(own))))
}

fn leave(own: Own, end: End) -> MachineStep {
    (MachineState::Leaving(own, end), Some(Command::Alone(Alone::Delete(own))))
}

fn ended(end: End) -> MachineStep {
    (MachineState::Ended, Some(Command::End(end)))
}

#[cfg(test)]
pub(crate) mod tests;
