//! A group of one is its machine: it passes everything through.

use super::*;
use crate::machine::tests::exclusive::ways_and_events;

/// How a driver would give this event to a group of one, in each way that it may.
fn inputs(event: &E) -> Vec<Report> {
    match event.clone() {
        E::Entered { own, sight } => vec![Entered(vec![(own, sight)])],
        // The other way, they are news of a watch.
        event @ E::OwnTouched => vec![All(event.clone()), Failed(0, event)],
        event @ (E::Begin
        | E::Aged
        | E::Settled
        | E::Release
        | E::GiveUp
        | E::Forfeit
        | E::SessionOver(_)) => vec![All(event)],
        event => vec![All(event.clone()), One(0, event.clone()), Failed(0, event)],
    }
}

fn passed_through(command: C) -> Output {
    match command {
        C::Together(command) => O::All(command),
        C::Alone(A::Release(_)) => O::All(T::Release),
        C::Alone(request) => O::One(0, request),
        C::Grant(own, term) => O::Tell(Outcome::Granted(vec![own], term)),
        C::Lose(breach) => O::Tell(Outcome::Lost(breach)),
        C::EndSession(refusal) => O::EndSession(0, refusal),
        C::End(end) => ended(0, end),
    }
}

/// In each state of the machine, on each event, in each way.
#[test]
fn a_group_of_one_passes_everything_through() {
    let (ways, events) = ways_and_events();
    for way in ways {
        let mut machine = Machine::new(Patience::Wait, Takeover::Delayed, Arrival::New);
        let mut group = Group::new([machine.clone()]);
        for event in &way {
            machine.handle(event.clone());
            group.handle(inputs(event).remove(0));
        }
        for event in &events {
            let mut alone = machine.clone();
            let command = alone.handle(event.clone()).map(passed_through);
            for input in inputs(event) {
                let mut group = group.clone();
                assert_eq!(
                    group.handle(input.clone()),
                    Vec::from_iter(command.clone()),
                    "{way:?}, {input:?}"
                );
                assert_eq!((group.own(0), group.is_ended()), (alone.own(), alone.is_ended()), "{way:?}");
            }
        }
    }
}
