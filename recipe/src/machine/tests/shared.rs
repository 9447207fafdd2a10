//! A reader: only lower writers block it.

use super::*;

const READER: Own = Own { place: Place::shared(7), czxid: 70 };

fn alone() -> Vec<String> {
    names(&[READER.place, Place::exclusive(9)])
}

fn beside() -> Vec<String> {
    names(&[Place::shared(5), READER.place, Place::exclusive(8)])
}

fn behind_one() -> Vec<String> {
    names(&[LOWEST, Place::shared(5), READER.place, Place::shared(6)])
}

fn behind_two() -> Vec<String> {
    names(&[Place::shared(6), SEEN, READER.place, LOWEST, Place::shared(3)])
}

fn missing() -> Vec<String> {
    names(&[LOWEST, Place::exclusive(7)])
}

/// Behind both writers.
fn both() -> Ahead {
    Ahead { nearest: SEEN, others: Others::All(vec![LOWEST.sequence]) }
}

fn joined(sight: Sight) -> Event {
    E::Entered { own: READER, sight }
}

fn paths() -> Vec<Path> {
    let begin = E::Begin(Look::List);
    let seen = |children| vec![begin.clone(), joined(Sight::Children(children))];
    let watched = [E::PredecessorWatched(true), E::WatchLost];
    let first = vec![begin.clone(), joined(Sight::Count(1))];
    let mut paths = vec![
        (Entering(Look::List), vec![begin.clone()]),
        (EnteringInVain, vec![begin.clone(), E::GiveUp]),
        (Recovering, vec![begin.clone(), E::Unanswered]),
        (Looking(READER, New, vec![]), vec![begin.clone(), joined(Sight::Count(3))]),
        (Looking(READER, Queued, vec![]), vec![begin.clone(), joined(Sight::Nothing)]),
        (Delaying(READER), seen(beside())),
        (Confirming(READER), first.clone()),
        (Held(READER), after(&first, &[E::Confirmed(Term::FIRST)])),
        (Releasing(READER), after(&first, &[E::Confirmed(Term::FIRST), E::Release])),
    ];
    for (ahead, children) in [(both(), behind_two()), (only(LOWEST), behind_one())] {
        let watching = seen(children);
        let watching_again = after(&watching, &watched);
        let waiting = after(&watching, &[E::PredecessorWatched(true)]);
        paths.extend([
            (Watching(READER, ahead.clone(), New), watching),
            (Watching(READER, ahead.clone(), Queued), watching_again),
            (Waiting(READER, ahead, Queued), waiting),
        ]);
    }
    paths
}

fn events() -> Vec<Event> {
    let listings = [alone(), beside(), behind_one(), behind_two(), missing()];
    let mut events = listings.clone().map(E::Listed).to_vec();
    events.extend(listings.map(|children| joined(Sight::Children(children))));
    let sights = [Sight::Count(1), Sight::Count(2), Sight::Count(3), Sight::Nothing];
    events.extend(sights.map(joined));
    events.extend([joined(Sight::Foreign(stranger())), E::Recovered(Some(READER))]);
    let others = |event: &Event| {
        !matches!(
            event,
            E::Listed(_) | E::Entered { .. } | E::Recovered(Some(_)) | E::Begin(_) | E::SessionOver(_)
        )
    };
    events.extend(exclusive::events().into_iter().filter(others));
    events
}

/// All that is peculiar to a reader that waits, with a takeover delay, and much of what is not.
fn transitions() -> Vec<Row> {
    let node_deleted = || Some(C::End(End::NodeDeleted));
    let given_up = || Some(C::End(End::GivenUp));
    let refused = || Some(C::End(End::Refused(REFUSAL)));
    let delete = || Some(C::Alone(A::Delete(READER)));
    let foreign = || Leaving(READER, End::Foreign(stranger()));
    let watching =
        |ahead: Ahead, arrival| (Watching(READER, ahead.clone(), arrival), watched_by(READER, ahead.nearest));
    let placed = |arrival: Arrival| {
        let alone_again = match arrival {
            New => (Confirming(READER), Some(C::Together(T::Confirm))),
            Queued => (Delaying(READER), Some(C::Alone(A::Delay))),
        };
        [
            (alone(), alone_again),
            // The reader beside us may hold the lock, or wait for the delay. Nothing shows which.
            (beside(), (Delaying(READER), Some(C::Alone(A::Delay)))),
            (behind_one(), watching(only(LOWEST), arrival)),
            (behind_two(), watching(both(), arrival)),
            (missing(), (Ended, node_deleted())),
        ]
    };
    let mut rows = vec![
        (Entering(Look::List), joined(Sight::Count(1)), Confirming(READER), Some(C::Together(T::Confirm))),
        // A reader cannot guess which number the nearest writer has.
        (
            Entering(Look::List),
            joined(Sight::Count(2)),
            Looking(READER, New, vec![]),
            Some(C::Alone(A::List)),
        ),
        (
            Entering(Look::List),
            joined(Sight::Count(3)),
            Looking(READER, New, vec![]),
            Some(C::Alone(A::List)),
        ),
        (
            Entering(Look::List),
            joined(Sight::Nothing),
            Looking(READER, Queued, vec![]),
            Some(C::Alone(A::List)),
        ),
        (Entering(Look::List), joined(Sight::Foreign(stranger())), foreign(), delete()),
        (
            Entering(Look::List),
            E::NoDirectory,
            CreatingDirectory(Look::List),
            Some(C::Together(T::CreateDirectory)),
        ),
        (Entering(Look::List), E::Unanswered, Recovering, Some(C::Alone(A::Find))),
        (Entering(Look::List), E::Refused(REFUSAL), Ended, refused()),
        (Entering(Look::List), E::Foreign(stranger()), Ended, Some(C::End(End::Foreign(stranger())))),
        (Entering(Look::List), E::Withheld, Ended, given_up()),
        (Entering(Look::List), E::GiveUp, EnteringInVain, None),
        //
        (EnteringInVain, E::NoDirectory, Ended, given_up()),
        (EnteringInVain, E::Unanswered, RecoveringInVain, Some(C::Alone(A::Find))),
        (EnteringInVain, E::Refused(REFUSAL), Ended, given_up()),
        (EnteringInVain, E::Foreign(stranger()), Ended, given_up()),
        (EnteringInVain, E::Withheld, Ended, given_up()),
        //
        (Recovering, E::Recovered(Some(READER)), Looking(READER, Queued, vec![]), Some(C::Alone(A::List))),
        (Recovering, E::Recovered(None), Entering(Look::Count), Some(C::Together(T::Enter(Look::Count)))),
        (Recovering, E::Unanswered, Recovering, Some(C::Alone(A::Find))),
        (Recovering, E::Refused(REFUSAL), Recovering, Some(C::EndSession(REFUSAL))),
        (Recovering, E::GiveUp, RecoveringInVain, None),
        //
        (Delaying(READER), E::Delayed, Confirming(READER), Some(C::Together(T::Confirm))),
        (Delaying(READER), E::GiveUp, Leaving(READER, End::GivenUp), delete()),
        //
        (Confirming(READER), E::Confirmed(Term::FIRST), Held(READER), Some(C::Grant(READER, Term::FIRST))),
        (Confirming(READER), E::Unanswered, Confirming(READER), Some(C::Together(T::Confirm))),
        (Confirming(READER), E::Withheld, Confirming(READER), Some(C::Together(T::Confirm))),
        (Confirming(READER), E::OwnTouched, Ended, node_deleted()),
        (Confirming(READER), E::Refused(REFUSAL), Leaving(READER, End::Refused(REFUSAL)), delete()),
        (Confirming(READER), E::GiveUp, Releasing(READER), Some(C::Alone(A::Release(READER)))),
        //
        (Held(READER), E::Settled, Guarding(READER), Some(C::Alone(A::WatchOwn(READER)))),
        (Held(READER), E::Release, Releasing(READER), Some(C::Alone(A::Release(READER)))),
        (Held(READER), E::GiveUp, Releasing(READER), Some(C::Alone(A::Release(READER)))),
        (Held(READER), E::Forfeit, Leaving(READER, End::GivenUp), delete()),
        //
        (Releasing(READER), E::Released(true), Ended, Some(C::End(End::Released))),
        (Releasing(READER), E::Released(false), Ended, node_deleted()),
        (Releasing(READER), E::Unanswered, ReleaseUnknown(READER), Some(C::Alone(A::Recover(READER)))),
        // It had no effect because of another member, so we do it alone.
        (Releasing(READER), E::Withheld, Releasing(READER), Some(C::Alone(A::Release(READER)))),
        (Releasing(READER), E::Refused(REFUSAL), Leaving(READER, End::Released), delete()),
    ];
    for (children, (to, command)) in placed(New) {
        let sight = Sight::Children(children.clone());
        rows.push((Entering(Look::List), joined(sight.clone()), to, command));
        rows.push((EnteringInVain, joined(sight), Leaving(READER, End::GivenUp), delete()));
    }
    let sights =
        [Sight::Count(1), Sight::Count(2), Sight::Count(3), Sight::Nothing, Sight::Foreign(stranger())];
    rows.extend(sights.map(|sight| (EnteringInVain, joined(sight), Leaving(READER, End::GivenUp), delete())));
    for arrival in [New, Queued] {
        let looking = || Looking(READER, arrival, vec![]);
        let listed =
            placed(arrival).map(|(children, (to, command))| (looking(), E::Listed(children), to, command));
        rows.extend(listed);
        rows.extend([
            (looking(), E::NoDirectory, Ended, node_deleted()),
            (looking(), E::Unanswered, Looking(READER, Queued, vec![]), Some(C::Alone(A::List))),
            (looking(), E::Foreign(stranger()), foreign(), delete()),
            (looking(), E::Refused(REFUSAL), Leaving(READER, End::Refused(REFUSAL)), delete()),
            (looking(), E::GiveUp, Leaving(READER, End::GivenUp), delete()),
        ]);
        for ahead in [both(), only(LOWEST)] {
            let (from, _) = watching(ahead.clone(), arrival);
            let (again, rewatch) = watching(ahead.clone(), Queued);
            rows.extend([
                (from.clone(), E::PredecessorWatched(true), Waiting(READER, ahead, Queued), None),
                (from.clone(), E::Unanswered, again, rewatch),
                (from.clone(), E::OwnTouched, Ended, node_deleted()),
                (from.clone(), E::Foreign(stranger()), foreign(), delete()),
                (from.clone(), E::Refused(REFUSAL), Leaving(READER, End::Refused(REFUSAL)), delete()),
                (from, E::GiveUp, Leaving(READER, End::GivenUp), delete()),
            ]);
        }
        // The next writer by a read of its own, and no listing.
        let ((from, _), (to, command)) = (watching(both(), arrival), watching(only(LOWEST), arrival));
        rows.push((from, E::PredecessorWatched(false), to, command));
        let (from, _) = watching(only(LOWEST), arrival);
        rows.push((from, E::PredecessorWatched(false), Delaying(READER), Some(C::Alone(A::Delay))));
    }
    for ahead in [both(), only(LOWEST)] {
        let waiting = || Waiting(READER, ahead.clone(), Queued);
        let (again, rewatch) = watching(ahead.clone(), Queued);
        rows.extend([
            // A writer held the lock alone, and other readers behind it do not matter.
            (waiting(), E::PredecessorReleased, Confirming(READER), Some(C::Together(T::Confirm))),
            (waiting(), E::WatchLost, again, rewatch),
            (waiting(), E::GiveUp, Leaving(READER, End::GivenUp), delete()),
        ]);
    }
    let (to, command) = watching(only(LOWEST), Queued);
    rows.extend([
        (Waiting(READER, both(), Queued), E::PredecessorDeleted, to, command),
        (
            Waiting(READER, only(LOWEST), Queued),
            E::PredecessorDeleted,
            Delaying(READER),
            Some(C::Alone(A::Delay)),
        ),
    ]);
    rows
}

#[test]
fn every_transition_of_a_reader_is_in_the_table() {
    check(&paths(), &events(), &transitions());
}

#[test]
fn readers_without_a_delay_hold_the_lock_beside_each_other() {
    let begin = E::Begin(Look::List);
    for patience in [Patience::Wait, Patience::Try] {
        let events = [begin.clone(), joined(Sight::Children(beside()))];
        assert_eq!(commands_with(Takeover::AtOnce, patience, &events)[1..], [C::Together(T::Confirm)]);
    }
    let events = [begin, joined(Sight::Children(behind_one())), E::PredecessorWatched(false)];
    assert_eq!(commands_with(Takeover::AtOnce, Patience::Wait, &events)[2..], [C::Together(T::Confirm)]);
}

/// Nothing shows whether the readers beside it hold the lock, or wait for the delay.
#[test]
fn a_reader_that_tries_with_a_delay_does_not_join_others() {
    let events = [E::Begin(Look::List), joined(Sight::Children(beside())), E::Deleted];
    assert_eq!(commands(Patience::Try, &events)[1..], [C::Alone(A::Delete(READER)), C::End(End::Busy)]);
    let behind = [E::Begin(Look::List), joined(Sight::Children(behind_one())), E::Deleted];
    for takeover in [Takeover::AtOnce, Takeover::Delayed] {
        let commands = commands_with(takeover, Patience::Try, &behind);
        assert_eq!(commands[1..], [C::Alone(A::Delete(READER)), C::End(End::Busy)]);
    }
}

/// A thousand readers behind writers that give up ask for one node each, and never for the whole queue.
#[test]
fn writers_that_give_up_cause_no_listing() {
    let children = names(&[Place::exclusive(1), Place::exclusive(2), LOWEST, SEEN, READER.place]);
    let (gone, watched) = (E::PredecessorWatched(false), E::PredecessorWatched(true));
    let events = [
        E::Begin(Look::List),
        joined(Sight::Children(children)),
        watched.clone(),
        E::PredecessorDeleted,
        watched.clone(),
        E::WatchLost,
        gone,
        watched.clone(),
        E::PredecessorDeleted,
        watched,
        E::PredecessorReleased,
    ];
    let watch = |number| C::Alone(A::WatchPredecessor(Place::exclusive(number), READER));
    let expected = [watch(5), watch(4), watch(4), watch(2), watch(1), C::Together(T::Confirm)];
    assert_eq!(commands(Patience::Wait, &events)[1..], expected);
}
