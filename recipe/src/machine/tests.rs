//! Every transition: which events lead to a state, what the next one does there, and that nothing else does anything.

use std::mem::discriminant;

use super::Arrival::*;
use super::State::*;
use super::{Command as C, Event as E, *};
use crate::contender::LAST_SEQUENCE;
use crate::event::{Refusal, SessionEnd};
use crate::foreign::{Foreign, ForeignClient};

const LOWEST: Sequence = Sequence(4);
const SEEN: Sequence = Sequence(5);
const NEXT_LOWER: Sequence = Sequence(6);
const OWN: Own = Own { sequence: Sequence(7), czxid: 70 };
const REFUSAL: Refusal = Refusal::NotAuthorized;

/// One row: in this state, on this event, the next state and the command.
type Row = (State, Event, State, Option<Command>);

fn children(sequences: &[i32]) -> Vec<String> {
    sequences.iter().map(|sequence| Sequence(*sequence).name()).collect()
}

fn alone() -> Vec<String> {
    children(&[7])
}

fn behind() -> Vec<String> {
    children(&[9, 4, 7, 5])
}

fn second() -> Vec<String> {
    children(&[9, 4, 7])
}

fn missing() -> Vec<String> {
    children(&[4, 9])
}

fn stranger() -> Foreign {
    Foreign { name: "x-1-0000000003".to_owned(), client: ForeignClient::WriteLock, session: Some(1) }
}

fn entered(sight: Sight) -> Event {
    E::Entered { own: OWN, sight }
}

/// Each state, with the events that lead there.
fn paths() -> Vec<(State, Vec<Event>)> {
    let begin = E::Begin(Look::List);
    let behind_another = vec![begin.clone(), entered(Sight::Children(behind()))];
    let first = vec![begin.clone(), entered(Sight::Count(1))];
    let after = |path: &[Event], events: &[Event]| [path, events].concat();
    let waiting = after(&behind_another, &[E::PredecessorWatched(true)]);
    vec![
        (Idle, vec![]),
        (Entering(Look::List), vec![begin.clone()]),
        (Entering(Look::Count), vec![E::Begin(Look::Count)]),
        (CreatingDirectory(Look::List), vec![begin.clone(), E::NoDirectory]),
        (Recovering, vec![begin.clone(), E::Unanswered]),
        (Looking(OWN, New), after(&behind_another, &[E::PredecessorWatched(false)])),
        (Looking(OWN, Queued), vec![begin.clone(), entered(Sight::Nothing)]),
        (Watching(OWN, SEEN, New), behind_another.clone()),
        (Watching(OWN, SEEN, Queued), after(&waiting, &[E::PredecessorDeleted, E::Listed(behind())])),
        (WatchingFirst(OWN, LOWEST, New), vec![begin.clone(), entered(Sight::Children(second()))]),
        (WatchingFirst(OWN, LOWEST, Queued), after(&waiting, &[E::PredecessorDeleted, E::Listed(second())])),
        (Waiting(OWN, SEEN), waiting.clone()),
        (
            Waiting(OWN, LOWEST),
            vec![begin.clone(), entered(Sight::Children(second())), E::PredecessorWatched(true)],
        ),
        (Delaying(OWN), after(&waiting, &[E::PredecessorDeleted, E::Listed(alone())])),
        (Confirming(OWN), first.clone()),
        (Held(OWN), after(&first, &[E::Confirmed])),
        (Guarding(OWN), after(&first, &[E::Confirmed, E::Settled])),
        (Guarded(OWN), after(&first, &[E::Confirmed, E::Settled, E::OwnWatched(true)])),
        (Lost(OWN), after(&first, &[E::Confirmed, E::Settled, E::OwnWatched(true), E::OwnTouched])),
        (Releasing(OWN), after(&first, &[E::Confirmed, E::Release])),
        (ReleaseUnknown(OWN), after(&first, &[E::Confirmed, E::Release, E::Unanswered])),
        (EnteringInVain, vec![begin.clone(), E::GiveUp]),
        (RecoveringInVain, vec![begin, E::Unanswered, E::GiveUp]),
        (Leaving(OWN, End::GivenUp), after(&behind_another, &[E::GiveUp])),
        (LeaveUnknown(OWN, End::GivenUp), after(&behind_another, &[E::GiveUp, E::Unanswered])),
        (Ended, vec![E::GiveUp]),
    ]
}

/// Each event, in each form that a machine can tell from the others.
fn events() -> Vec<Event> {
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
        E::Confirmed,
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

/// All that a machine which waits, with a takeover delay, ever does, but for the end of its session.
fn transitions() -> Vec<Row> {
    let own = OWN.sequence;
    let refused = || Some(C::End(End::Refused(REFUSAL)));
    let given_up = || Some(C::End(End::GivenUp));
    let node_deleted = || Some(C::End(End::NodeDeleted));
    let leaving = |end: End| Leaving(OWN, end);
    let mut rows = vec![
        (Idle, E::Begin(Look::List), Entering(Look::List), Some(C::Enter(Look::List))),
        (Idle, E::Begin(Look::Count), Entering(Look::Count), Some(C::Enter(Look::Count))),
        (Idle, E::GiveUp, Ended, given_up()),
    ];
    for look in [Look::List, Look::Count] {
        let entering = || Entering(look);
        rows.extend([
            (entering(), entered(Sight::Children(alone())), Confirming(OWN), Some(C::Confirm)),
            (
                entering(),
                entered(Sight::Children(behind())),
                Watching(OWN, SEEN, New),
                Some(C::WatchPredecessor(SEEN)),
            ),
            (
                entering(),
                entered(Sight::Children(second())),
                WatchingFirst(OWN, LOWEST, New),
                Some(C::WatchPredecessor(LOWEST)),
            ),
            (entering(), entered(Sight::Children(missing())), Ended, node_deleted()),
            (entering(), entered(Sight::Count(1)), Confirming(OWN), Some(C::Confirm)),
            (entering(), entered(Sight::Count(2)), Looking(OWN, New), Some(C::List)),
            (
                entering(),
                entered(Sight::Count(3)),
                Watching(OWN, NEXT_LOWER, New),
                Some(C::WatchPredecessor(NEXT_LOWER)),
            ),
            (
                entering(),
                entered(Sight::Foreign(stranger())),
                leaving(End::Foreign(stranger())),
                Some(C::Delete(own)),
            ),
            (entering(), entered(Sight::Nothing), Looking(OWN, Queued), Some(C::List)),
            (entering(), E::NoDirectory, CreatingDirectory(look), Some(C::CreateDirectory)),
            (entering(), E::Unanswered, Recovering, Some(C::Recover)),
            (entering(), E::Refused(REFUSAL), Ended, refused()),
            (entering(), E::GiveUp, EnteringInVain, None),
        ]);
    }
    let creating = || CreatingDirectory(Look::List);
    rows.extend([
        (creating(), E::DirectoryReady, Entering(Look::List), Some(C::Enter(Look::List))),
        (creating(), E::Unanswered, creating(), Some(C::CreateDirectory)),
        (creating(), E::Refused(REFUSAL), Ended, refused()),
        (creating(), E::GiveUp, Ended, given_up()),
        //
        (Recovering, E::Recovered(Some(OWN)), Looking(OWN, Queued), Some(C::List)),
        (Recovering, E::Recovered(None), Entering(Look::Count), Some(C::Enter(Look::Count))),
        (Recovering, E::Unanswered, Recovering, Some(C::Recover)),
        (Recovering, E::Refused(REFUSAL), Ended, refused()),
        (Recovering, E::GiveUp, RecoveringInVain, None),
        //
        (Looking(OWN, New), E::Listed(alone()), Confirming(OWN), Some(C::Confirm)),
        (Looking(OWN, Queued), E::Listed(alone()), Delaying(OWN), Some(C::Delay)),
        //
        (Delaying(OWN), E::Delayed, Confirming(OWN), Some(C::Confirm)),
        (Delaying(OWN), E::GiveUp, leaving(End::GivenUp), Some(C::Delete(own))),
        //
        (Confirming(OWN), E::Confirmed, Held(OWN), Some(C::Grant(OWN))),
        (Confirming(OWN), E::Unanswered, Confirming(OWN), Some(C::Confirm)),
        (Confirming(OWN), E::OwnTouched, Ended, node_deleted()),
        (Confirming(OWN), E::Refused(REFUSAL), leaving(End::Refused(REFUSAL)), Some(C::Delete(own))),
        (Confirming(OWN), E::GiveUp, Releasing(OWN), Some(C::Release(own))),
        //
        (Held(OWN), E::Settled, Guarding(OWN), Some(C::WatchOwn(own))),
        (Held(OWN), E::Release, Releasing(OWN), Some(C::Release(own))),
        (Held(OWN), E::GiveUp, Releasing(OWN), Some(C::Release(own))),
        (Held(OWN), E::Forfeit, leaving(End::GivenUp), Some(C::Delete(own))),
        //
        (Guarding(OWN), E::OwnWatched(true), Guarded(OWN), None),
        (Guarding(OWN), E::OwnWatched(false), Lost(OWN), Some(C::Lose)),
        (Guarding(OWN), E::Unanswered, Guarding(OWN), Some(C::WatchOwn(own))),
        (Guarding(OWN), E::Refused(REFUSAL), Guarded(OWN), None),
        (Guarding(OWN), E::Release, Releasing(OWN), Some(C::Release(own))),
        (Guarding(OWN), E::GiveUp, Releasing(OWN), Some(C::Release(own))),
        (Guarding(OWN), E::Forfeit, leaving(End::GivenUp), Some(C::Delete(own))),
        //
        (Guarded(OWN), E::OwnTouched, Lost(OWN), Some(C::Lose)),
        (Guarded(OWN), E::WatchLost, Guarding(OWN), Some(C::WatchOwn(own))),
        (Guarded(OWN), E::Release, Releasing(OWN), Some(C::Release(own))),
        (Guarded(OWN), E::GiveUp, Releasing(OWN), Some(C::Release(own))),
        (Guarded(OWN), E::Forfeit, leaving(End::GivenUp), Some(C::Delete(own))),
        //
        (Lost(OWN), E::Release, LeaveUnknown(OWN, End::NodeDeleted), Some(C::Recover)),
        (Lost(OWN), E::GiveUp, LeaveUnknown(OWN, End::NodeDeleted), Some(C::Recover)),
        (Lost(OWN), E::Forfeit, LeaveUnknown(OWN, End::NodeDeleted), Some(C::Recover)),
        //
        (Releasing(OWN), E::Released(true), Ended, Some(C::End(End::Released))),
        (Releasing(OWN), E::Released(false), Ended, node_deleted()),
        (Releasing(OWN), E::Unanswered, ReleaseUnknown(OWN), Some(C::Recover)),
        (Releasing(OWN), E::Refused(REFUSAL), leaving(End::Released), Some(C::Delete(own))),
        //
        (ReleaseUnknown(OWN), E::Recovered(Some(OWN)), Releasing(OWN), Some(C::Release(own))),
        (ReleaseUnknown(OWN), E::Recovered(None), Ended, Some(C::End(End::Released))),
        (ReleaseUnknown(OWN), E::Unanswered, ReleaseUnknown(OWN), Some(C::Recover)),
        (ReleaseUnknown(OWN), E::Refused(REFUSAL), Ended, refused()),
    ]);
    for predecessor in [SEEN, LOWEST] {
        rows.extend([
            (Waiting(OWN, predecessor), E::PredecessorReleased, Confirming(OWN), Some(C::Confirm)),
            (Waiting(OWN, predecessor), E::PredecessorDeleted, Looking(OWN, Queued), Some(C::List)),
            (
                Waiting(OWN, predecessor),
                E::WatchLost,
                Watching(OWN, predecessor, Queued),
                Some(C::WatchPredecessor(predecessor)),
            ),
            (Waiting(OWN, predecessor), E::GiveUp, leaving(End::GivenUp), Some(C::Delete(own))),
        ]);
    }
    for arrival in [New, Queued] {
        let (looking, watching) = (|| Looking(OWN, arrival), || Watching(OWN, SEEN, arrival));
        rows.extend([
            (
                looking(),
                E::Listed(second()),
                WatchingFirst(OWN, LOWEST, arrival),
                Some(C::WatchPredecessor(LOWEST)),
            ),
            (looking(), E::Listed(behind()), watching(), Some(C::WatchPredecessor(SEEN))),
            (looking(), E::Listed(missing()), Ended, node_deleted()),
            (looking(), E::Foreign(stranger()), leaving(End::Foreign(stranger())), Some(C::Delete(own))),
            (looking(), E::NoDirectory, Ended, node_deleted()),
            (looking(), E::Unanswered, Looking(OWN, Queued), Some(C::List)),
            (looking(), E::Refused(REFUSAL), leaving(End::Refused(REFUSAL)), Some(C::Delete(own))),
            (looking(), E::GiveUp, leaving(End::GivenUp), Some(C::Delete(own))),
        ]);
        for (watching, predecessor) in
            [(Watching(OWN, SEEN, arrival), SEEN), (WatchingFirst(OWN, LOWEST, arrival), LOWEST)]
        {
            let watching = || watching.clone();
            rows.extend([
                (watching(), E::PredecessorWatched(true), Waiting(OWN, predecessor), None),
                (watching(), E::Foreign(stranger()), leaving(End::Foreign(stranger())), Some(C::Delete(own))),
                (watching(), E::OwnTouched, Ended, node_deleted()),
                (
                    watching(),
                    E::Unanswered,
                    Watching(OWN, predecessor, Queued),
                    Some(C::WatchPredecessor(predecessor)),
                ),
                (watching(), E::Refused(REFUSAL), leaving(End::Refused(REFUSAL)), Some(C::Delete(own))),
                (watching(), E::GiveUp, leaving(End::GivenUp), Some(C::Delete(own))),
            ]);
        }
        rows.extend([(watching(), E::PredecessorWatched(false), looking(), Some(C::List))]);
    }
    for listed in [alone(), second(), behind(), missing()] {
        let sight = Sight::Children(listed);
        rows.push((EnteringInVain, entered(sight), leaving(End::GivenUp), Some(C::Delete(own))));
    }
    for sight in
        [Sight::Foreign(stranger()), Sight::Count(1), Sight::Count(2), Sight::Count(3), Sight::Nothing]
    {
        rows.push((EnteringInVain, entered(sight), leaving(End::GivenUp), Some(C::Delete(own))));
    }
    rows.extend([
        // Nobody lower is left: somebody who has waited may have seen a holder vanish.
        (WatchingFirst(OWN, LOWEST, New), E::PredecessorWatched(false), Confirming(OWN), Some(C::Confirm)),
        (WatchingFirst(OWN, LOWEST, Queued), E::PredecessorWatched(false), Delaying(OWN), Some(C::Delay)),
    ]);
    let unknown = || LeaveUnknown(OWN, End::GivenUp);
    rows.extend([
        (EnteringInVain, E::NoDirectory, Ended, given_up()),
        (EnteringInVain, E::Unanswered, RecoveringInVain, Some(C::Recover)),
        (EnteringInVain, E::Refused(REFUSAL), Ended, given_up()),
        //
        (RecoveringInVain, E::Recovered(Some(OWN)), leaving(End::GivenUp), Some(C::Delete(own))),
        (RecoveringInVain, E::Recovered(None), Ended, given_up()),
        (RecoveringInVain, E::Unanswered, RecoveringInVain, Some(C::Recover)),
        (RecoveringInVain, E::Refused(REFUSAL), Ended, given_up()),
        //
        (leaving(End::GivenUp), E::Deleted, Ended, given_up()),
        (leaving(End::GivenUp), E::Unanswered, unknown(), Some(C::Recover)),
        (leaving(End::GivenUp), E::Refused(REFUSAL), Ended, refused()),
        //
        (unknown(), E::Recovered(Some(OWN)), leaving(End::GivenUp), Some(C::Delete(own))),
        (unknown(), E::Recovered(None), Ended, given_up()),
        (unknown(), E::Unanswered, unknown(), Some(C::Recover)),
        (unknown(), E::Refused(REFUSAL), Ended, refused()),
    ]);
    rows
}

fn run(patience: Patience, events: &[Event]) -> (Machine, Option<Command>) {
    let mut machine = Machine::new(patience, Takeover::Delayed, New);
    let command = events.iter().fold(None, |_, event| machine.handle(event.clone()));
    (machine, command)
}

/// The commands that these events lead to, one after the other.
fn commands(patience: Patience, events: &[Event]) -> Vec<Command> {
    let mut machine = Machine::new(patience, Takeover::Delayed, New);
    events.iter().filter_map(|event| machine.handle(event.clone())).collect()
}

#[test]
fn every_state_is_reached_by_its_events() {
    for (state, path) in paths() {
        let (machine, _) = run(Patience::Wait, &path);
        assert_eq!(machine.state, state);
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
    rows.extend(
        paths()
            .into_iter()
            .filter(|(state, _)| *state != Ended)
            .map(|(state, _)| (state, over.clone(), Ended, end())),
    );
    let mut used = 0;
    for (state, path) in paths() {
        for event in events() {
            let (mut machine, _) = run(Patience::Wait, &path);
            let before = machine.clone();
            let command = machine.handle(event.clone());
            match rows.iter().find(|(from, on, ..)| (from, on) == (&state, &event)) {
                Some((_, _, to, expected)) => {
                    used += 1;
                    assert_eq!((&machine.state, &command), (to, expected), "{state:?} on {event:?}");
                }
                None => assert_eq!((machine, command), (before, None), "{state:?} on {event:?}"),
            }
        }
    }
    assert_eq!(used, rows.len(), "a row twice, or one for a state or event that is not listed");
}

/// The two lists above are complete: a new variant does not compile until it is counted here.
#[test]
fn all_states_and_events_are_listed() {
    let state_kinds = |state: &State| match state {
        Idle | Entering(_) | CreatingDirectory(_) | Recovering | Looking(..) | Watching(..)
        | WatchingFirst(..) | Waiting(..) | Delaying(_) | Confirming(_) | Held(_) | Guarding(_)
        | Guarded(_) | Lost(_) | Releasing(_) | ReleaseUnknown(_) | EnteringInVain | RecoveringInVain
        | Leaving(..) | LeaveUnknown(..) | Ended => 21,
    };
    let event_kinds = |event: &Event| match event {
        E::Begin(_)
        | E::Entered { .. }
        | E::NoDirectory
        | E::DirectoryReady
        | E::Recovered(_)
        | E::Listed(_)
        | E::Foreign(_)
        | E::PredecessorWatched(_)
        | E::Delayed
        | E::Confirmed
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
        | E::SessionOver(_) => 24,
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

#[test]
fn the_end_of_the_session_is_told_as_it_was() {
    for end in [SessionEnd::Expired, SessionEnd::Closed, SessionEnd::AuthFailed] {
        let (_, command) = run(Patience::Wait, &[E::Begin(Look::List), E::SessionOver(end)]);
        assert_eq!(command, Some(C::End(End::SessionOver(end))));
    }
}

#[test]
fn trying_takes_a_free_lock_as_waiting_does() {
    for patience in [Patience::Wait, Patience::Try] {
        for sight in [Sight::Count(1), Sight::Children(alone())] {
            let events = [E::Begin(Look::List), entered(sight), E::Confirmed, E::Release, E::Released(true)];
            assert_eq!(
                commands(patience, &events),
                [
                    C::Enter(Look::List),
                    C::Confirm,
                    C::Grant(OWN),
                    C::Release(OWN.sequence),
                    C::End(End::Released)
                ],
            );
        }
    }
}

#[test]
fn trying_leaves_a_queue_with_others_in_it() {
    let left = [C::Delete(OWN.sequence), C::End(End::Busy)];
    let seen = [E::Begin(Look::List), entered(Sight::Children(behind())), E::Deleted];
    assert_eq!(commands(Patience::Try, &seen)[1..], left);
    let listed = [E::Begin(Look::Count), entered(Sight::Count(3)), E::Listed(behind()), E::Deleted];
    assert_eq!(commands(Patience::Try, &listed)[1..], [&[C::List], &left[..]].concat());
    let recovered =
        [E::Begin(Look::Count), E::Unanswered, E::Recovered(Some(OWN)), E::Listed(behind()), E::Deleted];
    assert_eq!(commands(Patience::Try, &recovered)[2..], [&[C::List], &left[..]].concat());
}

#[test]
fn trying_lists_where_waiting_would_watch_the_number_before() {
    let counted = [E::Begin(Look::Count), entered(Sight::Count(3))];
    assert_eq!(run(Patience::Wait, &counted).1, Some(C::WatchPredecessor(NEXT_LOWER)));
    assert_eq!(run(Patience::Try, &counted).1, Some(C::List));
}

/// The other one holds the lock, and its node is often gone before a watch arrives.
#[test]
fn the_second_of_two_lists() {
    for patience in [Patience::Wait, Patience::Try] {
        let counted = [E::Begin(Look::Count), entered(Sight::Count(2))];
        assert_eq!(run(patience, &counted).1, Some(C::List));
    }
}

/// Thousands of waiters of one session lose their watches at once. Each asks for one node, and none for the queue.
#[test]
fn a_lost_watch_is_set_again_without_a_listing() {
    let waiting = [E::Begin(Look::Count), entered(Sight::Count(3)), E::PredecessorWatched(true)];
    let again = [E::WatchLost, E::Unanswered, E::PredecessorWatched(true), E::WatchLost];
    let watch = C::WatchPredecessor(NEXT_LOWER);
    assert_eq!(
        commands(Patience::Wait, &[&waiting[..], &again].concat())[1..],
        [watch.clone(), watch.clone(), watch.clone(), watch]
    );
    let gone = [&waiting[..], &[E::WatchLost, E::PredecessorWatched(false)]].concat();
    assert_eq!(run(Patience::Wait, &gone).1, Some(C::List));
    // It may have vanished while nobody watched it.
    assert_eq!(run(Patience::Wait, &[&gone[..], &[E::Listed(alone())]].concat()).1, Some(C::Delay));
}

#[test]
fn a_holder_sets_a_lost_watch_again() {
    let guarded =
        [E::Begin(Look::List), entered(Sight::Count(1)), E::Confirmed, E::Settled, E::OwnWatched(true)];
    let deleted = [&guarded[..], &[E::WatchLost, E::Unanswered, E::OwnWatched(false)]].concat();
    let watch = C::WatchOwn(OWN.sequence);
    assert_eq!(commands(Patience::Wait, &deleted)[3..], [watch.clone(), watch.clone(), watch, C::Lose]);
}

#[test]
fn a_try_that_was_counted_third_can_still_be_first() {
    let events = [E::Begin(Look::Count), entered(Sight::Count(3)), E::Listed(children(&[7, 8, 9]))];
    assert_eq!(run(Patience::Try, &events).1, Some(C::Confirm));
}

#[test]
fn nobody_comes_before_number_zero() {
    let own = Own { sequence: Sequence(0), czxid: 1 };
    let counted = [E::Begin(Look::Count), E::Entered { own, sight: Sight::Count(3) }];
    assert_eq!(run(Patience::Wait, &counted).1, Some(C::List));
}

#[test]
fn the_last_numbers_are_not_used() {
    for patience in [Patience::Wait, Patience::Try] {
        for (number, refused) in [
            (LAST_SEQUENCE, false),
            (LAST_SEQUENCE + 1, true),
            (i32::MAX, true),
            (-1, true),
            (i32::MIN, true),
        ] {
            let own = Own { sequence: Sequence(number), czxid: 1 };
            let alone = Sight::Children(vec![own.sequence.name()]);
            for events in [
                vec![E::Begin(Look::List), E::Entered { own, sight: alone }, E::Deleted],
                vec![E::Begin(Look::List), E::Unanswered, E::Recovered(Some(own)), E::Deleted],
            ] {
                let commands = commands(patience, &events);
                let left = [C::Delete(own.sequence), C::End(End::Exhausted(own.sequence))];
                assert_eq!(commands.ends_with(&left), refused, "{number}: {commands:?}");
            }
        }
    }
}

#[test]
fn children_that_are_no_contenders_are_passed_over() {
    let mut foreign = ["a", "lock-", "lock-1", "lock-+000000001", "read-0000000001", "lock-٠٠٠٠٠٠٠٠٠١"]
        .map(str::to_owned)
        .to_vec();
    foreign.extend(alone());
    let seen = [E::Begin(Look::List), entered(Sight::Children(foreign.clone()))];
    assert_eq!(run(Patience::Wait, &seen).1, Some(C::Confirm));
    foreign.push(LOWEST.name());
    let listed = [E::Begin(Look::List), entered(Sight::Nothing), E::Listed(foreign)];
    assert_eq!(run(Patience::Wait, &listed).1, Some(C::WatchPredecessor(LOWEST)));
}

#[test]
fn a_directory_that_is_reaped_again_is_created_again() {
    let events = [
        E::Begin(Look::Count),
        E::NoDirectory,
        E::DirectoryReady,
        E::NoDirectory,
        E::DirectoryReady,
        entered(Sight::Count(1)),
    ];
    let (mkdir, enter) = (C::CreateDirectory, C::Enter(Look::Count));
    assert_eq!(
        commands(Patience::Wait, &events),
        [enter.clone(), mkdir.clone(), enter.clone(), mkdir, enter, C::Confirm],
    );
}

#[test]
fn a_lost_lock_is_left_by_whoever_finds_the_node_still_there() {
    let lost = [E::Begin(Look::List), entered(Sight::Count(1)), E::Confirmed, E::Settled];
    let lost = [&lost[..], &[E::OwnWatched(true), E::OwnTouched, E::GiveUp]].concat();
    let written = [&lost[..], &[E::Recovered(Some(OWN)), E::Deleted]].concat();
    assert_eq!(
        commands(Patience::Wait, &written)[4..],
        [C::Lose, C::Recover, C::Delete(OWN.sequence), C::End(End::NodeDeleted)],
    );
    let deleted = [&lost[..], &[E::Recovered(None)]].concat();
    assert_eq!(commands(Patience::Wait, &deleted)[4..], [C::Lose, C::Recover, C::End(End::NodeDeleted)]);
}

#[test]
fn a_refusal_in_the_queue_is_told_once_the_node_is_gone() {
    let events = [
        E::Begin(Look::List),
        entered(Sight::Nothing),
        E::Refused(REFUSAL),
        E::Unanswered,
        E::Recovered(Some(OWN)),
        E::Deleted,
    ];
    assert_eq!(
        commands(Patience::Wait, &events)[2..],
        [C::Delete(OWN.sequence), C::Recover, C::Delete(OWN.sequence), C::End(End::Refused(REFUSAL))],
    );
}

/// A machine without a takeover delay, or one that only tries, takes the lock wherever another one waits for the delay.
#[test]
fn only_who_waits_with_a_delay_is_delayed() {
    for (patience, takeover) in [(Patience::Wait, Takeover::AtOnce), (Patience::Try, Takeover::Delayed)] {
        let mut delays = 0;
        for (state, path) in paths() {
            for event in events() {
                let (mut delayed, _) = run(Patience::Wait, &path);
                let mut machine = Machine::new(patience, takeover, New);
                machine.state = state.clone();
                if delayed.handle(event.clone()) == Some(C::Delay) {
                    delays += 1;
                    assert_eq!(machine.handle(event.clone()), Some(C::Confirm), "{state:?} on {event:?}");
                    assert_eq!(machine.state, Confirming(OWN));
                }
            }
        }
        assert_eq!(delays, 2);
    }
}

#[test]
fn a_release_is_no_reason_for_a_delay_whoever_vanished_before() {
    let queued = [E::Begin(Look::List), entered(Sight::Children(behind())), E::PredecessorWatched(true)];
    let skipped = [E::PredecessorDeleted, E::Listed(behind()), E::PredecessorWatched(true)];
    let released = [&queued[..], &skipped, &[E::PredecessorReleased]].concat();
    assert_eq!(run(Patience::Wait, &released).1, Some(C::Confirm));
}

#[test]
fn whoever_vanished_before_we_had_anybody_to_wait_for_is_no_reason_for_a_delay() {
    let gone = [E::Begin(Look::Count), entered(Sight::Count(3)), E::PredecessorWatched(false)];
    assert_eq!(run(Patience::Wait, &[&gone[..], &[E::Listed(alone())]].concat()).1, Some(C::Confirm));
    let unseen = [&gone[..2], &[E::Unanswered, E::PredecessorWatched(false)]].concat();
    assert_eq!(run(Patience::Wait, &[&unseen[..], &[E::Listed(alone())]].concat()).1, Some(C::Delay));
}

/// It had its place in the session that ended, and somebody may have vanished since.
#[test]
fn whoever_comes_again_is_delayed_though_it_finds_nobody() {
    for sight in [Sight::Count(1), Sight::Children(alone())] {
        let mut machine = Machine::new(Patience::Wait, Takeover::Delayed, Queued);
        machine.handle(E::Begin(Look::Count));
        assert_eq!(machine.handle(entered(sight)), Some(C::Delay));
    }
    let mut machine = Machine::new(Patience::Wait, Takeover::Delayed, Queued);
    for event in [E::Begin(Look::Count), entered(Sight::Count(3)), E::PredecessorWatched(true)] {
        machine.handle(event);
    }
    assert_eq!(machine.handle(E::PredecessorReleased), Some(C::Confirm));
}
