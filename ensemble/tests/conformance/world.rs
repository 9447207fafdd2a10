//! A server as its clients see it: a real one, or a simulated one in memory.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

use zklock_ensemble::{Appointment, Config, ConnectionId, Effect, Event, Now, Server, ServerId};

/// A real server that says nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) trait World {
    /// Opens a connection to a server, and names it.
    fn open(&mut self, server: usize) -> u64;
    fn send(&mut self, connection: u64, bytes: &[u8]);
    /// The next frame without its length; `None` once the server has closed the connection.
    fn receive(&mut self, connection: u64) -> Option<Vec<u8>>;
    fn close(&mut self, connection: u64);
}

pub(crate) struct Real {
    addresses: Vec<String>,
    connections: BTreeMap<u64, TcpStream>,
    next: u64,
}

impl Real {
    pub(crate) fn new(addresses: Vec<String>) -> Self {
        Self { addresses, connections: BTreeMap::new(), next: 0 }
    }

    /// What a server answers to a four-letter word.
    pub(crate) fn ask(&self, server: usize, word: &str) -> String {
        let mut stream = TcpStream::connect(&self.addresses[server]).expect("a connection");
        stream.write_all(word.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Whether a connection has nothing to read for so long.
    pub(crate) fn is_quiet(&self, connection: u64, time: Duration) -> bool {
        let stream = &self.connections[&connection];
        stream.set_read_timeout(Some(time)).expect("a socket");
        let quiet = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        quiet
    }

    /// The last transaction that a server has applied.
    pub(crate) fn zxid(&self, server: usize) -> i64 {
        let answer = self.ask(server, "srvr");
        let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).expect("a zxid");
        i64::from_str_radix(zxid, 16).expect("a number")
    }
}

impl World for Real {
    fn open(&mut self, server: usize) -> u64 {
        let stream = TcpStream::connect(&self.addresses[server]).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        self.next += 1;
        self.connections.insert(self.next, stream);
        self.next
    }

    fn send(&mut self, connection: u64, bytes: &[u8]) {
        // The server may have closed the connection. Then `receive` says so.
        let stream = self.connections.get_mut(&connection).expect("it is open");
        let _ = stream.write_all(bytes);
    }

    fn receive(&mut self, connection: u64) -> Option<Vec<u8>> {
        let stream = self.connections.get_mut(&connection)?;
        let mut read = |length: usize| {
            let mut bytes = vec![0; length];
            match stream.read_exact(&mut bytes) {
                Ok(()) => Some(bytes),
                Err(error)
                    if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) =>
                {
                    None
                }
                Err(error) => panic!("the server is stuck: {error}"),
            }
        };
        let length = u32::from_be_bytes(*read(4)?.first_chunk().expect("four bytes"));
        read(length as usize)
    }

    fn close(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }
}

pub(crate) struct Simulated {
    servers: Vec<Server>,
    /// What is on its way to servers, from which server.
    events: VecDeque<(Option<usize>, usize, Event)>,
    /// From and to which server everything waits.
    pub(crate) stalled: BTreeSet<(usize, usize)>,
    now: Duration,
    connections: BTreeMap<u64, Pipe>,
    next: u64,
}

#[derive(Default)]
struct Pipe {
    server: usize,
    bytes: VecDeque<u8>,
    closed: bool,
}

impl Simulated {
    pub(crate) fn new(config: Config) -> Self {
        Self::ensemble([config])
    }

    pub(crate) fn ensemble(configs: impl IntoIterator<Item = Config>) -> Self {
        Self {
            servers: configs.into_iter().map(Server::new).collect(),
            events: VecDeque::new(),
            stalled: BTreeSet::new(),
            now: Duration::from_secs(100),
            connections: BTreeMap::new(),
            next: 0,
        }
    }

    /// Has a server lead these ones.
    pub(crate) fn elect(&mut self, leader: usize, epoch: u32, servers: &[usize]) {
        let leader = ServerId(leader as u8 + 1);
        for server in servers {
            self.event(*server, Event::Elected(Appointment { leader, epoch }));
        }
    }

    pub(crate) fn crash(&mut self, server: usize) {
        let crashed = self.servers.remove(server).restart();
        self.servers.insert(server, crashed);
        self.events.retain(|(from, to, _)| *from != Some(server) && *to != server);
        for pipe in self.connections.values_mut().filter(|pipe| pipe.server == server) {
            pipe.closed = true;
        }
        for other in (0..self.servers.len()).filter(|other| *other != server) {
            self.event(other, Event::PeerGone(ServerId(server as u8 + 1)));
        }
    }

    pub(crate) fn zxid(&self, server: usize) -> i64 {
        self.servers[server].zxid()
    }

    /// Has an event happen to a server, and everything that follows from it among the servers.
    fn event(&mut self, server: usize, event: Event) {
        self.events.push_back((None, server, event));
        self.settle();
    }

    /// Delivers what is on its way between servers, unless it is stalled.
    pub(crate) fn settle(&mut self) {
        let now = Now { monotonic: self.now, wall: Duration::from_secs(1_700_000_000) + self.now };
        let stalled = |from: Option<usize>, to: usize, stalled: &BTreeSet<(usize, usize)>| {
            from.is_some_and(|from| stalled.contains(&(from, to)))
        };
        while let Some(index) =
            self.events.iter().position(|(from, to, _)| !stalled(*from, *to, &self.stalled))
        {
            let Some((_, server, event)) = self.events.remove(index) else { return };
            let mut effects = Vec::new();
            self.servers[server].handle(now, event, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send(ConnectionId(id), bytes) => {
                        self.connections.entry(id).or_default().bytes.extend(bytes);
                    }
                    Effect::Close(ConnectionId(id)) => self.connections.entry(id).or_default().closed = true,
                    Effect::ToPeer(to, message) => {
                        let event = Event::FromPeer(ServerId(server as u8 + 1), message);
                        self.events.push_back((Some(server), usize::from(to.0) - 1, event));
                    }
                }
            }
        }
    }

    /// Lets time pass for a standalone server, with every wake-up that it wants meanwhile.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(wake) = self.servers[0].next_wake().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.event(0, Event::Wake);
        }
        self.now = end;
    }

    pub(crate) fn has_something(&self, connection: u64) -> bool {
        self.connections.get(&connection).is_some_and(|pipe| !pipe.bytes.is_empty() || pipe.closed)
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }
}

impl World for Simulated {
    fn open(&mut self, server: usize) -> u64 {
        self.next += 1;
        self.connections.insert(self.next, Pipe { server, ..Pipe::default() });
        self.event(server, Event::Accepted(ConnectionId(self.next)));
        self.next
    }

    fn send(&mut self, connection: u64, bytes: &[u8]) {
        let server = self.connections[&connection].server;
        self.event(server, Event::Received(ConnectionId(connection), bytes.to_vec()));
    }

    fn receive(&mut self, connection: u64) -> Option<Vec<u8>> {
        let pipe = self.connections.get_mut(&connection)?;
        if pipe.bytes.is_empty() {
            assert!(pipe.closed, "the simulated server does not answer");
            return None;
        }
        let head: Vec<u8> = pipe.bytes.drain(..4).collect();
        let length = u32::from_be_bytes(*head.first_chunk().expect("four bytes")) as usize;
        Some(pipe.bytes.drain(..length).collect())
    }

    fn close(&mut self, connection: u64) {
        if let Some(pipe) = self.connections.remove(&connection) {
            self.event(pipe.server, Event::Closed(ConnectionId(connection)));
        }
    }
}
