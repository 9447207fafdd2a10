//! Sessions: their connections, which break and come back, their leases and their ends.

use zklock::recipe::{Event, SessionEnd};

use crate::contender::{Caller, Pending};
use crate::findings::Witness;
use crate::requests::{Change, Message, Request, Sent};
use crate::run::Run;
use crate::server::{Kind, Party, Watch};
use crate::setup::Flaw;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// On the server.
    pub(crate) alive: bool,
    /// The client knows, and has told its contenders.
    pub(crate) over: bool,
    pub(crate) lease: bool,
    pub(crate) connected: bool,
    /// Requests under way, in order.
    pub(crate) up: Vec<Sent>,
    /// Writes under way on the connection before, which the client knows nothing of any more.
    pub(crate) strays: Vec<Sent>,
    /// Replies and changes under way, in order.
    pub(crate) down: Vec<(Party, Message)>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            alive: true,
            over: false,
            lease: true,
            connected: true,
            up: Vec::new(),
            strays: Vec::new(),
            down: Vec::new(),
        }
    }
}

impl<W: Fn(Witness)> Run<'_, W> {
    pub(crate) fn break_connection(&mut self, session: usize, kept: usize) {
        self.world.faults.breaks -= 1;
        self.world.sessions[session].down.truncate(kept);
        self.disconnect(session);
        for party in self.world.members(session) {
            let contender = &self.world.contenders[party];
            let asked = matches!(contender.pending, Some(Pending::Request | Pending::Created(_)));
            let down = &mut self.world.sessions[session].down;
            let answered = down.iter().any(|(to, message)| {
                *to == party && !matches!(message, Message::Created(_) | Message::Changed(..))
            });
            if asked && !answered {
                down.push((party, Message::Failed));
            }
        }
    }

    pub(crate) fn disconnect(&mut self, session: usize) {
        for party in self.world.members(session) {
            self.world.server.forget_watches(party);
        }
        let session = &mut self.world.sessions[session];
        session.connected = false;
        session.strays = std::mem::take(&mut session.up);
        session.strays.retain(|sent| {
            matches!(
                sent.request,
                Request::Create(_) | Request::CreateDirectory | Request::Release(_) | Request::Delete(_)
            )
        });
        session.strays.iter_mut().for_each(|stray| stray.awaited = false);
    }

    /// The server has no ear any more for the connection before; the client sets its watches again.
    pub(crate) fn reconnect(&mut self, index: usize) {
        let session = &mut self.world.sessions[index];
        session.connected = true;
        if self.setup.flaw != Some(Flaw::OldConnectionLingers) {
            session.strays.clear();
        }
        if self.setup.flaw == Some(Flaw::WatchesAreForgotten) {
            return;
        }
        for party in self.world.members(index) {
            let down = &mut self.world.sessions[index].down;
            let set = |message: &Message| match message {
                Message::Watched(kind, sequence) => Some((*kind, *sequence)),
                _ => None,
            };
            let fresh = down.iter().filter(|(to, _)| *to == party).find_map(|(_, message)| set(message));
            let fired =
                down.iter().any(|(to, message)| *to == party && matches!(message, Message::Changed(..)));
            let Some((kind, sequence)) = self.world.contenders[party].watch.or(fresh).filter(|_| !fired)
            else {
                continue;
            };
            // A node of that name may be another one by now: to the server it has changed since.
            let same = kind == Kind::Predecessor
                || self.world.server.node(sequence).is_some_and(|node| node.creator == party);
            if !(same && self.world.server.watch(sequence, Watch { party, kind })) {
                if kind == Kind::Predecessor {
                    (self.witness)(Witness::PredecessorVanishedWhileDisconnected);
                }
                down.push((party, Message::Changed(kind, sequence, Change::Deleted)));
            }
        }
    }

    /// Loss is final: a guard that is lost here stays lost when the lease comes back.
    pub(crate) fn lapse(&mut self, session: usize) {
        self.world.sessions[session].lease = false;
        for party in self.world.members(session) {
            let contender = &mut self.world.contenders[party];
            if contender.caller == (Caller::Holding { valid: true }) {
                (self.witness)(Witness::GuardLost);
                contender.caller = Caller::Holding { valid: false };
            }
        }
    }

    pub(crate) fn expire(&mut self, session: usize) {
        if !self.world.sessions[session].over {
            self.world.faults.expiries -= 1;
        }
        self.disconnect(session);
        self.world.sessions[session].alive = false;
        self.world.sessions[session].strays.clear();
        for party in self.world.members(session) {
            while let Some(node) = self.world.server.node_of(party) {
                let sequence = node.own.sequence;
                self.remove(sequence, Change::Deleted);
            }
        }
    }

    pub(crate) fn over(&mut self, index: usize, end: SessionEnd) {
        let session = &mut self.world.sessions[index];
        session.over = true;
        session.down.clear();
        session.up.clear();
        for party in self.world.members(index) {
            if self.world.contenders[party].caller != Caller::Idle {
                self.handle(party, Event::SessionOver(end));
            }
        }
    }
}
