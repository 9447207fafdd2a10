//! A holder without a takeover delay whose grant rests on the release of its predecessor. Another client may have forged it.

use super::exclusive::{behind, scene};
use super::table::{Next, to};
use super::*;
use crate::contender::SHORT_QUEUE;

/// It has entered with this sight, and its predecessor is released.
fn granted(sight: Sight) -> Machine {
    let mut machine = Machine::new(Patience::Wait, Takeover::AtOnce, New);
    for event in [
        E::Begin,
        entered(sight),
        E::PredecessorWatched(true),
        E::PredecessorReleased,
        E::Unanswered,
        E::Confirmed(Term::FIRST),
    ] {
        machine.handle(event);
    }
    machine
}

/// It lists the queue once it has held the lock for a while, and watches its node. A short hold sends nothing more.
#[test]
fn it_looks_once_at_the_queue_of_a_lock_that_it_holds_for_a_while() {
    let watch = || C::Alone(A::WatchOwn(OWN));
    let review = || C::Alone(A::Review);
    let watched = || E::OwnWatched(true);
    for (events, expected) in [
        (vec![E::Release], vec![C::Alone(A::Release(OWN))]),
        (vec![E::Aged, watched(), E::Release], vec![watch(), C::Alone(A::Release(OWN))]),
        (vec![E::Settled, watched(), E::Listed(names(&[OWN.place])), E::Settled], vec![watch(), review()]),
        (vec![E::Settled, E::Refused(REFUSAL)], vec![watch(), review()]),
        (vec![E::Aged, watched(), E::Settled], vec![watch(), review()]),
        (vec![E::Aged, E::Settled, watched()], vec![watch(), review()]),
        (
            vec![E::Aged, E::Unanswered, E::Settled, E::Unanswered, watched()],
            vec![watch(), watch(), watch(), review()],
        ),
        (vec![E::Aged, watched(), E::WatchLost, watched(), E::Settled], vec![watch(), watch(), review()]),
    ] {
        let mut machine = granted(Sight::Count(SHORT_QUEUE));
        let commands = events.iter().filter_map(|event| machine.handle(event.clone()));
        assert_eq!(commands.collect::<Vec<_>>(), expected, "{events:?}");
    }
}

#[test]
fn it_does_not_look_where_it_has_seen_that_nobody_else_was_there_nor_in_a_long_queue() {
    for sight in [Sight::Children(names(&[LOWEST, OWN.place])), Sight::Count(SHORT_QUEUE + 1)] {
        assert_eq!(granted(sight).state, Held(OWN, Seen));
    }
    assert_eq!(granted(Sight::Children(behind())).state, Held(OWN, Told));
    let others = (8..).take(SHORT_QUEUE).map(QueuePlace::exclusive);
    let long = behind().into_iter().chain(others.map(QueuePlace::name)).collect();
    assert_eq!(granted(Sight::Children(long)).state, Held(OWN, Seen));
}

#[test]
fn what_the_look_shows() {
    let mut looking = granted(Sight::Count(3));
    looking.handle(E::Settled);
    looking.handle(E::OwnWatched(true));
    assert_eq!((&looking.state, looking.own()), (&Reviewing(OWN), Some(OWN)));
    for event in scene().events() {
        let forged = || (Lost(OWN), Some(C::Lose(Breach::Forged)));
        let next: Next = match &event {
            E::Listed(children) => match standing(children, OWN.place) {
                Standing::First | Standing::Beside => to(HeldWatched(OWN, Seen)),
                Standing::Behind(_) => forged(),
                Standing::Missing => to(Lost(OWN)),
            },
            E::NoDirectory | E::OwnTouched => to(Lost(OWN)),
            E::Refused(_) => to(HeldWatched(OWN, Seen)),
            E::Unanswered => to(Reviewing(OWN)),
            E::WatchLost => to(WatchingOwn(OWN, Due)),
            E::Release | E::GiveUp => to(Releasing(OWN)),
            E::Forfeit => to(Leaving(OWN, End::GivenUp)),
            E::SessionOver(over) => (Ended, Some(C::End(End::SessionOver(*over)))),
            _ => (Reviewing(OWN), None),
        };
        let mut machine = looking.clone();
        let command = machine.handle(event.clone());
        assert_eq!((machine.state, command), next, "{event:?}");
    }
}
