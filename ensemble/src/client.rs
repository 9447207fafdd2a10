//! What a client sends on a connection that has no session yet, and everything that needs no transaction.

use std::time::Duration;

use crate::auth::{Identity, show};
use crate::config::Config;
use crate::connection::{Connect, Incoming};
use crate::event::Effect;
use crate::id::ConnectionId;
use crate::java::password;
use crate::message::Message;
use crate::operation::{Operation, Write, code, error};
use crate::prep::Asker;
use crate::queue::Request;
use crate::role::Role;
use crate::server::{Server, Turn};
use crate::wire::{Frame, Malformed, Reader};

impl Server {
    pub(crate) fn read(&mut self, id: ConnectionId, turn: &mut Turn<'_>) {
        while let Some(incoming) = self.connections.next(id) {
            self.received += 1;
            match incoming {
                Incoming::Word(word) => self.word(&word, id, turn),
                _ if !self.role.serves() => self.close(id, turn),
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
                        by: self.itself(),
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
        turn.effects.push(Effect::Send(id, self.answer_word(word).into_bytes()));
        self.close(id, turn);
    }

    fn authenticate(&mut self, xid: i32, body: &[u8], id: ConnectionId, turn: &mut Turn<'_>) {
        let mut reader = Reader(body);
        let packet = (|| Ok::<_, Malformed>((reader.int()?, reader.string()?, reader.string()?)))();
        let shown = match packet {
            Ok((_, scheme, secret)) if scheme == "digest" => Some(Identity::digest(&secret)),
            Ok((_, scheme, _)) if scheme == "ip" => Some(Identity::new("ip", &self.config.client_address)),
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
            let session = self.numbers.session;
            self.numbers.session += 1;
            connection.session = session;
            if let Role::Leading(leading) = &mut self.role {
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
        let known = connect.password == password(connect.session);
        self.resume(id, connect.session, timeout, known, turn);
    }

    /// Finds out whether a session lives that a client wants back.
    ///
    /// (d) Neither a leader nor a follower asks a majority. So a deposed leader that does not know it yet says that a session
    /// lives, or that it is over because of an end that never commits.
    fn resume(&mut self, id: ConnectionId, session: i64, timeout: i32, known: bool, turn: &mut Turn<'_>) {
        let itself = self.itself();
        match &mut self.role {
            Role::Leading(leading) if known => {
                let lives = leading.preparation.sessions.revive(session, timeout, itself, turn.now.monotonic);
                self.establish(id, lives, turn);
            }
            Role::Following(following) if known => {
                following.revalidations.insert(session, id);
                self.tell_leader(Message::Revalidate { session, timeout }, turn);
            }
            _ => self.establish(id, false, turn),
        }
    }

    pub(crate) fn establish(&mut self, id: ConnectionId, lives: bool, turn: &mut Turn<'_>) {
        let Some(connection) = self.connections.get(id) else { return };
        let mut frame = Frame::new();
        if lives {
            let password = password(connection.session);
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
}
