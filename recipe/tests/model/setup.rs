//! What a model consists of, what may go wrong in it, and which rule of the world or of the machine is broken on purpose.

use zklock_recipe::{Kind, Look, Patience, Takeover};

use super::mutant::Mutant;
use super::nodes::Make;
use super::step::Step;

/// What a model consists of, and how much may go wrong in it.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) contenders: Vec<Actor>,
    /// Contenders of another client, in the first queue.
    pub(crate) foreigners: Vec<Make>,
    pub(crate) takeover: Takeover,
    pub(crate) looks: Vec<Look>,
    /// Whether the directories are there from the beginning.
    pub(crate) directory: bool,
    /// The sessions that begin at a follower; there is one if there are any.
    pub(crate) following: Vec<usize>,
    /// With a clock, those sessions have production leases. The lease of any other lapses at some time before it ends.
    pub(crate) clock: Option<Clock>,
    pub(crate) settling: bool,
    pub(crate) giving_up: bool,
    /// How each way through the model begins. Here anybody may give up.
    pub(crate) opening: Vec<Step>,
    pub(crate) faults: Faults,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) mutant: Option<Mutant>,
}

/// One contender: its session, whether it waits, and the queues that it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) session: usize,
    pub(crate) patience: Patience,
    pub(crate) seats: Vec<Seat>,
}

/// A queue that a contender joins, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seat {
    pub(crate) queue: usize,
    pub(crate) kind: Kind,
}

/// Model time, and what depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// When the model ends, by the leader's clock.
    pub(crate) end: u8,
    /// A session's timeout: what the follower grants.
    pub(crate) timeout: u8,
    /// What the leader grants to those that come to it.
    pub(crate) lower: u8,
    /// What leases reckon with.
    pub(crate) drift_ppm: u32,
}

impl Clock {
    /// The servers' tick.
    pub(crate) const TICK: u8 = 2;
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) breaks: u8,
    /// Lapses of a lease.
    pub(crate) lapses: u8,
    pub(crate) expiries: u8,
    pub(crate) closings: u8,
    /// Stalls of a stream between the leader and its follower, if there is a clock; without, each message takes any time.
    pub(crate) stalls: u8,
    /// Heartbeats, if there is a clock.
    pub(crate) beats: u8,
    /// By how much the leader's clock gets ahead of the clients'.
    pub(crate) gains: u8,
    /// Requests to resume a session at the leader, of which the client never hears, and the leader at any time.
    pub(crate) halves: u8,
    /// Sessions that the leader takes from its queue a moment before it marks them, and may be touched in between.
    pub(crate) races: u8,
    /// Sessions that an operator ends, whatever their leases.
    pub(crate) evictions: u8,
    /// Removals of the empty directory.
    pub(crate) reaps: u8,
    /// Nodes that an operator deletes.
    pub(crate) deletions: u8,
    /// Removals of all directories at once, with all nodes in them, by an operator.
    pub(crate) uproots: u8,
    /// Writes to nodes, whosever they are, by somebody who is no contender.
    pub(crate) writes: u8,
    /// Creates that the server carries out, and answers by an error that does not say so.
    pub(crate) doubts: u8,
    /// Callers that stop polling their acquisition.
    pub(crate) neglects: u8,
    /// Callers that then poll again.
    pub(crate) returns: u8,
}

impl Faults {
    /// Whether anybody but its contender deletes a node, or writes to it.
    pub(crate) fn touch_nodes(&self) -> bool {
        self.deletions + self.writes + self.uproots > 0
    }
}

/// A rule of the world that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The server expires a session whose lease is still valid.
    LeaseIsTooLong,
    /// Nobody is told of a watch that is lost with its connection.
    WatchesAreForgotten,
    /// A follower that resumes a session answers its reads before it has what the leader had done by then.
    ReadsOvertakeTheBarrier,
    /// What was sent on a broken connection can be applied after a write on another one.
    OldConnectionLingers,
    /// A create on a connection that the session has left may be applied late.
    CreatesComeLate,
    /// The read that goes out with a create is answered from before it.
    ReadOvertakesCreate,
    /// A contender that looks for its node reads what its server has, instead of asking the quorum first.
    RecoveryIsLocal,
    /// A quorum write is taken for proof that the leader has heard of what was answered a lag before.
    WritesConfirmAlone,
    /// A takeover delay is shorter than a session timeout.
    DelayIsTooShort,
    /// Leases reckon with a leader whose clock is right.
    DriftIsIgnored,
    /// A session's first timeout is taken for that of every connection.
    LimitsAreIgnored,
    /// Requests to resume a session of which nothing was heard are forgotten.
    HalvesAreForgotten,
    /// A touch counts, however late the leader has heard of it.
    DoubtIsIgnored,
    /// An acquisition that nobody polls keeps its place.
    NobodyIsEvicted,
    /// A contender that does not find its node does not mind a node of its session that somebody has written to.
    WrittenNodesArePassedOver,
    /// A search is shared on a later connection than its own.
    SearchesOutliveConnections,
}

impl Setup {
    /// The number of queues.
    pub(crate) fn queues(&self) -> usize {
        let seats = self.contenders.iter().flat_map(|actor| &actor.seats);
        seats.map(|seat| seat.queue + 1).max().unwrap_or(1)
    }

    /// Whether it is noted who has to wait for a takeover delay. With a clock, guards show by themselves who should have.
    pub(crate) fn notes_delays(&self) -> bool {
        self.takeover == Takeover::Delayed && self.clock.is_none() && self.is_of_a_family()
    }

    /// Whether there are contenders of a kind that is not exclusive, or of several queues.
    pub(crate) fn is_of_a_family(&self) -> bool {
        self.contenders
            .iter()
            .any(|actor| *actor != Actor { patience: actor.patience, ..waits(actor.session) })
    }
}

/// One that waits for the lock of the first queue.
pub(crate) fn waits(session: usize) -> Actor {
    waits_for(session, &[writer(0)])
}

/// One that takes that lock only if it is free.
pub(crate) fn tries(session: usize) -> Actor {
    Actor { patience: Patience::Try, ..waits(session) }
}

/// One that waits to read in the first queue.
pub(crate) fn reads(session: usize) -> Actor {
    waits_for(session, &[reader(0)])
}

/// One that waits for all of these.
pub(crate) fn waits_for(session: usize, seats: &[Seat]) -> Actor {
    Actor { session, patience: Patience::Wait, seats: seats.to_vec() }
}

pub(crate) fn writer(queue: usize) -> Seat {
    Seat { queue, kind: Kind::Exclusive }
}

pub(crate) fn reader(queue: usize) -> Seat {
    Seat { queue, kind: Kind::Shared }
}

/// These contenders, for locks that nobody has used yet.
pub(crate) fn of(contenders: Vec<Actor>) -> Setup {
    Setup { contenders, ..waiters(0) }
}

/// Contenders that wait, each in a session of its own, for a lock that nobody has used yet.
pub(crate) fn waiters(number: usize) -> Setup {
    Setup {
        contenders: (0..number).map(waits).collect(),
        foreigners: Vec::new(),
        takeover: Takeover::AtOnce,
        looks: vec![Look::List, Look::Count],
        directory: true,
        following: Vec::new(),
        clock: None,
        settling: false,
        giving_up: true,
        opening: Vec::new(),
        faults: Faults::default(),
        flaw: None,
        mutant: None,
    }
}

/// The directory, too, comes and goes.
pub(crate) fn reaped(setup: Setup) -> Setup {
    Setup { directory: false, faults: Faults { reaps: 1, ..setup.faults }, ..setup }
}

/// Nobody gives up, and the queue is counted first: for what does not depend on either.
pub(crate) fn patient(setup: Setup) -> Setup {
    Setup { looks: vec![Look::Count], giving_up: false, ..setup }
}

pub(crate) fn with(faults: Faults, setup: Setup) -> Setup {
    Setup { faults, ..setup }
}

pub(crate) fn weakened(flaw: Flaw, setup: Setup) -> Setup {
    Setup { flaw: Some(flaw), ..setup }
}

pub(crate) fn mutated(mutant: Mutant, setup: Setup) -> Setup {
    Setup { mutant: Some(mutant), ..setup }
}

/// A client that honours our nodes is there, too, under names of its own or under names like ours. It may come first, in
/// between and last. Each of ours that sees it leaves.
pub(crate) fn mixed(make: Make, faults: Faults) -> Setup {
    with(faults, Setup { foreigners: vec![make], giving_up: false, ..waiters(2) })
}

/// Two contenders with a clock, one of them at a follower.
pub(crate) fn timed(end: u8, faults: Faults) -> Setup {
    let clock = Clock { end, timeout: 4, lower: 4, drift_ppm: 0 };
    with(faults, Setup { clock: Some(clock), following: vec![0], ..patient(waiters(2)) })
}
