//! Performs what an acquisition asks for, and tells it what the network brings. A reply belongs to the last request, a new
//! request drops the reply to an earlier one, a deletion drops the watch. A request for all members takes the place of every
//! earlier one; a request for one member takes the place of its earlier one, and of one for all.

use zklock_recipe::acquisition::{Certainty, Effect, Ground, Input, Search};
use zklock_recipe::{
    Alone, Breach, End, Event, Kind, Limit, Outcome, Own, Patience, Report, SessionEnd, Sight, Takeover,
    Together,
};

use super::contender::{Caller, Contender, Pending, Seated, Target};
use super::contest::{AWAITED, BY_ITSELF, CAUSED, IN_TURN, KEPT, SEEN, TOKENS, UNASKED};
use super::exploration::Run;
use super::findings::Witness;
use super::foreigner::Stay;
use super::nodes::{Party, exclude_each_other};
use super::requests::{Address, Message, Request, Sent, Shown, Trust};
use super::session::{Assurance, Number, at, seconds};
use super::setup::{Actor, Clock, Fault, Flaw};

impl Run<'_> {
    pub(crate) fn handle(&mut self, party: Party, input: Input) {
        self.see_wait(party, &input);
        self.see_news(party, &input);
        let contender = &mut self.world.contenders[party];
        let present = self.world.sessions[contender.session].present(self.world.now);
        let cause = input.clone();
        let commands = match self.setup.mutant {
            Some(mutant) => mutant.handle(contender, input, present),
            None => contender.acquisition.handle(input, present),
        };
        self.see_commands(party, &cause, &commands);
        for command in commands {
            self.perform(party, command);
        }
    }

    fn perform(&mut self, party: Party, command: Effect) {
        match command {
            Effect::All(together, certainty, _) => {
                self.send(Address { party, seat: None }, together, certainty)
            }
            Effect::One(seat, alone, ground, _) => {
                self.send_for(Address { party, seat: Some(seat) }, seat, alone, ground);
            }
            Effect::ExpectLate(seat) => self.expect_late(party, seat),
            Effect::EndSession(..) => {
                let session = self.world.contenders[party].session;
                self.disconnect(session);
                self.over(session, SessionEnd::Closed);
            }
            Effect::Tell(Outcome::Granted(owns, _)) => self.grant(party, &owns),
            Effect::Tell(Outcome::Lost(breach)) => self.lose(party, breach),
            Effect::Tell(Outcome::Ended(seat, end)) => self.end(party, seat, end),
        }
    }

    fn send(&mut self, address: Address, together: Together, certainty: Certainty) {
        let contender = &self.world.contenders[address.party];
        let owns = contender.places().filter_map(|(_, own)| own).collect();
        match (together, certainty) {
            (Together::Enter, _) => self.request(address, Request::Create(Vec::new())),
            (Together::CreateDirectory, _) => self.request(address, Request::CreateDirectory),
            // A lease that is given comes back by itself.
            (Together::Confirm, Certainty::Seen(_))
                if matches!(self.world.sessions[contender.session].assurance, Assurance::Given(_)) =>
            {
                self.supersede(address);
                self.world.contenders[address.party].joint = Some(Pending::Lease);
            }
            (Together::Confirm, Certainty::Seen(_)) => self.request(address, Request::ConfirmLease),
            (Together::Confirm, Certainty::Unsure) => {
                (self.witness)(Witness::NodesAsked);
                self.request(address, Request::Confirm(owns));
            }
            (Together::Release, certainty) => {
                self.request_where(address, certainty, |trust| Request::Release(owns, trust));
            }
        }
    }

    fn send_for(&mut self, address: Address, seat: usize, alone: Alone, ground: Ground) {
        let Ground { certainty, search } = ground;
        match alone {
            Alone::Find => self.search(address, seat, search),
            Alone::Recover(own) => self.request(address, Request::Recover(Some(own))),
            Alone::List => self.request(address, Request::List),
            Alone::Review => self.request(address, Request::Review),
            Alone::WatchPredecessor(place, _) => {
                self.request(address, Request::Watch(place));
            }
            Alone::WatchOwn(own) => self.request(address, Request::WatchOwn(own)),
            Alone::Release(own) => {
                self.request_where(address, certainty, |trust| Request::Release(vec![own], trust));
            }
            Alone::Delete(own) => {
                self.unwatch(address);
                self.request_where(address, certainty, |trust| Request::Delete(own, trust));
            }
            Alone::Delay => {
                (self.witness)(Witness::TakeoverDelayed);
                self.supersede(address);
                let seated = &mut self.world.contenders[address.party].seats[seat];
                seated.pending = Some(Pending::Delay);
                seated.asked = self.world.now;
            }
        }
    }

    /// Only where a create can come late is it of interest that one may.
    fn expect_late(&mut self, party: Party, seat: usize) {
        if self.setup.flaw == Some(Flaw::CreatesComeLate) {
            let late = (party, self.world.queue(party, seat));
            self.world.sessions[self.world.contenders[party].session].late.push(late);
        }
    }

    /// The session deletes a node that a late create has made.
    pub(crate) fn sweep(&mut self, session: usize) {
        if let Some(late) = self.world.late_node(session) {
            (self.witness)(Witness::LateCreateSwept);
            self.delete([late]);
        }
    }

    /// A quorum has acknowledged what was sent then on this connection.
    fn confirmed(&mut self, session: usize, connection: u64, sent: u8) {
        let now = self.world.now;
        let (flaw, witness) = (self.setup.flaw, self.witness);
        self.world.sessions[session].assurance.hears(|lease| {
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

    /// What a contender hears of its own nodes.
    fn see_news(&mut self, party: Party, input: &Input) {
        let contender = &mut self.world.contenders[party];
        let waits = contender.caller == Caller::Waiting;
        match input {
            Input::Reply(Report::One(_, Event::OwnWatched(true)), _) if waits => {
                (self.witness)(Witness::FirstAmongWaiting);
            }
            Input::Reply(Report::One(_, Event::OwnWatched(false)), _) if waits => {
                (self.witness)(Witness::ToldBeforeTheGrant);
            }
            _ => {}
        }
        let told = matches!(
            input,
            Input::Heard(Report::One(_, Event::OwnTouched))
                | Input::Reply(Report::One(_, Event::OwnWatched(false) | Event::Released(false)), _)
                | Input::Reply(Report::Failed(_, Event::OwnTouched | Event::Released(false)), _)
        );
        contender.told |= told && self.setup.may(&[Fault::Uprooting]);
    }

    /// Notes that a contender has to look at its nodes from here on, if one of them is gone.
    pub(crate) fn note_blind(&mut self, party: Party) {
        let contender = &self.world.contenders[party];
        let gone = |(queue, own): (usize, Option<Own>)| {
            own.is_some_and(|own| !self.world.leader.tree.has(queue, own))
        };
        let meddled = self.setup.may(&[Fault::Deletion, Fault::Uprooting]);
        if meddled && contender.caller == Caller::Waiting && contender.places().any(gone) {
            self.world.contenders[party].blind = true;
        }
    }

    fn see_commands(&mut self, party: Party, cause: &Input, commands: &[Effect]) {
        let confirms = |command: &Effect| {
            matches!(command, Effect::Tell(Outcome::Granted(..)) | Effect::All(Together::Confirm, ..))
        };
        if commands.iter().any(confirms) {
            self.witness_confirm(party, cause);
        }
        let grants = commands.iter().any(|command| matches!(command, Effect::Tell(Outcome::Granted(..))));
        let is_blind = self.world.contenders[party].blind && !matches!(cause, Input::NodesConfirmed(_));
        self.forbid(SEEN, grants && is_blind);
        self.see_readers(party, cause, commands);
    }

    fn witness_confirm(&self, party: Party, cause: &Input) {
        match cause {
            Input::Heard(Report::One(seat, Event::PredecessorReleased)) => {
                (self.witness)(match self.world.contenders[party].seats[*seat].seat.kind {
                    Kind::Shared => Witness::ReaderGrantedByRelease,
                    _ => Witness::GrantByRelease,
                });
            }
            Input::Reply(Report::Entered(nodes), _) => (self.witness)(match nodes.first() {
                Some((_, Sight::Count(_))) => Witness::GrantByCount,
                _ => Witness::GrantByListing,
            }),
            Input::Reply(Report::One(_, Event::Listed(_)), _) => (self.witness)(Witness::GrantByListing),
            _ => {}
        }
    }

    /// The writer's release grants each reader behind it without a request, and no end of a writer has readers list.
    fn see_readers(&mut self, party: Party, cause: &Input, commands: &[Effect]) {
        let (Input::Heard(Report::One(seat, event)) | Input::Reply(Report::One(seat, event), _)) = cause
        else {
            return;
        };
        if self.world.contenders[party].seats[*seat].seat.kind == Kind::Exclusive {
            return;
        }
        let asks = |command: &Effect| matches!(command, Effect::One(member, alone, ..) if member == seat && !matches!(alone, Alone::WatchOwn(_)));
        let lists = |command: &Effect| matches!(command, Effect::One(_, Alone::List, ..));
        let breach = match event {
            // With a takeover delay, it lists if there were other writers: somebody may have forged the release.
            Event::PredecessorReleased => {
                self.setup.takeover == Takeover::AtOnce && commands.iter().any(asks)
            }
            Event::PredecessorDeleted | Event::PredecessorWatched(_) => commands.iter().any(lists),
            _ => false,
        };
        self.forbid(UNASKED, breach);
    }

    fn request(&mut self, address: Address, request: Request) {
        self.request_where(address, Certainty::Unsure, |_| request);
    }

    /// Sends a request; if the contender is certain of its nodes, on the connection on which it is, or else not at all.
    fn request_where(
        &mut self,
        address: Address,
        certainty: Certainty,
        request: impl FnOnce(Trust) -> Request,
    ) {
        self.supersede(address);
        let now = self.world.now;
        let contender = &mut self.world.contenders[address.party];
        *contender.pending(address) = Some(Pending::Request);
        contender.addressed(address).for_each(|seated| seated.asked = now);
        let request = request(match certainty {
            Certainty::Unsure => Trust::Unsure,
            Certainty::Seen(_) if contender.told => Trust::Told,
            Certainty::Seen(_) => Trust::Certain,
        });
        let session = &mut self.world.sessions[contender.session];
        if certainty == Certainty::Unsure || certainty.connection() == session.connection() {
            session.up.push(Sent { address, request, awaited: true });
        } else {
            session.answer(address, Message::Failed);
        }
    }

    /// Looks for the own node. A contender whose create was lost with its connection shares a search of its session that
    /// was answered, and that nobody has taken in yet.
    fn search(&mut self, address: Address, seat: usize, search: Search) {
        let session = self.world.contenders[address.party].session;
        let queue = self.world.queue(address.party, seat);
        let shared = self.world.sessions[session].down.iter().find_map(|(to, message, _)| match message {
            Message::Found(_, before) if search == Search::Present => {
                before.filter(|_| to.seat.is_some_and(|seat| self.world.queue(to.party, seat) == queue))
            }
            _ => None,
        });
        let Some(before) = shared else { return self.request(address, Request::Recover(None)) };
        (self.witness)(Witness::SearchShared);
        self.supersede(address);
        let found = self.world.server_of(session).tree.found(queue, address.party);
        let found = found.filter(|own| own.czxid <= before);
        let answer = match self.is_unclear(session, address) {
            true => Message::unclear(),
            false => Message::Found(found, shared),
        };
        self.world.contenders[address.party].seats[seat].pending = Some(Pending::Request);
        self.world.sessions[session].answer(address, answer);
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
        session.down.retain(|(to, message, _)| {
            !takes_the_place_of(*to) || message.is_heartbeat() || message.is_of_a_watch()
        });
        let superseded = |sent: &&mut Sent| {
            takes_the_place_of(sent.address) && sent.awaited && !sent.request.is_heartbeat()
        };
        let mut writes = false;
        for sent in session.up.iter_mut().filter(superseded) {
            sent.awaited = false;
            writes |= matches!(
                sent.request,
                Request::Create(..) | Request::Look(..) | Request::Recover(_) | Request::Release(..)
            );
        }
        self.forbid(KEPT, writes);
    }

    fn grant(&mut self, party: Party, owns: &[Own]) {
        self.supersede(Address { party, seat: None });
        let is_awaited = self.world.contenders[party].caller == Caller::Waiting;
        self.forbid(AWAITED, !is_awaited);
        for (own, Seated { seat, .. }) in owns.iter().zip(self.world.contenders[party].seats.clone()) {
            let writes = seat.kind == Kind::Exclusive;
            let tokens = &mut self.world.tokens[seat.queue];
            let highest = if writes { tokens.any } else { tokens.exclusive };
            tokens.any = tokens.any.max(own.czxid);
            if writes {
                tokens.exclusive = tokens.exclusive.max(own.czxid);
            }
            self.forbid(TOKENS, own.czxid <= highest);
            let waits = |(other, contender): (Party, &Contender)| {
                other != party
                    && contender.caller == Caller::Waiting
                    && self.world.leader.tree.node_of(seat.queue, other).is_some_and(|other| {
                        other.czxid < own.czxid && exclude_each_other(other.place.kind, seat.kind)
                    })
            };
            let waits = self.world.contenders.iter().enumerate().any(waits);
            self.forbid(IN_TURN, waits && !self.setup.may(&[Fault::Deletion]));
        }
        let beside = |(other, contender): (Party, &Contender)| other != party && contender.holds();
        self.note(Witness::GrantBesideAnother, self.world.contenders.iter().enumerate().any(beside));
        self.see_grant(party);
        let contender = &mut self.world.contenders[party];
        contender.caller = Caller::Holding { valid: true };
        contender.limit = Limit::of(self.setup.longest.map(seconds), at(self.world.now));
        if let Assurance::Kept(lease) = &self.world.sessions[contender.session].assurance {
            contender.term = lease.term(at(self.world.now)).ok();
        }
    }

    fn lose(&mut self, party: Party, breach: Breach) {
        let (witness, may_be) = match breach {
            Breach::Touched => (Witness::HolderTold, self.setup.touches_nodes()),
            Breach::Forged => (Witness::ForgeryFound, self.setup.is_forged()),
        };
        (self.witness)(witness);
        let held = matches!(self.world.contenders[party].caller, Caller::Holding { .. });
        self.forbid(CAUSED, !may_be || !held);
        self.world.contenders[party].caller = Caller::Holding { valid: false };
    }

    fn end(&mut self, party: Party, seat: usize, end: End) {
        self.supersede(Address { party, seat: None });
        self.unwatch(Address { party, seat: None });
        let contender = &self.world.contenders[party];
        let is_due = match end {
            End::Released => contender.seats.iter().all(|seated| seated.removed),
            End::GivenUp => contender.caller == Caller::Gone,
            End::Busy => {
                (self.witness)(Witness::Busy);
                contender.patience == Patience::Try
            }
            End::NodeDeleted => {
                (self.witness)(Witness::ToldByMissingNode);
                self.setup.touches_nodes()
            }
            End::SessionOver(_) => true,
            End::Foreign(_) => {
                (self.witness)(Witness::ForeignerMet);
                self.world.foreigners.iter().any(|it| it.stay != Stay::Idle)
            }
            End::Refused(_) | End::Exhausted(_) | End::Displaced => false,
        };
        debug_assert!(seat < contender.seats.len());
        let rule = if end == End::Released { BY_ITSELF } else { CAUSED };
        self.forbid(rule, !is_due);
        // Its owner drops it.
        let contender = &mut self.world.contenders[party];
        let seats = contender.seats.iter().map(|seated| seated.seat).collect();
        let actor = Actor { session: contender.session, patience: contender.patience, seats };
        *contender = Contender { caller: Caller::Gone, ..Contender::new(&actor, []) };
        let session = &mut self.world.sessions[contender.session];
        session.down.retain(|(to, message, _)| to.party != party || message.is_heartbeat());
    }

    pub(crate) fn deliver(&mut self, party: Party) {
        let contender = &mut self.world.contenders[party];
        let (index, now) = (contender.session, self.world.now);
        let session = &mut self.world.sessions[index];
        let Some(position) = session.down.iter().position(|(to, ..)| to.party == party) else { return };
        let (address, message, Number(connection)) = session.down.remove(position);
        let (seat, asked) =
            (address.seat.unwrap_or_default(), contender.seats.first().map_or(0, |seated| seated.asked));
        let created = match &message {
            // They come by themselves.
            Message::Synced(_) | Message::Beaten(_) | Message::WatchLost | Message::Changed(..) => None,
            _ => contender.pending(address).take(),
        };
        let input = match message {
            Message::Synced(sent) => {
                session.assurance.hears(|lease| lease.synced(connection, at(sent), at(now)));
                if self.world.contenders_of(index).any(|party| self.world.contenders[party].holds()) {
                    self.beat(index, Request::Beat(now));
                }
                return;
            }
            Message::Beaten(sent) => return self.confirmed(index, connection, sent),
            Message::Created(owns) => {
                contender.joint = Some(Pending::Created(owns));
                return;
            }
            Message::Saw(sights) => match created {
                Some(Pending::Created(owns)) => {
                    self.confirmed(index, connection, asked);
                    Input::Reply(Report::Entered(owns.into_iter().zip(sights).collect()), connection)
                }
                _ => return,
            },
            Message::Failed => match created {
                Some(Pending::Created(owns)) => {
                    self.confirmed(index, connection, asked);
                    let unseen = owns.into_iter().map(|own| (own, Sight::Nothing));
                    Input::Reply(Report::Entered(unseen.collect()), connection)
                }
                _ => Input::Lost(address.seat),
            },
            Message::Found(found, _) => address.reply(Event::Recovered(found), connection),
            Message::Reply(event) => address.reply(event, connection),
            Message::NodesConfirmed => {
                self.confirmed(index, connection, asked);
                Input::NodesConfirmed(connection)
            }
            Message::LeaseConfirmed => {
                self.confirmed(index, connection, asked);
                Input::LeaseConfirmed
            }
            Message::FailedAt(seat, event) => Input::Reply(Report::Failed(seat, event), connection),
            Message::Watched(target, place) => {
                contender.seats[seat].watch = Some((target, place));
                let event = match target {
                    Target::Own => Event::OwnWatched(true),
                    Target::Predecessor => Event::PredecessorWatched(true),
                };
                address.reply(event, connection)
            }
            Message::WatchLost => {
                let Some((target, place)) = contender.seats[seat].watch.take() else { return };
                let queue = contender.seats[seat].seat.queue;
                self.note(
                    Witness::PredecessorVanishedWhileDisconnected,
                    target == Target::Predecessor && self.world.leader.tree.node(queue, place).is_none(),
                );
                Input::Heard(Report::One(seat, Event::WatchLost))
            }
            Message::Changed(place, shown) => {
                // The watch may have been dropped while this was under way.
                let Some((target, _)) = contender.seats[seat].watch.filter(|(_, it)| *it == place) else {
                    return;
                };
                if shown == Shown::WrittenAndDeleted {
                    (self.witness)(Witness::DeletedAfterAWrite);
                }
                let event = match (target, shown) {
                    (Target::Own, _) => Event::OwnTouched,
                    (_, Shown::Released) => Event::PredecessorReleased,
                    (_, shown) if self.setup.mutant.is_some_and(|it| it.takes_for_a_release(shown)) => {
                        Event::PredecessorReleased
                    }
                    // Its end is still to come.
                    (_, Shown::Touched) => return,
                    (_, Shown::Deleted | Shown::WrittenAndDeleted) => Event::PredecessorDeleted,
                };
                contender.seats[seat].watch = None;
                if shown == Shown::Released {
                    self.see_release(party, seat, place);
                }
                Input::Heard(Report::One(seat, event))
            }
        };
        self.handle(party, input);
    }
}

impl Contender {
    /// Every member, or the one that is meant.
    pub(crate) fn addressed(&mut self, address: Address) -> impl Iterator<Item = &mut Seated> {
        let meant = move |seat: usize| address.seat.is_none_or(|it| it == seat);
        self.seats.iter_mut().enumerate().filter(move |(seat, _)| meant(*seat)).map(|(_, seated)| seated)
    }

    /// What is under way for it.
    fn pending(&mut self, address: Address) -> &mut Option<Pending> {
        match address.seat {
            None => &mut self.joint,
            Some(seat) => &mut self.seats[seat].pending,
        }
    }
}
