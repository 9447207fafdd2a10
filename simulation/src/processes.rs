//! The processes of a run: faults kill them, and start them anew.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use world::{Host, Latency, MILLISECOND, Preemption, ProcessId, Random};
use zklock_contest::member::Member;

use crate::announcement;
use crate::cluster::{Cluster, host, server};
use crate::contender;
use crate::history;
use crate::operator::{self, Deed};
use crate::part::Part;

/// A run's processes. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Processes(Rc<RefCell<State>>);

struct State {
    part: Part,
    servers: u8,
    processes: u32,
    running: BTreeMap<u32, ProcessId>,
    /// How many stops of each kind last.
    stops: BTreeMap<(ProcessId, Stop), u32>,
    /// Tells each of them to close its session.
    closing: BTreeMap<ProcessId, Arc<Notify>>,
    latency: Latency,
    random: Random,
}

/// What keeps a process from running.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    Signal,
    /// Its machine is suspended, so most of its clocks stand still.
    Suspension,
}

const OPERATOR: Host = Host(99);

/// The longest time for which a scheduler takes the processor from a process that nobody stops, in nanoseconds.
pub(crate) const SCHEDULED: u64 = 100 * MILLISECOND;

pub(crate) fn is_server(host: Host) -> bool {
    host < OPERATOR
}

impl Processes {
    /// None of them runs yet.
    pub(crate) fn new(part: Part, servers: u8, processes: u32, latency: Latency, random: Random) -> Self {
        let running = BTreeMap::new();
        let stops = BTreeMap::new();
        let closing = BTreeMap::new();
        let state = State { part, servers, processes, running, stops, closing, latency, random };
        Self(Rc::new(RefCell::new(state)))
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.borrow().part.timeout
    }

    pub(crate) fn is_foreign(&self, client: u16) -> bool {
        self.0.borrow().part.is_foreign(client)
    }

    pub(crate) fn latency(&self) -> Latency {
        self.0.borrow().latency
    }

    /// Has messages take their time between all hosts.
    pub(crate) fn heal(&self, cluster: &mut Cluster) {
        for from in self.hosts() {
            self.hosts().into_iter().for_each(|to| cluster.world.set_latency(from, to, self.latency()));
        }
    }

    pub(crate) fn start(&self, cluster: &mut Cluster, process: u32) {
        let state = &mut *self.0.borrow_mut();
        if state.running.contains_key(&process) {
            return;
        }
        let often = state.random.below(3) as u16 * 20;
        // A holder of the other client that is stopped goes on for a moment.
        let is_foreign = state.part.is_foreign(process as u16 + 1);
        let often = if is_foreign { 0 } else { often };
        // Mostly a scheduler's; or a stop by a signal, which may come anywhere.
        let stop = 2 * state.part.timeout.as_nanos() as u64;
        let longest = if state.random.once_in(3) { stop } else { SCHEDULED };
        let preemption = Preemption { often, longest };
        let (part, random, clocks) = (state.part.clone(), state.random.fork(), cluster.clocks());
        let closing = Arc::new(Notify::new());
        let told = closing.clone();
        let run = |id| contender::run(id, process, part, random, told);
        let id = cluster.world.spawn(host(process), clocks, preemption, run);
        state.closing.insert(id, closing);
        if often > 0 && longest > SCHEDULED {
            history::stops_anyhow(id);
        }
        state.running.insert(process, id);
    }

    /// Has the process close its session, if it is not about to end anyway.
    pub(crate) fn close(&self, cluster: &mut Cluster, process: u32) {
        let state = self.0.borrow();
        if let Some(id) = state.running.get(&process) {
            cluster.world.within(*id, || state.closing[id].notify_one());
            cluster.world.wake(*id);
        }
    }

    pub(crate) fn kill(&self, cluster: &mut Cluster, process: u32, with_its_machine: bool) {
        if let Some(id) = self.0.borrow_mut().running.remove(&process) {
            cluster.world.kill(id, with_its_machine);
            history::gone(id);
        }
    }

    /// Has an operator do something, if need be to a contender of this process.
    pub(crate) fn operate(&self, cluster: &mut Cluster, deed: Deed, aim: Option<u32>) {
        let state = &mut *self.0.borrow_mut();
        let (part, mut random) = (state.part.clone(), state.random.fork());
        if let Deed::Delete | Deed::EndSession | Deed::Clear = deed {
            let client = aim.map(|process| process as u16 + 1);
            return operator::take(cluster, deed, &part, client, &mut random);
        }
        let clocks = cluster.clocks();
        cluster.world.spawn(OPERATOR, clocks, Preemption::default(), |_| operator::run(deed, part, random));
    }

    /// Breaks connections of an election's processes for a while, though nothing else is wrong.
    pub(crate) fn disturb(&self, cluster: &mut Cluster) {
        let State { part, random, .. } = &mut *self.0.borrow_mut();
        if part.member == Member::Election {
            announcement::disturb(cluster, part, random);
        }
    }

    /// Has an operator look at what is left of contenders that have finished, and say what is wrong with it.
    pub(crate) fn audit(&self, cluster: &mut Cluster, patience: Duration) {
        let (part, clocks) = (self.0.borrow().part.clone(), cluster.clocks());
        cluster.world.spawn(OPERATOR, clocks, Preemption::default(), |_| operator::audit(part, patience));
    }

    /// A stop begins or is over. Returns the process that it stops. `None` if that one has been replaced since.
    pub(crate) fn stops(&self, process: u32, stop: Stop, begins: bool) -> Option<ProcessId> {
        let state = &mut *self.0.borrow_mut();
        let id = *state.running.get(&process)?;
        let stops = state.stops.entry((id, stop)).or_default();
        *stops = if begins { *stops + 1 } else { stops.checked_sub(1)? };
        Some(id)
    }

    pub(crate) fn with(&self, process: u32, function: impl FnOnce(ProcessId)) {
        let id = self.0.borrow().running.get(&process).copied();
        if let Some(id) = id {
            function(id);
        }
    }

    pub(crate) fn hosts(&self) -> Vec<Host> {
        let state = self.0.borrow();
        (1..=state.servers).map(server).chain((0..state.processes).map(host)).collect()
    }
}
