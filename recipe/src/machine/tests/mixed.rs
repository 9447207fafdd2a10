//! A contender in a queue that another client's contenders share.

use super::*;

const LOWER: Place = Place::exclusive(5);
const READER: Place = Place::shared(5);

/// The commands of a contender that has entered, one after the other.
fn commands_after(patience: Patience, events: &[Event]) -> Vec<Command> {
    commands_of(Takeover::Mixed, patience, events)
}

fn commands_of(takeover: Takeover, patience: Patience, events: &[Event]) -> Vec<Command> {
    let mut machine = Machine::new(patience, takeover, New);
    let begin = [E::Begin(Look::List)];
    let commands = begin.iter().chain(events).filter_map(|event| machine.handle(event.clone()));
    commands.skip(1).collect()
}

fn listed(places: &[Place]) -> Event {
    E::Listed(names(places))
}

fn sees(places: &[Place]) -> Event {
    entered(Sight::Children(names(places)))
}

const LIST: C = C::Alone(A::List);
const DELAY: C = C::Alone(A::Delay);
const CONFIRM: C = C::Together(T::Confirm);

fn watches(place: Place) -> C {
    C::Alone(A::WatchPredecessor(place, OWN))
}

#[test]
fn who_finds_nobody_waits_for_the_delay() {
    let events = [sees(&[OWN.place]), E::Delayed, listed(&[OWN.place])];
    assert_eq!(commands_after(Patience::Wait, &events), [DELAY, LIST, CONFIRM]);
    let leaves = [C::Alone(A::Delete(OWN))];
    assert_eq!(commands_after(Patience::Try, &events[..1]), leaves);
}

#[test]
fn who_finds_that_ours_released_the_lock_does_not() {
    for patience in [Patience::Wait, Patience::Try] {
        assert_eq!(commands_after(patience, &[entered(Sight::Free)]), [CONFIRM]);
    }
}

#[test]
fn a_release_of_ours_grants_its_successor() {
    let events = [sees(&[LOWER, OWN.place]), E::PredecessorWatched(true), E::PredecessorReleased];
    assert_eq!(commands_after(Patience::Wait, &events), [watches(LOWER), CONFIRM]);
}

#[test]
fn after_any_other_end_it_looks_and_waits_for_the_delay() {
    for end in [vec![E::PredecessorWatched(true), E::PredecessorDeleted], vec![E::PredecessorWatched(false)]]
    {
        let events = after(&[sees(&[LOWER, OWN.place])], &end);
        let events = after(&events, &[listed(&[OWN.place]), E::Delayed, listed(&[OWN.place])]);
        assert_eq!(
            commands_after(Patience::Wait, &events),
            [watches(LOWER), LIST, DELAY, LIST, CONFIRM],
            "{end:?}"
        );
    }
}

/// A writer of the other client's that does not know yet that its node is gone may still make its second node.
#[test]
fn it_looks_again_after_the_delay() {
    let delayed = [sees(&[OWN.place]), E::Delayed];
    for (event, next) in [
        (listed(&[READER, OWN.place]), watches(READER)),
        (E::Unanswered, LIST),
        (E::GiveUp, C::Alone(A::Delete(OWN))),
        (E::Refused(REFUSAL), C::Alone(A::Delete(OWN))),
        (E::Foreign(stranger()), C::Alone(A::Delete(OWN))),
        (E::NoDirectory, C::End(End::NodeDeleted)),
        (listed(&[]), C::End(End::NodeDeleted)),
    ] {
        let events = after(&delayed, &[event]);
        assert_eq!(commands_after(Patience::Wait, &events), [DELAY, LIST, next]);
    }
}

#[test]
fn it_does_not_wait_for_the_delay_if_ours_released_the_lock_last() {
    let seen = |listed| [sees(&[LOWER, OWN.place]), E::PredecessorWatched(false), listed];
    let free = seen(E::ListedAfterRelease(names(&[OWN.place])));
    assert_eq!(commands_after(Patience::Wait, &free), [watches(LOWER), LIST, CONFIRM]);
    let behind = seen(E::ListedAfterRelease(names(&[READER, OWN.place])));
    assert_eq!(commands_after(Patience::Wait, &behind), [watches(LOWER), LIST, watches(READER)]);
}

/// Readers may hold the lock beside it, and one of them may have vanished.
#[test]
fn a_readers_release_grants_nobody() {
    let events = [sees(&[READER, OWN.place]), E::PredecessorWatched(true), E::PredecessorReleased];
    let events = after(&events, &[listed(&[OWN.place])]);
    assert_eq!(commands_after(Patience::Wait, &events), [watches(READER), LIST, DELAY]);
}

/// A release would show that the lock is free, and somebody may still believe that he holds it.
#[test]
fn who_gives_up_in_its_delay_does_not_release() {
    let events = [sees(&[OWN.place]), E::GiveUp];
    assert_eq!(commands_after(Patience::Wait, &events), [DELAY, C::Alone(A::Delete(OWN))]);
}

/// As Curator's `Revoker` does to ask for the lock.
#[test]
fn a_waiter_in_whose_node_somebody_wrote_leaves() {
    let delayed = [sees(&[OWN.place]), E::Delayed];
    let missed = [sees(&[LOWER, OWN.place]), E::PredecessorWatched(false)];
    let released = [sees(&[LOWER, OWN.place]), E::PredecessorWatched(true), E::PredecessorReleased];
    for (path, before) in [(&delayed[..], vec![DELAY, LIST]), (&missed, vec![watches(LOWER), LIST])]
        .into_iter()
        .chain([(&released[..], vec![watches(LOWER), CONFIRM])])
    {
        let commands = commands_after(Patience::Wait, &after(path, &[E::OwnWritten, E::Deleted]));
        let leaves = [C::Alone(A::Delete(OWN)), C::End(End::Displaced)];
        assert_eq!(commands, [before, leaves.to_vec()].concat());
    }
}

/// Curator's writer 5 reads as well, by a node with its own number, and lets go of the write lock.
#[test]
fn a_lower_reader_that_appears_late_is_waited_for() {
    let events = [
        sees(&[LOWER, OWN.place]),
        E::PredecessorWatched(false),
        listed(&[READER, OWN.place]),
        E::PredecessorWatched(true),
        E::PredecessorDeleted,
        listed(&[OWN.place]),
    ];
    let commands = [watches(LOWER), LIST, watches(READER), LIST, DELAY];
    assert_eq!(commands_after(Patience::Wait, &events), commands);
}

/// A thread of Curator's that was cut off as writer 5, and goes on for longer than the delay, takes the read lock by its own memory.
#[test]
fn where_a_thread_may_come_back_a_release_is_looked_at_again() {
    let reentrant = |events: &[Event]| commands_of(Takeover::Reentrant, Patience::Wait, events);
    let writer = Place::exclusive(6);
    let released = [sees(&[writer, OWN.place]), E::PredecessorWatched(true), E::PredecessorReleased];
    for (event, next) in [
        (listed(&[OWN.place]), CONFIRM),
        (E::ListedAfterRelease(names(&[OWN.place])), CONFIRM),
        (listed(&[READER, OWN.place]), watches(READER)),
        // Somebody may have vanished meanwhile.
        (E::Unanswered, LIST),
        (listed(&[]), C::End(End::NodeDeleted)),
        (E::GiveUp, C::Alone(A::Delete(OWN))),
    ] {
        assert_eq!(reentrant(&after(&released, &[event])), [watches(writer), LIST, next]);
    }
    let unanswered = after(&released, &[E::Unanswered, listed(&[OWN.place])]);
    assert_eq!(reentrant(&unanswered), [watches(writer), LIST, LIST, DELAY]);
    // It delays as in any queue that is shared.
    let events = [sees(&[OWN.place]), E::Delayed, listed(&[OWN.place])];
    assert_eq!(reentrant(&events), [DELAY, LIST, CONFIRM]);
    assert_eq!(reentrant(&[entered(Sight::Free)]), [CONFIRM]);
}

/// The readers beside it waited for the same writer.
#[test]
fn readers_that_look_after_a_writers_release_do_not_delay() {
    let own = Own { place: Place::shared(9), ..OWN };
    let names = names(&[Place::shared(8), own.place]);
    let mut machine = Machine::new(Patience::Wait, Takeover::Reentrant, New);
    let writer = Place::exclusive(6);
    let seen = E::Entered { own, sight: Sight::Children([vec![writer.name()], names.clone()].concat()) };
    let events = [E::Begin(Look::List), seen, E::PredecessorWatched(true), E::PredecessorReleased];
    let commands = events.into_iter().chain([E::Listed(names)]).filter_map(|event| machine.handle(event));
    let watches = C::Alone(A::WatchPredecessor(writer, own));
    assert_eq!(commands.skip(1).collect::<Vec<_>>(), [watches, LIST, CONFIRM]);
}
