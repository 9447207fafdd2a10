//! An exclusive contender among others of its kind: every state and every event.

use core::mem::discriminant;

use super::*;

pub(super) fn alone() -> Vec<String> {
    writers(&[7])
}

pub(super) fn behind() -> Vec<String> {
    writers(&[9, 4, 7, 5])
}

fn second() -> Vec<String> {
    writers(&[9, 4, 7])
}

fn missing() -> Vec<String> {
    writers(&[4, 9])
}

pub(super) fn paths() -> Vec<Path> {
    let begin = E::Begin(Look::List);
    let behind_another = vec![begin.clone(), entered(Sight::Children(behind()))];
    let first = vec![begin.clone(), entered(Sight::Count(1))];
    let waiting = after(&behind_another, &[E::PredecessorWatched(true)]);
    vec![
        (Idle, vec![]),
        (Entering(Look::List), vec![begin.clone()]),
        (Entering(Look::Count), vec![E::Begin(Look::Count)]),
        (CreatingDirectory(Look::List), vec![begin.clone(), E::NoDirectory]),
        (Recovering, vec![begin.clone(), E::Unanswered]),
        (Looking(OWN, New, vec![]), after(&behind_another, &[E::PredecessorWatched(false)])),
        (Looking(OWN, Queued, vec![]), vec![begin.clone(), entered(Sight::Nothing)]),
        (Watching(OWN, next(SEEN), New), behind_another.clone()),
        (Watching(OWN, next(SEEN), Queued), after(&waiting, &[E::PredecessorDeleted, E::Listed(behind())])),
        (Watching(OWN, only(LOWEST), New), vec![begin.clone(), entered(Sight::Children(second()))]),
        (Watching(OWN, only(LOWEST), Queued), after(&waiting, &[E::PredecessorDeleted, E::Listed(second())])),
        (Waiting(OWN, next(SEEN), Queued), waiting.clone()),
        (
            Waiting(OWN, next(LOWEST), Queued),
            vec![begin.clone(), entered(Sight::Children(second())), E::PredecessorWatched(true)],
        ),
        (Delaying(OWN), after(&waiting, &[E::PredecessorDeleted, E::Listed(alone())])),
        (Confirming(OWN), first.clone()),
        (Held(OWN), after(&first, &[E::Confirmed(Term::FIRST)])),
        (Guarding(OWN), after(&first, &[E::Confirmed(Term::FIRST), E::Settled])),
        (Guarded(OWN), after(&first, &[E::Confirmed(Term::FIRST), E::Settled, E::OwnWatched(true)])),
        (
            Lost(OWN),
            after(&first, &[E::Confirmed(Term::FIRST), E::Settled, E::OwnWatched(true), E::OwnTouched]),
        ),
        (Releasing(OWN), after(&first, &[E::Confirmed(Term::FIRST), E::Release])),
        (ReleaseUnknown(OWN), after(&first, &[E::Confirmed(Term::FIRST), E::Release, E::Unanswered])),
        (EnteringInVain, vec![begin.clone(), E::GiveUp]),
        (RecoveringInVain, vec![begin, E::Unanswered, E::GiveUp]),
        (Leaving(OWN, End::GivenUp), after(&behind_another, &[E::GiveUp])),
        (LeaveUnknown(OWN, End::GivenUp), after(&behind_another, &[E::GiveUp, E::Unanswered])),
        (Ended, vec![E::GiveUp]),
    ]
}

/// Each event, in each form that a machine can tell from the others.
pub(super) fn events() -> Vec<Event> {
    vec![
        E::Begin(Look::List),
        E::Begin(Look::Count),
        entered(Sight::Children(alone())),
        entered(Sight::Children(second())),
        entered(Sight::Children(behind())),
        entered(Sight::Children(missing())),
        entered(Sight::Count(1)),
        entered(Sight::Count(2)),
        entered(Sight::Count(3)),
        entered(Sight::Foreign(stranger())),
        entered(Sight::Nothing),
        E::NoDirectory,
        E::DirectoryReady,
        E::Withheld,
        E::Recovered(Some(OWN)),
        E::Recovered(None),
        E::Listed(alone()),
        E::Listed(second()),
        E::Listed(behind()),
        E::Listed(missing()),
        E::Foreign(stranger()),
        E::PredecessorWatched(true),
        E::PredecessorWatched(false),
        E::Delayed,
        E::Confirmed(Term::FIRST),
        E::Deleted,
        E::Released(true),
        E::Released(false),
        E::OwnWatched(true),
        E::OwnWatched(false),
        E::Refused(REFUSAL),
        E::Unanswered,
        E::PredecessorReleased,
        E::PredecessorDeleted,
        E::WatchLost,
        E::OwnTouched,
        E::Settled,
        E::Release,
        E::GiveUp,
        E::Forfeit,
        E::SessionOver(SessionEnd::Expired),
    ]
}

/// All that an exclusive contender among such, which waits, with a takeover delay, ever does, except at the end of its
/// session.
fn transitions() -> Vec<Row> {
    let refused = || Some(C::End(End::Refused(REFUSAL)));
    let given_up = || Some(C::End(End::GivenUp));
    let node_deleted = || Some(C::End(End::NodeDeleted));
    let leaving = |end: End| Leaving(OWN, end);
    let mut rows = vec![
        (Idle, E::Begin(Look::List), Entering(Look::List), Some(C::Together(T::Enter(Look::List)))),
        (Idle, E::Begin(Look::Count), Entering(Look::Count), Some(C::Together(T::Enter(Look::Count)))),
        (Idle, E::GiveUp, Ended, given_up()),
    ];
    for look in [Look::List, Look::Count] {
        let entering = || Entering(look);
        rows.extend([
            (entering(), entered(Sight::Children(alone())), Confirming(OWN), Some(C::Together(T::Confirm))),
            (entering(), entered(Sight::Children(behind())), Watching(OWN, next(SEEN), New), watch_for(SEEN)),
            (
                entering(),
                entered(Sight::Children(second())),
                Watching(OWN, only(LOWEST), New),
                watch_for(LOWEST),
            ),
            (entering(), entered(Sight::Children(missing())), Ended, node_deleted()),
            (entering(), entered(Sight::Count(1)), Confirming(OWN), Some(C::Together(T::Confirm))),
            (entering(), entered(Sight::Count(2)), Looking(OWN, New, vec![]), Some(C::Alone(A::List))),
            (
                entering(),
                entered(Sight::Count(3)),
                Watching(OWN, next(NEXT_LOWER), New),
                watch_for(NEXT_LOWER),
            ),
            (
                entering(),
                entered(Sight::Foreign(stranger())),
                leaving(End::Foreign(stranger())),
                Some(C::Alone(A::Delete(OWN))),
            ),
            (entering(), entered(Sight::Nothing), Looking(OWN, Queued, vec![]), Some(C::Alone(A::List))),
            (entering(), E::NoDirectory, CreatingDirectory(look), Some(C::Together(T::CreateDirectory))),
            (entering(), E::Unanswered, Recovering, Some(C::Alone(A::Find))),
            (entering(), E::Refused(REFUSAL), Ended, refused()),
            (entering(), E::Foreign(stranger()), Ended, Some(C::End(End::Foreign(stranger())))),
            (entering(), E::GiveUp, EnteringInVain, None),
            (entering(), E::Withheld, Ended, given_up()),
        ]);
    }
    let creating = || CreatingDirectory(Look::List);
    rows.extend([
        (creating(), E::DirectoryReady, Entering(Look::List), Some(C::Together(T::Enter(Look::List)))),
        (creating(), E::Unanswered, creating(), Some(C::Together(T::CreateDirectory))),
        (creating(), E::Refused(REFUSAL), Ended, refused()),
        (creating(), E::GiveUp, Ended, given_up()),
        (creating(), E::Withheld, Ended, given_up()),
        //
        (Recovering, E::Recovered(Some(OWN)), Looking(OWN, Queued, vec![]), Some(C::Alone(A::List))),
        (Recovering, E::Recovered(None), Entering(Look::Count), Some(C::Together(T::Enter(Look::Count)))),
        (Recovering, E::Unanswered, Recovering, Some(C::Alone(A::Find))),
        (Recovering, E::Refused(REFUSAL), Recovering, Some(C::EndSession(REFUSAL))),
        (Recovering, E::GiveUp, RecoveringInVain, None),
        //
        (Looking(OWN, New, vec![]), E::Listed(alone()), Confirming(OWN), Some(C::Together(T::Confirm))),
        (Looking(OWN, Queued, vec![]), E::Listed(alone()), Delaying(OWN), Some(C::Alone(A::Delay))),
        //
        (Delaying(OWN), E::Delayed, Confirming(OWN), Some(C::Together(T::Confirm))),
        (Delaying(OWN), E::GiveUp, leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
        //
        (Confirming(OWN), E::Confirmed(Term::FIRST), Held(OWN), Some(C::Grant(OWN, Term::FIRST))),
        (Confirming(OWN), E::Unanswered, Confirming(OWN), Some(C::Together(T::Confirm))),
        (Confirming(OWN), E::Withheld, Confirming(OWN), Some(C::Together(T::Confirm))),
        (Confirming(OWN), E::OwnTouched, Ended, node_deleted()),
        (
            Confirming(OWN),
            E::Refused(REFUSAL),
            leaving(End::Refused(REFUSAL)),
            Some(C::Alone(A::Delete(OWN))),
        ),
        (Confirming(OWN), E::GiveUp, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        //
        (Held(OWN), E::Settled, Guarding(OWN), Some(C::Alone(A::WatchOwn(OWN)))),
        (Held(OWN), E::Release, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (Held(OWN), E::GiveUp, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (Held(OWN), E::Forfeit, leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
        //
        (Guarding(OWN), E::OwnWatched(true), Guarded(OWN), None),
        (Guarding(OWN), E::OwnWatched(false), Lost(OWN), Some(C::Lose)),
        (Guarding(OWN), E::Unanswered, Guarding(OWN), Some(C::Alone(A::WatchOwn(OWN)))),
        (Guarding(OWN), E::Refused(REFUSAL), Guarded(OWN), None),
        (Guarding(OWN), E::Release, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (Guarding(OWN), E::GiveUp, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (Guarding(OWN), E::Forfeit, leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
        //
        (Guarded(OWN), E::OwnTouched, Lost(OWN), Some(C::Lose)),
        (Guarded(OWN), E::WatchLost, Guarding(OWN), Some(C::Alone(A::WatchOwn(OWN)))),
        (Guarded(OWN), E::Release, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (Guarded(OWN), E::GiveUp, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (Guarded(OWN), E::Forfeit, leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
        //
        (Lost(OWN), E::Release, LeaveUnknown(OWN, End::NodeDeleted), Some(C::Alone(A::Recover(OWN)))),
        (Lost(OWN), E::GiveUp, LeaveUnknown(OWN, End::NodeDeleted), Some(C::Alone(A::Recover(OWN)))),
        (Lost(OWN), E::Forfeit, LeaveUnknown(OWN, End::NodeDeleted), Some(C::Alone(A::Recover(OWN)))),
        //
        (Releasing(OWN), E::Released(true), Ended, Some(C::End(End::Released))),
        (Releasing(OWN), E::Released(false), Ended, node_deleted()),
        (Releasing(OWN), E::Unanswered, ReleaseUnknown(OWN), Some(C::Alone(A::Recover(OWN)))),
        // It had no effect because of another member, so we do it alone.
        (Releasing(OWN), E::Withheld, Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (Releasing(OWN), E::Refused(REFUSAL), leaving(End::Released), Some(C::Alone(A::Delete(OWN)))),
        //
        (ReleaseUnknown(OWN), E::Recovered(Some(OWN)), Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
        (ReleaseUnknown(OWN), E::Recovered(None), Ended, Some(C::End(End::Released))),
        (ReleaseUnknown(OWN), E::Unanswered, ReleaseUnknown(OWN), Some(C::Alone(A::Recover(OWN)))),
        (ReleaseUnknown(OWN), E::Refused(REFUSAL), ReleaseUnknown(OWN), Some(C::EndSession(REFUSAL))),
    ]);
    for predecessor in [SEEN, LOWEST] {
        rows.extend([
            (
                Waiting(OWN, next(predecessor), Queued),
                E::PredecessorReleased,
                Confirming(OWN),
                Some(C::Together(T::Confirm)),
            ),
            (
                Waiting(OWN, next(predecessor), Queued),
                E::PredecessorDeleted,
                Looking(OWN, Queued, vec![]),
                Some(C::Alone(A::List)),
            ),
            (
                Waiting(OWN, next(predecessor), Queued),
                E::WatchLost,
                Watching(OWN, next(predecessor), Queued),
                watch_for(predecessor),
            ),
            (
                Waiting(OWN, next(predecessor), Queued),
                E::GiveUp,
                leaving(End::GivenUp),
                Some(C::Alone(A::Delete(OWN))),
            ),
        ]);
    }
    for arrival in [New, Queued] {
        let (looking, watching) = (|| Looking(OWN, arrival, vec![]), || Watching(OWN, next(SEEN), arrival));
        rows.extend([
            (looking(), E::Listed(second()), Watching(OWN, only(LOWEST), arrival), watch_for(LOWEST)),
            (looking(), E::Listed(behind()), watching(), watch_for(SEEN)),
            (looking(), E::Listed(missing()), Ended, node_deleted()),
            (
                looking(),
                E::Foreign(stranger()),
                leaving(End::Foreign(stranger())),
                Some(C::Alone(A::Delete(OWN))),
            ),
            (looking(), E::NoDirectory, Ended, node_deleted()),
            (looking(), E::Unanswered, Looking(OWN, Queued, vec![]), Some(C::Alone(A::List))),
            (looking(), E::Refused(REFUSAL), leaving(End::Refused(REFUSAL)), Some(C::Alone(A::Delete(OWN)))),
            (looking(), E::GiveUp, leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
        ]);
        for ahead in [next(SEEN), only(LOWEST)] {
            let nearest = ahead.nearest;
            let watching = || Watching(OWN, ahead.clone(), arrival);
            rows.extend([
                // The release of a writer settles everything, so a waiter need not remember more.
                (watching(), E::PredecessorWatched(true), Waiting(OWN, next(nearest), Queued), None),
                (
                    watching(),
                    E::Foreign(stranger()),
                    leaving(End::Foreign(stranger())),
                    Some(C::Alone(A::Delete(OWN))),
                ),
                (watching(), E::OwnTouched, Ended, node_deleted()),
                (watching(), E::Unanswered, Watching(OWN, ahead.clone(), Queued), watch_for(nearest)),
                (
                    watching(),
                    E::Refused(REFUSAL),
                    leaving(End::Refused(REFUSAL)),
                    Some(C::Alone(A::Delete(OWN))),
                ),
                (watching(), E::GiveUp, leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
            ]);
        }
        rows.extend([(watching(), E::PredecessorWatched(false), looking(), Some(C::Alone(A::List)))]);
    }
    for listed in [alone(), second(), behind(), missing()] {
        let sight = Sight::Children(listed);
        rows.push((EnteringInVain, entered(sight), leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))));
    }
    for sight in
        [Sight::Foreign(stranger()), Sight::Count(1), Sight::Count(2), Sight::Count(3), Sight::Nothing]
    {
        rows.push((EnteringInVain, entered(sight), leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))));
    }
    rows.extend([
        // Nobody lower is left: somebody who has waited may have seen a holder vanish.
        (
            Watching(OWN, only(LOWEST), New),
            E::PredecessorWatched(false),
            Confirming(OWN),
            Some(C::Together(T::Confirm)),
        ),
        (
            Watching(OWN, only(LOWEST), Queued),
            E::PredecessorWatched(false),
            Delaying(OWN),
            Some(C::Alone(A::Delay)),
        ),
    ]);
    let unknown = || LeaveUnknown(OWN, End::GivenUp);
    rows.extend([
        (EnteringInVain, E::NoDirectory, Ended, given_up()),
        (EnteringInVain, E::Unanswered, RecoveringInVain, Some(C::Alone(A::Find))),
        (EnteringInVain, E::Refused(REFUSAL), Ended, given_up()),
        (EnteringInVain, E::Foreign(stranger()), Ended, given_up()),
        (EnteringInVain, E::Withheld, Ended, given_up()),
        //
        (RecoveringInVain, E::Recovered(Some(OWN)), leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
        (RecoveringInVain, E::Recovered(None), Ended, given_up()),
        (RecoveringInVain, E::Unanswered, RecoveringInVain, Some(C::Alone(A::Find))),
        (RecoveringInVain, E::Refused(REFUSAL), RecoveringInVain, Some(C::EndSession(REFUSAL))),
        //
        (leaving(End::GivenUp), E::Deleted, Ended, given_up()),
        (leaving(End::GivenUp), E::Unanswered, unknown(), Some(C::Alone(A::Recover(OWN)))),
        (leaving(End::GivenUp), E::Refused(REFUSAL), Ended, refused()),
        //
        (unknown(), E::Recovered(Some(OWN)), leaving(End::GivenUp), Some(C::Alone(A::Delete(OWN)))),
        (unknown(), E::Recovered(None), Ended, given_up()),
        (unknown(), E::Unanswered, unknown(), Some(C::Alone(A::Recover(OWN)))),
        (unknown(), E::Refused(REFUSAL), unknown(), Some(C::EndSession(REFUSAL))),
    ]);
    rows
}

#[test]
fn a_contender_knows_its_node_once_it_was_told_of_it() {
    for (state, path) in paths() {
        let (machine, _) = run(Patience::Wait, &path);
        let knows_own = !matches!(
            state,
            Idle | Entering(_)
                | CreatingDirectory(_)
                | Recovering
                | EnteringInVain
                | RecoveringInVain
                | Ended
        );
        assert_eq!(machine.own(), knows_own.then_some(OWN), "{state:?}");
        assert_eq!(machine.is_ended(), state == Ended, "{state:?}");
    }
}

#[test]
fn every_transition_is_in_the_table_and_nothing_else_does_anything() {
    let mut rows = transitions();
    let over = E::SessionOver(SessionEnd::Expired);
    let end = || Some(C::End(End::SessionOver(SessionEnd::Expired)));
    let living = paths().into_iter().filter(|(state, _)| *state != Ended);
    rows.extend(living.map(|(state, _)| (state, over.clone(), Ended, end())));
    check(&paths(), &events(), &rows);
}

/// The two lists above are complete: a new variant does not compile until it is counted here.
#[test]
fn all_states_and_events_are_listed() {
    let state_kinds = |state: &State| match state {
        // `Admitted` has a test of its own: no event leads there.
        Idle | Admitted(_) | Entering(_) | CreatingDirectory(_) | Recovering | Looking(..) | Watching(..)
        | Waiting(..) | Delaying(_) | Confirming(_) | Held(_) | Guarding(_) | Guarded(_) | Lost(_)
        | Releasing(_) | ReleaseUnknown(_) | EnteringInVain | RecoveringInVain | Leaving(..)
        | LeaveUnknown(..) | Ended => 20,
    };
    let event_kinds = |event: &Event| match event {
        E::Begin(_)
        | E::Entered { .. }
        | E::NoDirectory
        | E::DirectoryReady
        | E::Withheld
        | E::Recovered(_)
        | E::Listed(_)
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
        | E::Settled
        | E::Release
        | E::GiveUp
        | E::Forfeit
        | E::SessionOver(_) => 25,
    };
    let states = paths().into_iter().map(|(state, _)| state).collect::<Vec<_>>();
    let mut kinds = states.iter().map(discriminant).collect::<Vec<_>>();
    kinds.dedup();
    assert_eq!(kinds.len(), state_kinds(&states[0]));
    let events = events();
    let mut kinds = events.iter().map(discriminant).collect::<Vec<_>>();
    kinds.dedup();
    assert_eq!(kinds.len(), event_kinds(&events[0]));
}

/// A transaction has created and granted the node, so only the lease is left to be confirmed.
#[test]
fn an_admitted_contender_asks_for_confirmation_only() {
    let machine = Machine::of_admitted(OWN);
    assert_eq!(machine.own(), Some(OWN));
    for event in events() {
        let mut machine = machine.clone();
        let command = machine.handle(event.clone());
        let (state, expected) = match event {
            E::Begin(_) => (Confirming(OWN), Some(C::Together(T::Confirm))),
            E::GiveUp => (Releasing(OWN), Some(C::Alone(A::Release(OWN)))),
            E::SessionOver(end) => (Ended, Some(C::End(End::SessionOver(end)))),
            _ => (Admitted(OWN), None),
        };
        assert_eq!((&machine.state, &command), (&state, &expected), "{event:?}");
    }
}
