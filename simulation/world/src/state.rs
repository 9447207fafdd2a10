//! All that is in the world, except for the runtimes of its processes. A process reaches it through its sockets and timers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::Waker;

use crate::clocks::Clocks;
use crate::heap::Heap;
use crate::ids::{Host, ProcessId};
use crate::libc::{self, Preemption};
use crate::network::Network;
use crate::random::Random;

pub(crate) struct State {
    pub(crate) heap: Heap,
    pub(crate) network: Network,
    pub(crate) processes: BTreeMap<ProcessId, Process>,
}

/// What a process is, except for its runtime.
pub(crate) struct Process {
    pub(crate) host: Host,
    pub(crate) clocks: Clocks,
    pub(crate) preemption: Preemption,
    /// Preemptions have taken the time up to this instant.
    pub(crate) busy: u64,
    /// How often signals have stopped it, or its machine was suspended. It is stepped when all of that is over.
    pub(crate) stops: u32,
    /// By what `CLOCK_MONOTONIC` shows then, and in order.
    pub(crate) timers: BTreeMap<(u64, u64), Waker>,
    /// How many timers were set.
    pub(crate) set: u64,
    /// What `CLOCK_MONOTONIC` shows when the runtime wants to be woken.
    pub(crate) wakes: Option<u64>,
    /// Which of its events with a number counts.
    pub(crate) number: u64,
    /// Whether bytes have come since it ran last.
    pub(crate) has_bytes: bool,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new(Random::new(0)));
}

impl State {
    fn new(random: Random) -> Self {
        Self { heap: Heap::new(random), network: Network::default(), processes: BTreeMap::new() }
    }
}

/// Calls the function with the state. It must not wake or drop anything of a process, because a process calls this, too.
pub(crate) fn with<T>(function: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(function)
}

/// Begins anew, with this seed.
pub(crate) fn begin(seed: u64) {
    let mut random = Random::new(seed);
    libc::begin(random.bits());
    drop(STATE.replace(State::new(random)));
}
