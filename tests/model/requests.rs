//! What goes over the network, and how the server answers it.

use zklock::recipe::{Event, Look, Own, Sequence, Sight};

use crate::findings::{Breach, Witness};
use crate::mutant::Mutant;
use crate::run::Run;
use crate::server::{Kind, Node, Party, Watch};
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
    List,
    Watch(Kind, Sequence),
    Release(Sequence),
    Delete(Sequence),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// To the first half of an `Enter`.
    Created(Own),
    /// To the second half.
    Saw(Sight),
    Reply(Event),
    Watched(Kind, Sequence),
    /// The request's connection was lost.
    Failed,
    Changed(Kind, Sequence, Change),
}

/// A node's first change since it is watched. A release writes and deletes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Written,
    Deleted,
}

impl<W: Fn(Witness)> Run<'_, W> {
    pub(crate) fn apply(&mut self, session: usize) {
        let sent = self.world.sessions[session].up.remove(0);
        self.serve(session, sent);
    }

    pub(crate) fn serve(&mut self, session: usize, sent: Sent) {
        let Sent { party, request, awaited } = sent;
        let server = &mut self.world.server;
        let message = match request {
            Request::Create(look) => {
                let before = self.sight(look);
                let created = self.world.server.create(party);
                if created.is_some_and(|own| own.sequence == Sequence(0) && own.czxid > 1) {
                    (self.witness)(Witness::DirectoryReset);
                }
                match created {
                    None => Message::Reply(Event::NoDirectory),
                    Some(own) if awaited => {
                        self.answer(session, party, Message::Created(own));
                        if self.setup.flaw == Some(Flaw::ReadOvertakesCreate) {
                            self.answer(session, party, Message::Saw(before));
                        } else {
                            let look = Sent { party, request: Request::Look(look), awaited };
                            self.world.sessions[session].up.insert(0, look);
                        }
                        return;
                    }
                    Some(_) => return,
                }
            }
            Request::Look(look) => Message::Saw(self.sight(look)),
            Request::CreateDirectory => {
                (self.witness)(Witness::DirectoryCreated);
                server.directory.get_or_insert(0);
                Message::Reply(Event::DirectoryReady)
            }
            Request::Recover => Message::Reply(Event::Recovered(self.recover(party))),
            Request::List if server.directory.is_none() => Message::Reply(Event::NoDirectory),
            Request::List => Message::Reply(Event::Listed(server.children())),
            Request::Watch(kind, sequence) => {
                // A watch nobody awaits is removed again; that it was there for a while changes nothing.
                if awaited && server.watch(sequence, Watch { party, kind }) {
                    Message::Watched(kind, sequence)
                } else {
                    Message::Reply(match kind {
                        Kind::Predecessor => Event::PredecessorWatched(false),
                        Kind::Own => Event::OwnWatched(false),
                    })
                }
            }
            Request::Release(sequence) => {
                if server.nodes.iter().any(|node| node.own.sequence < sequence) {
                    self.world.breach.get_or_insert(Breach::ReleaseBehindOthers);
                }
                Message::Reply(Event::Released(self.remove_for(party, sequence, Change::Written)))
            }
            Request::Delete(sequence) => {
                self.remove_for(party, sequence, Change::Deleted);
                Message::Reply(Event::Deleted)
            }
        };
        if awaited {
            self.answer(session, party, message);
        }
    }

    fn sight(&self, look: Look) -> Sight {
        let server = &self.world.server;
        match look {
            _ if server.directory.is_none() => Sight::Nothing,
            Look::List => Sight::Children(server.children()),
            Look::Count => Sight::Count(server.nodes.len()),
        }
    }

    fn recover(&self, party: Party) -> Option<Own> {
        let removing = self.world.contenders[party].machine.own();
        let session = self.world.contenders[party].session;
        let found = match (self.setup.mutant, removing) {
            (Some(Mutant::AdoptsAnothersNode), None) => {
                let of_session = |node: &&Node| self.world.contenders[node.creator].session == session;
                self.world.server.nodes.iter().find(of_session)
            }
            _ => self.world.server.node_of(party),
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
        let watches = self.world.server.fire(sequence);
        self.world.server.nodes.retain(|node| node.own.sequence != sequence);
        self.notify(watches, sequence, change);
    }

    pub(crate) fn notify(&mut self, watches: Vec<Watch>, sequence: Sequence, change: Change) {
        for Watch { party, kind } in watches {
            let session = self.world.contenders[party].session;
            self.answer(session, party, Message::Changed(kind, sequence, change));
        }
    }

    fn answer(&mut self, session: usize, party: Party, message: Message) {
        self.world.sessions[session].down.push((party, message));
    }
}
