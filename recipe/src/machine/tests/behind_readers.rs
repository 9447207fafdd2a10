//! An exclusive contender behind readers: their ends settle nothing for each other.

use super::*;

const READER: Place = Place::shared(5);

/// Two readers are lower.
fn two() -> Vec<String> {
    names(&[Place::exclusive(9), READER, OWN.place, Place::shared(4)])
}

/// Of the two, the one that was watched is gone.
fn lower_left() -> Vec<String> {
    names(&[Place::shared(4), OWN.place, Place::shared(8)])
}

/// Of the two, only the one that was watched is there.
fn higher_left() -> Vec<String> {
    names(&[READER, OWN.place])
}

/// A writer with the number of the reader that must be there.
fn another_kind() -> Vec<String> {
    names(&[LOWEST, OWN.place])
}

fn alone() -> Vec<String> {
    names(&[OWN.place])
}

fn missing() -> Vec<String> {
    names(&[READER])
}

/// Behind the nearest reader, and behind one that must be in the next listing.
fn both() -> Ahead {
    Ahead { nearest: READER, others: Others::Some(vec![Sequence(4)]) }
}

fn must_see() -> Vec<Sequence> {
    vec![Sequence(4)]
}

fn paths() -> Vec<Path> {
    let enter = |children| vec![E::Begin(Look::List), entered(Sight::Children(children))];
    let again = [E::PredecessorWatched(true), E::WatchLost];
    let mut paths = Vec::new();
    for (ahead, children) in [(both(), two()), (only(READER), higher_left())] {
        let watching = enter(children);
        let watching_again = after(&watching, &again);
        for (arrival, path) in [(New, watching), (Queued, watching_again)] {
            let waiting = after(&path, &[E::PredecessorWatched(true)]);
            if ahead == both() {
                let looking = after(&waiting, &[E::PredecessorReleased]);
                paths.push((Looking(OWN, arrival, must_see()), looking));
            }
            paths.push((Watching(OWN, ahead.clone(), arrival), path));
            paths.push((Waiting(OWN, ahead.clone(), arrival), waiting));
        }
    }
    paths
}

fn events() -> Vec<Event> {
    let listings = [two(), lower_left(), higher_left(), another_kind(), alone(), missing()];
    let mut events = listings.map(E::Listed).to_vec();
    let listed = |event: &Event| matches!(event, E::Listed(_) | E::SessionOver(_));
    events.extend(exclusive::events().into_iter().filter(|event| !listed(event)));
    events
}

/// All that is peculiar to a contender that waits behind readers, with a takeover delay.
fn transitions() -> Vec<Row> {
    let node_deleted = || Some(C::End(End::NodeDeleted));
    let delete = || Some(C::Alone(A::Delete(OWN)));
    let looks = || (Looking(OWN, Queued, vec![]), Some(C::Alone(A::List)));
    let mut rows = Vec::new();
    for arrival in [New, Queued] {
        let looking = || Looking(OWN, arrival, must_see());
        let unseen = only(Place::shared(4));
        rows.extend([
            (looking(), E::Listed(two()), Watching(OWN, both(), arrival), watch_for(READER)),
            (
                looking(),
                E::Listed(lower_left()),
                Watching(OWN, unseen.clone(), arrival),
                watch_for(unseen.nearest),
            ),
            // The other one has vanished, and perhaps it held the lock.
            (looking(), E::Listed(higher_left()), Watching(OWN, only(READER), Queued), watch_for(READER)),
            (looking(), E::Listed(another_kind()), Watching(OWN, only(LOWEST), Queued), watch_for(LOWEST)),
            (looking(), E::Listed(alone()), Delaying(OWN), Some(C::Alone(A::Delay))),
            (looking(), E::Listed(missing()), Ended, node_deleted()),
            (looking(), E::NoDirectory, Ended, node_deleted()),
            (looking(), E::Unanswered, looks().0, looks().1),
            (looking(), E::Foreign(stranger()), Leaving(OWN, End::Foreign(stranger())), delete()),
            (looking(), E::Refused(REFUSAL), Leaving(OWN, End::Refused(REFUSAL)), delete()),
            (looking(), E::GiveUp, Leaving(OWN, End::GivenUp), delete()),
        ]);
        for ahead in [both(), only(READER)] {
            let watching = || Watching(OWN, ahead.clone(), arrival);
            let waiting = || Waiting(OWN, ahead.clone(), arrival);
            let again = || (Watching(OWN, ahead.clone(), Queued), watch_for(READER));
            rows.extend([
                (watching(), E::PredecessorWatched(true), waiting(), None),
                (watching(), E::Unanswered, again().0, again().1),
                (watching(), E::OwnTouched, Ended, node_deleted()),
                (watching(), E::Foreign(stranger()), Leaving(OWN, End::Foreign(stranger())), delete()),
                (watching(), E::Refused(REFUSAL), Leaving(OWN, End::Refused(REFUSAL)), delete()),
                (watching(), E::GiveUp, Leaving(OWN, End::GivenUp), delete()),
                //
                (waiting(), E::WatchLost, again().0, again().1),
                (waiting(), E::PredecessorDeleted, looks().0, looks().1),
                (waiting(), E::GiveUp, Leaving(OWN, End::GivenUp), delete()),
            ]);
        }
        let release = |ahead| (Waiting(OWN, ahead, arrival), E::PredecessorReleased);
        let ((both_released, on), (only_released, _)) = (release(both()), release(only(READER)));
        let (next, command) = match arrival {
            New => (Confirming(OWN), C::Together(T::Confirm)),
            Queued => (Delaying(OWN), C::Alone(A::Delay)),
        };
        rows.extend([
            // It says nothing about the other reader.
            (both_released, on.clone(), looking(), Some(C::Alone(A::List))),
            (only_released, on, next, Some(command)),
            // It went unseen, and perhaps it held the lock.
            (Watching(OWN, both(), arrival), E::PredecessorWatched(false), looks().0, looks().1),
            (
                Watching(OWN, only(READER), arrival),
                E::PredecessorWatched(false),
                Delaying(OWN),
                Some(C::Alone(A::Delay)),
            ),
        ]);
    }
    rows
}

#[test]
fn every_transition_behind_readers_is_in_the_table() {
    check(&paths(), &events(), &transitions());
}

/// A writer between them speaks for none of them: it may give up.
#[test]
fn all_readers_must_be_seen_again() {
    let below = |places: &[Place]| {
        let children = names(&[places, &[OWN.place]].concat());
        run(Patience::Wait, &[E::Begin(Look::List), entered(Sight::Children(children))]).0.state
    };
    let behind = |nearest, readers: &[i32]| {
        let readers = readers.iter().copied().map(Sequence).collect();
        Watching(OWN, Ahead { nearest, others: Others::Some(readers) }, New)
    };
    let [reader, writer] = [Place::shared, Place::exclusive];
    assert_eq!(below(&[reader(1), writer(2), reader(4), reader(5)]), behind(READER, &[1, 4]));
    assert_eq!(below(&[writer(1), writer(2), reader(5)]), behind(READER, &[]));
    assert_eq!(below(&[reader(1), writer(2), reader(4), writer(5)]), behind(SEEN, &[1, 4]));
}

/// The release of a writer settles everything, so a contender that waits for one remembers no reader. After any other
/// end of it, nobody has seen how the readers went.
#[test]
fn readers_in_front_of_a_writer_are_forgotten_while_that_one_is_watched() {
    let waiting = [
        E::Begin(Look::List),
        entered(Sight::Children(names(&[READER, NEXT_LOWER, OWN.place]))),
        E::PredecessorWatched(true),
    ];
    assert_eq!(run(Patience::Wait, &waiting).0.state, Waiting(OWN, next(NEXT_LOWER), Queued));
    let released = after(&waiting, &[E::PredecessorReleased]);
    assert_eq!(run(Patience::Wait, &released).1, Some(C::Together(T::Confirm)));
    let given_up = after(&waiting, &[E::PredecessorDeleted, E::Listed(higher_left())]);
    let given_up = after(&given_up, &[E::PredecessorWatched(true), E::PredecessorReleased]);
    assert_eq!(run(Patience::Wait, &given_up).1, Some(C::Alone(A::Delay)));
}

/// Each of three readers is watched in turn, and released. Nobody has vanished.
#[test]
fn readers_that_all_release_are_no_reason_for_a_delay() {
    let [first, second, third] = [3, 4, 5].map(Place::shared);
    let listed = |readers: &[Place]| names(&[readers, &[OWN.place]].concat());
    let events = [
        E::Begin(Look::List),
        entered(Sight::Children(listed(&[first, second, third]))),
        E::PredecessorWatched(true),
        E::PredecessorReleased,
        E::Listed(listed(&[first, second])),
        E::PredecessorWatched(true),
        E::PredecessorReleased,
        E::Listed(listed(&[first])),
        E::PredecessorWatched(true),
        E::PredecessorReleased,
    ];
    assert_eq!(
        commands(Patience::Wait, &events)[1..],
        [
            C::Alone(A::WatchPredecessor(third, OWN)),
            C::Alone(A::List),
            C::Alone(A::WatchPredecessor(second, OWN)),
            C::Alone(A::List),
            C::Alone(A::WatchPredecessor(first, OWN)),
            C::Together(T::Confirm),
        ]
    );
    // The second one is gone too early: it may have vanished.
    let unseen = after(&events[..4], &[E::Listed(listed(&[first])), E::PredecessorWatched(true)]);
    let unseen = after(&unseen, &[E::PredecessorReleased]);
    assert_eq!(run(Patience::Wait, &unseen).1, Some(C::Alone(A::Delay)));
}

/// Without a delay it does not matter how they went, so nothing is remembered.
#[test]
fn readers_are_forgotten_without_a_delay() {
    let mut machine = Machine::new(Patience::Wait, Takeover::AtOnce, New);
    let events = [E::Begin(Look::List), entered(Sight::Children(two())), E::PredecessorWatched(true)];
    events.into_iter().for_each(|event| drop(machine.handle(event)));
    assert_eq!(machine.state, Waiting(OWN, next(READER), New));
    assert_eq!(machine.handle(E::PredecessorReleased), Some(C::Alone(A::List)));
    assert_eq!(machine.handle(E::Listed(higher_left())), watch_for(READER));
    assert_eq!(machine.handle(E::PredecessorWatched(false)), Some(C::Together(T::Confirm)));
}
