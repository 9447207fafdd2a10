//! A group of one is its machine: it passes everything through.

use proptest::prelude::*;

use super::*;

/// Events of a contender and its driver, of every kind.
fn event() -> impl Strategy<Value = E> {
    let children = prop::sample::subsequence(vec![3, 4, 5, 6], 0..=4).prop_map(|numbers| {
        numbers.into_iter().map(|number| Place::exclusive(number).name()).collect::<Vec<_>>()
    });
    let sight = prop_oneof![
        children.clone().prop_map(Sight::Children),
        (1..4usize).prop_map(Sight::Count),
        Just(Sight::Nothing),
    ];
    prop_oneof![
        4 => sight.prop_map(|sight| E::Entered { own: SECOND, sight }),
        4 => children.prop_map(E::Listed),
        4 => any::<bool>().prop_map(E::PredecessorWatched),
        4 => Just(E::PredecessorReleased),
        4 => Just(E::Confirmed(Term::FIRST)),
        2 => any::<bool>().prop_map(|found| E::Recovered(found.then_some(SECOND))),
        2 => prop::sample::select(vec![E::NoDirectory, E::DirectoryReady, E::Unanswered, E::PredecessorDeleted]),
        2 => prop::sample::select(vec![E::Settled, E::WatchLost, E::OwnWatched(true), E::OwnWatched(false)]),
        2 => prop::sample::select(vec![E::Release, E::Released(true), E::Released(false), E::Deleted, E::Delayed]),
        1 => prop::sample::select(vec![E::GiveUp, E::Forfeit, E::OwnTouched, E::Refused(REFUSAL)]),
        1 => Just(E::Foreign(stranger())),
        1 => Just(E::SessionOver(SessionEnd::Closed)),
    ]
}

/// How a driver would give this event to a group of one, in each way that it may.
fn inputs(event: &E) -> Vec<Input> {
    match event.clone() {
        E::Entered { own, sight } => vec![Entered(vec![(own, sight)])],
        // The other way, they are news of a watch.
        event @ E::OwnTouched => vec![All(event.clone()), Failed(0, event)],
        event @ (E::Begin(_) | E::Settled | E::Release | E::GiveUp | E::Forfeit | E::SessionOver(_)) => {
            vec![All(event)]
        }
        event => vec![All(event.clone()), One(0, event.clone()), Failed(0, event)],
    }
}

fn passed_through(command: C) -> Output {
    match command {
        C::Together(command) => O::All(command),
        C::Alone(A::Release(own)) => O::ReleaseAll(vec![own]),
        C::Alone(request) => O::One(0, request),
        C::Grant(own, term) => O::Grant(vec![own], term),
        C::Lose => O::Lose,
        C::EndSession(refusal) => O::EndSession(0, refusal),
        C::End(end) => O::End(0, end),
    }
}

proptest! {
    #[test]
    fn a_group_of_one_passes_everything_through(
        events in prop::collection::vec(event(), 0..24),
        ways in prop::collection::vec(any::<prop::sample::Index>(), 24),
        delayed: bool,
        trying: bool,
    ) {
        let takeover = if delayed { Takeover::Delayed } else { Takeover::AtOnce };
        let patience = if trying { Patience::Try } else { Patience::Wait };
        let mut machine = Machine::new(patience, takeover, Arrival::New);
        let mut group = Group::new([machine.clone()]);
        for (event, way) in [E::Begin(Look::Count)].into_iter().chain(events).zip(ways) {
            let inputs = inputs(&event);
            let input = inputs[way.index(inputs.len())].clone();
            let command = machine.handle(event);
            let expected = command.map(passed_through).into_iter().collect::<Vec<_>>();
            prop_assert_eq!(group.handle(input.clone()), expected, "{:?}", input);
            prop_assert_eq!((group.own(0), group.is_ended()), (machine.own(), machine.is_ended()));
        }
    }
}
