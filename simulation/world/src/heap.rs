//! The heap of events in global time, and all that they change.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::network::{Direction, Network};
use crate::process::{Happening, Process, ProcessId};
use crate::random::Random;
use crate::{ConnectionId, libc};

/// Something that happens at an instant.
#[derive(Debug)]
pub(crate) enum Event {
    /// A process has something to do. With a number, only if its timers are those of then.
    Step(ProcessId, Option<u64>),
    /// Segments reach an end of a connection.
    Arrive(ConnectionId, Direction),
    /// Something of the caller's.
    Custom(u64),
}

/// The state of the world, except for the runtimes of its processes.
pub(crate) struct Heap {
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, u64)>>,
    bodies: BTreeMap<u64, Event>,
    pushed: u64,
    /// Changes with everything that happens.
    pub(crate) fingerprint: u64,
    pub(crate) random: Random,
    pub(crate) processes: BTreeMap<ProcessId, Process>,
    pub(crate) network: Network,
    pub(crate) happened: VecDeque<Happening>,
}

impl Heap {
    fn new() -> Self {
        Self {
            now: 0,
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            pushed: 0,
            fingerprint: 0,
            random: Random::new(0),
            processes: BTreeMap::new(),
            network: Network::default(),
            happened: VecDeque::new(),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// The instant at which something happens that is done now: inside a step, after what preemptions have taken.
    pub(crate) fn instant(&self) -> u64 {
        if libc::is_inside() { libc::now() } else { self.now }
    }

    /// Has the event happen at this instant, or now if it is past. Events of one instant happen in a random order.
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.pushed += 1;
        self.events.push(Reverse((at.max(self.now), self.random.bits(), self.pushed)));
        self.bodies.insert(self.pushed, event);
    }

    /// Makes this a part of the fingerprint.
    pub(crate) fn print(&mut self, what: u64) {
        self.fingerprint = Random::new(self.fingerprint ^ what).bits();
    }

    /// Goes on to the next event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let Reverse((at, _, number)) = self.events.pop()?;
        self.now = at;
        self.print(at ^ number);
        self.bodies.remove(&number)
    }
}

thread_local! {
    static HEAP: RefCell<Heap> = RefCell::new(Heap::new());
}

/// Calls the function with the heap. It must not wake or drop anything of a process, because a process calls this, too.
pub(crate) fn with<T>(function: impl FnOnce(&mut Heap) -> T) -> T {
    HEAP.with_borrow_mut(function)
}

/// Begins anew, with this seed.
pub(crate) fn begin(seed: u64) {
    let old = HEAP.replace(Heap::new());
    drop(old);
    let mut random = Random::new(seed);
    libc::begin(random.bits());
    with(|heap| heap.random = random);
}
