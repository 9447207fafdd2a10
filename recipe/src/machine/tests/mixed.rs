//! A contender in a queue that another client's contenders share.

use super::*;

const LOWER: QueuePlace = QueuePlace::exclusive(5);
const LOWEST: QueuePlace = QueuePlace::exclusive(3);

/// The commands of a contender that has entered, one after the other.
fn commands_after(patience: Patience, events: &[Event]) -> Vec<Command> {
    let mut machine = Machine::new(patience, Takeover::Mixed, New);
    let begin = [E::Begin];
    let commands = begin.iter().chain(events).filter_map(|event| machine.handle(event.clone()));
    commands.skip(1).collect()
}

fn listed(places: &[QueuePlace]) -> Event {
    E::Listed(names(places))
}

fn sees(places: &[QueuePlace]) -> Event {
    entered(Sight::Children(names(places)))
}

const LIST: C = C::Alone(A::List);
const DELAY: C = C::Alone(A::Delay);
const CONFIRM: C = C::Together(T::Confirm);

fn watches(place: QueuePlace) -> C {
    C::Alone(A::WatchPredecessor(place, OWN))
}

#[test]
fn who_finds_nobody_waits_for_the_delay() {
    let events = [sees(&[OWN.place]), E::Delayed];
    assert_eq!(commands_after(Patience::Wait, &events), [DELAY, CONFIRM]);
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
    let released = [sees(&[LOWER, OWN.place]), E::PredecessorWatched(true), E::PredecessorReleased];
    let grants = after(&released, &[listed(&[OWN.place])]);
    assert_eq!(commands_after(Patience::Wait, &grants), [watches(LOWER), LIST, CONFIRM]);
    let forged = after(&released, &[listed(&[LOWEST, OWN.place])]);
    assert_eq!(commands_after(Patience::Wait, &forged), [watches(LOWER), LIST, watches(LOWEST)]);
}

#[test]
fn after_any_other_end_it_looks_and_waits_for_the_delay() {
    for end in [vec![E::PredecessorWatched(true), E::PredecessorDeleted], vec![E::PredecessorWatched(false)]]
    {
        let events = after(&[sees(&[LOWER, OWN.place])], &end);
        let events = after(&events, &[listed(&[OWN.place]), E::Delayed]);
        let commands = [watches(LOWER), LIST, DELAY, CONFIRM];
        assert_eq!(commands_after(Patience::Wait, &events), commands, "{end:?}");
    }
}

/// Nobody can come in front of it, so it does not list the queue again.
#[test]
fn it_asks_for_its_node_after_the_delay() {
    let delayed = [sees(&[OWN.place]), E::Delayed];
    for (event, next) in [
        (E::Unanswered, CONFIRM),
        (E::GiveUp, C::Alone(A::Release(OWN))),
        (E::Refused(REFUSAL), C::Alone(A::Delete(OWN))),
        (E::OwnTouched, C::End(End::NodeDeleted)),
    ] {
        let events = after(&delayed, &[event]);
        assert_eq!(commands_after(Patience::Wait, &events), [DELAY, CONFIRM, next]);
    }
}

#[test]
fn it_does_not_wait_for_the_delay_if_ours_released_the_lock_last() {
    let seen = |listed| [sees(&[LOWER, OWN.place]), E::PredecessorWatched(false), listed];
    let free = seen(E::ListedAfterRelease(names(&[OWN.place])));
    assert_eq!(commands_after(Patience::Wait, &free), [watches(LOWER), LIST, CONFIRM]);
    let behind = seen(E::ListedAfterRelease(names(&[LOWEST, OWN.place])));
    assert_eq!(commands_after(Patience::Wait, &behind), [watches(LOWER), LIST, watches(LOWEST)]);
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
    for (path, before) in [(&delayed[..], vec![DELAY, CONFIRM]), (&missed, vec![watches(LOWER), LIST])]
        .into_iter()
        .chain([(&released[..], vec![watches(LOWER), LIST])])
    {
        let commands = commands_after(Patience::Wait, &after(path, &[E::OwnWritten, E::Deleted]));
        let leaves = [C::Alone(A::Delete(OWN)), C::End(End::Displaced)];
        assert_eq!(commands, [before, leaves.to_vec()].concat());
    }
}
