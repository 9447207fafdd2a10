//! The way of a request through a server: to the leader's decision, to the commit, to the reply, and to the events for others.

use std::sync::Arc;

use crate::auth::{READ, allows};
use crate::config::Version;
use crate::event::Effect;
use crate::id::ConnectionId;
use crate::lead::pop_if;
use crate::message::Message;
use crate::operation::{Operation, Read, error};
use crate::prep::Asker;
use crate::queue::Request;
use crate::reply::{self, Reading};
use crate::role::Role;
use crate::server::{Server, Turn};
use crate::transaction::{Change, Transaction};
use crate::tree::Happening;
use crate::wire::Frame;

impl Server {
    /// A request comes from a client, from a follower, or from this server itself.
    pub(crate) fn submit(&mut self, mut request: Request, turn: &mut Turn<'_>) {
        if self.throttles && request.connection.is_some() {
            request.operation = request.operation.throttled();
        }
        match &mut self.role {
            Role::Leading(_) => self.lead_request(request, turn),
            Role::Following(following) => {
                // (b) A follower's touch is always true: it does not know who is the session's owner, or whether it lives.
                let connection = request.connection.and_then(|id| self.connections.get(id));
                following.touched.extend(connection.map(|client| (client.session, client.timeout)));
                self.forward(request, turn);
            }
            // A server that does not serve closes its clients' connections.
            Role::Starting | Role::Looking => {}
        }
    }

    fn lead_request(&mut self, request: Request, turn: &mut Turn<'_>) {
        let Self { role: Role::Leading(leading), connections, config, .. } = self else { return };
        if let Some(connection) = request.connection.and_then(|id| connections.get(id)) {
            let (session, timeout) = (connection.session, connection.timeout);
            // (e) A request of a session that closes, or that is over, is dropped without a reply.
            if !leading.preparation.sessions.touch(session, timeout, turn.now.monotonic) {
                return;
            }
        }
        if matches!(request.operation, Operation::Unknown) {
            return self.unimplemented(&request, turn);
        }
        // (p) What is done above is done at once.
        leading.waiting.push_back((turn.now.monotonic + config.prep_delay, request));
        self.prepare_waiting(turn);
    }

    pub(crate) fn prepare_waiting(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.monotonic;
        while let Role::Leading(leading) = &mut self.role
            && let Some((_, request)) = pop_if(&mut leading.waiting, |(due, _)| *due <= now)
        {
            self.prepare(request, turn);
        }
    }

    fn prepare(&mut self, mut request: Request, turn: &mut Turn<'_>) {
        let itself = self.itself();
        let Self { role: Role::Leading(leading), tree, .. } = self else { return };
        let preparation = &mut leading.preparation;
        let asker = &request.asker;
        let transaction = match &request.operation {
            Operation::Write(write) => Some(preparation.transact(tree, turn.now, asker, write)),
            Operation::Unreadable { writes: true } => Some(preparation.fail(tree, turn.now, asker)),
            // (g) The leader answers a sync of its own client at once, and asks no majority.
            Operation::Read(_)
            | Operation::Sync(_)
            | Operation::Ping
            | Operation::Unknown
            | Operation::Throttled
            | Operation::Unreadable { .. } => {
                request.refused = preparation.sessions.check(asker.session, asker.by).err();
                if asker.by != itself {
                    // It answers a follower's sync whoever the owner is.
                    return self.sync(asker.by, turn);
                }
                None
            }
        };
        let waits = request.operation.waits(false);
        if let Some(request) = self.queue.push(request, waits) {
            self.finish(request, turn);
        }
        if let Some(transaction) = transaction {
            self.propose(Arc::new(transaction), turn);
        }
    }

    fn forward(&mut self, request: Request, turn: &mut Turn<'_>) {
        let Asker { session, xid, ref identities, .. } = request.asker;
        if matches!(request.operation, Operation::Unknown) {
            return self.unimplemented(&request, turn);
        }
        let waits = request.operation.waits(true);
        let (operation, identities) = (request.operation.clone(), identities.clone());
        if let Some(request) = self.queue.push(request, waits) {
            return self.finish(request, turn);
        }
        if waits {
            if let (Operation::Sync(_), Role::Following(following)) = (&operation, &mut self.role) {
                following.syncs.push_back((session, xid));
            }
            self.tell_leader(Message::Request { session, xid, identities, operation }, turn);
        }
    }

    fn unimplemented(&mut self, request: &Request, turn: &mut Turn<'_>) {
        if let Some(id) = request.connection {
            self.send(id, Frame::reply(request.asker.xid, -1, error::UNIMPLEMENTED).finish(), turn);
            self.close(id, turn);
        }
    }

    /// Applies a transaction, tells its watchers, and then the client that asked for it.
    pub(crate) fn commit(&mut self, transaction: &Transaction, turn: &mut Turn<'_>) {
        let request = self.queue.commit(transaction.session, transaction.xid);
        let connection = request.as_ref().and_then(|request| request.connection);
        let mut happenings = Vec::new();
        let outcome = self.tree.apply(transaction, &mut happenings);
        for happening in happenings {
            self.tell(&happening, transaction.zxid, turn);
        }
        self.note(transaction);
        self.disk.shorten(self.tree.zxid);
        match (&transaction.change, connection) {
            (Change::CreateSession { .. }, Some(id)) => self.establish(id, true, turn),
            (Change::CloseSession { .. }, None) => {
                if let Some(id) = self.connections.of_session(transaction.session) {
                    self.close(id, turn);
                }
            }
            // (c) A client whose session has moved gets no reply.
            (change, Some(id)) if change.is_moved() => self.close(id, turn),
            (change, Some(id)) => {
                let frame = reply::outcome(transaction.xid, self.tree.zxid, &outcome);
                self.send(id, frame.finish(), turn);
                if matches!(change, Change::CloseSession { .. }) {
                    self.close(id, turn);
                }
            }
            (_, None) => {}
        }
        self.release(transaction.session, turn);
    }

    pub(crate) fn release(&mut self, session: i64, turn: &mut Turn<'_>) {
        while let Some(request) = self.queue.release(session) {
            self.finish(request, turn);
        }
    }

    /// Keeps what this server knows of sessions in step with the tree.
    fn note(&mut self, transaction: &Transaction) {
        let session = transaction.session;
        match (&mut self.role, &transaction.change) {
            (Role::Leading(leading), change) => {
                leading.preparation.applied(transaction.zxid);
                if matches!(change, Change::CloseSession { .. }) {
                    leading.preparation.sessions.remove(session);
                }
            }
            // Every follower touches a new session once, wherever its client is.
            (Role::Following(following), Change::CreateSession { timeout }) => {
                following.touched.insert(session, *timeout);
            }
            (Role::Following(following), Change::CloseSession { .. }) => {
                following.touched.remove(&session);
            }
            (Role::Starting | Role::Looking | Role::Following(_), _) => {}
        }
    }

    /// (o) Who may not read the node does not hear of it. In version 3.8.0, an event has no zxid.
    fn tell(&mut self, happening: &Happening, zxid: i64, turn: &mut Turn<'_>) {
        let zxid = if self.config.version < Version::V3_9_3 { -1 } else { zxid };
        let event = reply::event(happening.what, &happening.path, zxid);
        for watcher in self.watches.trigger(happening.what, &happening.path) {
            let Some(connection) = self.connections.get(watcher) else { continue };
            if allows(&happening.list, READ, &connection.identities) {
                self.send(watcher, event.clone(), turn);
            }
        }
    }

    /// Answers a request that needs no transaction.
    pub(crate) fn finish(&mut self, request: Request, turn: &mut Turn<'_>) {
        let Some(id) = request.connection else { return };
        let (xid, zxid) = (request.asker.xid, self.tree.zxid);
        let mut frame = Frame::reply(xid, zxid, 0);
        let answered = match (request.refused, &request.operation) {
            (Some(error::SESSION_MOVED), _) => return self.close(id, turn),
            (Some(error), _) => Err(error),
            (None, Operation::Read(read)) => self.answer(id, &request, read, &mut frame, turn),
            (None, Operation::Sync(path)) => {
                frame.string(path);
                Ok(())
            }
            (None, Operation::Ping) => Ok(()),
            (None, Operation::Throttled) => Err(error::THROTTLED),
            (None, Operation::Unreadable { .. } | Operation::Unknown | Operation::Write(_)) => {
                Err(error::MARSHALLING)
            }
        };
        let frame = match answered {
            Ok(()) => frame,
            Err(error) => Frame::reply(xid, zxid, error),
        };
        self.send(id, frame.finish(), turn);
    }

    fn answer(
        &mut self,
        id: ConnectionId,
        request: &Request,
        read: &Read,
        frame: &mut Frame,
        turn: &mut Turn<'_>,
    ) -> Result<(), i32> {
        if self.connections.get(id).is_none() {
            return Ok(());
        }
        let mut reading = Reading {
            tree: &self.tree,
            watches: &mut self.watches,
            connection: id,
            session: request.asker.session,
            identities: &request.asker.identities,
            version: self.config.version,
            missed: Vec::new(),
        };
        reading.answer(read, frame)?;
        for (what, path) in reading.missed {
            self.send(id, reply::event(what, &path, -1), turn);
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, id: ConnectionId, frame: Vec<u8>, turn: &mut Turn<'_>) {
        if self.connections.get(id).is_some() {
            self.sent += 1;
            turn.effects.push(Effect::Send(id, frame));
        }
    }

    pub(crate) fn close(&mut self, id: ConnectionId, turn: &mut Turn<'_>) {
        if self.connections.get(id).is_some() {
            turn.effects.push(Effect::Close(id));
            self.forget(id);
        }
    }

    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.connections.remove(id);
        self.watches.forget(id);
    }
}
