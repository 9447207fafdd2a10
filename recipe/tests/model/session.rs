//! Sessions: their connections, which break and come back, their leases and their ends.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;
use std::time::Duration;

use zklock_recipe::{Event, Lapse, Lease, Moment, Present, Reckoning, SessionEnd, Term};

use super::contender::{Caller, Pending};
use super::exploration::Run;
use super::findings::Witness;
use super::follower::{Down, Up};
use super::mutant::Mutant;
use super::nodes::Party;
use super::requests::{Address, Message, Request, Sent};
use super::setup::{Clock, Flaw, Setup};
use super::tree::deletion;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// On the server.
    pub(crate) alive: bool,
    /// The client knows, and has told its contenders.
    pub(crate) over: bool,
    pub(crate) assurance: Assurance,
    pub(crate) connected: bool,
    /// The number of the present connection, or of the last one.
    pub(crate) number: Number,
    /// The server that it is connected to, or was last, is the follower.
    pub(crate) follows: bool,
    /// The follower has been asked to resume it.
    pub(crate) resuming: bool,
    /// When the leader expires it.
    pub(crate) expiry: u8,
    /// When the leader took it from its queue, to expire it.
    pub(crate) taken: Option<u8>,
    /// The leader has yet to hear of a request to resume it that was given up.
    pub(crate) half: bool,
    /// Requests under way, in order.
    pub(crate) up: Vec<Sent>,
    /// Writes under way on connections before, which the client knows nothing of any more.
    pub(crate) strays: Vec<Sent>,
    /// Replies and changes under way, in order, each with its connection.
    pub(crate) down: Vec<(Address, Message, Number)>,
    /// The creates that may come late: of these contenders, in these queues. Only models note them in which one does.
    pub(crate) late: Vec<(Party, usize)>,
}

/// The number of a connection. Worlds are taken for one that differ in their numbers alone: see [`World`](super::queues::World).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(pub(crate) u64);

impl Hash for Number {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// The term of a lease if nothing else is known of the lease.
pub(crate) static TERM: LazyLock<Term> = LazyLock::new(|| {
    let reckoning = Reckoning { tick: Duration::from_secs(2), drift_ppm: 0 };
    let lease = Lease::established(reckoning, Duration::from_secs(200), Moment::default()).ok();
    lease.and_then(|lease| lease.term(Moment::default()).ok()).expect("a lease of a long session")
});

/// What a guard's validity rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Assurance {
    /// A lease of which nothing is known but that it lapses before the session ends.
    Given(bool),
    /// The production lease.
    Kept(Box<Lease>),
}

impl Assurance {
    fn new(setup: &Setup, follows: bool) -> Self {
        let Some(clock) = setup.clock.filter(|_| follows) else { return Self::Given(true) };
        let drift_ppm = if setup.flaw == Some(Flaw::DriftIsIgnored) { 0 } else { clock.drift_ppm };
        let reckoning = Reckoning { tick: seconds(Clock::TICK), drift_ppm };
        let lease = Lease::established(reckoning, seconds(clock.timeout), at(0));
        Self::Kept(Box::new(lease.expect("a session timeout that heartbeats can keep")))
    }

    /// Leases are ample as soon as they are valid: a longer one would not hide more.
    fn present(&self, connection: Option<u64>, now: u8) -> Present {
        match self {
            Self::Given(valid) => {
                let term = if *valid { Ok(*TERM) } else { Err(Lapse::Unconfirmed) };
                Present { connection, term, is_ample: *valid }
            }
            Self::Kept(lease) => {
                let term = lease.term(at(now));
                Present { connection, term, is_ample: term.is_ok() }
            }
        }
    }

    fn end(&mut self, end: SessionEnd) {
        match self {
            Self::Given(valid) => *valid = false,
            Self::Kept(lease) => lease.ended(end),
        }
    }

    /// Has the lease hear of something; a given one needs no news.
    pub(crate) fn hears(&mut self, news: impl FnOnce(&mut Lease)) {
        if let Self::Kept(lease) = self {
            news(lease);
        }
    }
}

/// Model time as the lease has it. The model does not have the differences of clients' clocks.
pub(crate) fn at(time: u8) -> Moment {
    Moment::new(seconds(time), seconds(time), Duration::ZERO)
}

pub(crate) fn seconds(number: u8) -> Duration {
    Duration::from_secs(number.into())
}

impl Session {
    pub(crate) fn new(setup: &Setup, index: usize) -> Self {
        Self {
            alive: true,
            over: false,
            assurance: Assurance::new(setup, setup.following.contains(&index)),
            connected: true,
            number: Number(0),
            follows: setup.following.contains(&index),
            resuming: false,
            expiry: setup.clock.map_or(0, |clock| clock.timeout),
            taken: None,
            half: false,
            up: Vec::new(),
            strays: Vec::new(),
            down: Vec::new(),
            late: Vec::new(),
        }
    }

    /// How it stands for a contender.
    pub(crate) fn present(&self, now: u8) -> Present {
        self.assurance.present(self.connection(), now)
    }

    /// The number of the connection, if there is one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.connected.then_some(self.number.0)
    }

    /// Sends this on the present connection, or finds it in what that one has brought.
    pub(crate) fn answer(&mut self, address: Address, message: Message) {
        self.down.push((address, message, self.number));
    }

    /// Whether it may still end, and no clock says when.
    pub(crate) fn expires_by_chance(&self) -> bool {
        !self.over && matches!(self.assurance, Assurance::Given(_))
    }

    /// Whether something is under way to this contender.
    pub(crate) fn brings(&self, party: Party) -> bool {
        self.down.iter().any(|(to, ..)| to.party == party)
    }
}

impl Run<'_> {
    pub(crate) fn break_connection(&mut self, session: usize, kept: usize) {
        self.world.sessions[session].down.truncate(kept);
        self.disconnect(session);
        self.fail(session);
    }

    /// The client tells its contenders that the connection was lost: requests that were not answered fail, and watches
    /// that stood are lost.
    fn fail(&mut self, session: usize) {
        for party in self.world.contenders_of(session) {
            let contender = &self.world.contenders[party];
            let seats = contender.seats.iter().enumerate();
            let each = seats.map(|(seat, seated)| (Some(seat), &seated.pending, seated.watch.is_some()));
            let session = &mut self.world.sessions[session];
            for (seat, pending, watches) in [(None, &contender.joint, false)].into_iter().chain(each) {
                let address = Address { party, seat };
                let asked = matches!(pending, Some(Pending::Request | Pending::Created(_)));
                let answered = session.down.iter().any(|(to, message, _)| {
                    *to == address && !matches!(message, Message::Created(_)) && !message.is_of_a_watch()
                });
                let watched = |(to, message, _): &(Address, Message, Number)| {
                    *to == address && matches!(message, Message::Watched(..))
                };
                let lost = watches || session.down.iter().any(watched);
                if asked && !answered {
                    session.answer(address, Message::Failed);
                }
                if lost && self.setup.flaw != Some(Flaw::WatchesAreForgotten) {
                    session.answer(address, Message::WatchLost);
                }
            }
        }
    }

    pub(crate) fn disconnect(&mut self, session: usize) {
        for party in self.world.contenders_of(session) {
            self.world.server_of_mut(session).watches.retain(|watch| watch.party != party);
        }
        if let Some(follower) = self.world.follower.as_mut().filter(|_| self.world.sessions[session].follows)
        {
            follower.hang_up(session);
        }
        let session = &mut self.world.sessions[session];
        if self.setup.flaw != Some(Flaw::SearchesOutliveConnections) {
            for (_, message, _) in &mut session.down {
                if let Message::Found(_, before) = message {
                    *before = None;
                }
            }
        }
        session.connected = false;
        session.assurance.hears(Lease::disconnected);
        session.down.retain(|(_, message, _)| !message.is_heartbeat());
        session.strays.append(&mut session.up);
        session.strays.retain(|sent| {
            matches!(
                sent.request,
                Request::Create(..) | Request::CreateDirectory | Request::Release(..) | Request::Delete(..)
            )
        });
        session.strays.iter_mut().for_each(|stray| stray.awaited = false);
    }

    /// Resumes the session at the leader.
    pub(crate) fn reconnect_to_leader(&mut self, index: usize) {
        if !self.attempt(index, true) {
            return;
        }
        if let Some(follower) = &mut self.world.follower {
            follower.moved(index);
        }
        self.note(Witness::MovedToLeader, self.world.sessions[index].follows);
        self.world.sessions[index].follows = false;
        self.touch(index, true);
        self.reconnect(index);
    }

    /// Asks the leader to resume the session, and gives that up; the leader has yet to hear of it.
    pub(crate) fn resume_by_half(&mut self, index: usize) {
        let is_forgotten = self.setup.flaw == Some(Flaw::HalvesAreForgotten);
        if !is_forgotten && !self.attempt(index, true) {
            return;
        }
        self.world.sessions[index].half = true;
        if !is_forgotten {
            self.world.sessions[index].assurance.hears(Lease::attempt_failed);
        }
    }

    /// The leader hears of a request that was given up.
    pub(crate) fn hear_half(&mut self, index: usize) {
        (self.witness)(Witness::ResumedLate);
        self.world.sessions[index].half = false;
        self.touch(index, true);
    }

    /// The leader hears of the session, by the leader's own word or by the follower's.
    pub(crate) fn touch(&mut self, index: usize, leads: bool) {
        let expiry = self.world.leader_time() + self.timeout(leads);
        self.world.sessions[index].expiry = expiry;
    }

    fn timeout(&self, leads: bool) -> u8 {
        self.setup.clock.map_or(0, |clock| if leads { clock.lower } else { clock.timeout })
    }

    /// The timeout of a connection, as far as the lease is told.
    fn granted(&self, leads: bool) -> Duration {
        seconds(self.timeout(leads && self.setup.flaw != Some(Flaw::LimitsAreIgnored)))
    }

    /// Whether a request to resume the session may be sent. If it may, the lease knows that it is.
    fn attempt(&mut self, index: usize, leads: bool) -> bool {
        let is_known = self.setup.flaw != Some(Flaw::LimitsAreLearnedLate);
        let (now, floor) = (at(self.world.now), self.granted(leads && is_known));
        let mut may = true;
        self.world.sessions[index].assurance.hears(|lease| may = lease.attempting(now, floor));
        self.end_terms();
        may
    }

    /// Asks the follower to resume the session, which asks the leader. What was sent before is forgotten.
    pub(crate) fn reconnect_to_follower(&mut self, index: usize) {
        if !self.attempt(index, false) {
            return;
        }
        let session = &mut self.world.sessions[index];
        session.resuming = true;
        if let Some(follower) = &mut self.world.follower {
            follower.up.push(Up::Revalidate(index));
        }
    }

    /// The leader has told the follower to resume the session. That comes behind all that the leader had done by then, as
    /// does the answer to the write that a client sends before it reads on a new connection.
    pub(crate) fn revalidated(&mut self, index: usize) {
        let session = &mut self.world.sessions[index];
        session.resuming = false;
        if session.alive && !session.over {
            if !session.follows {
                (self.witness)(Witness::MovedToFollower);
            }
            session.follows = true;
            self.reconnect(index);
        }
    }

    fn reconnect(&mut self, index: usize) {
        let granted = self.granted(!self.world.sessions[index].follows);
        let session = &mut self.world.sessions[index];
        session.connected = true;
        session.number.0 += 1;
        session.assurance.hears(|lease| {
            lease.resumed(granted).expect("a session timeout that heartbeats can keep");
        });
        for party in self.world.contenders_of(index) {
            self.note_blind(party);
        }
    }

    /// Sends a heartbeat, or its second half.
    pub(crate) fn beat(&mut self, session: usize, request: Request) {
        let Some(party) = self.world.contenders_of(session).next() else { return };
        let address = Address { party, seat: None };
        self.world.sessions[session].up.push(Sent { address, request, awaited: true });
    }

    /// Loss is final: a guard that is lost here stays lost when the lease comes back.
    pub(crate) fn lapse(&mut self, session: usize) {
        self.world.sessions[session].assurance = Assurance::Given(false);
        self.invalidate(session, |_| false);
    }

    /// Time has passed: guards end with the terms that they were granted in.
    pub(crate) fn end_terms(&mut self) {
        for session in 0..self.world.sessions.len() {
            let now = at(self.world.now);
            if let Assurance::Kept(lease) = self.world.sessions[session].assurance.clone() {
                self.invalidate(session, |term| lease.check(term, now).is_ok());
            }
        }
        (0..self.world.contenders.len()).for_each(|party| self.end_at_limit(party));
    }

    /// A guard that has reached its limit is lost first. After that its node is given up, which may take any time.
    fn end_at_limit(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        if !contender.holds() || contender.limit.reached(at(self.world.now)).is_none() {
            return;
        }
        (self.witness)(Witness::LimitReached);
        match self.setup.mutant {
            Some(Mutant::GivesItsNodeUpFirst) => self.handle(party, Event::Forfeit.into()),
            Some(Mutant::ForgetsItsLimit) => {}
            _ => contender.caller = Caller::Holding { valid: false },
        }
    }

    fn invalidate(&mut self, session: usize, lasts: impl Fn(Term) -> bool) {
        for party in self.world.contenders_of(session) {
            let contender = &mut self.world.contenders[party];
            let left = contender.limit.left(at(self.world.now)).unwrap_or_default();
            let is_put_off = !left.is_zero() && matches!(self.setup.mutant, Some(Mutant::PutsItsLossOff));
            let lasts = is_put_off || contender.term.is_some_and(&lasts);
            if contender.holds() && !lasts {
                (self.witness)(Witness::GuardLost);
                contender.caller = Caller::Holding { valid: false };
            }
        }
    }

    /// The leader ends the session. A follower that serves it goes on until it hears of that.
    pub(crate) fn expire(&mut self, session: usize) {
        if !self.world.sessions[session].follows {
            self.disconnect(session);
        }
        self.world.sessions[session].alive = false;
        self.world.sessions[session].taken = None;
        self.world.sessions[session].half = false;
        self.world.sessions[session].strays.clear();
        let ended = deletion(self.world.leader.tree.of(session));
        if self.carry_out(session, &ended).is_ok() {
            self.replicate(Down::Over(session));
        }
    }

    pub(crate) fn over(&mut self, index: usize, end: SessionEnd) {
        let session = &mut self.world.sessions[index];
        session.over = true;
        session.down.clear();
        session.up.clear();
        session.assurance.end(end);
        self.invalidate(index, |_| false);
        for party in self.world.contenders_of(index) {
            if self.world.contenders[party].caller != Caller::Idle {
                self.handle(party, Event::SessionOver(end).into());
            }
        }
    }
}
