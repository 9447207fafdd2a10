//! Every transition: which events lead to a state, what the next one does there, and that nothing else does anything.

use super::Arrival::*;
use super::MachineState::*;
use super::Unblocked::*;
use super::{Alone as A, Command as C, Event as E, Together as T, *};
use crate::contender::LAST_SEQUENCE;
use crate::event::Refusal;
use crate::foreign::{Foreign, ForeignClient};
use crate::lease::{SessionEnd, Term};
use crate::path_kind::Stranger;

mod behind_readers;
pub(crate) mod exclusive;
mod forged;
mod mixed;
mod shared;
mod table;
mod variants;

const LOWEST: QueuePlace = QueuePlace::exclusive(4);
const SEEN: QueuePlace = QueuePlace::exclusive(5);
const NEXT_LOWER: QueuePlace = QueuePlace::exclusive(6);
const OWN: Own = Own { place: QueuePlace::exclusive(7), czxid: 70 };
const REFUSAL: Refusal = Refusal::NotAuthorized;

fn names(places: &[QueuePlace]) -> Vec<String> {
    places.iter().map(|place| place.name()).collect()
}

/// Behind this one and perhaps others.
fn next(nearest: QueuePlace) -> Ahead {
    Ahead { nearest, others: Others::Some(vec![]), is_short: true }
}

/// Behind this one and nobody else.
fn only(nearest: QueuePlace) -> Ahead {
    Ahead { nearest, others: Others::All(vec![]), is_short: true }
}

fn stranger() -> Stranger {
    let name = "x-1-0000000003".to_owned();
    Stranger::Client(Foreign { name, client: ForeignClient::WriteLock, session: Some(1) })
}

fn entered(sight: Sight) -> Event {
    E::Entered { own: OWN, sight }
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
fn commands(takeover: Takeover, patience: Patience, events: &[Event]) -> Vec<Command> {
    let mut machine = Machine::new(patience, takeover, New);
    events.iter().filter_map(|event| machine.handle(event.clone())).collect()
}
