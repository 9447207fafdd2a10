//! Every transition: which events lead to a state, what the next one does there, and that nothing else does anything.

use super::Arrival::*;
use super::State::*;
use super::{Alone as A, Command as C, Event as E, Together as T, *};
use crate::contender::LAST_SEQUENCE;
use crate::event::Refusal;
use crate::foreign::{Foreign, ForeignClient, Stranger};
use crate::lease::{SessionEnd, Term};

mod behind_readers;
mod exclusive;
mod shared;
mod stories;

const LOWEST: Place = Place::exclusive(4);
const SEEN: Place = Place::exclusive(5);
const NEXT_LOWER: Place = Place::exclusive(6);
const OWN: Own = Own { place: Place::exclusive(7), czxid: 70 };
const REFUSAL: Refusal = Refusal::NotAuthorized;

/// One row: in this state, on this event, the next state and the command.
type Row = (State, Event, State, Option<Command>);

/// Each state, with the events that lead there.
type Path = (State, Vec<Event>);

fn names(places: &[Place]) -> Vec<String> {
    places.iter().map(|place| place.name()).collect()
}

fn writers(numbers: &[i32]) -> Vec<String> {
    numbers.iter().map(|number| Place::exclusive(*number).name()).collect()
}

/// Behind this one and perhaps others.
fn next(nearest: Place) -> Ahead {
    Ahead { nearest, others: Others::Some(vec![]) }
}

/// Behind this one and nobody else.
fn only(nearest: Place) -> Ahead {
    Ahead { nearest, others: Others::All(vec![]) }
}

fn stranger() -> Stranger {
    let name = "x-1-0000000003".to_owned();
    Stranger::Client(Foreign { name, client: ForeignClient::WriteLock, session: Some(1) })
}

fn entered(sight: Sight) -> Event {
    E::Entered { own: OWN, sight }
}

fn watch_for(nearest: Place) -> Option<Command> {
    watched_by(OWN, nearest)
}

fn watched_by(own: Own, nearest: Place) -> Option<Command> {
    Some(C::Alone(A::WatchPredecessor(nearest, own)))
}

fn after(path: &[Event], events: &[Event]) -> Vec<Event> {
    [path, events].concat()
}

fn run(patience: Patience, events: &[Event]) -> (Machine, Option<Command>) {
    let mut machine = Machine::new(patience, Takeover::Delayed, New);
    let command = events.iter().fold(None, |_, event| machine.handle(event.clone()));
    (machine, command)
}

/// The commands that these events lead to, one after the other.
fn commands(patience: Patience, events: &[Event]) -> Vec<Command> {
    commands_with(Takeover::Delayed, patience, events)
}

fn commands_with(takeover: Takeover, patience: Patience, events: &[Event]) -> Vec<Command> {
    let mut machine = Machine::new(patience, takeover, New);
    events.iter().filter_map(|event| machine.handle(event.clone())).collect()
}

/// Each path leads to its state. From there each event does what its row says, or nothing if it has none.
fn check(paths: &[Path], events: &[Event], rows: &[Row]) {
    let mut used = 0;
    for (state, path) in paths {
        let (reached, _) = run(Patience::Wait, path);
        assert_eq!(reached.state, *state);
        for event in events {
            let mut machine = reached.clone();
            let command = machine.handle(event.clone());
            match rows.iter().find(|(from, on, ..)| (from, on) == (state, event)) {
                Some((_, _, to, expected)) => {
                    used += 1;
                    assert_eq!((&machine.state, &command), (to, expected), "{state:?} on {event:?}");
                }
                None => assert_eq!((&machine, command), (&reached, None), "{state:?} on {event:?}"),
            }
        }
    }
    assert_eq!(used, rows.len(), "a row twice, or one for a state or event that is not listed");
}
