//! The heap of events in global time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::ids::{ConnectionId, Direction, ProcessId};
use crate::libc;
use crate::random::Random;

#[derive(Debug)]
pub(crate) enum Event {
    /// A process has something to do. With a number, only if its timers are those of then.
    Step(ProcessId, Option<u64>),
    /// Segments reach an end of a connection.
    Arrive(ConnectionId, Direction),
    /// Something of the caller's.
    Custom(u64),
}

pub(crate) struct Heap {
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, u64)>>,
    bodies: BTreeMap<u64, Event>,
    pushed: u64,
    /// Changes with everything that happens.
    pub(crate) fingerprint: u64,
    pub(crate) random: Random,
}

impl Heap {
    pub(crate) fn new(random: Random) -> Self {
        let (events, bodies) = (BinaryHeap::new(), BTreeMap::new());
        Self { now: 0, events, bodies, pushed: 0, fingerprint: 0, random }
    }

    /// The instant of global time: inside a step it includes what preemptions have taken.
    pub(crate) fn now(&self) -> u64 {
        if libc::current().is_some() { libc::now() } else { self.now }
    }

    /// Has the event happen at this instant, or now if it is past. Events of one instant happen in a random order.
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((at.max(self.now), self.random.bits(), self.pushed)));
        self.bodies.insert(self.pushed, event);
    }

    pub(crate) fn print(&mut self, what: u64) {
        self.fingerprint = Random::new(self.fingerprint ^ what).bits();
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        let Reverse((at, _, number)) = self.events.pop()?;
        self.now = at;
        self.print(at ^ number);
        self.bodies.remove(&number)
    }
}
