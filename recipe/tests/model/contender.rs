//! Contenders: what they know, and what their callers do.
//!
//! Contenders run the production [`Acquisition`], whose members sit in one queue each. `driver.rs` performs what it asks for.

use std::collections::BTreeSet;

use zklock_recipe::acquisition::{Acquisition, Input};
use zklock_recipe::{Arrival, Event, Kind, Limit, Own, Patience, QueuePlace, Takeover, Term};

use super::exploration::Run;
use super::findings::Witness;
use super::nodes::Party;
use super::setup::{Actor, Seat};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    pub(crate) session: usize,
    pub(crate) acquisition: Acquisition,
    pub(crate) patience: Patience,
    pub(crate) caller: Caller,
    pub(crate) settled: bool,
    /// Nobody polls it.
    pub(crate) neglected: bool,
    /// It has heard that one of its nodes is gone, or not as it was. Only models note it in which directories are uprooted.
    pub(crate) told: bool,
    /// One of its nodes was gone when something happened after which it has to look at them again: a connection came, a
    /// predecessor released the lock, a delay was over. Only models note it in which an operator deletes nodes.
    pub(crate) blind: bool,
    /// The connection on which a mutant believes to have seen its nodes.
    pub(crate) remembered: Option<u64>,
    /// What is under way for all members.
    pub(crate) joint: Option<Pending>,
    /// Of each member of the group.
    pub(crate) seats: Vec<Seated>,
    /// The term of the production lease that its guard was granted in.
    pub(crate) term: Option<Term>,
    /// The production limit of its guard.
    pub(crate) limit: Limit,
}

/// A member of a group, in its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seated {
    pub(crate) seat: Seat,
    pub(crate) pending: Option<Pending>,
    pub(crate) watch: Option<(Target, QueuePlace)>,
    /// Its own transaction has removed its own node.
    pub(crate) removed: bool,
    /// When its last request was sent, also one for all, or its delay began.
    pub(crate) asked: u8,
    /// It has waited for a predecessor. Only some models note it, and what follows.
    pub(crate) waited: bool,
    /// The kinds of the guards that have vanished in front of it since, and for which no delay has passed.
    pub(crate) owes: BTreeSet<Kind>,
    /// The writer in whose stead a mutant watches a reader.
    pub(crate) detour: Option<QueuePlace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// Has not begun.
    Idle,
    Waiting,
    Holding {
        valid: bool,
    },
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pending {
    Request,
    /// An `Enter` whose create is answered already.
    Created(Vec<Own>),
    Delay,
    /// The lease, which is to come back by itself.
    Lease,
}

/// What a contender watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// By two watches.
    Predecessor,
    Own,
}

impl Contender {
    /// Its group has a member for each of these.
    pub(crate) fn new(actor: &Actor, takeovers: impl IntoIterator<Item = Takeover, IntoIter: Clone>) -> Self {
        Self {
            session: actor.session,
            acquisition: Acquisition::new(actor.patience, Arrival::New, takeovers),
            patience: actor.patience,
            caller: Caller::Idle,
            settled: false,
            neglected: false,
            told: false,
            blind: false,
            remembered: None,
            joint: None,
            seats: actor.seats.iter().map(|seat| Seated::new(*seat)).collect(),
            term: None,
            limit: Limit::default(),
        }
    }

    pub(crate) fn holds(&self) -> bool {
        self.caller == Caller::Holding { valid: true }
    }

    /// Whether a member watches a node.
    pub(crate) fn watches(&self) -> bool {
        self.seats.iter().any(|seated| seated.watch.is_some())
    }

    /// The member in this queue.
    pub(crate) fn seat_in(&self, queue: usize) -> Option<usize> {
        self.seats.iter().position(|seated| seated.seat.queue == queue)
    }

    /// How many of its nodes it knows.
    pub(crate) fn known(&self) -> usize {
        self.places().filter(|(_, own)| own.is_some()).count()
    }

    /// The queues of the contender, with its nodes in them as far as it knows them.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, Option<Own>)> {
        let seats = self.seats.iter().enumerate();
        seats.map(|(seat, seated)| (seated.seat.queue, self.acquisition.own(seat)))
    }
}

impl Seated {
    pub(crate) fn new(seat: Seat) -> Self {
        Self {
            seat,
            pending: None,
            watch: None,
            removed: false,
            asked: 0,
            waited: false,
            owes: BTreeSet::new(),
            detour: None,
        }
    }
}

/// The caller.
impl Run<'_> {
    pub(crate) fn give_up(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        contender.caller = Caller::Gone;
        let delayed = contender.seats.iter().any(|seated| seated.pending == Some(Pending::Delay));
        (self.witness)(match &contender.joint {
            Some(Pending::Lease) => Witness::GiveUpOnceGranted,
            _ if delayed => Witness::GiveUpWhileDelayed,
            _ if contender.watches() => Witness::GiveUpWhileWaiting,
            _ => Witness::GiveUpWhileEntering,
        });
        self.handle(party, Event::GiveUp.into());
    }

    /// The caller polls again, and hears that the lease has come back meanwhile.
    pub(crate) fn poll(&mut self, party: Party) {
        (self.witness)(Witness::PolledAgain);
        self.world.contenders[party].neglected = false;
        if self.world.is_assured(party) {
            self.renewed(party);
        }
    }

    /// The session takes the place of a caller that does not poll, and gives that place up.
    pub(crate) fn evict(&mut self, party: Party) {
        (self.witness)(Witness::Evicted);
        self.world.contenders[party].neglected = false;
        self.give_up(party);
    }

    /// The lease is there that the contender waited for.
    pub(crate) fn renewed(&mut self, party: Party) {
        (self.witness)(Witness::GrantAfterLapse);
        self.handle(party, Input::LeaseConfirmed);
    }

    pub(crate) fn let_go(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let valid = contender.holds();
        contender.caller = Caller::Gone;
        self.handle(party, if valid { Event::Release } else { Event::Forfeit }.into());
    }
}
