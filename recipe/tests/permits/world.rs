//! The contenders of one semaphore, its turnstile and its permits.

use zklock_recipe::{Ruling, Stock, Wish, rule};

/// A contender, by its index in the world.
pub(crate) type Party = usize;

/// The number of a node in the turnstile. It also stands for the id of the acquisition, which the permit has.
pub(crate) type Ticket = u8;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// What each contender asks for.
    pub(crate) weights: &'static [u32],
    pub(crate) capacity: u32,
    /// Whether contenders have a takeover delay.
    pub(crate) delayed: bool,
    pub(crate) faults: Faults,
    pub(crate) mutant: Option<Mutant>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Connections that break while a contender waits for a reply, or for a change.
    pub(crate) breaks: u8,
    /// Transactions that are carried out after their contender has looked for them.
    pub(crate) late: u8,
    /// Sessions that end. The lease of a holder ends before.
    pub(crate) expiries: u8,
    /// Looks that a server answers from the past.
    pub(crate) stale: u8,
    /// Callers that go before they have their permit.
    pub(crate) departures: u8,
    /// Permits that an operator deletes.
    pub(crate) evictions: u8,
    /// Nodes in the turnstile that an operator deletes.
    pub(crate) displacements: u8,
    /// Changes of the capacity, to each of the neighbouring numbers.
    pub(crate) changes: u8,
}

/// A rule that a contender breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Its transaction does not check the version of the pool.
    IgnoresTheVersion,
    /// Counts itself among the permits that are held.
    CountsItself,
    /// Its transaction does not check its node in the turnstile.
    IgnoresTheTurnstile,
    /// Takes an unknown outcome for a failure, and queues again.
    TakesUnknownForFailed,
    /// Takes its permit before its turn if there is room.
    PassesTheLarge,
    /// Counts permits, and not their weights.
    SumsCounts,
    /// Lists the permits before it reads the version.
    ListsBeforeItReads,
    /// Reads the turnstile after it has listed its session's permits.
    SettlesInTheWrongOrder,
    /// Goes with its caller while its transaction is under way.
    DropsItsAttempt,
    /// Does not look again at what it sees when it sets its watch.
    TrustsItsFirstLook,
    /// Watches the permits, and not the capacity.
    WatchesPermitsOnly,
    /// Waits on when its connection, and so its watch, is lost.
    ForgetsThatItsWatchIsLost,
    /// Takes an unknown outcome for a failure, and tries again at once, whether or not it still has the turnstile.
    TriesAgain,
    /// Has a lease that lasts longer than its session.
    OutlivesItsSession,
    /// Leaves the turnstile and forgets that an earlier transaction may still be carried out.
    ForgetsItsDoubt,
    /// Does not delay after it has waited in the turnstile.
    ForgetsTheTurnstile,
    /// Does not delay after it has waited for room.
    ForgetsThatItWaited,
    /// Does not delay after an attempt in vain.
    ForgetsItsAttempt,
    /// Is admitted by what it sees after its delay.
    LooksAfterItsDelay,
}

/// What no step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Breach {
    /// A permit was granted beyond the capacity.
    Exceeded,
    /// One acquisition got two permits.
    Twice,
    /// Somebody was granted a permit before one who came first.
    Overtaken,
    /// A valid guard has no node, and no operator has deleted it.
    Hollow,
    /// Somebody was granted what a permit left that had vanished while it waited, and had not delayed since.
    Undelayed,
}

/// What has happened in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Witness {
    Waited,
    HeldTogether,
    LargeHeld,
    FoundRoomAtTheWatch,
    SentInVain,
    Adopted,
    NotCommitted,
    QueuedAgain,
    StrayApplied,
    StrayRefused,
    LateApplied,
    GivenBack,
    Expired,
    Told,
    AnsweredFromThePast,
    Refused,
    Delayed,
    VanishedInTheDelay,
    AdmittedAtOnce,
}

impl From<Witness> for u8 {
    fn from(witness: Witness) -> Self {
        witness as Self
    }
}

/// The directory of permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pool {
    pub(crate) version: u8,
    pub(crate) capacity: u32,
    /// The permits that are held: whose, of which acquisition, and their weights.
    pub(crate) permits: Vec<(Party, Ticket, u32)>,
}

impl Pool {
    pub(crate) fn taken(&self) -> u32 {
        self.permits.iter().map(|(.., weight)| weight).sum()
    }

    pub(crate) fn permit(&self, party: Party, ticket: Ticket) -> bool {
        self.permits.iter().any(|permit| (permit.0, permit.1) == (party, ticket))
    }

    pub(crate) fn remove(&mut self, party: Party, ticket: Ticket) {
        self.permits.retain(|permit| (permit.0, permit.1) != (party, ticket));
    }
}

/// What a contender has seen of the pool. The weights of the permits are all that counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) version: u8,
    pub(crate) capacity: u32,
    pub(crate) weights: Vec<u32>,
}

impl Seen {
    /// What the production rule says.
    pub(crate) fn ruling(&self, weight: u32, mutant: Option<Mutant>) -> Ruling {
        let mut weights = self.weights.clone();
        match mutant {
            Some(Mutant::CountsItself) => weights.push(weight),
            Some(Mutant::SumsCounts) => weights.iter_mut().for_each(|weight| *weight = 1),
            _ => {}
        }
        let name = |(number, weight)| format!("permit-{weight}-{number:010}");
        let children = weights.iter().enumerate().map(name).collect::<Vec<_>>();
        let stock = Stock::Permits(self.capacity);
        rule(&children, stock, stock, Wish::Permit(weight))
    }
}

/// A transaction that admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Admission {
    pub(crate) ticket: Ticket,
    pub(crate) version: u8,
    pub(crate) weight: u32,
    /// Before the look by which it was made, a permit has vanished, and no delay has passed since.
    pub(crate) owes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Admitted,
    Changed,
    NotHeld,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Idle,
    /// In the turnstile, or holding it: another look is due once it is the first.
    Queued,
    /// It has read the data, and not the permits; or the other way round, if it is broken.
    Looking(Seen, bool),
    /// It has seen no room, and is about to watch.
    Full(Seen),
    /// It watches the pool. A change has been reported, or not.
    Waiting {
        changed: bool,
    },
    /// It waits for a watch that is lost, because it is broken.
    Deaf,
    /// It lets its takeover delay pass before it sends this.
    Delaying(Admission),
    /// Its transaction is on its way there.
    Sent(Admission),
    /// The answer is on its way back.
    Answered(Reply),
    /// The outcome is unknown.
    Unknown,
    /// The outcome is unknown, and the node in the turnstile was there, or not. Broken, it knows of a permit instead.
    Settling(bool),
    /// It has a valid guard.
    Held,
    /// Its guard is lost, and its permit may be there.
    Lapsed,
    /// The caller has gone, and a transaction may still be carried out.
    Doubtful,
    /// As `Doubtful`, and the node in the turnstile was gone.
    Parting,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    pub(crate) stage: Stage,
    pub(crate) weight: u32,
    pub(crate) ticket: Ticket,
    /// The caller has gone.
    pub(crate) unwanted: bool,
    /// An attempt had an unknown outcome.
    pub(crate) in_doubt: bool,
    /// Transactions of lost connections that may still be carried out.
    pub(crate) strays: Vec<Admission>,
    /// An operator has deleted its permit.
    pub(crate) evicted: bool,
    /// It remembers that a delay applies.
    pub(crate) delays: bool,
    /// It has waited for somebody, or seen what is there, so that no later end may surprise it.
    pub(crate) waited: bool,
    /// Since then a permit has vanished, and no delay has passed since that.
    pub(crate) owes: bool,
    /// As that, and it has not listed the permits since.
    pub(crate) owes_since_its_look: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The turnstile, the first one first.
    pub(crate) queue: Vec<(Party, Ticket)>,
    pub(crate) next: Ticket,
    pub(crate) pool: Pool,
    /// The pool before its last change, as a server that is behind still has it.
    pub(crate) past: Option<Pool>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) faults: Faults,
    pub(crate) breach: Option<Breach>,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        let contender = |weight: &u32| Contender {
            stage: Stage::Idle,
            weight: *weight,
            ticket: 0,
            unwanted: false,
            in_doubt: false,
            strays: Vec::new(),
            evicted: false,
            delays: false,
            waited: false,
            owes: false,
            owes_since_its_look: false,
        };
        Self {
            queue: Vec::new(),
            next: 0,
            pool: Pool { version: 0, capacity: setup.capacity, permits: Vec::new() },
            past: None,
            contenders: setup.weights.iter().map(contender).collect(),
            faults: setup.faults,
            breach: None,
        }
    }

    /// Whether the contender's own node is in the turnstile.
    pub(crate) fn has_ticket(&self, party: Party) -> bool {
        self.queue.contains(&(party, self.contenders[party].ticket))
    }

    pub(crate) fn is_first(&self, party: Party) -> bool {
        self.queue.first() == Some(&(party, self.contenders[party].ticket))
    }

    pub(crate) fn leave_turnstile(&mut self, party: Party) {
        self.queue.retain(|(owner, _)| *owner != party);
    }

    /// Changes the pool. Those that watch it hear of that; of a change of the data alone only those that watch the data.
    pub(crate) fn change(&mut self, setup: &Setup, data_only: bool, change: impl FnOnce(&mut Pool)) {
        self.past = (self.faults.stale > 0).then(|| self.pool.clone());
        change(&mut self.pool);
        for contender in &mut self.contenders {
            if let Stage::Waiting { changed } = &mut contender.stage {
                *changed |= !(data_only && setup.mutant == Some(Mutant::WatchesPermitsOnly));
            }
        }
    }

    /// A permit is gone, and nobody knows what its holder still has under way.
    pub(crate) fn vanish(&mut self, setup: &Setup) {
        for contender in &mut self.contenders {
            let owes = setup.delayed && contender.waited;
            contender.owes |= owes;
            contender.owes_since_its_look |= owes;
        }
    }

    pub(crate) fn breach(&mut self, breach: Breach) {
        self.breach = self.breach.or(Some(breach));
    }
}
