//! What goes over the network, and how the server answers it.

use zklock_recipe::{Event, Foreign, ForeignClient, Look, Own, Sequence, Sight};

use crate::findings::{Breach, Witness};
use crate::follower::{Down, Effect, Up};
use crate::mutant::Mutant;
use crate::run::Run;
use crate::server::{Kind, Make, Node, Party, Watch};
use crate::setup::Flaw;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) party: Party,
    pub(crate) request: Request,
    /// False once another request has taken its place.
    pub(crate) awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Create(Look),
    /// The read behind a create.
    Look(Look),
    CreateDirectory,
    Recover,
    /// The read behind the write that a recovery begins with.
    Find,
    /// Asks the quorum whether our own node is there.
    Confirm(Sequence),
    /// A heartbeat, sent then.
    Sync(u8),
    /// The second half of a heartbeat, sent then.
    Beat(u8),
    List,
    /// Reads a node, and watches its data.
    Watch(Kind, Sequence),
    /// The second watch on a predecessor, sent right behind the first.
    WatchChildren(Sequence),
    Release(Sequence),
    Delete(Sequence),
}

impl Request {
    /// Whether the leader has to answer.
    fn is_forwarded(&self) -> bool {
        !matches!(self, Self::Look(_) | Self::Find | Self::List | Self::Watch(..) | Self::WatchChildren(_))
    }

    /// Whether it is the session's, and no contender's.
    pub(crate) fn is_heartbeat(&self) -> bool {
        matches!(self, Self::Sync(_) | Self::Beat(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// To the first half of an `Enter`.
    Created(Own),
    /// To the second half.
    Saw(Sight),
    Reply(Event),
    /// To a search for a lost node. Others of the session may share it on its connection: the last creation before it.
    Found(Option<Own>, Option<i64>),
    Watched(Kind, Sequence),
    /// The request's connection was lost.
    Failed,
    Changed(Kind, Sequence, Change),
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
        if let Some((_, answer @ Message::Created(_))) = session.down.last_mut() {
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
        let local = *request == Request::Recover && self.setup.flaw == Some(Flaw::RecoveryIsLocal);
        request.is_forwarded() && !local
    }

    /// What was sent on connections that the session has left is applied before its next write, or never.
    pub(crate) fn settle_strays(&mut self, session: usize) {
        if self.setup.flaw != Some(Flaw::OldConnectionLingers) {
            self.world.sessions[session].strays.clear();
        }
    }

    /// The leader does what it is asked for, or a server answers a read.
    pub(crate) fn serve(&mut self, session: usize, sent: Sent) {
        let Sent { party, request, awaited } = sent;
        let forwarded = self.is_forwarded(&request);
        let server = &mut self.world.server;
        let message = match request {
            Request::Create(look) => {
                let before = self.sight(session, look);
                let created = self.world.server.create(party, Make::Ours);
                if created.is_some() {
                    self.replicate(Effect::Created(party, Make::Ours));
                }
                if created.is_some_and(|own| own.sequence == Sequence(0) && own.czxid > 1) {
                    (self.witness)(Witness::DirectoryReset);
                }
                match created {
                    None => Message::Reply(Event::NoDirectory),
                    Some(own) => {
                        self.answer_write(session, awaited.then_some((party, Message::Created(own))));
                        if self.setup.flaw == Some(Flaw::ReadOvertakesCreate) {
                            self.answer_write(session, Some((party, Message::Saw(before))));
                        } else if awaited {
                            let look = Sent { party, request: Request::Look(look), awaited };
                            self.world.sessions[session].up.insert(0, look);
                        }
                        return;
                    }
                }
            }
            Request::Look(look) => Message::Saw(self.sight(session, look)),
            Request::CreateDirectory => {
                (self.witness)(Witness::DirectoryCreated);
                if server.directory.is_none() {
                    server.directory = Some(0);
                    self.replicate(Effect::Directory(true));
                }
                Message::Reply(Event::DirectoryReady)
            }
            Request::Recover if forwarded && self.world.sessions[session].follows => {
                if awaited {
                    let find = Sent { party, request: Request::Find, awaited };
                    self.world.sessions[session].up.insert(0, find);
                }
                return self.answer_write(session, None);
            }
            Request::Recover | Request::Find => {
                let found = self.recover(session, party);
                match self.world.contenders[party].machine.own() {
                    Some(_) => Message::Reply(Event::Recovered(found)),
                    None => {
                        let shared = self.world.members(session).count() > 1;
                        Message::Found(found, shared.then(|| self.world.server_of(session).last_zxid))
                    }
                }
            }
            Request::Confirm(sequence) => {
                let ours = server.node(sequence).is_some_and(|node| node.creator == party);
                Message::Reply(if ours { Event::Confirmed } else { Event::OwnTouched })
            }
            Request::Sync(sent) => Message::Synced(sent),
            Request::Beat(sent) => Message::Beaten(sent),
            Request::List => match self.world.server_of(session) {
                server if server.directory.is_none() => Message::Reply(Event::NoDirectory),
                _ => Message::Reply(self.children(session).map_or_else(Event::Foreign, Event::Listed)),
            },
            // A watch nobody awaits is removed again; that it was there for a while changes nothing.
            Request::Watch(..) | Request::WatchChildren(_) if !awaited => return,
            Request::Watch(Kind::Own, sequence) => {
                let server = self.world.server_of_mut(session);
                // A node of that name may be another contender's by now.
                let ours = server.node(sequence).is_some_and(|node| node.creator == party);
                if ours && server.watch(sequence, Watch { party, kind: Kind::Own }) {
                    Message::Watched(Kind::Own, sequence)
                } else {
                    Message::Reply(Event::OwnWatched(false))
                }
            }
            Request::Watch(kind, sequence) => {
                let predecessor = self.world.server_of(session).node(sequence);
                let foreign = predecessor.filter(|node| node.make == Make::Lookalike).cloned();
                if let Some(node) = foreign.filter(|_| !self.passes_over()) {
                    let answer = Message::Reply(Event::Foreign(foreign_contender(&node)));
                    self.world.sessions[session].down.push((party, answer));
                    return;
                }
                if self.world.server_of_mut(session).watch(sequence, Watch { party, kind }) {
                    let children = Sent { party, request: Request::WatchChildren(sequence), awaited };
                    self.world.sessions[session].up.insert(0, children);
                    return;
                }
                Message::Reply(Event::PredecessorWatched(false))
            }
            Request::WatchChildren(sequence) => {
                let watch = Watch { party, kind: Kind::Children };
                let stands = self.world.server_of_mut(session).watch(sequence, watch);
                let down = &mut self.world.sessions[session].down;
                down.push((party, Message::Watched(Kind::Predecessor, sequence)));
                if !stands {
                    (self.witness)(Witness::GoneBetweenItsWatches);
                    down.push((party, Message::Changed(Kind::Predecessor, sequence, Change::Deleted)));
                }
                return;
            }
            Request::Release(sequence) => {
                let server = &self.world.server;
                if server.nodes.iter().any(|node| node.own.sequence < sequence) {
                    self.world.breach.get_or_insert(Breach::ReleaseBehindOthers);
                }
                Message::Reply(Event::Released(self.remove_for(party, sequence, Change::Released)))
            }
            Request::Delete(sequence) => {
                self.remove_for(party, sequence, Change::Deleted);
                Message::Reply(Event::Deleted)
            }
        };
        let answer = awaited.then_some((party, message));
        if forwarded {
            self.answer_write(session, answer);
        } else {
            self.world.sessions[session].down.extend(answer);
        }
    }

    fn sight(&self, session: usize, look: Look) -> Sight {
        let server = self.world.server_of(session);
        match look {
            _ if server.directory.is_none() => Sight::Nothing,
            Look::List => self.children(session).map_or_else(Sight::Foreign, Sight::Children),
            Look::Count => Sight::Count(server.nodes.len()),
        }
    }

    /// The names of a contender's rivals; or the first of them that shows by its name that it is another client's.
    fn children(&self, session: usize) -> Result<Vec<String>, Foreign> {
        let server = self.world.server_of(session);
        let foreign = server.nodes.iter().find(|node| node.make == Make::Foreign && !self.passes_over());
        foreign.map_or_else(|| Ok(server.children()), |node| Err(foreign_contender(node)))
    }

    fn passes_over(&self) -> bool {
        self.setup.mutant == Some(Mutant::PassesForeignContendersOver)
    }

    fn recover(&self, session: usize, party: Party) -> Option<Own> {
        let removing = self.world.contenders[party].machine.own();
        let server = self.world.server_of(session);
        let found = match (self.setup.mutant, removing) {
            (Some(Mutant::AdoptsAnothersNode), None) => {
                let of_session = |node: &&Node| self.world.contenders[node.creator].session == session;
                server.nodes.iter().find(of_session)
            }
            _ => server.node_of(party),
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

    /// Removes a node on behalf of a contender; false if it was not there.
    fn remove_for(&mut self, party: Party, sequence: Sequence, change: Change) -> bool {
        match self.world.server.node(sequence).map(|node| node.creator) {
            None => return false,
            Some(creator) if creator == party => self.world.contenders[party].removed = true,
            Some(_) => {
                self.world.breach.get_or_insert(Breach::RemovalOfAnothersNode);
            }
        }
        self.remove(sequence, change);
        true
    }

    pub(crate) fn remove(&mut self, sequence: Sequence, change: Change) {
        let watches = self.world.server.remove(sequence);
        self.replicate(Effect::Removed(sequence, change));
        self.notify(watches, sequence, change);
    }

    /// An operator, or another client, changes a node without removing it.
    pub(crate) fn write(&mut self, sequence: Sequence) {
        let watches = self.world.server.write(sequence);
        self.replicate(Effect::Written(sequence));
        self.notify(watches, sequence, Change::Written);
    }

    pub(crate) fn notify(&mut self, watches: Vec<Watch>, sequence: Sequence, change: Change) {
        for &Watch { party, kind } in &watches {
            let both = watches.contains(&Watch { party, kind: Kind::Predecessor });
            let (kind, change) = match kind {
                // The second watch tells of the node's end, or finds it gone.
                Kind::Predecessor if change != Change::Written => continue,
                Kind::Children if both => (Kind::Predecessor, change),
                Kind::Children => (Kind::Predecessor, Change::WrittenAndDeleted),
                kind => (kind, change),
            };
            let session = self.world.contenders[party].session;
            self.world.sessions[session].down.push((party, Message::Changed(kind, sequence, change)));
        }
    }

    /// The leader answers a write. A follower passes that on once it has applied the write itself.
    fn answer_write(&mut self, session: usize, answer: Option<(Party, Message)>) {
        match &mut self.world.follower {
            Some(follower) if self.world.sessions[session].follows => {
                follower.down.push(Down::Answer(session, answer));
            }
            _ => self.world.sessions[session].down.extend(answer),
        }
    }
}

fn foreign_contender(node: &Node) -> Foreign {
    Foreign { name: node.name(), client: ForeignClient::Unknown, session: None }
}
