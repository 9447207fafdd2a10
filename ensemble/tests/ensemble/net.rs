//! Servers with a network between them that delivers, holds or loses, and clients that speak the protocol by hand.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use zklock_ensemble::{Config, ConnectionId, Effect, Event, Now, PeerMessage, Server, ServerId, elect};

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
        let servers = (1..=voters).map(|id| (ServerId(id), Server::new(change(config(id)))));
        Self {
            servers: servers.collect(),
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
            let message = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("a message");
            self.handle(to, Event::FromPeer(from, message));
        }
    }

    /// Delivers one message on a link, though it is held.
    pub(crate) fn deliver(&mut self, from: u8, to: u8) {
        let link = (ServerId(from), ServerId(to));
        let message = self.links.get_mut(&link).and_then(VecDeque::pop_front).expect("a message");
        self.handle(link.1, Event::FromPeer(link.0, message));
    }

    /// Delivers one message, if one can be: the chosen one of the links that have any.
    pub(crate) fn deliver_some(&mut self, choice: usize) {
        let free =
            self.links.iter().filter(|((_, to), queue)| !queue.is_empty() && !self.paused.contains(&to.0));
        let links: Vec<_> = free.map(|(link, _)| *link).collect();
        if !links.is_empty() {
            let (from, to) = links[choice % links.len()];
            self.deliver(from.0, to.0);
        }
    }

    /// Has those elect that are not paused, and tells each of them.
    pub(crate) fn appoint(&mut self) {
        let running = self.servers.values().filter(|server| !self.paused.contains(&server.config().id.0));
        let standings: Vec<_> = running.map(Server::standing).collect();
        for (server, appointment) in elect(&standings, self.servers.len() as u8, |_, _| true) {
            self.handle(server, Event::Elected(appointment));
        }
    }

    /// Lets time pass while nothing is delivered.
    pub(crate) fn tick(&mut self, time: Duration) {
        self.now += time;
        let running = self.servers.keys().filter(|id| !self.paused.contains(&id.0)).copied();
        for id in running.collect::<Vec<_>>() {
            self.handle(id, Event::Wake);
        }
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

    pub(crate) fn wake(&mut self, id: u8) {
        self.paused.remove(&id);
        self.handle(ServerId(id), Event::Wake);
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

    /// Has a server expire a session at once.
    pub(crate) fn expire(&mut self, id: u8, session: i64) {
        self.handle(ServerId(id), Event::Expire(session));
    }

    /// A connection to a server, which sends a request for a session: a new one, or its own.
    pub(crate) fn open(&mut self, server: u8, session: Option<&Session>, seen: i64) -> u64 {
        let client = self.clients.len() as u64 + 1;
        self.clients.insert(client, Client { server, ..Client::default() });
        self.handle(ServerId(server), Event::Accepted(ConnectionId(client)));
        let mut request = Vec::new();
        request.extend(0_i32.to_be_bytes());
        request.extend(seen.to_be_bytes());
        request.extend(4_000_i32.to_be_bytes());
        request.extend(session.map_or(0, |session| session.id).to_be_bytes());
        let password = session.map_or(&[][..], |session| &session.password);
        request.extend(bytes(password));
        request.push(0);
        self.send(client, &request);
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
        let id = i64::from_be_bytes(*reply[8..].first_chunk().expect("an id"));
        (id != 0).then(|| Session { id, password: reply[20..36].to_vec() })
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, client: u64, frame: &[u8]) {
        let server = ServerId(self.clients[&client].server);
        self.handle(server, Event::Received(ConnectionId(client), bytes(frame)));
    }

    /// Sends a request, and delivers what can be delivered.
    pub(crate) fn ask(&mut self, client: u64, xid: i32, code: i32, body: &[u8]) {
        let mut frame = xid.to_be_bytes().to_vec();
        frame.extend(code.to_be_bytes());
        frame.extend(body);
        self.send(client, &frame);
        self.settle();
    }

    /// Creates a node; sequential and ephemeral ones have flags.
    pub(crate) fn create(&mut self, client: u64, xid: i32, path: &str, flags: i32) {
        self.ask(client, xid, 1, &create(path, flags));
    }

    pub(crate) fn delete(&mut self, client: u64, xid: i32, path: &str) {
        self.ask(client, xid, 2, &versioned(path));
    }

    /// In one transaction, creates a node and checks that another one is there.
    pub(crate) fn create_beside(&mut self, client: u64, xid: i32, path: &str, other: &str) {
        let header = |code: i32| [&code.to_be_bytes()[..], &[0], &(-1_i32).to_be_bytes()].concat();
        let end = [&(-1_i32).to_be_bytes()[..], &[1], &(-1_i32).to_be_bytes()].concat();
        let body = [header(1), create(path, 0), header(13), versioned(other), end].concat();
        self.ask(client, xid, 14, &body);
    }

    pub(crate) fn watch_children(&mut self, client: u64, xid: i32, path: &str) {
        self.ask(client, xid, 8, &[&bytes(path.as_bytes())[..], &[1]].concat());
    }

    /// The root's children, as a server lists them after everything that was committed.
    pub(crate) fn children(&mut self, server: u8) -> Vec<u8> {
        let (client, _) = self.connect(server);
        self.sync(client, 1);
        self.heard(client);
        self.watch_children(client, 2, "/");
        self.frame(client).expect("an answer").split_off(16)
    }

    pub(crate) fn close(&mut self, client: u64, xid: i32) {
        self.ask(client, xid, -11, &[]);
    }

    pub(crate) fn exists(&mut self, client: u64, xid: i32, path: &str, watch: bool) {
        self.ask(client, xid, 3, &[&bytes(path.as_bytes())[..], &[watch.into()]].concat());
    }

    pub(crate) fn sync(&mut self, client: u64, xid: i32) {
        self.ask(client, xid, 9, &bytes(b"/"));
    }

    pub(crate) fn ping(&mut self, client: u64) {
        self.ask(client, -2, 11, &[]);
    }

    fn frame(&mut self, client: u64) -> Option<Vec<u8>> {
        let client = self.clients.get_mut(&client).expect("a client");
        if client.bytes.is_empty() {
            return None;
        }
        let head: Vec<u8> = client.bytes.drain(..4).collect();
        let length = u32::from_be_bytes(*head.first_chunk().expect("a length")) as usize;
        Some(client.bytes.drain(..length).collect())
    }

    /// What a client has received since it was asked last: of each frame the xid and the error, and `closed`. Events have
    /// their type and path.
    pub(crate) fn heard(&mut self, client: u64) -> Vec<String> {
        let mut heard = Vec::new();
        while let Some(frame) = self.frame(client) {
            let int = |at: usize| i32::from_be_bytes(*frame[at..].first_chunk().expect("an integer"));
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

fn create(path: &str, flags: i32) -> Vec<u8> {
    let list =
        [&1_i32.to_be_bytes()[..], &31_i32.to_be_bytes(), &bytes(b"world"), &bytes(b"anyone")].concat();
    [&bytes(path.as_bytes())[..], &bytes(b""), &list, &flags.to_be_bytes()].concat()
}

/// A path, whatever the version of its node.
fn versioned(path: &str) -> Vec<u8> {
    [&bytes(path.as_bytes())[..], &(-1_i32).to_be_bytes()].concat()
}

fn bytes(content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_be_bytes().to_vec();
    bytes.extend(content);
    bytes
}
