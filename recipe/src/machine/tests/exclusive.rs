//! An exclusive contender among others of its kind.

use std::collections::HashSet;
use std::mem::discriminant;

use super::table::{Scene, to};
use super::*;

/// Somebody may vanish while it waits.
fn waits(ahead: Ahead, _: Arrival) -> MachineState {
    Waiting(OWN, ahead, Queued)
}

pub(super) fn scene() -> Scene {
    let confirms = || to(Confirming(OWN, Seen));
    let looks = |arrival| to(Looking(OWN, arrival, vec![]));
    let gone = E::PredecessorWatched(false);
    Scene {
        own: OWN,
        beside: None,
        behind: vec![(next(SEEN), behind()), (only(LOWEST), names(&[LOWEST, OWN.place]))],
        waits,
        peculiar: (vec![], vec![]),
        rows: vec![
            (Entering, entered(Sight::Count(3)), to(Watching(OWN, next(NEXT_LOWER), New))),
            (Watching(OWN, next(SEEN), New), gone.clone(), looks(New)),
            (Watching(OWN, next(SEEN), Queued), gone.clone(), looks(Queued)),
            // Nobody lower is left: somebody who has waited may have seen a holder vanish.
            (Watching(OWN, only(LOWEST), New), gone.clone(), confirms()),
            (Watching(OWN, only(LOWEST), Queued), gone, to(Delaying(OWN))),
            // Somebody who does not hold the lock may have forged the release.
            (Waiting(OWN, next(SEEN), Queued), E::PredecessorReleased, to(Succeeding(OWN))),
            (Waiting(OWN, only(LOWEST), Queued), E::PredecessorReleased, confirms()),
            (Waiting(OWN, next(SEEN), Queued), E::PredecessorDeleted, looks(Queued)),
            (Waiting(OWN, only(LOWEST), Queued), E::PredecessorDeleted, looks(Queued)),
        ],
    }
}

/// The events that lead to each of its states, and all events that it may hear of there.
pub(crate) fn ways_and_events() -> (Vec<Vec<Event>>, Vec<Event>) {
    let ways = scene().paths().into_iter().map(|(_, way)| way);
    (ways.collect(), scene().events())
}

/// The children, the lowest of which is not the nearest.
pub(super) fn behind() -> Vec<String> {
    names(&[QueuePlace::exclusive(9), LOWEST, OWN.place, SEEN])
}

#[test]
fn every_transition_is_in_the_table_and_nothing_else_does_anything() {
    scene().check();
}

/// The lists of the table are complete: a new variant does not compile until it is counted here.
#[test]
fn all_states_and_events_are_listed() {
    let state_kinds = |state: &MachineState| match state {
        // `Admitted` has tests of its own: no event leads there. So has `Reviewing`: with a takeover delay, none does.
        Idle | Admitted(_) | Entering | CreatingDirectory | Recovering | Looking(..) | Succeeding(_)
        | Watching(..) | Waiting(..) | Delaying(_) | Confirming(..) | Held(..) | WatchingOwn(..)
        | HeldWatched(..) | Reviewing(_) | Lost(_) | Releasing(_) | ReleaseUnknown(_) | EnteringInVain
        | RecoveringInVain | Leaving(..) | LeaveUnknown(..) | Ended => 21,
    };
    let event_kinds = |event: &Event| match event {
        E::Begin
        | E::Entered { .. }
        | E::NoDirectory
        | E::DirectoryReady
        | E::Withheld
        | E::Recovered(_)
        | E::Listed(_)
        | E::ListedAfterRelease(_)
        | E::Foreign(_)
        | E::PredecessorWatched(_)
        | E::Delayed
        | E::Confirmed(_)
        | E::Deleted
        | E::Released(_)
        | E::OwnWatched(_)
        | E::Refused(_)
        | E::Unanswered
        | E::PredecessorReleased
        | E::PredecessorDeleted
        | E::WatchLost
        | E::OwnTouched
        | E::OwnWritten
        | E::Aged
        | E::Settled
        | E::Release
        | E::GiveUp
        | E::Forfeit
        | E::SessionOver(_) => 28,
    };
    let states = scene().paths();
    let events = scene().events();
    let kinds = states.iter().map(|(state, _)| discriminant(state)).collect::<HashSet<_>>();
    assert_eq!(kinds.len(), state_kinds(&states[0].0));
    let kinds = events.iter().map(discriminant).collect::<HashSet<_>>();
    assert_eq!(kinds.len(), event_kinds(&events[0]));
}

/// A transaction has created and granted the node, so only the lease is left to be confirmed.
#[test]
fn an_admitted_contender_asks_for_confirmation_only() {
    let machine = Machine::of_admitted(OWN);
    assert_eq!(machine.own(), Some(OWN));
    for event in scene().events() {
        let mut machine = machine.clone();
        let command = machine.handle(event.clone());
        let next = match event {
            E::Begin => to(Confirming(OWN, Seen)),
            E::GiveUp => to(Releasing(OWN)),
            E::SessionOver(end) => (Ended, Some(C::End(End::SessionOver(end)))),
            _ => (Admitted(OWN), None),
        };
        assert_eq!((machine.state, command), next, "{event:?}");
    }
}
