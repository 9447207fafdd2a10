//! What goes over the network, and how the server answers it.

use zklock_recipe::acquisition::Input;
use zklock_recipe::companion::removal;
use zklock_recipe::nodes::{self, Entered};
use zklock_recipe::transaction::{Operation, UNTOUCHED};
use zklock_recipe::{
    Event, Foreign, ForeignClient, Own, QueuePlace, Refusal, Report, Sequence, Sight, Stranger,
};

use super::contender::Target;
use super::contest::{FIRST_RELEASES, NOT_ANOTHERS};
use super::exploration::Run;
use super::findings::Witness;
use super::follower::{Down, Up};
use super::mutant::Mutant;
use super::nodes::{Data, Make, Party};
use super::server::Kind;
use super::setup::{Fault, Flaw, Look, Seat};
use super::tree::{Name, Named, Node, Path};

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
            self.seat.map_or_else(|| Report::All(event.clone()), |seat| Report::One(seat, event.clone()));
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
    Create(Vec<Own>),
    /// The read of one queue behind a create, with what those of other queues have shown.
    Look(Vec<Sight>),
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
    Review,
    /// Reads a predecessor, and watches its data.
    Watch(QueuePlace),
    WatchOwn(Own),
    /// The second watch on a predecessor, sent right behind the first.
    WatchChildren(QueuePlace),
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
                | Self::Review
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
    Watched(Target, QueuePlace),
    /// The request's connection was lost.
    Failed,
    Changed(QueuePlace, Shown),
    /// The watch's connection was lost.
    WatchLost,
    /// A heartbeat that was sent then.
    Synced(u8),
    Beaten(u8),
}

impl Message {
    /// To a search: nobody knows whose a node of this session is.
    pub(crate) fn unclear() -> Self {
        Self::Reply(Event::Refused(Refusal::Other("somebody has written to it".into())))
    }

    pub(crate) fn is_heartbeat(&self) -> bool {
        matches!(self, Self::Synced(_) | Self::Beaten(_))
    }

    /// Whether it comes by itself, and is no answer.
    pub(crate) fn is_of_a_watch(&self) -> bool {
        matches!(self, Self::Changed(..) | Self::WatchLost)
    }
}

/// What the watches on a node show. The two on a predecessor together show whether the write and the deletion were one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shown {
    /// Our own node is not as it was. Or the predecessor's is written to: only a mutant hears that.
    Touched,
    Deleted,
    /// Written to, and deleted by another transaction.
    WrittenAndDeleted,
    /// Written to and deleted at once.
    Released,
}

impl Run<'_> {
    pub(crate) fn apply(&mut self, session: usize) {
        let sent = self.world.sessions[session].up.remove(0);
        self.reach(session, sent);
    }

    /// The server answers the read behind a create, of one queue.
    pub(crate) fn see(&mut self, session: usize, look: Look) {
        let Sent { address, request, awaited } = self.world.sessions[session].up.remove(0);
        let Request::Look(mut sights) = request else { unreachable!("{request:?}") };
        sights.push(self.sight(session, self.world.queue(address.party, sights.len()), look));
        self.reach(session, Sent { address, request: Request::Look(sights), awaited });
    }

    /// The server creates a node, and its answer does not say so.
    pub(crate) fn doubt(&mut self, session: usize) {
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
            Request::Create(owns) => return self.create(session, address, owns, awaited),
            Request::Look(sights) => {
                if awaited && sights.len() < self.world.contenders[party].seats.len() {
                    let look = Sent { address, request: Request::Look(sights), awaited };
                    return self.world.sessions[session].up.insert(0, look);
                }
                Message::Saw(sights)
            }
            Request::CreateDirectory => {
                (self.witness)(Witness::DirectoryCreated);
                for seat in self.seats(party) {
                    // It may be there already.
                    let create = Operation::Create(Named::of(Path::Directory(seat.queue)));
                    let _ = self.commit(session, vec![create]);
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
                Message::unclear()
            }
            Request::Recover(own) | Request::Find(own) => {
                let found = self.recover(session, address, own);
                match own {
                    Some(_) => Message::Reply(Event::Recovered(found)),
                    None => {
                        let shared = self.world.contenders_of(session).count() > 1;
                        Message::Found(found, shared.then(|| self.world.server_of(session).tree.zxid))
                    }
                }
            }
            Request::Confirm(owns) => {
                let named = self.paths(address, &owns).into_iter().map(Named::of);
                let checked = self.commit(session, nodes::confirmation(named, None).collect());
                match self.missing(address, &owns).or(checked.err().map(|(index, _)| index)) {
                    Some(seat) => Message::FailedAt(seat, Event::OwnTouched),
                    None => Message::NodesConfirmed,
                }
            }
            Request::ConfirmLease => Message::LeaseConfirmed,
            Request::Sync(sent) => Message::Synced(sent),
            Request::Beat(sent) => Message::Beaten(sent),
            Request::List => match self.sight(session, queue, Look::List) {
                Sight::Children(children) => Message::Reply(Event::Listed(children)),
                Sight::Foreign(stranger) => Message::Reply(Event::Foreign(stranger)),
                Sight::Nothing | Sight::Free | Sight::Count(_) => Message::Reply(Event::NoDirectory),
            },
            Request::Review => {
                let tree = &self.world.server_of(session).tree;
                let listed = tree.directories[queue].as_ref().map(|_| Event::Listed(tree.names(queue)));
                Message::Reply(listed.unwrap_or(Event::NoDirectory))
            }
            // A watch nobody awaits is removed again; that it was there for a while changes nothing.
            Request::Watch(..) | Request::WatchOwn(_) | Request::WatchChildren(_) if !awaited => return,
            Request::WatchOwn(own) => {
                let server = self.world.server_of_mut(session);
                // A node of that name may be another contender's by now.
                if server.tree.has(queue, own) {
                    server.watch(party, Path::Child(queue, own.place), Kind::Data);
                    Message::Watched(Target::Own, own.place)
                } else {
                    Message::Reply(Event::OwnWatched(false))
                }
            }
            Request::Watch(place) => {
                let tree = &self.world.server_of(session).tree;
                let predecessor = match self.setup.mutant {
                    Some(Mutant::CountsAsks) => tree.get(Path::Child(queue, place)),
                    _ => tree.node(queue, place),
                };
                let predecessor = predecessor.map(|node| node.data);
                let foreign = predecessor.filter(|node| node.make == Make::Lookalike && !self.passes_over());
                if let Some(node) = foreign {
                    let answer = Message::Reply(Event::Foreign(foreign_contender(node.make, place)));
                    return self.world.sessions[session].answer(address, answer);
                }
                let server = self.world.server_of_mut(session);
                if predecessor.is_some() && server.watch(party, Path::Child(queue, place), Kind::Data) {
                    let children = Sent { address, request: Request::WatchChildren(place), awaited };
                    self.world.sessions[session].up.insert(0, children);
                    return;
                }
                Message::Reply(Event::PredecessorWatched(false))
            }
            Request::WatchChildren(place) => {
                let server = self.world.server_of_mut(session);
                let stands = server.watch(party, Path::Child(queue, place), Kind::Children);
                let session = &mut self.world.sessions[session];
                session.answer(address, Message::Watched(Target::Predecessor, place));
                if !stands {
                    (self.witness)(Witness::GoneBetweenItsWatches);
                    session.answer(address, Message::Changed(place, Shown::Deleted));
                }
                return;
            }
            Request::Release(owns, trust) => match self.leave(session, address, &owns, trust, true) {
                Some(seat) if address.seat.is_none() => Message::FailedAt(seat, Event::Released(false)),
                missing => Message::Reply(Event::Released(missing.is_none())),
            },
            Request::Delete(own, trust) => {
                self.leave(session, address, &[own], trust, false);
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
    fn create(&mut self, session: usize, address: Address, mut owns: Vec<Own>, awaited: bool) {
        let party = address.party;
        let all = self.seats(party);
        let overtakes = self.setup.flaw == Some(Flaw::ReadOvertakesCreate);
        let before =
            overtakes.then(|| all.iter().map(|seat| self.sight(session, seat.queue, Look::Count)).collect());
        let seats = match self.setup.mutant {
            Some(Mutant::EnqueuesOneByOne) => &all[owns.len()..=owns.len()],
            _ => &all[..],
        };
        let late = !awaited && self.setup.flaw == Some(Flaw::CreatesComeLate);
        let name = |node| match node {
            Entered::Own(Seat { queue, kind }) => {
                let data = Data { creator: party, late, ..Data::default() };
                Named { name: Name::Next(queue, kind), data }
            }
            Entered::Directory(seat) => Named::of(Path::Directory(seat.queue)),
        };
        let entry = nodes::entry(seats.iter().map(|seat| (*seat, false)));
        let entry = entry.into_iter().map(|operation| operation.map(name)).collect();
        let Ok(created) = self.commit(session, entry) else {
            let answer = (address, Message::Reply(Event::NoDirectory));
            return self.answer_write(session, awaited.then_some(answer));
        };
        self.note(
            Witness::DirectoryReset,
            created.iter().any(|own| own.place.sequence == Sequence(0) && own.czxid > 1),
        );
        owns.extend(created);
        if awaited && owns.len() < all.len() {
            let rest = Sent { address, request: Request::Create(owns), awaited };
            return self.world.sessions[session].up.insert(0, rest);
        }
        self.answer_write(session, awaited.then_some((address, Message::Created(owns))));
        if let Some(before) = before {
            self.answer_write(session, Some((address, Message::Saw(before))));
        } else if awaited {
            let look = Sent { address, request: Request::Look(Vec::new()), awaited };
            self.world.sessions[session].up.insert(0, look);
        }
    }

    fn sight(&self, session: usize, queue: usize, look: Look) -> Sight {
        let tree = &self.world.server_of(session).tree;
        match look {
            _ if tree.directories[queue].is_none() => Sight::Nothing,
            Look::List => {
                let mut children = tree.children(queue).iter();
                let foreign =
                    children.find(|(_, node)| node.data.make == Make::Foreign && !self.passes_over());
                let stranger = foreign.map(|(place, _)| foreign_contender(Make::Foreign, *place));
                stranger.map_or_else(|| Sight::Children(tree.names(queue)), Sight::Foreign)
            }
            Look::Count => {
                let children = tree.children(queue);
                let asked = children.iter().any(|(_, node)| node.data.make == Make::Ask);
                self.note(Witness::AskCounted, asked);
                Sight::Count(children.len())
            }
        }
    }

    fn passes_over(&self) -> bool {
        matches!(self.setup.mutant, Some(Mutant::PassesForeignContendersOver))
    }

    /// Whether a contender finds no node of its own, but one of its session of which nobody knows whose it is.
    pub(crate) fn is_unclear(&self, session: usize, address: Address) -> bool {
        let queue = self.queue(address);
        let own = |party: Party| {
            let contender = &self.world.contenders[party];
            contender.acquisition.own(contender.seat_in(queue).unwrap_or_default())
        };
        let tree = &self.world.server_of(session).tree;
        let is_anybodys = |node: &Node| {
            node.version > UNTOUCHED && node.owner == Some(session) && own(node.data.creator).is_none()
        };
        tree.found(queue, address.party).is_none()
            && self.setup.flaw != Some(Flaw::WrittenNodesArePassedOver)
            && tree.find(queue, is_anybodys).is_some()
    }

    fn recover(&self, session: usize, address: Address, removing: Option<Own>) -> Option<Own> {
        let (tree, queue) = (&self.world.server_of(session).tree, self.queue(address));
        let found = match (self.setup.mutant, removing) {
            (_, Some(own)) => Some(own).filter(|own| tree.has(queue, *own)),
            (Some(Mutant::AdoptsAnothersNode), None) => tree.find(queue, |node| node.owner == Some(session)),
            (_, None) => tree.found(queue, address.party),
        };
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
        let tree = &self.world.leader.tree;
        let first = address.seat.unwrap_or_default();
        owns.iter()
            .zip(first..)
            .position(|(own, seat)| !tree.has(self.world.queue(address.party, seat), *own))
    }

    /// These nodes of the contender, by their names.
    fn paths(&self, address: Address, owns: &[Own]) -> Vec<Path> {
        let first = address.seat.unwrap_or_default();
        let queues = (first..).map(|seat| self.world.queue(address.party, seat));
        owns.iter().zip(queues).map(|(own, queue)| Path::Child(queue, own.place)).collect()
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
    fn leave(
        &mut self,
        session: usize,
        address: Address,
        owns: &[Own],
        trust: Trust,
        releases: bool,
    ) -> Option<usize> {
        if let Some(missing) = self.finds_another(address, owns, trust) {
            return Some(missing);
        }
        let (tree, paths) = (&self.world.leader.tree, self.paths(address, owns));
        let blocked = |path: &Path| matches!(path, Path::Child(queue, place) if tree.blocks(*queue, *place));
        let is_behind = releases && paths.iter().any(blocked);
        let creators = paths.iter().map(|path| tree.get(*path).map(|node| node.data.creator));
        let creators = creators.collect::<Vec<_>>();
        self.forbid(FIRST_RELEASES, is_behind);
        let operations = match releases {
            true => nodes::release(0..paths.len()),
            false => removal(false, false).into_iter().map(|operation| operation.map(|_| 0)).collect(),
        };
        let named = operations.iter().map(|operation| operation.clone().map(|node| Named::of(paths[node])));
        if let Err((failed, _)) = self.commit(session, named.collect()) {
            self.note(Witness::ReleaseFindsNone, releases);
            return Some(*operations[failed].node());
        }
        // What nobody has told it yet, it cannot know.
        let excused = self.setup.may(&[Fault::Uprooting]) && trust == Trust::Certain;
        for (creator, seat) in creators.into_iter().zip(address.seat.unwrap_or_default()..) {
            if creator == Some(address.party) {
                self.world.contenders[address.party].seats[seat].removed = true;
            } else {
                self.forbid(NOT_ANOTHERS, !excused);
            }
        }
        None
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

fn foreign_contender(make: Make, place: QueuePlace) -> Stranger {
    Stranger::Client(Foreign { name: make.name(place), client: ForeignClient::Unknown, session: None })
}
