//! Contenders: the caller, the machine and its driver.
//!
//! Contenders run the production [`Machine`]; what surrounds it follows the rules of the driver: a reply belongs to
//! the last request, a new request drops the reply to an earlier one, a deletion drops the watch.

use zklock_recipe::Term;
use zklock_recipe::{Arrival, Command, End, Event, Machine, Own, Patience, Sequence, Sight, Takeover};

use crate::findings::{Breach, Witness};
use crate::foreigner::Foreigner;
use crate::requests::{Change, Message, Request, Sent};
use crate::run::Run;
use crate::server::{Kind, Party};
use crate::session::{Assurance, at};
use crate::setup::{Clock, Flaw};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    pub(crate) session: usize,
    pub(crate) machine: Machine,
    pub(crate) patience: Patience,
    pub(crate) caller: Caller,
    pub(crate) settled: bool,
    /// Nobody polls it.
    pub(crate) neglected: bool,
    pub(crate) pending: Option<Pending>,
    pub(crate) watch: Option<(Kind, Sequence)>,
    /// Its own transaction has removed its own node.
    pub(crate) removed: bool,
    /// When its last request was sent, or its delay began.
    pub(crate) asked: u8,
    /// The term of the production lease that its guard was granted in.
    pub(crate) term: Option<Term>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pending {
    Request,
    /// An `Enter` whose create is answered already.
    Created(Own),
    Delay,
    Lease,
}

impl Contender {
    pub(crate) fn new(session: usize, patience: Patience, takeover: Takeover) -> Self {
        Self {
            session,
            machine: Machine::new(patience, takeover, Arrival::New),
            patience,
            caller: Caller::Idle,
            settled: false,
            neglected: false,
            pending: None,
            watch: None,
            removed: false,
            asked: 0,
            term: None,
        }
    }
}

/// The caller.
impl<W: Fn(Witness)> Run<'_, W> {
    pub(crate) fn give_up(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        contender.caller = Caller::Gone;
        (self.witness)(match (&contender.pending, &contender.watch) {
            (Some(Pending::Lease), _) => Witness::GiveUpOnceGranted,
            (Some(Pending::Delay), _) => Witness::GiveUpWhileDelayed,
            (_, Some(_)) => Witness::GiveUpWhileWaiting,
            _ => Witness::GiveUpWhileEntering,
        });
        self.handle(party, Event::GiveUp);
    }

    /// The caller polls again, and hears that the lease has come back meanwhile.
    pub(crate) fn poll(&mut self, party: Party) {
        (self.witness)(Witness::PolledAgain);
        self.world.faults.returns -= 1;
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
        self.handle(party, Event::Unanswered);
    }

    pub(crate) fn let_go(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let valid = contender.caller == Caller::Holding { valid: true };
        contender.caller = Caller::Gone;
        self.handle(party, if valid { Event::Release } else { Event::Forfeit });
    }
}

/// The driver.
impl<W: Fn(Witness)> Run<'_, W> {
    pub(crate) fn handle(&mut self, party: Party, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let cause = event.clone();
            let machine = &mut self.world.contenders[party].machine;
            let command = match self.setup.mutant {
                Some(mutant) => mutant.handle(machine, event),
                None => machine.handle(event),
            };
            let Some(command) = command else { return };
            match command {
                Command::Enter(look) => self.request(party, Request::Create(look)),
                Command::CreateDirectory => self.request(party, Request::CreateDirectory),
                Command::Recover => self.search(party),
                Command::List => self.request(party, Request::List),
                Command::WatchPredecessor(sequence) => {
                    self.request(party, Request::Watch(Kind::Predecessor, sequence));
                }
                Command::WatchOwn(sequence) => self.request(party, Request::Watch(Kind::Own, sequence)),
                Command::Release(sequence) => self.request(party, Request::Release(sequence)),
                Command::Delete(sequence) => {
                    self.world.contenders[party].watch = None;
                    self.request(party, Request::Delete(sequence));
                }
                Command::Delay => {
                    (self.witness)(Witness::TakeoverDelayed);
                    self.supersede(party);
                    let contender = &mut self.world.contenders[party];
                    contender.pending = Some(Pending::Delay);
                    contender.asked = self.world.now;
                }
                Command::Confirm => {
                    self.witness_confirm(&cause);
                    next = self.confirm(party);
                }
                Command::Grant(own) => self.grant(party, own),
                Command::Lose => self.lose(party),
                Command::End(end) => self.end(party, end),
            }
        }
    }

    /// At once while the lease is valid.
    fn confirm(&mut self, party: Party) -> Option<Event> {
        let contender = &mut self.world.contenders[party];
        let assurance = &self.world.sessions[contender.session].assurance;
        if assurance.is_valid(self.world.now) {
            return Some(Event::Confirmed);
        }
        match (assurance, contender.machine.own()) {
            (Assurance::Kept(_), Some(own)) => self.request(party, Request::Confirm(own.sequence)),
            _ => {
                self.supersede(party);
                self.world.contenders[party].pending = Some(Pending::Lease);
            }
        }
        None
    }

    /// A quorum has acknowledged what the contender asked last, or what its session sent then.
    fn confirmed(&mut self, session: usize, sent: u8) {
        let now = self.world.now;
        let (flaw, witness) = (self.setup.flaw, self.witness);
        self.world.sessions[session].assurance.hears(|lease| {
            let Some(connection) = lease.connection() else { return };
            let before = lease.remaining(at(now));
            lease.confirmed(connection, at(sent), at(now));
            if flaw == Some(Flaw::WritesConfirmAlone) {
                lease.confirmed(connection, at(now), at(now));
            }
            if flaw == Some(Flaw::DoubtIsIgnored) && lease.remaining(at(now)).is_zero() {
                lease.confirmed(connection, at(now + Clock::TICK), at(now));
            }
            if lease.remaining(at(now)) > before {
                witness(Witness::LeaseExtended);
            }
        });
    }

    /// As the driver does: an answer that leaves the lease invalid has to be asked for again.
    fn weigh(&mut self, party: Party, event: Event) -> Event {
        let Contender { session, asked, .. } = self.world.contenders[party];
        match event {
            Event::Entered { .. } => self.confirmed(session, asked),
            Event::Confirmed => {
                self.confirmed(session, asked);
                if !self.world.sessions[session].assurance.is_valid(self.world.now) {
                    return Event::Unanswered;
                }
            }
            _ => {}
        }
        event
    }

    fn witness_confirm(&self, cause: &Event) {
        match cause {
            Event::PredecessorReleased => (self.witness)(Witness::GrantByRelease),
            Event::Entered { sight: Sight::Count(_), .. } => (self.witness)(Witness::GrantByCount),
            Event::Entered { .. } | Event::Listed(_) => (self.witness)(Witness::GrantByListing),
            _ => {}
        }
    }

    fn request(&mut self, party: Party, request: Request) {
        self.supersede(party);
        let contender = &mut self.world.contenders[party];
        contender.pending = Some(Pending::Request);
        contender.asked = self.world.now;
        self.world.sessions[contender.session].up.push(Sent { party, request, awaited: true });
    }

    /// Looks for the own node. A contender whose create was lost with its connection shares a search of its session that
    /// was answered, and that nobody has taken in yet.
    fn search(&mut self, party: Party) {
        let Contender { session, ref machine, .. } = self.world.contenders[party];
        let shares = self.lost || self.setup.flaw == Some(Flaw::SearchesAreOld);
        let shared = self.world.sessions[session].down.iter().find_map(|(_, message)| match message {
            Message::Found(_, before) if shares && machine.own().is_none() => *before,
            _ => None,
        });
        let Some(before) = shared else { return self.request(party, Request::Recover) };
        (self.witness)(Witness::SearchShared);
        self.supersede(party);
        let node = self.world.server_of(session).node_of(party);
        let found = node.map(|node| node.own).filter(|own| own.czxid <= before);
        self.world.contenders[party].pending = Some(Pending::Request);
        self.world.sessions[session].down.push((party, Message::Found(found, shared)));
    }

    /// Drops the reply to whatever was asked before.
    fn supersede(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        contender.pending = None;
        let session = &mut self.world.sessions[contender.session];
        session
            .down
            .retain(|(to, message)| *to != party || message.is_heartbeat() || message.is_of_a_watch());
        let superseded =
            |sent: &&mut Sent| sent.party == party && sent.awaited && !sent.request.is_heartbeat();
        for sent in session.up.iter_mut().filter(superseded) {
            sent.awaited = false;
            if matches!(
                sent.request,
                Request::Create(_) | Request::Look(_) | Request::Recover | Request::Release(_)
            ) {
                self.world.breach.get_or_insert(Breach::SupersededWrite);
            }
        }
    }

    fn grant(&mut self, party: Party, own: Own) {
        let contender = &mut self.world.contenders[party];
        if contender.caller != Caller::Waiting {
            self.world.breach.get_or_insert(Breach::GrantToNobody);
        }
        if own.czxid <= self.world.last_token {
            self.world.breach.get_or_insert(Breach::TokenNotHigher);
        }
        self.world.last_token = self.world.last_token.max(own.czxid);
        contender.caller = Caller::Holding { valid: true };
        if let Assurance::Kept(lease) = &self.world.sessions[contender.session].assurance {
            contender.term = lease.term(at(self.world.now)).ok();
        }
        let waits = |(other, contender): (Party, &Contender)| {
            other != party
                && contender.caller == Caller::Waiting
                && self.world.server.node_of(other).is_some_and(|node| node.own.czxid < own.czxid)
        };
        if self.setup.faults.deletions == 0 && self.world.contenders.iter().enumerate().any(waits) {
            self.world.breach.get_or_insert(Breach::OutOfTurn);
        }
    }

    fn lose(&mut self, party: Party) {
        (self.witness)(Witness::HolderTold);
        let contender = &mut self.world.contenders[party];
        if !self.setup.faults.touch_nodes() || !matches!(contender.caller, Caller::Holding { .. }) {
            self.world.breach.get_or_insert(Breach::UnfoundedLoss);
        }
        contender.caller = Caller::Holding { valid: false };
    }

    fn end(&mut self, party: Party, end: End) {
        self.supersede(party);
        let contender = &mut self.world.contenders[party];
        let breach = match end {
            End::Released => (!contender.removed).then_some(Breach::ReleasedWithoutRemoval),
            End::GivenUp => (contender.caller != Caller::Gone).then_some(Breach::UnexpectedEnd),
            End::Busy => {
                (self.witness)(Witness::Busy);
                (contender.patience != Patience::Try).then_some(Breach::UnexpectedEnd)
            }
            End::NodeDeleted => {
                (self.witness)(Witness::ToldByMissingNode);
                (!self.setup.faults.touch_nodes()).then_some(Breach::UnexpectedEnd)
            }
            End::SessionOver(_) => None,
            End::Foreign(_) => {
                (self.witness)(Witness::ForeignerMet);
                self.world.foreigners.iter().all(Foreigner::is_idle).then_some(Breach::UnexpectedEnd)
            }
            End::Refused(_) | End::Exhausted(_) => Some(Breach::UnexpectedEnd),
        };
        if let Some(breach) = breach {
            self.world.breach.get_or_insert(breach);
        }
        contender.caller = Caller::Gone;
        contender.watch = None;
        contender.settled = false;
        contender.neglected = false;
        contender.removed = false;
        contender.asked = 0;
        contender.term = None;
        let session = &mut self.world.sessions[contender.session];
        session.down.retain(|(to, message)| *to != party || message.is_heartbeat());
    }

    pub(crate) fn deliver(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let session = &mut self.world.sessions[contender.session];
        let Some(index) = session.down.iter().position(|(to, _)| *to == party) else { return };
        let (_, message) = session.down.remove(index);
        let (now, index) = (self.world.now, contender.session);
        let event = match message {
            Message::Synced(sent) => {
                session.assurance.hears(|lease| {
                    if let Some(connection) = lease.connection() {
                        lease.synced(connection, at(sent), at(now));
                    }
                });
                let held =
                    |party: Party| self.world.contenders[party].caller == Caller::Holding { valid: true };
                if self.world.members(index).any(held) {
                    self.beat(index, Request::Beat(now));
                }
                return;
            }
            Message::Beaten(sent) => return self.confirmed(index, sent),
            Message::Created(own) => {
                contender.pending = Some(Pending::Created(own));
                return;
            }
            Message::Saw(sight) => match contender.pending.take() {
                Some(Pending::Created(own)) => Event::Entered { own, sight },
                _ => return,
            },
            Message::Failed => match contender.pending.take() {
                Some(Pending::Created(own)) => Event::Entered { own, sight: Sight::Nothing },
                _ => {
                    self.lost = true;
                    Event::Unanswered
                }
            },
            Message::Found(found, _) => {
                contender.pending = None;
                Event::Recovered(found)
            }
            Message::Reply(event) => {
                contender.pending = None;
                event
            }
            Message::Watched(kind, sequence) => {
                contender.pending = None;
                contender.watch = Some((kind, sequence));
                match kind {
                    Kind::Own => Event::OwnWatched(true),
                    Kind::Predecessor | Kind::Children => Event::PredecessorWatched(true),
                }
            }
            Message::WatchLost => {
                let Some((kind, sequence)) = contender.watch.take() else { return };
                if kind == Kind::Predecessor && self.world.server.node(sequence).is_none() {
                    (self.witness)(Witness::PredecessorVanishedWhileDisconnected);
                }
                Event::WatchLost
            }
            Message::Changed(kind, sequence, change) => {
                // The watch may have been dropped while this was under way.
                if contender.watch != Some((kind, sequence)) {
                    return;
                }
                if change == Change::WrittenAndDeleted {
                    (self.witness)(Witness::DeletedAfterAWrite);
                }
                let event = match (kind, change) {
                    (Kind::Own, _) => Event::OwnTouched,
                    (_, Change::Released) => Event::PredecessorReleased,
                    (_, change) if self.setup.mutant.is_some_and(|it| it.takes_for_a_release(change)) => {
                        Event::PredecessorReleased
                    }
                    // Its end is still to come.
                    (_, Change::Written) => return,
                    (_, Change::Deleted | Change::WrittenAndDeleted) => Event::PredecessorDeleted,
                };
                contender.watch = None;
                event
            }
        };
        let event = self.weigh(party, event);
        self.handle(party, event);
    }
}
