//! One server: what happens to it, and what it does.

use std::{sync::Arc, time::Duration};

use crate::{
    auth::{Identity, READ, allows, show},
    config::{Config, Version},
    connection::{Connect, Connections, Incoming},
    disk::Disk,
    event::{Effect, Event},
    id::{ConnectionId, Now},
    java,
    operation::{Operation, Read, Write, code, error},
    prep::{Asker, Preparation},
    queue::{CommitQueue, Request},
    reply::{self, Reading},
    sessions::milliseconds,
    transaction::{Change, Transaction},
    tree::{Happening, Tree},
    watches::Watches,
    wire::{Frame, Malformed, Reader},
    words,
};

/// ZooKeeper's secret, by which passwords are made of sessions' ids.
const SECRET: i64 = 0xB341_5C00;
/// The pause between the deletions of two containers: ten thousand a minute.
const CONTAINER_PAUSE: Duration = Duration::from_millis(6);

/// A simulated ZooKeeper server. It does nothing by itself: see the [crate](crate).
#[derive(Debug)]
pub struct Server {
    config: Config,
    disk: Disk,
    tree: Tree,
    role: Role,
    connections: Connections,
    watches: Watches,
    queue: CommitQueue,
    next_session: i64,
    received: u64,
    sent: u64,
}

#[derive(Debug)]
enum Role {
    /// The server has not heard of its clocks yet.
    Starting,
    Leading(Leading),
}

#[derive(Debug)]
struct Leading {
    preparation: Preparation,
    /// When the leader looks for empty containers next, and those that it has found.
    container_check: Duration,
    dying: Vec<String>,
}

/// What happens now, and what the server does about it.
struct Turn<'a> {
    now: Now,
    effects: &'a mut Vec<Effect>,
}

impl Server {
    /// A server with an empty disk. It starts with its first event.
    pub fn new(config: Config) -> Self {
        let disk = Disk::new(config.log_length);
        Self::start(config, disk, 0)
    }

    /// The server after a crash: what is logged on its disk survives, and nothing else. Its connections are gone
    /// without a word; the driver tells the other ends.
    pub fn restart(self) -> Self {
        Self::start(self.config, self.disk, self.next_session)
    }

    fn start(config: Config, disk: Disk, next_session: i64) -> Self {
        Self {
            tree: disk.load(),
            role: Role::Starting,
            connections: Connections::new(),
            watches: Watches::new(config.version),
            queue: CommitQueue::default(),
            next_session,
            received: 0,
            sent: 0,
            config,
            disk,
        }
    }

    /// What the server was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The last transaction that the server has applied.
    pub fn zxid(&self) -> i64 {
        self.tree.zxid
    }

    /// The monotonic time of the next [`Event::Wake`] that the server wants.
    pub fn next_wake(&self) -> Option<Duration> {
        let role = match &self.role {
            Role::Starting => Some(Duration::ZERO),
            Role::Leading(leading) => {
                let containers = self.tree.has_mortal() || !leading.dying.is_empty();
                let check = containers.then_some(leading.container_check);
                [leading.preparation.sessions.next(), check].into_iter().flatten().min()
            }
        };
        [role, self.connections.next_idle()].into_iter().flatten().min()
    }

    /// Handles one event, and appends what the server does. `now` may not go back, except for the wall clock.
    ///
    /// (a) What is due comes before the event. So a server that was paused expires sessions before it reads what their
    /// clients have sent meanwhile.
    pub fn handle(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        let turn = &mut Turn { now, effects };
        if matches!(self.role, Role::Starting) {
            self.begin(turn);
        }
        self.due(turn);
        match event {
            Event::Accepted(connection) => self.connections.accept(connection, now.monotonic),
            Event::Received(connection, bytes) => {
                self.connections.receive(connection, &bytes, now.monotonic);
                self.read(connection, turn);
            }
            Event::Closed(connection) => self.forget(connection),
            Event::Wake | Event::FromPeer(..) | Event::PeerGone(_) | Event::Elected(_) => {}
        }
    }

    fn begin(&mut self, turn: &Turn<'_>) {
        let id = i64::from(self.config.id.0);
        let time = milliseconds(turn.now.wall) as i64;
        // Session ids begin at the time. This server has used none of them: its last one is lower, or goes on.
        self.next_session = self.next_session.max(((time << 24) as u64 >> 8) as i64 | id << 56);
        let Config { tick, extended_types, container_check, .. } = self.config;
        self.role = Role::Leading(Leading {
            preparation: Preparation::new(self.tree.zxid, tick, turn.now, &self.tree, extended_types),
            container_check: turn.now.monotonic + container_check,
            dying: Vec::new(),
        });
    }

    /// Does what the clock says.
    fn due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now.monotonic;
        while let Some(session) = self.leading().and_then(|leading| leading.preparation.sessions.expire(now))
        {
            self.submit(self.internal(session, Write::CloseSession), turn);
        }
        while let Some(connection) = self.connections.expire(now) {
            self.close(connection, turn);
        }
        self.delete_containers(turn);
    }

    /// (n) Containers that have become empty are deleted some time later, each in a transaction of its own. One of them
    /// may have got a child meanwhile, or be gone: then its deletion fails.
    fn delete_containers(&mut self, turn: &mut Turn<'_>) {
        let (interval, now) = (self.config.container_check, turn.now);
        let Self { role: Role::Leading(leading), tree, .. } = self else { return };
        if leading.container_check > now.monotonic {
            return;
        }
        if leading.dying.is_empty() {
            leading.dying = tree.dying(milliseconds(now.wall) as i64);
            leading.dying.reverse();
        }
        let dying = leading.dying.pop();
        let more = !leading.dying.is_empty();
        leading.container_check = now.monotonic + if more { CONTAINER_PAUSE } else { interval };
        if let Some(path) = dying {
            self.submit(self.internal(0, Write::DeleteContainer(path)), turn);
        }
    }

    fn leading(&mut self) -> Option<&mut Leading> {
        match &mut self.role {
            Role::Leading(leading) => Some(leading),
            Role::Starting => None,
        }
    }

    fn internal(&self, session: i64, write: Write) -> Request {
        let asker = Asker { session, xid: 0, server: self.config.id, identities: Vec::new() };
        Request { connection: None, asker, operation: Operation::Write(write), refused: None }
    }

    /// Handles the whole requests that a client has sent.
    fn read(&mut self, id: ConnectionId, turn: &mut Turn<'_>) {
        while let Some(incoming) = self.connections.next(id) {
            self.received += 1;
            match incoming {
                Incoming::Word(word) => self.word(&word, id, turn),
                Incoming::Connect(connect) => self.connect(connect, id, turn),
                Incoming::Request { xid, code: code::AUTH, body } => self.authenticate(xid, &body, id, turn),
                Incoming::Request { xid, code: code::SASL, .. } => {
                    // Without a login of its own, a server answers with no token.
                    let mut frame = Frame::reply(xid, 0, 0);
                    frame.int(-1);
                    self.send(id, frame.finish(), turn);
                }
                Incoming::Request { xid, code, body } => {
                    let Some(connection) = self.connections.get(id) else { return };
                    let asker = Asker {
                        session: connection.session,
                        xid,
                        server: self.config.id,
                        identities: connection.identities.clone(),
                    };
                    let operation = Operation::read(code, Reader(&body), self.config.version);
                    self.submit(Request { connection: Some(id), asker, operation, refused: None }, turn);
                }
                Incoming::Broken => self.close(id, turn),
            }
        }
    }

    fn word(&mut self, word: &str, id: ConnectionId, turn: &mut Turn<'_>) {
        let standing = words::Standing {
            config: &self.config,
            mode: "standalone",
            zxid: self.tree.zxid,
            nodes: self.tree.count(),
            ephemerals: self.tree.ephemeral_count(),
            connections: self.connections.len(),
            received: self.received,
            sent: self.sent,
        };
        let answer = words::answer(word, &self.config, Some(&standing));
        turn.effects.push(Effect::Send(id, answer.into_bytes()));
        self.close(id, turn);
    }

    fn authenticate(&mut self, xid: i32, body: &[u8], id: ConnectionId, turn: &mut Turn<'_>) {
        let mut reader = Reader(body);
        let packet = (|| Ok::<_, Malformed>((reader.int()?, reader.string()?, reader.string()?)))();
        let shown = match packet {
            Ok((_, scheme, secret)) if scheme == "digest" => Some(Identity::digest(&secret)),
            Ok((_, scheme, _)) if scheme == "ip" => Some(Identity::new("ip", "127.0.0.1")),
            _ => None,
        };
        let error = if shown.is_some() { 0 } else { error::AUTH_FAILED };
        self.send(id, Frame::reply(xid, 0, error).finish(), turn);
        match (shown, self.connections.get_mut(id)) {
            (Some(shown), Some(connection)) => show(&mut connection.identities, shown),
            _ => self.close(id, turn),
        }
    }

    fn connect(&mut self, connect: Connect, id: ConnectionId, turn: &mut Turn<'_>) {
        // (l) A client that has seen more than this server has to ask another one.
        if connect.seen > self.tree.zxid {
            return self.close(id, turn);
        }
        let Config { min_session_timeout, max_session_timeout, .. } = self.config;
        let timeout = Duration::from_millis(connect.timeout.max(0).unsigned_abs().into());
        let timeout = timeout.clamp(min_session_timeout, max_session_timeout).as_millis() as i32;
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.timeout = timeout;
        connection.knows_read_only = connect.knows_read_only;
        if connect.session == 0 {
            let session = self.next_session;
            self.next_session += 1;
            connection.session = session;
            if let Some(leading) = self.leading() {
                leading.preparation.sessions.track(session, timeout, turn.now.monotonic);
            }
            let mut request = self.internal(session, Write::CreateSession { timeout });
            request.connection = Some(id);
            return self.submit(request, turn);
        }
        if let Some(former) = self.connections.of_session(connect.session) {
            self.close(former, turn);
        }
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.session = connect.session;
        let known = connect.password == java::random_bytes(connect.session ^ SECRET);
        self.resume(id, connect.session, timeout, known, turn);
    }

    /// Finds out whether a session lives that a client wants back.
    fn resume(&mut self, id: ConnectionId, session: i64, timeout: i32, known: bool, turn: &mut Turn<'_>) {
        let server = self.config.id;
        let lives = known
            && self.leading().is_some_and(|leading| {
                let sessions = &mut leading.preparation.sessions;
                let lives = sessions.touch(session, timeout, turn.now.monotonic);
                sessions.own(session, server);
                lives
            });
        self.establish(id, lives, turn);
    }

    /// Answers a client that wants a session.
    fn establish(&mut self, id: ConnectionId, lives: bool, turn: &mut Turn<'_>) {
        let Some(connection) = self.connections.get(id) else { return };
        let mut frame = Frame::new();
        if lives {
            let password = java::random_bytes(connection.session ^ SECRET);
            frame.int(0).int(connection.timeout).long(connection.session).buffer(&password);
        } else {
            frame.int(0).int(0).long(0).buffer(&[0; 16]);
        }
        if connection.knows_read_only {
            frame.bool(false);
        }
        self.send(id, frame.finish(), turn);
        if lives {
            self.connections.establish(id);
            self.read(id, turn);
        } else {
            self.close(id, turn);
        }
    }

    /// A request comes from a client, or from this server itself.
    fn submit(&mut self, mut request: Request, turn: &mut Turn<'_>) {
        let Self { role: Role::Leading(leading), connections, tree, .. } = self else { return };
        let preparation = &mut leading.preparation;
        if let Some(connection) = request.connection.and_then(|id| connections.get(id)) {
            let (session, timeout) = (connection.session, connection.timeout);
            // (e) A request of a session that closes, or that is over, is dropped without a reply.
            if !preparation.sessions.touch(session, timeout, turn.now.monotonic) {
                return;
            }
        }
        let asker = &request.asker;
        let transaction = match &request.operation {
            Operation::Write(write) => Some(preparation.transact(tree, turn.now, asker, write)),
            Operation::Unreadable { writes: true } => Some(preparation.fail(tree, turn.now, asker)),
            Operation::Unknown => return self.unimplemented(&request, turn),
            Operation::Read(_) | Operation::Sync(_) | Operation::Ping | Operation::Unreadable { .. } => {
                request.refused = preparation.sessions.check(asker.session, asker.server).err();
                None
            }
        };
        let waits = request.operation.waits(false);
        if let Some(request) = self.queue.push(request, waits) {
            self.finish(request, turn);
        }
        if let Some(transaction) = transaction {
            let transaction = Arc::new(transaction);
            self.disk.append(transaction.clone());
            self.commit(&transaction, turn);
            self.disk.shorten(self.tree.zxid);
        }
    }

    fn unimplemented(&mut self, request: &Request, turn: &mut Turn<'_>) {
        if let Some(id) = request.connection {
            self.send(id, Frame::reply(request.asker.xid, -1, error::UNIMPLEMENTED).finish(), turn);
            self.close(id, turn);
        }
    }

    /// Applies a transaction, tells its watchers, and then the client that asked for it.
    fn commit(&mut self, transaction: &Transaction, turn: &mut Turn<'_>) {
        let request = self.queue.commit(transaction.session, transaction.xid);
        let connection = request.as_ref().and_then(|request| request.connection);
        let mut happenings = Vec::new();
        let outcome = self.tree.apply(transaction, &mut happenings);
        for happening in happenings {
            self.tell(&happening, transaction.zxid, turn);
        }
        if let Some(leading) = self.leading() {
            leading.preparation.applied(transaction.zxid);
            if matches!(transaction.change, Change::CloseSession { .. }) {
                leading.preparation.sessions.remove(transaction.session);
            }
        }
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
        while let Some(request) = self.queue.release(transaction.session) {
            self.finish(request, turn);
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
    fn finish(&mut self, request: Request, turn: &mut Turn<'_>) {
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

    fn send(&mut self, id: ConnectionId, frame: Vec<u8>, turn: &mut Turn<'_>) {
        if self.connections.get(id).is_some() {
            self.sent += 1;
            turn.effects.push(Effect::Send(id, frame));
        }
    }

    fn close(&mut self, id: ConnectionId, turn: &mut Turn<'_>) {
        if self.connections.get(id).is_some() {
            turn.effects.push(Effect::Close(id));
            self.forget(id);
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        self.connections.remove(id);
        self.watches.forget(id);
    }
}
