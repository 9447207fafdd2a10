//! The driver of a group: a reply belongs to the last request, a new request drops the reply to an earlier one, a deletion
//! drops the watch. A request for all members takes the place of every earlier one; a request for one member takes the
//! place of its earlier one, and of one for all.

use zklock_recipe::{Command, End, Event, Input, Kind, Output, Own, Patience, SessionEnd, Sight};

use crate::contender::{Caller, Contender, Pending, Seated};
use crate::findings::{Breach, Witness};
use crate::foreigner::Foreigner;
use crate::requests::{Address, Certainty, Change, Message, Request, Sent};
use crate::run::Run;
use crate::server::{Party, Target, exclude_each_other};
use crate::session::{Assurance, at};
use crate::setup::{Clock, Flaw};

impl<W: Fn(Witness)> Run<'_, W> {
    pub(crate) fn handle(&mut self, party: Party, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let cause = input.clone();
            self.see_input(party, &cause);
            let contender = &mut self.world.contenders[party];
            let before = contender.nodes();
            let outputs = match self.setup.mutant {
                Some(mutant) => mutant.handle(contender, input),
                None => contender.group.handle(input),
            };
            // Somebody else has deleted one of its nodes, or has written to it.
            if outputs.contains(&Output::Lose) || contender.nodes() < before && !removes(&cause) {
                contender.certainty = Certainty::Unsure;
            }
            self.see_readers(party, &cause, &outputs);
            for output in outputs {
                match output {
                    Output::All(Command::Confirm) => {
                        self.witness_confirm(party, &cause);
                        next = self.confirm(party);
                    }
                    Output::All(command) => self.send_for_all(party, command),
                    Output::One(seat, command) => self.send_for_one(party, seat, command),
                    Output::Grant(owns) => self.grant(party, &owns),
                    Output::Lose => self.lose(party),
                    Output::End(seat, end) => self.end(party, seat, end),
                }
            }
        }
    }

    fn send_for_all(&mut self, party: Party, command: Command) {
        let address = Address { party, seat: None };
        match command {
            Command::Enter(look) => self.request(address, Request::Create(look, Vec::new())),
            Command::CreateDirectory => self.request(address, Request::CreateDirectory),
            Command::Release(_) => {
                let places = self.world.contenders[party].places().filter_map(|(_, own)| Some(own?.place));
                let places = places.collect();
                let certainty = self.world.contenders[party].certainty;
                self.request(address, Request::Release(places, certainty));
            }
            command => unreachable!("{command:?} for all"),
        }
    }

    fn send_for_one(&mut self, party: Party, seat: usize, command: Command) {
        let address = Address { party, seat: Some(seat) };
        let certainty = self.world.contenders[party].certainty;
        match command {
            Command::Recover => self.search(address, seat),
            Command::List => self.request(address, Request::List),
            Command::WatchPredecessor(place) => {
                self.request(address, Request::Watch(Target::Predecessor, place));
            }
            Command::WatchOwn(place) => self.request(address, Request::Watch(Target::Own, place)),
            Command::Release(place) => self.request(address, Request::Release(vec![place], certainty)),
            Command::Delete(place) => {
                self.world.contenders[party].seats[seat].watch = None;
                self.request(address, Request::Delete(place, certainty));
            }
            Command::Delay => {
                (self.witness)(Witness::TakeoverDelayed);
                self.supersede(address);
                let seated = &mut self.world.contenders[party].seats[seat];
                seated.pending = Some(Pending::Delay);
                seated.asked = self.world.now;
            }
            command => unreachable!("{command:?} for one"),
        }
    }

    /// At once while the lease is valid.
    fn confirm(&mut self, party: Party) -> Option<Input> {
        let address = Address { party, seat: None };
        self.supersede(address);
        let contender = &mut self.world.contenders[party];
        let assurance = &self.world.sessions[contender.session].assurance;
        if assurance.is_valid(self.world.now) {
            return Some(Input::All(Event::Confirmed));
        }
        let places = contender.places().filter_map(|(_, own)| Some(own?.place)).collect::<Vec<_>>();
        match assurance {
            Assurance::Kept(_) if !places.is_empty() => self.request(address, Request::Confirm(places)),
            _ => contender.joint = Some(Pending::Lease),
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
    fn weigh(&mut self, party: Party, input: Input) -> Input {
        let Contender { session, ref seats, .. } = self.world.contenders[party];
        let asked = seats.first().map_or(0, |seated| seated.asked);
        match input {
            Input::Entered(_) => self.confirmed(session, asked),
            Input::All(Event::Confirmed) => {
                self.confirmed(session, asked);
                if !self.world.sessions[session].assurance.is_valid(self.world.now) {
                    return Input::All(Event::Unanswered);
                }
            }
            _ => {}
        }
        input
    }

    fn witness_confirm(&self, party: Party, cause: &Input) {
        match cause {
            Input::One(seat, Event::PredecessorReleased) => {
                (self.witness)(match self.world.contenders[party].seats[*seat].seat.kind {
                    Kind::Shared => Witness::ReaderGrantedByRelease,
                    _ => Witness::GrantByRelease,
                });
            }
            Input::Entered(nodes) => (self.witness)(match nodes.first() {
                Some((_, Sight::Count(_))) => Witness::GrantByCount,
                _ => Witness::GrantByListing,
            }),
            Input::One(_, Event::Listed(_)) => (self.witness)(Witness::GrantByListing),
            _ => {}
        }
    }

    /// The writer's release grants each reader behind it without a request, and no end of a writer has readers list.
    fn see_readers(&mut self, party: Party, cause: &Input, outputs: &[Output]) {
        let Input::One(seat, event) = cause else { return };
        if self.world.contenders[party].seats[*seat].seat.kind == Kind::Exclusive {
            return;
        }
        let asks = |output: &&Output| matches!(output, Output::One(member, command) if member == seat && !matches!(command, Command::WatchOwn(_)));
        let lists = |output: &Output| matches!(output, Output::One(_, Command::List));
        let breach = match event {
            Event::PredecessorReleased => outputs.iter().find(asks).is_some(),
            Event::PredecessorDeleted | Event::PredecessorWatched(_) => outputs.iter().any(lists),
            _ => false,
        };
        if breach {
            self.world.breach.get_or_insert(Breach::ReaderAsks);
        }
    }

    fn request(&mut self, address: Address, request: Request) {
        self.supersede(address);
        let now = self.world.now;
        let contender = &mut self.world.contenders[address.party];
        match address.seat {
            None => contender.joint = Some(Pending::Request),
            Some(seat) => contender.seats[seat].pending = Some(Pending::Request),
        }
        contender.addressed(address).for_each(|seated| seated.asked = now);
        self.world.sessions[contender.session].up.push(Sent { address, request, awaited: true });
    }

    /// Looks for the own node. A contender whose create was lost with its connection shares a search of its session that
    /// was answered, and that nobody has taken in yet.
    fn search(&mut self, address: Address, seat: usize) {
        let Contender { session, ref group, .. } = self.world.contenders[address.party];
        let shares = self.lost || self.setup.flaw == Some(Flaw::SearchesAreOld);
        let queue = self.world.queue(address.party, seat);
        let shared = self.world.sessions[session].down.iter().find_map(|(to, message)| match message {
            Message::Found(_, before) if shares && group.own(seat).is_none() => {
                before.filter(|_| to.seat.is_some_and(|seat| self.world.queue(to.party, seat) == queue))
            }
            _ => None,
        });
        let Some(before) = shared else { return self.request(address, Request::Recover) };
        (self.witness)(Witness::SearchShared);
        self.supersede(address);
        let node = self.world.server_of(session).queues[queue].node_of(address.party);
        let found = node.filter(|node| !node.written).map(|node| node.own).filter(|own| own.czxid <= before);
        let answer = match self.is_unclear(session, address) {
            true => Message::Unclear,
            false => Message::Found(found, shared),
        };
        self.world.contenders[address.party].seats[seat].pending = Some(Pending::Request);
        self.world.sessions[session].down.push((address, answer));
    }

    /// Drops the reply to whatever was asked before.
    fn supersede(&mut self, address: Address) {
        let contender = &mut self.world.contenders[address.party];
        contender.joint = None;
        contender.addressed(address).for_each(|seated| seated.pending = None);
        let session = &mut self.world.sessions[contender.session];
        let takes_the_place_of = |other: Address| {
            other.party == address.party
                && (address.seat.is_none() || other.seat.is_none() || other.seat == address.seat)
        };
        session.down.retain(|(to, message)| {
            !takes_the_place_of(*to) || message.is_heartbeat() || message.is_of_a_watch()
        });
        let superseded = |sent: &&mut Sent| {
            takes_the_place_of(sent.address) && sent.awaited && !sent.request.is_heartbeat()
        };
        for sent in session.up.iter_mut().filter(superseded) {
            sent.awaited = false;
            if matches!(
                sent.request,
                Request::Create(..) | Request::Look(..) | Request::Recover | Request::Release(..)
            ) {
                self.world.breach.get_or_insert(Breach::SupersededWrite);
            }
        }
    }

    fn grant(&mut self, party: Party, owns: &[Own]) {
        if self.world.contenders[party].caller != Caller::Waiting {
            self.world.breach.get_or_insert(Breach::GrantToNobody);
        }
        for (own, Seated { seat, .. }) in owns.iter().zip(self.world.contenders[party].seats.clone()) {
            let tokens = &mut self.world.tokens[seat.queue];
            let highest = if seat.kind == Kind::Exclusive { tokens.any } else { tokens.exclusive };
            if own.czxid <= highest {
                self.world.breach.get_or_insert(Breach::TokenNotHigher);
            }
            tokens.any = tokens.any.max(own.czxid);
            if seat.kind == Kind::Exclusive {
                tokens.exclusive = tokens.exclusive.max(own.czxid);
            }
            let waits = |(other, contender): (Party, &Contender)| {
                other != party
                    && contender.caller == Caller::Waiting
                    && self.world.server.queues[seat.queue].node_of(other).is_some_and(|node| {
                        node.own.czxid < own.czxid && exclude_each_other(node.own.place.kind, seat.kind)
                    })
            };
            if self.setup.faults.deletions == 0 && self.world.contenders.iter().enumerate().any(waits) {
                self.world.breach.get_or_insert(Breach::OutOfTurn);
            }
        }
        let beside = |(other, contender): (Party, &Contender)| other != party && contender.holds();
        if self.world.contenders.iter().enumerate().any(beside) {
            (self.witness)(Witness::GrantBesideAnother);
        }
        self.see_grant(party);
        let contender = &mut self.world.contenders[party];
        contender.caller = Caller::Holding { valid: true };
        if let Assurance::Kept(lease) = &self.world.sessions[contender.session].assurance {
            contender.term = lease.term(at(self.world.now)).ok();
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

    fn end(&mut self, party: Party, seat: usize, end: End) {
        self.supersede(Address { party, seat: None });
        let contender = &mut self.world.contenders[party];
        let breach = match end {
            End::Released => {
                let all = contender.seats.iter().all(|seated| seated.removed);
                (!all).then_some(Breach::ReleasedWithoutRemoval)
            }
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
        debug_assert!(seat < contender.seats.len());
        contender.caller = Caller::Gone;
        contender.settled = false;
        contender.neglected = false;
        contender.certainty = Certainty::Seen;
        contender.term = None;
        for seated in &mut contender.seats {
            *seated = Seated::new(seated.seat);
        }
        let session = &mut self.world.sessions[contender.session];
        session.down.retain(|(to, message)| to.party != party || message.is_heartbeat());
    }

    pub(crate) fn deliver(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let session = &mut self.world.sessions[contender.session];
        let Some(index) = session.down.iter().position(|(to, _)| to.party == party) else { return };
        let (address, message) = session.down.remove(index);
        let (now, index) = (self.world.now, contender.session);
        let seat = address.seat.unwrap_or_default();
        let event = match message {
            Message::Synced(sent) => {
                session.assurance.hears(|lease| {
                    if let Some(connection) = lease.connection() {
                        lease.synced(connection, at(sent), at(now));
                    }
                });
                if self.world.contenders_of(index).any(|party| self.world.contenders[party].holds()) {
                    self.beat(index, Request::Beat(now));
                }
                return;
            }
            Message::Beaten(sent) => return self.confirmed(index, sent),
            Message::Created(owns) => {
                contender.joint = Some(Pending::Created(owns));
                return;
            }
            Message::Saw(sights) => {
                if let Some(Pending::Created(owns)) = contender.joint.take() {
                    self.hear(party, Input::Entered(owns.into_iter().zip(sights).collect()));
                }
                return;
            }
            Message::Failed => {
                if let Some(Pending::Created(owns)) = contender.joint.take_if(|_| address.seat.is_none()) {
                    let unseen = owns.into_iter().map(|own| (own, Sight::Nothing));
                    return self.hear(party, Input::Entered(unseen.collect()));
                }
                contender.answered(address);
                self.lost = true;
                Event::Unanswered
            }
            Message::Unclear => {
                (self.witness)(Witness::SessionGivenUp);
                self.disconnect(index);
                return self.over(index, SessionEnd::Closed);
            }
            Message::Found(found, _) => {
                contender.answered(address);
                Event::Recovered(found)
            }
            Message::Reply(event) => {
                contender.answered(address);
                event
            }
            Message::FailedAt(seat, event) => {
                contender.answered(address);
                return self.hear(party, Input::Failed(seat, event));
            }
            Message::Watched(target, place) => {
                contender.answered(address);
                contender.seats[seat].watch = Some((target, place));
                match target {
                    Target::Own => Event::OwnWatched(true),
                    Target::Predecessor | Target::Children => Event::PredecessorWatched(true),
                }
            }
            Message::WatchLost => {
                let Some((target, place)) = contender.seats[seat].watch.take() else { return };
                let queue = contender.seats[seat].seat.queue;
                if target == Target::Predecessor && self.world.server.queues[queue].node(place).is_none() {
                    (self.witness)(Witness::PredecessorVanishedWhileDisconnected);
                }
                Event::WatchLost
            }
            Message::Changed(target, place, change) => {
                // The watch may have been dropped while this was under way.
                if contender.seats[seat].watch != Some((target, place)) {
                    return;
                }
                if change == Change::WrittenAndDeleted {
                    (self.witness)(Witness::DeletedAfterAWrite);
                }
                let event = match (target, change) {
                    (Target::Own, _) => Event::OwnTouched,
                    (_, Change::Released) => Event::PredecessorReleased,
                    (_, change) if self.setup.mutant.is_some_and(|it| it.takes_for_a_release(change)) => {
                        Event::PredecessorReleased
                    }
                    // Its end is still to come.
                    (_, Change::Written) => return,
                    (_, Change::Deleted | Change::WrittenAndDeleted) => Event::PredecessorDeleted,
                };
                contender.seats[seat].watch = None;
                if change == Change::Released {
                    self.see_release(party, seat, place);
                }
                event
            }
        };
        self.hear(party, address.input(event));
    }

    fn hear(&mut self, party: Party, input: Input) {
        let input = self.weigh(party, input);
        if self.world.contenders[party].caller == Caller::Waiting {
            match input {
                Input::One(_, Event::OwnWatched(true)) => (self.witness)(Witness::FirstAmongWaiting),
                Input::One(_, Event::OwnWatched(false)) => (self.witness)(Witness::ToldBeforeTheGrant),
                _ => {}
            }
        }
        self.handle(party, input);
    }
}

/// Whether a contender hears that its own request has removed a node, or that its session is over.
fn removes(input: &Input) -> bool {
    matches!(
        input,
        Input::All(Event::Released(true) | Event::SessionOver(_))
            | Input::One(_, Event::Released(true) | Event::Deleted)
    )
}

impl Contender {
    /// How many of its nodes it knows.
    fn nodes(&self) -> usize {
        self.places().filter(|(_, own)| own.is_some()).count()
    }

    /// Every member, or the one that is meant.
    fn addressed(&mut self, address: Address) -> impl Iterator<Item = &mut Seated> {
        let meant = move |seat: usize| address.seat.is_none_or(|it| it == seat);
        self.seats.iter_mut().enumerate().filter(move |(seat, _)| meant(*seat)).map(|(_, seated)| seated)
    }

    fn answered(&mut self, address: Address) {
        match address.seat {
            None => self.joint = None,
            Some(seat) => self.seats[seat].pending = None,
        }
    }
}
