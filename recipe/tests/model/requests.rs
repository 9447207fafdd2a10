//! What goes over the network, and how the server answers it.

use zklock_recipe::acquisition::Input;
use zklock_recipe::{
    Event, Foreign, ForeignClient, Input as Heard, Look, Own, Place, Sequence, Sight, Stranger, Takeover,
};

use crate::findings::{Breach, Witness};
use crate::follower::{Down, Effect, Up};
use crate::mutant::Mutant;
use crate::run::Run;
use crate::server::{Make, Node, Party, Target, Watch};
use crate::setup::{Flaw, Seat};

/// Who has asked, or is answered: one member of a contender's group, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) party: Party,
    pub(crate) seat: Option<usize>,
}

impl Address {
    /// A reply with this event, on this connection.
    pub(crate) fn reply(self, event: Event, connection: u64) -> Input {
        let heard =
            self.seat.map_or_else(|| Heard::All(event.clone()), |seat| Heard::One(seat, event.clone()));
        Input::Reply(heard, connection)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) address: Address,
    pub(crate) request: Request,
    /// False once another request has taken its place.
    pub(crate) awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// Creates the nodes of all members, but those that are there already.
    Create(Look, Vec<Own>),
    /// The read of one queue behind a create, with what those of other queues have shown.
    Look(Look, Vec<Sight>),
    CreateDirectory,
    /// Looks for this node, or for one that the last create may have made.
    Recover(Option<Own>),
    /// The read behind the write that a recovery begins with.
    Find(Option<Own>),
    /// Asks the quorum anything.
    ConfirmLease,
    /// Asks the quorum whether all these nodes of ours are there.
    Confirm(Vec<Own>),
    /// A heartbeat, sent then.
    Sync(u8),
    /// The second half of a heartbeat, sent then.
    Beat(u8),
    List,
    /// Reads a node, and watches its data.
    Watch(Target, Place),
    WatchOwn(Own),
    /// The second watch on a predecessor, sent right behind the first.
    WatchChildren(Place),
    /// Of one member or of all, in one transaction.
    Release(Vec<Own>, Trust),
    Delete(Own, Trust),
}

/// How far a contender trusts that the nodes of its nodes' names are its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Trust {
    /// It has seen them on the connection on which it names them.
    Certain,
    /// As that, though it has been told that one is gone, or not as it was.
    Told,
    /// It looks at them first. Here nothing comes between the look and what follows.
    Unsure,
}

impl Request {
    /// Whether the leader has to answer.
    fn is_forwarded(&self) -> bool {
        !matches!(
            self,
            Self::Look(..)
                | Self::Find(_)
                | Self::List
                | Self::Watch(..)
                | Self::WatchOwn(_)
                | Self::WatchChildren(_)
        )
    }

    /// Whether it is the session's, and no contender's.
    pub(crate) fn is_heartbeat(&self) -> bool {
        matches!(self, Self::Sync(_) | Self::Beat(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// To the first half of an `Enter`.
    Created(Vec<Own>),
    /// To the second half.
    Saw(Vec<Sight>),
    Reply(Event),
    LeaseConfirmed,
    NodesConfirmed,
    /// To a request for all, which had no effect because of this member.
    FailedAt(usize, Event),
    /// To a search for a lost node. Others of the session may share it on its connection: the last creation before it.
    Found(Option<Own>, Option<i64>),
    /// Reply to `Recover`: nobody knows whose a node of this session is.
    Unclear,
    Watched(Target, Place),
    /// The request's connection was lost.
    Failed,
    Changed(Target, Place, Change),
    /// The watch's connection was lost.
    WatchLost,
    /// A heartbeat that was sent then.
    Synced(u8),
    Beaten(u8),
}

impl Message {
    pub(crate) fn is_heartbeat(&self) -> bool {
        matches!(self, Self::Synced(_) | Self::Beaten(_))
    }

    /// Whether it comes by itself, and is no answer.
    pub(crate) fn is_of_a_watch(&self) -> bool {
        matches!(self, Self::Changed(..) | Self::WatchLost)
    }
}

/// What a watch shows. The two on a predecessor together show whether the write and the deletion were one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Written,
    Deleted,
    /// Written to, and deleted by another transaction.
    WrittenAndDeleted,
    /// Written to and deleted at once.
    Released,
}

impl<W: Fn(Witness)> Run<'_, W> {
    pub(crate) fn apply(&mut self, session: usize) {
        let sent = self.world.sessions[session].up.remove(0);
        self.reach(session, sent);
    }

    /// The server creates a node, and its answer does not say so.
    pub(crate) fn doubt(&mut self, session: usize) {
        self.world.faults.doubts -= 1;
        self.apply(session);
        let session = &mut self.world.sessions[session];
        if let Some((_, answer @ Message::Created(_), _)) = session.down.last_mut() {
            *answer = Message::Reply(Event::Unanswered);
            session.up.remove(0);
        }
    }

    /// A request reaches the server that the session is connected to.
    pub(crate) fn reach(&mut self, session: usize, sent: Sent) {
        let follows = self.world.sessions[session].follows;
        let forwarded = self.is_forwarded(&sent.request);
        match &mut self.world.follower {
            Some(follower) if follows => {
                follower.touch(session);
                if !self.world.sessions[session].alive {
                    (self.witness)(Witness::ServedAfterItsEnd);
                }
                if !forwarded && follower.is_behind() {
                    (self.witness)(Witness::AnswerFromThePast);
                }
                if forwarded {
                    return follower.up.push(Up::Forward(session, sent));
                }
            }
            _ => self.touch(session, true),
        }
        if forwarded {
            self.settle_strays(session);
        }
        self.serve(session, sent);
    }

    fn is_forwarded(&self, request: &Request) -> bool {
        let local = matches!(request, Request::Recover(_)) && self.setup.flaw == Some(Flaw::RecoveryIsLocal);
        request.is_forwarded() && !local
    }

    /// What was sent on connections that the session has left is applied before its next write, or never.
    pub(crate) fn settle_strays(&mut self, session: usize) {
        let strays = &mut self.world.sessions[session].strays;
        match self.setup.flaw {
            Some(Flaw::OldConnectionLingers) => {}
            Some(Flaw::CreatesComeLate) => strays.retain(|sent| matches!(sent.request, Request::Create(..))),
            _ => strays.clear(),
        }
    }

    /// The leader does what it is asked for, or a server answers a read.
    pub(crate) fn serve(&mut self, session: usize, sent: Sent) {
        let Sent { address, request, awaited } = sent;
        let forwarded = self.is_forwarded(&request);
        let (party, queue) = (address.party, self.queue(address));
        let message = match request {
            Request::Create(look, owns) => return self.create(session, address, look, owns, awaited),
            Request::Look(look, mut sights) => {
                // One read for each queue.
                sights.push(self.sight(session, self.world.queue(party, sights.len()), look));
                if awaited && sights.len() < self.world.contenders[party].seats.len() {
                    let look = Sent { address, request: Request::Look(look, sights), awaited };
                    return self.world.sessions[session].up.insert(0, look);
                }
                Message::Saw(sights)
            }
            Request::CreateDirectory => {
                (self.witness)(Witness::DirectoryCreated);
                for seat in self.seats(party) {
                    let directory = &mut self.world.server.queues[seat.queue].directory;
                    if directory.is_none() {
                        *directory = Some(0);
                        self.replicate(Effect::Directory(seat.queue, true));
                    }
                }
                Message::Reply(Event::DirectoryReady)
            }
            Request::Recover(own) if forwarded && self.world.sessions[session].follows => {
                if awaited {
                    let find = Sent { address, request: Request::Find(own), awaited };
                    self.world.sessions[session].up.insert(0, find);
                }
                return self.answer_write(session, None);
            }
            Request::Recover(None) | Request::Find(None) if self.is_unclear(session, address) => {
                Message::Unclear
            }
            Request::Recover(own) | Request::Find(own) => {
                let found = self.recover(session, address, own);
                match own {
                    Some(_) => Message::Reply(Event::Recovered(found)),
                    None => {
                        let shared = self.world.contenders_of(session).count() > 1;
                        Message::Found(found, shared.then(|| self.world.server_of(session).last_zxid))
                    }
                }
            }
            Request::Confirm(owns) => match self.missing(address, &owns) {
                Some(seat) => Message::FailedAt(seat, Event::OwnTouched),
                None => Message::NodesConfirmed,
            },
            Request::ConfirmLease => Message::LeaseConfirmed,
            Request::Sync(sent) => Message::Synced(sent),
            Request::Beat(sent) => Message::Beaten(sent),
            Request::List => match &self.world.server_of(session).queues[queue] {
                queue if queue.directory.is_none() => Message::Reply(Event::NoDirectory),
                _ => Message::Reply(self.children(session, queue).map_or_else(Event::Foreign, Event::Listed)),
            },
            // A watch nobody awaits is removed again; that it was there for a while changes nothing.
            Request::Watch(..) | Request::WatchOwn(_) | Request::WatchChildren(_) if !awaited => return,
            Request::WatchOwn(own) => {
                let queue = &mut self.world.server_of_mut(session).queues[queue];
                // A node of that name may be another contender's by now.
                let ours = queue.node(own.place).is_some_and(|node| node.own == own);
                if ours && queue.watch(own.place, Watch { party, target: Target::Own }) {
                    Message::Watched(Target::Own, own.place)
                } else {
                    Message::Reply(Event::OwnWatched(false))
                }
            }
            Request::Watch(target, place) => {
                let predecessor = self.world.server_of(session).queues[queue].node(place);
                let foreign = predecessor.filter(|node| node.make == Make::Lookalike).cloned();
                if let Some(node) = foreign.filter(|_| !self.passes_over()) {
                    let answer = Message::Reply(Event::Foreign(foreign_contender(&node)));
                    return self.world.sessions[session].answer(address, answer);
                }
                let queue = &mut self.world.server_of_mut(session).queues[queue];
                if queue.watch(place, Watch { party, target }) {
                    let children = Sent { address, request: Request::WatchChildren(place), awaited };
                    self.world.sessions[session].up.insert(0, children);
                    return;
                }
                Message::Reply(Event::PredecessorWatched(false))
            }
            Request::WatchChildren(place) => {
                let watch = Watch { party, target: Target::Children };
                let stands = self.world.server_of_mut(session).queues[queue].watch(place, watch);
                let session = &mut self.world.sessions[session];
                session.answer(address, Message::Watched(Target::Predecessor, place));
                if !stands {
                    (self.witness)(Witness::GoneBetweenItsWatches);
                    session.answer(address, Message::Changed(Target::Predecessor, place, Change::Deleted));
                }
                return;
            }
            Request::Release(owns, trust) => match self.release(address, &owns, trust) {
                Some(seat) if address.seat.is_none() => Message::FailedAt(seat, Event::Released(false)),
                missing => Message::Reply(Event::Released(missing.is_none())),
            },
            Request::Delete(own, trust) => {
                if self.finds_another(address, &[own], trust).is_some() {
                    let answer = awaited.then_some((address, Message::Reply(Event::Deleted)));
                    return self.answer_write(session, answer);
                }
                self.see_removal(address, own.place, trust);
                if self.world.server.queues[queue].node(own.place).is_some() {
                    self.remove(vec![(queue, own.place)], Change::Deleted);
                }
                Message::Reply(Event::Deleted)
            }
        };
        let answer = awaited.then_some((address, message));
        if forwarded {
            self.answer_write(session, answer);
        } else if let Some((address, message)) = answer {
            self.world.sessions[session].answer(address, message);
        }
    }

    /// Creates a node for each member, in one transaction.
    fn create(&mut self, session: usize, address: Address, look: Look, mut owns: Vec<Own>, awaited: bool) {
        let party = address.party;
        let before = self.seats(party).iter().map(|seat| self.sight(session, seat.queue, look)).collect();
        let all = self.seats(party);
        let seats = match self.setup.mutant {
            Some(Mutant::EnqueuesOneByOne) => &all[owns.len()..=owns.len()],
            _ => &all[..],
        };
        let Some(created) = self.world.server.create(party, Make::Ours, seats) else {
            let answer = (address, Message::Reply(Event::NoDirectory));
            return self.answer_write(session, awaited.then_some(answer));
        };
        self.replicate(Effect::Created(party, Make::Ours, seats.to_vec()));
        if created.iter().any(|own| own.place.sequence == Sequence(0) && own.czxid > 1) {
            (self.witness)(Witness::DirectoryReset);
        }
        if !awaited && self.setup.flaw == Some(Flaw::CreatesComeLate) {
            for node in self.world.server.queues.iter_mut().flat_map(|queue| &mut queue.nodes) {
                node.late |= created.contains(&node.own);
            }
        }
        owns.extend(created);
        if awaited && owns.len() < all.len() {
            let rest = Sent { address, request: Request::Create(look, owns), awaited };
            return self.world.sessions[session].up.insert(0, rest);
        }
        self.answer_write(session, awaited.then_some((address, Message::Created(owns))));
        if self.setup.flaw == Some(Flaw::ReadOvertakesCreate) {
            self.answer_write(session, Some((address, Message::Saw(before))));
        } else if awaited {
            let look = Sent { address, request: Request::Look(look, Vec::new()), awaited };
            self.world.sessions[session].up.insert(0, look);
        }
    }

    fn sight(&self, session: usize, queue: usize, look: Look) -> Sight {
        match (&self.world.server_of(session).queues[queue], look) {
            (queue, _) if queue.directory.is_none() => Sight::Nothing,
            (_, Look::List) => self.children(session, queue).map_or_else(Sight::Foreign, Sight::Children),
            (queue, Look::Count) => Sight::Count(queue.nodes.len()),
        }
    }

    /// The names of a contender's rivals; or the first of them that shows by its name that it is another client's.
    fn children(&self, session: usize, queue: usize) -> Result<Vec<String>, Stranger> {
        let queue = &self.world.server_of(session).queues[queue];
        let foreign = queue.nodes.iter().find(|node| node.make == Make::Foreign && !self.passes_over());
        foreign.map_or_else(|| Ok(queue.children()), |node| Err(foreign_contender(node)))
    }

    fn passes_over(&self) -> bool {
        self.setup.mutant == Some(Mutant::PassesForeignContendersOver)
    }

    /// Whether a contender finds no node of its own, but one of its session of which nobody knows whose it is.
    pub(crate) fn is_unclear(&self, session: usize, address: Address) -> bool {
        let queue = self.queue(address);
        let own = |party: Party| {
            let contender = &self.world.contenders[party];
            contender.acquisition.own(contender.seat_in(queue).unwrap_or_default())
        };
        let nodes = &self.world.server_of(session).queues[queue].nodes;
        let is_found = nodes.iter().any(|node| node.creator == address.party && !node.written);
        let is_anybodys = |node: &Node| {
            let of_session = self.world.contenders_of(session).any(|party| party == node.creator);
            node.written && of_session && own(node.creator).is_none()
        };
        !is_found && self.setup.flaw != Some(Flaw::WrittenNodesArePassedOver) && nodes.iter().any(is_anybodys)
    }

    fn recover(&self, session: usize, address: Address, removing: Option<Own>) -> Option<Own> {
        let queue = &self.world.server_of(session).queues[self.queue(address)];
        let found = match (self.setup.mutant, removing) {
            (_, Some(own)) => queue.node(own.place).filter(|node| node.own == own),
            (Some(Mutant::AdoptsAnothersNode), None) => {
                let of_session = |node: &&Node| self.world.contenders[node.creator].session == session;
                queue.nodes.iter().find(of_session)
            }
            (_, None) => queue.node_of(address.party).filter(|node| !node.written),
        };
        let found = found.map(|node| node.own);
        (self.witness)(match (removing, found) {
            (None, Some(_)) => Witness::RecoveryFindsNode,
            (None, None) => Witness::RecoveryFindsNone,
            (Some(_), Some(_)) => Witness::RemovalFoundUndone,
            (Some(_), None) => Witness::RemovalFoundDone,
        });
        found
    }

    /// The first of these nodes that is not there, or is another contender's.
    fn missing(&self, address: Address, owns: &[Own]) -> Option<usize> {
        let is_missing = |seat: usize, own: Own| {
            let node = self.world.server.queues[self.world.queue(address.party, seat)].node(own.place);
            node.is_none_or(|node| node.own != own)
        };
        let first = address.seat.unwrap_or_default();
        (0..).zip(owns).find_map(|(index, own)| is_missing(first + index, *own).then_some(index))
    }

    /// What a contender that is unsure of its nodes finds when it looks at them: the first that is not its own.
    fn finds_another(&self, address: Address, owns: &[Own], trust: Trust) -> Option<usize> {
        let blindly = matches!(self.setup.mutant, Some(Mutant::NamesNodesBlindly | Mutant::RemovesAgain));
        let looks = trust == Trust::Unsure && !blindly;
        let missing = looks.then(|| self.missing(address, owns))??;
        (self.witness)(Witness::LookFindsNone);
        Some(missing)
    }

    /// Removes nodes on behalf of a contender, all or none; the first that was not there.
    fn release(&mut self, address: Address, owns: &[Own], trust: Trust) -> Option<usize> {
        if let Some(missing) = self.finds_another(address, owns, trust) {
            return Some(missing);
        }
        let first = address.seat.unwrap_or_default();
        let queues = (first..first + owns.len()).map(|seat| self.world.queue(address.party, seat));
        let removals = queues.zip(owns.iter().map(|own| own.place)).collect::<Vec<_>>();
        for (queue, place) in &removals {
            if self.world.server.queues[*queue].blocking(*place).next().is_some() {
                self.world.breach.get_or_insert(Breach::ReleaseBehindOthers);
            }
        }
        let gone = |&(queue, place): &(usize, Place)| self.world.server.queues[queue].node(place).is_none();
        if let Some(missing) = removals.iter().position(gone) {
            (self.witness)(Witness::ReleaseFindsNone);
            return Some(missing);
        }
        for (seat, own) in (first..).zip(owns) {
            self.see_removal(Address { seat: Some(seat), ..address }, own.place, trust);
        }
        self.remove(removals, Change::Released);
        None
    }

    /// A contender is about to remove this node, if it is there.
    fn see_removal(&mut self, address: Address, place: Place, trust: Trust) {
        // What nobody has told it yet, it cannot know.
        let excused = self.setup.faults.uproots > 0 && trust == Trust::Certain;
        let seat = address.seat.unwrap_or_default();
        match self.world.server.queues[self.queue(address)].node(place).map(|node| node.creator) {
            None => {}
            Some(creator) if creator == address.party => {
                self.world.contenders[address.party].seats[seat].removed = true;
            }
            Some(_) if excused => {}
            Some(_) => {
                self.world.breach.get_or_insert(Breach::RemovalOfAnothersNode);
            }
        }
    }

    /// Removes nodes in one transaction.
    pub(crate) fn remove(&mut self, removals: Vec<(usize, Place)>, change: Change) {
        for (queue, place) in &removals {
            self.see_end(*queue, *place, change);
        }
        if change == Change::Released && self.setup.takeover == Takeover::Delayed {
            (0..self.world.contenders.len()).for_each(|party| self.note_blind(party));
        }
        let remove = |&(queue, place): &(usize, Place)| self.world.server.queues[queue].remove(place);
        let fired = removals.iter().map(remove).collect::<Vec<_>>();
        self.replicate(Effect::Removed(removals.clone(), change));
        for ((queue, place), watches) in removals.into_iter().zip(fired) {
            self.notify(watches, queue, place, change);
        }
    }

    /// An operator, or another client, changes a node without removing it.
    pub(crate) fn write(&mut self, queue: usize, place: Place) {
        let watches = self.world.server.queues[queue].write(place);
        self.replicate(Effect::Written(queue, place));
        self.notify(watches, queue, place, Change::Written);
    }

    pub(crate) fn notify(&mut self, watches: Vec<Watch>, queue: usize, place: Place, change: Change) {
        for &Watch { party, target } in &watches {
            let both = watches.contains(&Watch { party, target: Target::Predecessor });
            let (target, change) = match target {
                // The second watch tells of the node's end, or finds it gone.
                Target::Predecessor if change != Change::Written => continue,
                Target::Children if both => (Target::Predecessor, change),
                Target::Children => (Target::Predecessor, Change::WrittenAndDeleted),
                target => (target, change),
            };
            let contender = &self.world.contenders[party];
            let address = Address { party, seat: contender.seat_in(queue) };
            self.world.sessions[contender.session].answer(address, Message::Changed(target, place, change));
        }
    }

    /// The leader answers a write. A follower passes that on once it has applied the write itself.
    fn answer_write(&mut self, session: usize, answer: Option<(Address, Message)>) {
        match &mut self.world.follower {
            Some(follower) if self.world.sessions[session].follows => {
                follower.down.push(Down::Answer(session, answer));
            }
            _ => {
                let session = &mut self.world.sessions[session];
                answer.into_iter().for_each(|(address, message)| session.answer(address, message));
            }
        }
    }

    /// The queue of this member, or of the first.
    fn queue(&self, address: Address) -> usize {
        self.world.queue(address.party, address.seat.unwrap_or_default())
    }

    fn seats(&self, party: Party) -> Vec<Seat> {
        self.world.contenders[party].seats.iter().map(|seated| seated.seat).collect()
    }
}

fn foreign_contender(node: &Node) -> Stranger {
    Stranger::Client(Foreign { name: node.name(), client: ForeignClient::Unknown, session: None })
}
