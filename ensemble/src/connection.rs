//! Clients' connections at one server: frames are cut out of what they send.

use std::{collections::BTreeMap, time::Duration};

use crate::auth::Identity;
use crate::id::ConnectionId;
use crate::sessions::Buckets;
use crate::wire::{Malformed, Reader};

/// A frame that is longer is refused: `jute.maxbuffer`.
const LONGEST: usize = 0xF_FFFF;
/// A connection that has no session yet is closed after this time, and idle ones are looked for as often.
const SESSIONLESS: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Connections {
    open: BTreeMap<ConnectionId, Connection>,
    /// The connection of each session that has one here.
    sessions: BTreeMap<i64, ConnectionId>,
    idle: Buckets<ConnectionId>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    received: Vec<u8>,
    phase: Phase,
    pub(crate) session: i64,
    pub(crate) timeout: i32,
    pub(crate) identities: Vec<Identity>,
    /// Whether the client knows of read-only servers: its answer has one byte more.
    pub(crate) knows_read_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first four bytes decide whether a client connects or asks a four-letter word.
    Fresh,
    /// The session is being made or found. Nothing is read.
    Connecting,
    Open,
}

#[derive(Debug)]
pub(crate) enum Incoming {
    Word(String),
    Connect(Connect),
    Request { xid: i32, code: i32, body: Vec<u8> },
    Broken,
}

#[derive(Debug)]
pub(crate) struct Connect {
    pub(crate) seen: i64,
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
    pub(crate) knows_read_only: bool,
}

impl Connections {
    pub(crate) fn new() -> Self {
        Self { open: BTreeMap::new(), sessions: BTreeMap::new(), idle: Buckets::new(SESSIONLESS) }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn accept(&mut self, id: ConnectionId, address: &str, now: Duration) {
        let connection = Connection {
            received: Vec::new(),
            phase: Phase::Fresh,
            session: 0,
            timeout: 0,
            identities: vec![Identity::new("ip", address)],
            knows_read_only: false,
        };
        self.open.insert(id, connection);
        self.idle.touch(id, now, SESSIONLESS.as_millis() as u64);
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.open.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.open.get_mut(&id)
    }

    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Duration) {
        let Some(connection) = self.open.get_mut(&id) else { return };
        connection.received.extend(bytes);
        let timeout = match connection.timeout {
            0 => SESSIONLESS.as_millis() as u64,
            timeout => timeout.unsigned_abs().into(),
        };
        self.idle.touch(id, now, timeout);
    }

    /// Takes the next whole request that the connection has sent, unless it has to wait for its session.
    pub(crate) fn next(&mut self, id: ConnectionId) -> Option<Incoming> {
        let connection = self.open.get_mut(&id)?;
        if connection.phase == Phase::Connecting {
            return None;
        }
        let head = *connection.received.first_chunk::<4>()?;
        if connection.phase == Phase::Fresh && head.iter().all(u8::is_ascii_lowercase) {
            return Some(Incoming::Word(head.iter().copied().map(char::from).collect()));
        }
        let length = u32::from_be_bytes(head) as usize;
        if length > LONGEST {
            return Some(Incoming::Broken);
        }
        let frame = connection.received.get(4..4 + length)?.to_vec();
        connection.received.drain(..4 + length);
        let mut reader = Reader(&frame);
        let incoming = match connection.phase {
            Phase::Fresh => {
                connection.phase = Phase::Connecting;
                connect(&mut reader).map(Incoming::Connect)
            }
            _ => request(&mut reader),
        };
        Some(incoming.unwrap_or(Incoming::Broken))
    }

    /// The connection has its session from now on.
    pub(crate) fn establish(&mut self, id: ConnectionId) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.phase = Phase::Open;
            self.sessions.insert(connection.session, id);
        }
    }

    pub(crate) fn of_session(&self, session: i64) -> Option<ConnectionId> {
        self.sessions.get(&session).copied()
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.open.remove(&id) else { return false };
        self.idle.remove(id);
        // Like ZooKeeper, this asks not whether the session has a newer connection here.
        self.sessions.remove(&connection.session);
        true
    }

    pub(crate) fn next_idle(&self) -> Option<Duration> {
        self.idle.next()
    }

    /// One connection that was silent for longer than its session's timeout, if one was.
    pub(crate) fn expire(&mut self, now: Duration) -> Option<ConnectionId> {
        self.idle.expire(now)
    }
}

fn connect(reader: &mut Reader<'_>) -> Result<Connect, Malformed> {
    let _protocol = reader.int()?;
    Ok(Connect {
        seen: reader.long()?,
        timeout: reader.int()?,
        session: reader.long()?,
        password: reader.buffer()?,
        knows_read_only: reader.bool().is_ok(),
    })
}

fn request(reader: &mut Reader<'_>) -> Result<Incoming, Malformed> {
    Ok(Incoming::Request { xid: reader.int()?, code: reader.int()?, body: reader.0.to_vec() })
}
