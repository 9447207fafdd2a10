//! What a model consists of, what may go wrong in it, and which rule of the world or of the machine is broken on purpose.

use zklock_recipe::{Kind, Patience, Takeover};

use super::mutant::Mutant;
use super::nodes::Make;
use super::step::Step;

/// What a model consists of, and what may go wrong in it.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) contenders: Vec<Actor>,
    /// Contenders of another client, in the first queue.
    pub(crate) foreigners: Vec<Make>,
    pub(crate) takeover: Takeover,
    /// How a contender that enters may look at its queue. Each read is any of these.
    pub(crate) looks: Vec<Look>,
    /// Whether the directories are there from the beginning.
    pub(crate) directory: bool,
    /// The sessions that begin at a follower; there is one if there are any.
    pub(crate) following: Vec<usize>,
    /// With a clock, those sessions have production leases. The lease of any other lapses at some time before it ends.
    pub(crate) clock: Option<Clock>,
    /// With a clock, for how long a guard is valid at most.
    pub(crate) longest: Option<u8>,
    pub(crate) settling: bool,
    pub(crate) giving_up: bool,
    /// How each way through the model begins. Here anybody may give up.
    pub(crate) opening: Vec<Step>,
    /// What may go wrong, each as often as it is named.
    pub(crate) faults: Vec<Fault>,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) mutant: Option<Mutant>,
}

/// The read behind a create. In the library it depends on what was seen of the queue before, by any acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    List,
    Count,
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

/// What may go wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A connection breaks.
    Break,
    /// A lease lapses.
    Lapse,
    Expiry,
    Closing,
    /// A stream between the leader and its follower stands still, if there is a clock; without, each message takes any time.
    Stall,
    /// A heartbeat, if there is a clock.
    Beat,
    /// The leader's clock gets ahead of the clients' by one.
    Gain,
    /// A request to resume a session at the leader, of which the client never hears, and the leader at any time.
    Half,
    /// The leader takes a session from its queue a moment before it marks it, and it may be touched in between.
    Race,
    /// An operator ends a session, whatever its lease.
    Eviction,
    /// The empty directory is removed.
    Reap,
    /// An operator deletes a node.
    Deletion,
    /// An operator removes all directories at once, with all nodes in them.
    Uprooting,
    /// Somebody who is no contender writes to a node, whosever it is.
    Write,
    /// The server carries a create out, and answers by an error that does not say so.
    Doubt,
    /// A caller stops polling its acquisition.
    Neglect,
    /// It then polls again.
    Return,
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
    /// A request to resume a session goes to a server that has not said which timeout it grants.
    LimitsAreLearnedLate,
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
    /// These faults may happen as well.
    pub(crate) fn with(mut self, faults: &[Fault]) -> Self {
        self.faults.extend_from_slice(faults);
        self
    }

    /// The directory, too, comes and goes.
    pub(crate) fn reaped(self) -> Self {
        Self { directory: false, ..self.with(&[Fault::Reap]) }
    }

    /// Nobody gives up, and the queue is counted first: for what does not depend on either.
    pub(crate) fn patient(self) -> Self {
        Self { giving_up: false, ..self.counting() }
    }

    /// Each looks at the queue by its count first.
    pub(crate) fn counting(self) -> Self {
        Self { looks: vec![Look::Count], ..self }
    }

    /// A vanished guard is not taken over at once.
    pub(crate) fn delayed(self) -> Self {
        Self { takeover: Takeover::Delayed, ..self }
    }

    /// Guards are valid for so long at most.
    pub(crate) fn limited(self, longest: u8) -> Self {
        Self { longest: Some(longest), ..self }
    }

    /// Holders watch their own nodes.
    pub(crate) fn settling(self) -> Self {
        Self { settling: true, ..self }
    }

    /// These sessions begin at a follower.
    pub(crate) fn following(self, sessions: &[usize]) -> Self {
        Self { following: sessions.to_vec(), ..self }
    }

    pub(crate) fn weakened(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    /// Whether one of these may happen.
    pub(crate) fn may(&self, faults: &[Fault]) -> bool {
        self.faults.iter().any(|fault| faults.contains(fault))
    }

    /// Whether an operator deletes nodes, or ends sessions.
    pub(crate) fn is_meddled_with(&self) -> bool {
        self.may(&[Fault::Deletion, Fault::Eviction, Fault::Uprooting])
    }

    /// Whether somebody forges releases.
    pub(crate) fn is_forged(&self) -> bool {
        self.foreigners.contains(&Make::Forger)
    }

    /// Whether two may hold the lock, as far as the protocol goes: an operator interferes, or a release is forged and no takeover delay
    /// has its successor look.
    pub(crate) fn is_overridden(&self) -> bool {
        self.is_meddled_with() || self.is_forged() && self.takeover == Takeover::AtOnce
    }

    /// Whether anybody but its contender deletes a node, or writes to it.
    pub(crate) fn touches_nodes(&self) -> bool {
        self.may(&[Fault::Deletion, Fault::Write, Fault::Uprooting])
    }

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
    Setup {
        contenders,
        foreigners: Vec::new(),
        takeover: Takeover::AtOnce,
        looks: vec![Look::List, Look::Count],
        directory: true,
        following: Vec::new(),
        clock: None,
        longest: None,
        settling: false,
        giving_up: true,
        opening: Vec::new(),
        faults: Vec::new(),
        flaw: None,
        mutant: None,
    }
}

/// Contenders that wait, each in a session of its own, for a lock that nobody has used yet.
pub(crate) fn waiters(number: usize) -> Setup {
    of((0..number).map(waits).collect())
}

/// A client that honours our nodes is there, too, under names of its own or under names like ours. It may come first, in
/// between and last. Each of ours that sees it leaves.
pub(crate) fn mixed(make: Make) -> Setup {
    Setup { foreigners: vec![make], giving_up: false, ..waiters(2) }
}

/// Two contenders with a clock, one of them at a follower.
pub(crate) fn timed(end: u8) -> Setup {
    let clock = Clock { end, timeout: 4, lower: 4, drift_ppm: 0 };
    Setup { clock: Some(clock), ..waiters(2).patient().following(&[0]) }
}
