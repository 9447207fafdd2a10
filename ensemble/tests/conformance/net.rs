//! Simulated servers in memory, with a network between them that delivers, holds or loses, and clients that speak the
//! protocol by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use zklock_ensemble::{
    Appointment, Config, ConnectionId, Effect, Event, Now, PeerMessage, Server, ServerId, elect,
};

use crate::frame::{Fields, Frame};
use crate::step::world;
use crate::world::World;

pub(crate) const TICK: Duration = Duration::from_secs(1);

pub(crate) struct Net {
    servers: BTreeMap<ServerId, Server>,
    links: BTreeMap<(ServerId, ServerId), VecDeque<PeerMessage>>,
    /// Links on which messages wait.
    pub(crate) held: BTreeSet<(u8, u8)>,
    /// Servers that do nothing; what comes for them waits.
    pub(crate) paused: BTreeSet<u8>,
    pub(crate) now: Duration,
    clients: BTreeMap<u64, Client>,
    /// What was sent from server to server, in order.
    pub(crate) trace: Vec<String>,
}

#[derive(Default)]
struct Client {
    server: u8,
    bytes: VecDeque<u8>,
    closed: bool,
}

/// A session: its id and its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) password: Vec<u8>,
}

impl Net {
    pub(crate) fn new(voters: u8) -> Self {
        Self::with(voters, |config| config)
    }

    pub(crate) fn with(voters: u8, change: impl Fn(Config) -> Config) -> Self {
        let config = |id| Config {
            tick: TICK,
            min_session_timeout: TICK * 2,
            max_session_timeout: TICK * 20,
            ..Config::new(ServerId(id), voters)
        };
        Self::of((1..=voters).map(|id| change(config(id))))
    }

    pub(crate) fn of(configs: impl IntoIterator<Item = Config>) -> Self {
        Self {
            servers: configs.into_iter().map(|config| (config.id, Server::new(config))).collect(),
            links: BTreeMap::new(),
            held: BTreeSet::new(),
            paused: BTreeSet::new(),
            now: Duration::from_secs(100),
            clients: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    pub(crate) fn server(&self, id: u8) -> &Server {
        &self.servers[&ServerId(id)]
    }

    fn handle(&mut self, id: ServerId, event: Event) {
        let now = Now { monotonic: self.now, wall: Duration::from_secs(1_700_000_000) + self.now };
        let mut effects = Vec::new();
        self.servers.get_mut(&id).expect("a server").handle(now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send(ConnectionId(client), bytes) => {
                    self.clients.get_mut(&client).expect("a client").bytes.extend(bytes);
                }
                Effect::Close(ConnectionId(client)) => {
                    self.clients.get_mut(&client).expect("a client").closed = true;
                }
                Effect::ToPeer(to, message) => {
                    self.trace.push(format!("{}>{} {}", id.0, to.0, message.kind()));
                    self.links.entry((id, to)).or_default().push_back(message);
                }
            }
        }
    }

    /// Delivers everything that is not held.
    pub(crate) fn settle(&mut self) {
        loop {
            let free = |(from, to): (ServerId, ServerId)| {
                !self.held.contains(&(from.0, to.0)) && !self.paused.contains(&to.0)
            };
            let next = self.links.iter().find(|(link, queue)| free(**link) && !queue.is_empty());
            let Some((from, to)) = next.map(|(link, _)| *link) else { return };
            self.deliver(from.0, to.0);
        }
    }

    /// Delivers one message on a link, though it is held.
    pub(crate) fn deliver(&mut self, from: u8, to: u8) {
        let link = (ServerId(from), ServerId(to));
        let message = self.links.get_mut(&link).and_then(VecDeque::pop_front).expect("a message");
        self.handle(link.1, Event::FromPeer(link.0, message));
    }

    /// Loses what is on its way between two servers, and the connection.
    pub(crate) fn cut(&mut self, one: u8, other: u8) {
        for (from, to) in [(one, other), (other, one)] {
            self.links.remove(&(ServerId(from), ServerId(to)));
        }
        for (server, peer) in [(one, other), (other, one)] {
            self.handle(ServerId(server), Event::PeerGone(ServerId(peer)));
        }
    }

    /// Has these servers elect a leader, and tells all of them.
    pub(crate) fn elect(&mut self, among: &[u8]) {
        let standings: Vec<_> = among.iter().map(|id| self.server(*id).standing()).collect();
        let voters = self.servers.len() as u8;
        for (server, appointment) in elect(&standings, voters, |_, _| true) {
            self.handle(server, Event::Elected(appointment));
        }
        self.settle();
    }

    /// Has a server lead these ones, whatever they would elect.
    pub(crate) fn appoint(&mut self, leader: usize, epoch: u32, among: &[usize]) {
        let leader = id_of(leader);
        for server in among {
            self.handle(id_of(*server), Event::Elected(Appointment { leader, epoch }));
            self.settle();
        }
    }

    pub(crate) fn crash(&mut self, id: u8) {
        let server = self.servers.remove(&ServerId(id)).expect("a server").restart();
        self.servers.insert(ServerId(id), server);
        self.links.retain(|(from, to), _| from.0 != id && to.0 != id);
        for client in self.clients.values_mut().filter(|client| client.server == id) {
            client.closed = true;
        }
        for peer in (1..=self.servers.len() as u8).filter(|peer| *peer != id) {
            self.handle(ServerId(peer), Event::PeerGone(ServerId(id)));
        }
        self.settle();
    }

    /// Lets time pass. Servers that are paused do nothing meanwhile.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let running = self.servers.iter().filter(|(id, _)| !self.paused.contains(&id.0));
            let wakes = running.filter_map(|(id, server)| Some((server.next_wake()?, *id)));
            let Some((wake, id)) = wakes.min().filter(|(wake, _)| *wake <= end) else { break };
            self.now = self.now.max(wake);
            self.handle(id, Event::Wake);
        }
        self.now = end;
    }

    /// Has a server go on that was paused. It expires sessions before it reads what has come, or afterwards.
    pub(crate) fn go_on(&mut self, id: u8, expires_first: bool) {
        if expires_first {
            self.handle(ServerId(id), Event::Expiry);
        }
        self.paused.remove(&id);
        self.settle();
        self.handle(ServerId(id), Event::Wake);
        self.settle();
    }

    pub(crate) fn expire(&mut self, id: u8, session: i64) {
        self.handle(ServerId(id), Event::Expire(session));
    }

    fn accept(&mut self, server: ServerId) -> u64 {
        let client = self.clients.len() as u64 + 1;
        self.clients.insert(client, Client { server: server.0, ..Client::default() });
        self.handle(server, Event::Accepted(ConnectionId(client)));
        client
    }

    fn send(&mut self, client: u64, frame: &[u8]) {
        let server = ServerId(self.clients[&client].server);
        self.handle(server, Event::Received(ConnectionId(client), frame.to_vec()));
    }

    /// A connection to a server, which sends a request for a session: a new one, or its own.
    pub(crate) fn open(&mut self, server: u8, session: Option<&Session>, seen: i64) -> u64 {
        let client = self.accept(ServerId(server));
        let (id, password) = session.map_or((0, &[][..]), |session| (session.id, &session.password));
        let request = Frame::default().int(0).long(seen).int(4_000).long(id).bytes(password).bool(false);
        self.send(client, &request.finish());
        client
    }

    /// A client with a session of its own.
    pub(crate) fn connect(&mut self, server: u8) -> (u64, Session) {
        let client = self.open(server, None, 0);
        self.settle();
        if self.clients[&client].bytes.is_empty() {
            // The leader takes its time.
            self.pass(TICK * 3 / 2);
        }
        let session = self.session(client).expect("a session");
        (client, session)
    }

    /// The session that the server grants; `None` if it is over.
    pub(crate) fn session(&mut self, client: u64) -> Option<Session> {
        let reply = self.frame(client).expect("an answer");
        let mut fields = Fields::new(&reply, 8);
        let (id, password) = (fields.long(), fields.buffer().to_vec());
        (id != 0).then_some(Session { id, password })
    }

    /// Sends a request, and delivers what can be delivered.
    fn ask(&mut self, client: u64, xid: i32, code: i32, body: Frame) {
        self.send(client, &Frame::default().int(xid).int(code).with(body).finish());
        self.settle();
    }

    /// Creates a node; sequential and ephemeral ones have flags.
    pub(crate) fn create(&mut self, client: u64, xid: i32, path: &str, flags: i32) {
        self.ask(client, xid, 1, create(path, flags));
    }

    pub(crate) fn delete(&mut self, client: u64, xid: i32, path: &str) {
        self.ask(client, xid, 2, Frame::default().string(path).int(-1));
    }

    /// In one transaction, creates a node and checks that another one is there.
    pub(crate) fn create_beside(&mut self, client: u64, xid: i32, path: &str, other: &str) {
        let body = Frame::default().int(1).bool(false).int(-1).with(create(path, 0));
        let body = body.int(13).bool(false).int(-1).string(other).int(-1);
        self.ask(client, xid, 14, body.int(-1).bool(true).int(-1));
    }

    pub(crate) fn close_session(&mut self, client: u64, xid: i32) {
        self.ask(client, xid, -11, Frame::default());
    }

    pub(crate) fn exists(&mut self, client: u64, xid: i32, path: &str) {
        self.ask(client, xid, 3, Frame::default().string(path).bool(false));
    }

    pub(crate) fn watch(&mut self, client: u64, xid: i32, path: &str) {
        self.ask(client, xid, 3, Frame::default().string(path).bool(true));
    }

    pub(crate) fn sync(&mut self, client: u64, xid: i32) {
        self.ask(client, xid, 9, Frame::default().string("/"));
    }

    pub(crate) fn ping(&mut self, client: u64) {
        self.ask(client, -2, 11, Frame::default());
    }

    pub(crate) fn has_something(&self, client: u64) -> bool {
        self.clients.get(&client).is_some_and(|client| !client.bytes.is_empty() || client.closed)
    }

    fn frame(&mut self, client: u64) -> Option<Vec<u8>> {
        let client = self.clients.get_mut(&client).expect("a client");
        if client.bytes.is_empty() {
            return None;
        }
        let head: Vec<u8> = client.bytes.drain(..4).collect();
        let length = Fields::new(&head, 0).int() as usize;
        Some(client.bytes.drain(..length).collect())
    }

    /// What a client has received since it was asked last: of each frame the xid and the error, and `closed`. Events have
    /// their type and path.
    pub(crate) fn heard(&mut self, client: u64) -> Vec<String> {
        let mut heard = Vec::new();
        while let Some(frame) = self.frame(client) {
            let int = |at| Fields::new(&frame, at).int();
            heard.push(match int(0) {
                -1 => format!("event {} {}", int(16), String::from_utf8_lossy(&frame[28..])),
                xid => format!("{xid}: {}", int(12)),
            });
        }
        let client = &self.clients[&client];
        heard.extend(client.closed.then(|| "closed".to_owned()));
        heard
    }
}

/// As a client of real servers sees them, in their order.
impl World for Net {
    fn open(&mut self, server: usize) -> u64 {
        self.accept(id_of(server))
    }

    fn send(&mut self, connection: u64, bytes: &[u8]) {
        Self::send(self, connection, bytes);
        self.settle();
    }

    fn receive(&mut self, connection: u64) -> Option<Vec<u8>> {
        assert!(self.has_something(connection), "the simulated server does not answer");
        self.frame(connection)
    }

    fn close(&mut self, connection: u64) {
        let server = ServerId(self.clients[&connection].server);
        self.handle(server, Event::Closed(ConnectionId(connection)));
        self.settle();
    }
}

/// The server with this place in the order of real ones.
pub(crate) fn id_of(server: usize) -> ServerId {
    ServerId(server as u8 + 1)
}

fn create(path: &str, flags: i32) -> Frame {
    Frame::default().string(path).string("").with(world(31)).int(flags)
}
