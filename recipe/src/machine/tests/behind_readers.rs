//! An exclusive contender behind readers: their ends settle nothing for each other.

use super::table::{Scene, to};
use super::*;

const READER: QueuePlace = QueuePlace::shared(5);

/// Two readers are lower.
fn two() -> Vec<String> {
    names(&[QueuePlace::exclusive(9), READER, OWN.place, QueuePlace::shared(4)])
}

/// Behind the nearest reader, and behind one that must be in the next listing.
fn both() -> Ahead {
    Ahead { nearest: READER, others: Others::Some(vec![Sequence(4)]), is_short: true }
}

/// After the release of the nearest reader. The other one must be in the listing.
fn must_see(arrival: Arrival) -> MachineState {
    Looking(OWN, arrival, vec![Sequence(4)])
}

fn waits(ahead: Ahead, arrival: Arrival) -> MachineState {
    Waiting(OWN, ahead, arrival)
}

fn scene() -> Scene {
    let begin = [E::Begin, entered(Sight::Children(two()))];
    let released = [E::PredecessorWatched(true), E::PredecessorReleased];
    let paths = [(New, vec![]), (Queued, vec![E::Unanswered])]
        .map(|(arrival, before)| (must_see(arrival), [&begin[..], &before, &released].concat()));
    // Of the two, the one that was watched is gone.
    let lower_left = names(&[QueuePlace::shared(4), OWN.place, QueuePlace::shared(8)]);
    // A writer has the number of the reader that must be there.
    let another_kind = names(&[LOWEST, OWN.place]);
    let watches = |ahead, arrival| to(Watching(OWN, ahead, arrival));
    let lists = || to(Looking(OWN, Queued, vec![]));
    let delays = || to(Delaying(OWN));
    let mut scene = Scene {
        own: OWN,
        beside: None,
        behind: vec![(both(), two()), (only(READER), names(&[READER, OWN.place]))],
        waits,
        peculiar: (vec![lower_left.clone(), another_kind.clone()], paths.to_vec()),
        rows: vec![(Entering, entered(Sight::Count(3)), watches(next(NEXT_LOWER), New))],
    };
    for arrival in [New, Queued] {
        let lower = only(QueuePlace::shared(4));
        let writer = only(LOWEST);
        let looking = || Looking(OWN, arrival, vec![]);
        let first = if arrival == New { to(Confirming(OWN, Seen)) } else { delays() };
        let gone = E::PredecessorWatched(false);
        scene.rows.extend([
            (looking(), E::Listed(lower_left.clone()), watches(lower.clone(), arrival)),
            (looking(), E::Listed(another_kind.clone()), watches(writer.clone(), arrival)),
            (must_see(arrival), E::Listed(lower_left.clone()), watches(lower, arrival)),
            (must_see(arrival), E::Listed(another_kind.clone()), watches(writer, Queued)),
            //
            (waits(both(), arrival), E::PredecessorDeleted, lists()),
            (waits(only(READER), arrival), E::PredecessorDeleted, lists()),
            // It says nothing about the other reader.
            (waits(both(), arrival), E::PredecessorReleased, to(must_see(arrival))),
            (waits(only(READER), arrival), E::PredecessorReleased, first),
            // It went unseen, and perhaps it held the lock.
            (Watching(OWN, both(), arrival), gone.clone(), lists()),
            (Watching(OWN, only(READER), arrival), gone, delays()),
        ]);
        // Unless the listing shows the other reader, it has vanished, and perhaps it held the lock.
        for ((children, seen), (_, unseen)) in scene.placed(arrival).into_iter().zip(scene.placed(Queued)) {
            let next = if children == two() { seen } else { unseen };
            scene.rows.push((must_see(arrival), E::Listed(children), next));
        }
    }
    scene
}

#[test]
fn every_transition_behind_readers_is_in_the_table() {
    scene().check();
}

/// A writer between them speaks for none of them: it may give up.
#[test]
fn all_readers_must_be_seen_again() {
    let below = |places: &[QueuePlace]| {
        let children = names(&[places, &[OWN.place]].concat());
        run(Patience::Wait, &[E::Begin, entered(Sight::Children(children))]).0.state
    };
    let behind = |nearest, readers: &[i32]| {
        let readers = readers.iter().copied().map(Sequence).collect();
        Watching(OWN, Ahead { nearest, others: Others::Some(readers), is_short: true }, New)
    };
    let [reader, writer] = [QueuePlace::shared, QueuePlace::exclusive];
    assert_eq!(below(&[reader(1), writer(2), reader(4), reader(5)]), behind(READER, &[1, 4]));
    assert_eq!(below(&[writer(1), writer(2), reader(5)]), behind(READER, &[]));
    assert_eq!(below(&[reader(1), writer(2), reader(4), writer(5)]), behind(SEEN, &[1, 4]));
}

/// The release of a writer settles everything, so a contender that waits for one remembers no reader. After any other
/// end of it, nobody has seen how the readers went.
#[test]
fn readers_in_front_of_a_writer_are_forgotten_while_that_one_is_watched() {
    let children = names(&[READER, NEXT_LOWER, OWN.place]);
    let waiting = [E::Begin, entered(Sight::Children(children)), E::PredecessorWatched(true)];
    assert_eq!(run(Patience::Wait, &waiting).0.state, Waiting(OWN, next(NEXT_LOWER), Queued));
}

/// Without a delay it does not matter how they went, so nothing is remembered.
#[test]
fn readers_are_forgotten_without_a_delay() {
    let mut machine = Machine::new(Patience::Wait, Takeover::AtOnce, New);
    for event in [E::Begin, entered(Sight::Children(two())), E::PredecessorWatched(true)] {
        machine.handle(event);
    }
    assert_eq!(machine.state, waits(next(READER), New));
}
