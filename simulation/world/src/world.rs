//! The world as its owner has it: it starts processes, and steps them until they are idle.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::Waker;

use tokio::runtime::{Builder, Runtime};

use crate::clocks::{Clock, Clocks, MILLISECOND};
use crate::heap::Event;
use crate::ids::{ConnectionId, Direction, Happening, Host, ProcessId};
use crate::libc::{self, Preemption};
use crate::network::Latency;
use crate::state::{self, Process, State};

/// The world, by its one owner.
pub struct World {
    runtimes: BTreeMap<ProcessId, Runtime>,
    started: u32,
}

impl World {
    /// Makes an empty world. This thread belongs to it from now on; a world that was there before is forgotten.
    pub fn new(seed: u64) -> Self {
        state::begin(seed);
        Self { runtimes: BTreeMap::new(), started: 0 }
    }

    /// Starts a process at a host. It runs when the world goes on.
    pub fn spawn<F>(
        &mut self,
        host: Host,
        clocks: Clocks,
        preemption: Preemption,
        main: impl FnOnce(ProcessId) -> F,
    ) -> ProcessId
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.started += 1;
        let id = ProcessId(self.started);
        let process = Process {
            host,
            clocks,
            preemption,
            busy: 0,
            stops: 0,
            timers: BTreeMap::new(),
            set: 0,
            wakes: None,
            number: 0,
            has_bytes: false,
        };
        let now = state::with(|state| {
            state.processes.insert(id, process);
            state.heap.push(state.heap.now(), Event::Step(id, None));
            state.heap.now()
        });
        let runtime = inside(id, clocks, now, Preemption::default(), || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.spawn(main(id));
            runtime
        });
        self.runtimes.insert(id, runtime);
        id
    }

    /// Calls the function as a part of the process at this instant, as if the process ran now. None of its tasks runs.
    /// Returns `None` if the process is gone.
    pub fn within<T>(&self, id: ProcessId, function: impl FnOnce() -> T) -> Option<T> {
        let (clocks, now) =
            state::with(|state| state.processes.get(&id).map(|process| (process.clocks, state.heap.now())))?;
        Some(inside(id, clocks, now, Preemption::default(), function))
    }

    /// Stops the process, as a signal does: its clocks go on, and the kernel takes what arrives for it.
    pub fn stop(&mut self, id: ProcessId) {
        change(id, |process, _| process.stops += 1);
    }

    /// From now on no preemption of a process that runs takes longer than this many nanoseconds.
    pub fn shorten_preemptions(&mut self, longest: u64) {
        state::with(|state| {
            for process in state.processes.values_mut() {
                process.preemption.longest = process.preemption.longest.min(longest);
            }
        });
    }

    /// Has the process run, as a signal does that it handles.
    pub fn wake(&mut self, id: ProcessId) {
        state::with(|state| state.heap.push(state.heap.now(), Event::Step(id, None)));
    }

    /// Has a stopped process go on.
    pub fn go_on(&mut self, id: ProcessId) {
        change(id, |process, _| process.stops = process.stops.saturating_sub(1));
        self.wake(id);
    }

    /// Changes the clocks of the process.
    pub fn turn_clocks(&mut self, id: ProcessId, turn: impl FnOnce(&mut Clocks, u64)) {
        change(id, |process, now| turn(&mut process.clocks, now));
    }

    /// Ends the process at once, as SIGKILL does. Its kernel closes its connections, unless the machine has died with it:
    /// then nobody hears of it.
    pub fn kill(&mut self, id: ProcessId, with_its_machine: bool) {
        let Some(runtime) = self.runtimes.remove(&id) else { return };
        let Some((process, now)) =
            state::with(|state| state.processes.remove(&id).map(|process| (process, state.heap.now())))
        else {
            return;
        };
        let ends = state::with(|state| state.network.abandon(&mut state.heap, id, with_its_machine));
        inside(id, process.clocks, now, Preemption::default(), || drop((runtime, process.timers, ends)));
    }

    /// A number that changes with everything that happens: two runs that took the same steps have the same one.
    pub fn fingerprint(&self) -> u64 {
        state::with(|state| state.heap.fingerprint)
    }

    /// The instant of global time.
    pub fn now(&self) -> u64 {
        state::with(|state| state.heap.now())
    }

    /// Goes on until something happens that the caller acts upon. Returns `None` if nothing will ever happen any more.
    pub fn advance(&mut self) -> Option<Happening> {
        loop {
            if let Some(happening) = state::with(|state| state.network.happened.pop_front()) {
                return Some(happening);
            }
            match state::with(|state| state.heap.pop())? {
                Event::Step(id, number) => {
                    if self.step(id, number) {
                        return Some(Happening::Read(id));
                    }
                }
                Event::Arrive(connection, direction) => {
                    let (wakers, process) = state::with(|state| {
                        let arrived = state.network.arrive(&mut state.heap, connection, direction);
                        let process = arrived.1.and_then(|id| state.processes.get_mut(&id));
                        process.into_iter().for_each(|it| it.has_bytes |= direction == Direction::ToClient);
                        arrived
                    });
                    wakers.into_iter().for_each(Waker::wake);
                    if let Some(id) = process
                        && self.step(id, None)
                    {
                        return Some(Happening::Read(id));
                    }
                }
                Event::Custom(number) => return Some(Happening::Custom(number)),
            }
        }
    }

    /// Returns whether the process has run, and has taken in bytes.
    fn step(&mut self, id: ProcessId, number: Option<u64>) -> bool {
        let Some(runtime) = self.runtimes.get(&id) else { return false };
        let begun = state::with(|state| {
            let now = state.heap.now();
            let process = state.processes.get_mut(&id)?;
            if process.stops > 0 || number.is_some_and(|number| number != process.number) {
                return None;
            }
            if process.busy > now {
                let busy = process.busy;
                state.heap.push(busy, Event::Step(id, None));
                return None;
            }
            let shown = process.clocks.read(Clock::Monotonic, now);
            let later = process.timers.split_off(&(shown + 1, 0));
            let due = std::mem::replace(&mut process.timers, later);
            let has_bytes = std::mem::take(&mut process.has_bytes);
            Some((process.clocks, process.preemption, now, due, has_bytes))
        });
        let Some((clocks, preemption, now, due, has_bytes)) = begun else { return false };
        due.into_values().for_each(Waker::wake);
        let mut busy = now;
        let wakes = inside(id, clocks, now, preemption, || {
            let wakes = runtime.block_on(poll_fn(libc::poll_asleep));
            busy = libc::now();
            wakes.map(|milliseconds| libc::last_read() + milliseconds * MILLISECOND)
        });
        state::with(|state| {
            if let Some(process) = state.processes.get_mut(&id) {
                (process.busy, process.wakes) = (busy, wakes);
            }
            schedule(state, id);
        });
        has_bytes
    }

    /// Writes bytes to the client of a connection.
    pub fn send(&mut self, connection: ConnectionId, bytes: Vec<u8>) {
        state::with(|state| state.network.send(&mut state.heap, connection, bytes));
    }

    /// Has a firewall refuse the client's new connections to this server, or let them pass again.
    pub fn refuse(&mut self, client: Host, server: Host, refuses: bool) {
        state::with(|state| state.network.refuse(client, server, refuses));
    }

    /// Closes the server's end of a connection; what was written before arrives first.
    pub fn close(&mut self, connection: ConnectionId) {
        state::with(|state| state.network.close(&mut state.heap, connection));
    }

    /// Has clients reach this host from now on, or be refused by it. If it refuses, its connections are reset.
    pub fn listen(&mut self, host: Host, listens: bool) {
        state::with(|state| state.network.listen(&mut state.heap, host, listens));
    }

    /// Cuts the way from one host to another, or heals it. What is sent meanwhile arrives after that.
    pub fn cut(&mut self, from: Host, to: Host, is_cut: bool) {
        state::with(|state| state.network.cut(&mut state.heap, from, to, is_cut));
    }

    /// Resets every connection between two hosts. Bytes under way are lost.
    pub fn reset(&mut self, one: Host, other: Host) {
        state::with(|state| state.network.reset(&mut state.heap, one, other));
    }

    /// Returns whether the way is cut.
    pub fn is_cut(&self, from: Host, to: Host) -> bool {
        state::with(|state| state.network.is_cut(from, to))
    }

    /// The client of a connection.
    pub fn client(&self, connection: ConnectionId) -> Option<Host> {
        state::with(|state| state.network.client(connection))
    }

    /// The server of a client's first connection that is open.
    pub fn server_of(&self, client: Host) -> Option<Host> {
        state::with(|state| state.network.server_of(client))
    }

    /// Has [`advance`](Self::advance) return `Custom` with this number as this client sends something, or receives something, after
    /// it has done so a number of times.
    pub fn await_bytes(&mut self, client: Host, direction: Direction, skipped: u32, number: u64) {
        state::with(|state| state.network.await_bytes(client, direction, skipped, number));
    }

    /// Sets how long bytes take from one host to another.
    pub fn set_latency(&mut self, from: Host, to: Host, latency: Latency) {
        state::with(|state| state.network.set_latency(from, to, latency));
    }

    /// Draws how long one message takes from one host to another, in nanoseconds.
    pub fn latency(&mut self, from: Host, to: Host) -> u64 {
        state::with(|state| state.network.latency(from, to).draw(&mut state.heap.random))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for id in self.runtimes.keys().copied().collect::<Vec<_>>() {
            self.kill(id, true);
        }
    }
}

fn inside<T>(
    id: ProcessId,
    clocks: Clocks,
    now: u64,
    preemption: Preemption,
    function: impl FnOnce() -> T,
) -> T {
    libc::enter(id, clocks, now, preemption);
    let returned = function();
    libc::leave();
    returned
}

fn change(id: ProcessId, function: impl FnOnce(&mut Process, u64)) {
    state::with(|state| {
        let now = state.heap.now();
        if let Some(process) = state.processes.get_mut(&id) {
            function(process, now);
            schedule(state, id);
        }
    });
}

/// Has the process stepped when its next timer is due.
fn schedule(state: &mut State, id: ProcessId) {
    let Some(process) = state.processes.get_mut(&id) else { return };
    process.number += 1;
    let first = process.timers.keys().next().map(|(at, _)| *at);
    let Some(next) = first.into_iter().chain(process.wakes).min() else { return };
    if let Some(when) = process.clocks.when_monotonic(next) {
        let (when, number) = (when.max(process.busy), process.number);
        state.heap.push(when, Event::Step(id, Some(number)));
    }
}
