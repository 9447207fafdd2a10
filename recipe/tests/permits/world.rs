//! The contenders of one pool, its turnstile and its permits.

use zklock_recipe::admission::{Admission, Seen};
use zklock_recipe::{Kind, Own, Patience, Place, Sequence, Stock, Takeover, Wish};

/// A contender, by its index in the world.
pub(crate) type Party = usize;

/// The number of a node in the turnstile. It also stands for the id of the acquisition, which the permit has.
pub(crate) type Ticket = u8;

/// What a model consists of, and what is broken on purpose.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// What each contender asks for.
    pub(crate) wishes: Vec<(Wish, Patience)>,
    pub(crate) stock: Stock,
    pub(crate) takeover: Takeover,
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
    /// Callers that go, or do not poll, before they have their permit.
    pub(crate) departures: u8,
    /// Permits that an operator deletes.
    pub(crate) evictions: u8,
    /// Nodes in the turnstile that an operator deletes.
    pub(crate) displacements: u8,
    /// Nodes in the turnstile that an operator writes to.
    pub(crate) touches: u8,
    /// Changes of the stock, to each of the neighbouring numbers.
    pub(crate) changes: u8,
}

/// A rule that a contender breaks: in the machine's place, or in that of the servers' client.
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
    /// Takes an unknown outcome for a failure, and tries again at once, whether or not it still has the turnstile. Its transaction
    /// does not check that either.
    TriesAgain,
    /// Has a lease that lasts longer than its session.
    OutlivesItsSession,
    /// Leaves the turnstile and forgets that an earlier transaction may still be carried out.
    ForgetsItsDoubt,
    /// Waits for an answer that nobody gives when it asks what became of its transaction.
    StopsAtSilence,
    /// Goes on as if its caller had not gone while its transaction was under way.
    ForgetsThatItsCallerHasGone,
    /// Takes a node in the turnstile that is gone for the end of its attempts, without looking for the permit.
    TakesGoneForFailed,
    /// Stops looking for its permit when nobody answers, once its caller has gone.
    GivesItsDoubtUp,
    /// Takes a node in the turnstile that somebody wrote to for one that is gone.
    TakesTouchedForGone,
    /// Waits for room though it only tries.
    WaitsThoughItTries,
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
    /// A permit was granted beyond what the pool has, or a slot twice.
    Exceeded,
    /// One acquisition got two permits.
    Twice,
    /// Somebody was granted a permit before one who came first.
    Overtaken,
    /// A valid guard has no node, and no operator has deleted it.
    Hollow,
    /// Somebody was granted what a permit left that had vanished while it waited, and had not delayed since.
    Undelayed,
    /// One that only tries waited.
    TriedAndWaited,
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
    FoundBusy,
    FoundTouched,
    TookAnotherSlot,
}

impl From<Witness> for u8 {
    fn from(witness: Witness) -> Self {
        witness as Self
    }
}

/// A permit or a slot that is held. It has its party, and the ticket of its acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Permit {
    pub(crate) party: Party,
    pub(crate) ticket: Ticket,
    pub(crate) kind: Kind,
}

impl Permit {
    pub(crate) fn own(self) -> Own {
        let place = Place { sequence: Sequence(i32::from(self.ticket)), kind: self.kind };
        Own { place, czxid: i64::from(self.ticket) }
    }
}

/// The directory of permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pool {
    pub(crate) version: u8,
    pub(crate) stock: Stock,
    pub(crate) permits: Vec<Permit>,
}

impl Pool {
    /// What a look shows.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            data: Vec::new(),
            stock: Some(self.stock),
            version: i32::from(self.version),
            czxid: 0,
            children: self.permits.iter().map(|permit| permit.own().place.name()).collect(),
            connection: 0,
        }
    }

    /// Whether more is held than there is, or a slot twice.
    pub(crate) fn is_exceeded(&self) -> bool {
        let kinds = || self.permits.iter().map(|permit| permit.kind);
        match self.stock {
            Stock::Permits(capacity) => {
                let weight = |kind| if let Kind::Permit(weight) = kind { weight } else { 0 };
                kinds().map(weight).sum::<u32>() > capacity
            }
            Stock::Slots(count) => {
                let distinct =
                    kinds().enumerate().all(|(index, kind)| !kinds().take(index).any(|it| it == kind));
                self.permits.len() > count as usize || !distinct
            }
        }
    }

    pub(crate) fn permit(&self, party: Party, ticket: Ticket) -> Option<Permit> {
        self.permits.iter().copied().find(|permit| (permit.party, permit.ticket) == (party, ticket))
    }

    pub(crate) fn remove(&mut self, party: Party, ticket: Ticket) {
        self.permits.retain(|permit| (permit.party, permit.ticket) != (party, ticket));
    }
}

/// A transaction that admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) ticket: Ticket,
    pub(crate) version: i32,
    pub(crate) kind: Kind,
    /// Before the look by which it was made, a permit has vanished, and no delay has passed since.
    pub(crate) owes: bool,
    /// No delay came before it.
    pub(crate) at_once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    Admitted(Kind),
    Changed,
    NotHeld,
}

/// What the machine has asked for last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pending {
    Nothing,
    Look,
    /// The server has read the data, and not the permits; or the other way round, if the mutant is broken. Whether it is one
    /// that is behind.
    HalfLooked(Seen, bool),
    Watch(Seen),
    /// It watches the pool. A change has been reported, or not.
    Wait {
        changed: bool,
    },
    /// It waits for a watch that is lost, because it is broken.
    Deaf,
    Delay,
    /// The transaction is on its way there.
    Attempt(Attempt),
    /// The answer is on its way back.
    Answered(Reply),
    Settle,
    /// The server has read our node in the turnstile. Broken, it has looked for the permit instead.
    HalfSettled(Half),
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Half {
    Standing(zklock_recipe::admission::Standing),
    Permit(Option<Own>),
}

/// How far a contender is, beside its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// It is about to enter the turnstile.
    Idle,
    /// It waits in the turnstile, or is admitted by its machine.
    Waiting,
    /// It has a valid guard.
    Held,
    /// Its guard is lost, and its permit may be there.
    Lapsed,
    /// It has gone, or has its answer.
    Done,
}

/// Why a contender must delay. Only mutants make a difference between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Reasons {
    pub(crate) turnstile: bool,
    pub(crate) room: bool,
    pub(crate) attempt: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    pub(crate) caller: Caller,
    /// `None` while it is not the first in the turnstile.
    pub(crate) machine: Option<Admission>,
    pub(crate) pending: Pending,
    pub(crate) ticket: Ticket,
    /// Its node in the turnstile is being deleted in the background.
    pub(crate) departs: bool,
    /// The connection of its last look is lost.
    pub(crate) cut: bool,
    /// Transactions of lost connections that may still be carried out.
    pub(crate) strays: Vec<Attempt>,
    /// An operator has deleted its permit.
    pub(crate) evicted: bool,
    pub(crate) reasons: Reasons,
    /// It has waited for somebody, or seen what is there, so that no later end may surprise it.
    pub(crate) waited: bool,
    /// Since then a permit has vanished, and no delay has passed since that.
    pub(crate) owes: bool,
    /// As that, and it has not listed the permits since.
    pub(crate) owes_since_its_look: bool,
}

/// A node in the turnstile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InTurnstile {
    pub(crate) party: Party,
    pub(crate) ticket: Ticket,
    pub(crate) touched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The turnstile, the first one first.
    pub(crate) queue: Vec<InTurnstile>,
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
        let contender = Contender {
            caller: Caller::Idle,
            machine: None,
            pending: Pending::Nothing,
            ticket: 0,
            departs: false,
            cut: false,
            strays: Vec::new(),
            evicted: false,
            reasons: Reasons::default(),
            waited: false,
            owes: false,
            owes_since_its_look: false,
        };
        Self {
            queue: Vec::new(),
            next: 0,
            pool: Pool { version: 0, stock: setup.stock, permits: Vec::new() },
            past: None,
            contenders: vec![contender; setup.wishes.len()],
            faults: setup.faults,
            breach: None,
        }
    }

    /// The contender's own node in the turnstile.
    pub(crate) fn ticket(&self, party: Party) -> Option<InTurnstile> {
        let ticket = self.contenders[party].ticket;
        self.queue.iter().copied().find(|node| (node.party, node.ticket) == (party, ticket))
    }

    pub(crate) fn is_first(&self, party: Party) -> bool {
        self.ticket(party).is_some() && self.queue.first().copied() == self.ticket(party)
    }

    pub(crate) fn leave_turnstile(&mut self, party: Party) {
        self.queue.retain(|node| node.party != party);
    }

    /// Changes the pool. Those that watch it hear of that; of a change of the data alone only those that watch the data.
    pub(crate) fn change(&mut self, setup: &Setup, data_only: bool, change: impl FnOnce(&mut Pool)) {
        self.past = (self.faults.stale > 0).then(|| self.pool.clone());
        change(&mut self.pool);
        for contender in &mut self.contenders {
            if let Pending::Wait { changed } = &mut contender.pending {
                *changed |= !(data_only && setup.mutant == Some(Mutant::WatchesPermitsOnly));
            }
        }
    }

    /// A permit is gone, and nobody knows what its holder still has under way.
    pub(crate) fn vanish(&mut self, setup: &Setup) {
        for contender in &mut self.contenders {
            let owes = setup.takeover == Takeover::Delayed && contender.waited;
            contender.owes |= owes;
            contender.owes_since_its_look |= owes;
        }
    }

    pub(crate) fn breach(&mut self, breach: Breach) {
        self.breach = self.breach.or(Some(breach));
    }
}
