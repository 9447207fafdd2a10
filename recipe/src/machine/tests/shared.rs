//! A reader: only lower writers block it.

use super::table::{Scene, to};
use super::*;

const READER: Own = Own { place: QueuePlace::shared(7), czxid: 70 };

fn beside() -> Vec<String> {
    names(&[QueuePlace::shared(5), READER.place, QueuePlace::exclusive(8)])
}

fn behind_one() -> Vec<String> {
    names(&[LOWEST, QueuePlace::shared(5), READER.place, QueuePlace::shared(6)])
}

fn behind_two() -> Vec<String> {
    names(&[QueuePlace::shared(6), SEEN, READER.place, LOWEST, QueuePlace::shared(3)])
}

/// Behind both writers.
fn both() -> Ahead {
    Ahead { nearest: SEEN, others: Others::All(vec![LOWEST.sequence]), is_short: true }
}

fn joined(sight: Sight) -> Event {
    E::Entered { own: READER, sight }
}

/// Somebody may vanish while it waits.
fn waits(ahead: Ahead, _: Arrival) -> MachineState {
    Waiting(READER, ahead, Queued)
}

fn scene() -> Scene {
    let watches = |arrival| to(Watching(READER, only(LOWEST), arrival));
    let confirms = || to(Confirming(READER, Seen));
    let delays = || to(Delaying(READER));
    let gone = E::PredecessorWatched(false);
    Scene {
        own: READER,
        beside: Some(beside()),
        behind: vec![(both(), behind_two()), (only(LOWEST), behind_one())],
        waits,
        peculiar: (vec![], vec![]),
        rows: vec![
            // A reader cannot guess which number the nearest writer has.
            (Entering, joined(Sight::Count(3)), to(Looking(READER, New, vec![]))),
            // The next writer by a read of its own, and no listing.
            (Watching(READER, both(), New), gone.clone(), watches(New)),
            (Watching(READER, both(), Queued), gone.clone(), watches(Queued)),
            (Watching(READER, only(LOWEST), New), gone.clone(), delays()),
            (Watching(READER, only(LOWEST), Queued), gone, delays()),
            // A writer held the lock alone, and other readers behind it do not matter. That it held it shows only if no other
            // writer was there.
            (waits(both(), New), E::PredecessorReleased, to(Succeeding(READER))),
            (waits(only(LOWEST), New), E::PredecessorReleased, confirms()),
            (waits(both(), New), E::PredecessorDeleted, watches(Queued)),
            (waits(only(LOWEST), New), E::PredecessorDeleted, delays()),
        ],
    }
}

#[test]
fn every_transition_of_a_reader_is_in_the_table() {
    scene().check();
}

#[test]
fn readers_without_a_delay_hold_the_lock_beside_each_other() {
    let begin = E::Begin;
    for patience in [Patience::Wait, Patience::Try] {
        let events = [begin.clone(), joined(Sight::Children(beside()))];
        assert_eq!(commands(Takeover::AtOnce, patience, &events)[1..], [C::Together(T::Confirm)]);
    }
    let events = [begin, joined(Sight::Children(behind_one())), E::PredecessorWatched(false)];
    assert_eq!(commands(Takeover::AtOnce, Patience::Wait, &events)[2..], [C::Together(T::Confirm)]);
}

/// Nothing shows whether the readers beside it hold the lock, or wait for the delay.
#[test]
fn a_reader_that_tries_with_a_delay_does_not_join_others() {
    for (takeover, children) in
        [(Takeover::Delayed, beside()), (Takeover::Delayed, behind_one()), (Takeover::AtOnce, behind_one())]
    {
        let events = [E::Begin, joined(Sight::Children(children)), E::Deleted];
        let commands = commands(takeover, Patience::Try, &events);
        assert_eq!(commands[1..], [C::Alone(A::Delete(READER)), C::End(End::Busy)]);
    }
}

/// A thousand readers behind writers that give up ask for one node each, and never for the whole queue.
#[test]
fn writers_that_give_up_cause_no_listing() {
    let children = names(&[QueuePlace::exclusive(1), QueuePlace::exclusive(2), LOWEST, READER.place]);
    let gone = E::PredecessorWatched(false);
    let watched = E::PredecessorWatched(true);
    let events = [E::Begin, joined(Sight::Children(children)), gone, watched, E::PredecessorDeleted];
    let watch = |number| C::Alone(A::WatchPredecessor(QueuePlace::exclusive(number), READER));
    assert_eq!(commands(Takeover::Delayed, Patience::Wait, &events)[1..], [watch(4), watch(2), watch(1)]);
}
