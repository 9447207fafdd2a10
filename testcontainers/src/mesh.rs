//! The network between the servers of an ensemble, so that it can be partitioned without root and without the engine.
//!
//! For every ordered pair of servers, `i` reaches `j` through two proxies of its own: one for the quorum port, one for
//! the election port. Isolating a server stops every proxy that begins or ends at it.
//!
//! One thing would lead around them. Of two servers, the one with the larger id opens the election connection; when the
//! smaller one connects, the larger hangs up and connects back to the address the smaller has *announced* in its first
//! message. So the election proxy `i -> j` rewrites that address to the proxy `j -> i`.
//!
//! One direction between two servers can be stalled, too, as by a network that loses what one of them sends.
//!
//! What an isolated connection's ends send is kept, as TCP would retransmit it, and arrives after healing if they still
//! care. Connections attempted meanwhile are accepted, get nothing, and are closed by healing: on a real network they
//! would not have come about, and dozens of them arriving late would disturb the next election.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error,
    config::Member,
    listener::{Listener, abort, spawn},
};

/// How long a proxy tries to reach a server that does not listen. A new leader opens its quorum port at about the time
/// its followers connect to it; refused they would try again, but hung up on they start another election.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How long a published port may take to hang up on behalf of a server that does not listen.
const HANG_UP: Duration = Duration::from_millis(100);

/// Protocol versions of the first message on an election connection: one announced address, or several.
const FIRST_MESSAGE: [i64; 2] = [-65_536, -65_535];

/// All proxies between the servers of one ensemble.
#[derive(Debug)]
pub(crate) struct Mesh {
    size: usize,
    name: &'static str,
    ways: HashMap<(usize, usize), Way>,
    isolated: Mutex<HashSet<usize>>,
}

/// From one server to another.
#[derive(Debug)]
struct Way {
    quorum: Proxy,
    election: Proxy,
}

impl Mesh {
    /// Opens the proxies on `host`, which servers call `name`.
    pub(crate) fn start(size: usize, host: Ipv4Addr, name: &'static str) -> Result<Self, Error> {
        let mut ways = HashMap::new();
        let start = || Proxy::start(host).map_err(Error::io(format!("open a proxy on {host}")));
        for from in 0..size {
            for to in (0..size).filter(|to| *to != from) {
                ways.insert((from, to), Way { quorum: start()?, election: start()? });
            }
        }
        for ((from, to), way) in &ways {
            if let Some(back) = ways.get(&(*to, *from)) {
                let address = format!("{name}:{}", back.election.listener.port());
                let _ = way.election.shared.announce.set(address);
            }
        }
        Ok(Self { size, name, ways, isolated: Mutex::default() })
    }

    /// The other members, as server `from` is to see them.
    pub(crate) fn peers_of(&self, from: usize) -> Vec<Member> {
        let peer = |to: usize| {
            let way = self.ways.get(&(from, to))?;
            Some(Member {
                id: to + 1,
                host: self.name.into(),
                quorum_port: way.quorum.listener.port(),
                election_port: way.election.listener.port(),
            })
        };
        (0..self.size).filter_map(peer).collect()
    }

    /// Says where server `to` really listens.
    pub(crate) fn locate(&self, to: usize, quorum: &str, election: &str) {
        for (_, way) in self.ways.iter().filter(|((_, it), _)| *it == to) {
            way.quorum.shared.lock().upstream = Some(quorum.into());
            way.election.shared.lock().upstream = Some(election.into());
        }
    }

    /// Cuts `server` off from all others.
    pub(crate) fn isolate(&self, server: usize) {
        self.isolated().insert(server);
        for (_, way) in self.ways.iter().filter(|((from, to), _)| *from == server || *to == server) {
            way.quorum.shared.block();
            way.election.shared.block();
        }
    }

    /// Holds back what server `from` sends to server `to`, on whichever side's connection.
    pub(crate) fn stall(&self, from: usize, to: usize) {
        self.set_stalled(from, to, true);
    }

    /// Passes on what was held back.
    pub(crate) fn flow(&self, from: usize, to: usize) {
        self.set_stalled(from, to, false);
    }

    fn set_stalled(&self, from: usize, to: usize, stalled: bool) {
        for (ends, direction) in [((from, to), Direction::There), ((to, from), Direction::Back)] {
            for proxy in self.ways.get(&ends).iter().flat_map(|way| [&way.quorum, &way.election]) {
                proxy.shared.set_stalled(direction, stalled);
            }
        }
    }

    /// Connects `server` again with all others that are not cut off themselves.
    pub(crate) fn rejoin(&self, server: usize) {
        let mut isolated = self.isolated();
        isolated.remove(&server);
        let joined = |from, to| {
            (from == server && !isolated.contains(&to)) || (to == server && !isolated.contains(&from))
        };
        for (_, way) in self.ways.iter().filter(|((from, to), _)| joined(*from, *to)) {
            way.quorum.shared.unblock();
            way.election.shared.unblock();
        }
    }

    /// Connects everybody again.
    pub(crate) fn heal(&self) {
        self.isolated().clear();
        for proxy in self.ways.values().flat_map(|way| [&way.quorum, &way.election]) {
            proxy.shared.unblock();
            proxy.shared.set_stalled(Direction::There, false);
            proxy.shared.set_stalled(Direction::Back, false);
        }
    }

    pub(crate) fn is_isolated(&self, server: usize) -> bool {
        self.isolated().contains(&server)
    }

    fn isolated(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.isolated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One proxy: a port of the host that leads to one port of one server.
#[derive(Debug)]
struct Proxy {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug, Default)]
struct Shared {
    /// Servers are reached at published ports.
    published: bool,
    /// What the first message is to announce as its sender's address; election proxies only.
    announce: OnceLock<String>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Of bytes on a connection, as seen by who opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    There,
    Back,
}

#[derive(Debug, Default)]
struct State {
    upstream: Option<String>,
    blocked: bool,
    /// There, and back.
    stalled: [bool; 2],
    ended: bool,
    next_id: u64,
    /// Both ends of every connection, to end them with.
    connections: HashMap<u64, Vec<Arc<TcpStream>>>,
    /// Connections attempted while blocked.
    stillborn: Vec<TcpStream>,
}

impl Proxy {
    fn start(host: Ipv4Addr) -> io::Result<Self> {
        // Only proxies for servers that are elsewhere listen on every address.
        let shared = Arc::new(Shared { published: host.is_unspecified(), ..Shared::default() });
        let listener = Listener::start(host, {
            let shared = shared.clone();
            move |client| shared.admit(client)
        })?;
        Ok(Self { shared, listener })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.ended = true;
        state.stillborn.clear();
        for stream in state.connections.drain().flat_map(|(_, ends)| ends) {
            abort(&stream);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self) {
        self.lock().blocked = true;
    }

    fn unblock(&self) {
        let mut state = self.lock();
        state.blocked = false;
        for client in state.stillborn.drain(..) {
            abort(&client);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn set_stalled(&self, direction: Direction, stalled: bool) {
        self.lock().stalled[direction as usize] = stalled;
        self.changed.notify_all();
    }

    /// Waits until bytes may pass in this direction; false when there is no more proxy.
    fn wait_open(&self, direction: Direction) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| {
            (state.blocked || state.stalled[direction as usize]) && !state.ended
        });
        !state.unwrap_or_else(PoisonError::into_inner).ended
    }

    fn admit(self: &Arc<Self>, client: TcpStream) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        if state.blocked {
            return state.stillborn.push(client);
        }
        let (id, client) = (state.next_id, Arc::new(client));
        state.next_id += 1;
        state.connections.insert(id, vec![client.clone()]);
        drop(state);
        let shared = self.clone();
        let started = spawn("zk-peer", move || {
            let _ = shared.serve(id, &client);
            shared.lock().connections.remove(&id);
        });
        if started.is_err() {
            self.lock().connections.remove(&id);
        }
    }

    fn serve(self: &Arc<Self>, id: u64, client: &Arc<TcpStream>) -> io::Result<()> {
        let server = Arc::new(self.connect()?);
        server.set_nodelay(true)?;
        match self.lock().connections.get_mut(&id) {
            Some(ends) => ends.push(server.clone()),
            None => return Ok(()),
        }
        let back = spawn("zk-peer-back", {
            let (shared, client, server) = (self.clone(), client.clone(), server.clone());
            move || shared.pump(&server, &client, Direction::Back)
        })?;
        if let Some(address) = self.announce.get() {
            let message = read_first_message(client, address)?;
            if !self.wait_open(Direction::There) {
                return Ok(());
            }
            (&*server).write_all(&message)?;
        }
        self.pump(client, &server, Direction::There);
        let _ = back.join();
        Ok(())
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let start = Instant::now();
        loop {
            let (upstream, ended) = {
                let state = self.lock();
                (state.upstream.clone(), state.ended)
            };
            let attempt = match upstream {
                Some(address) => TcpStream::connect(address).and_then(|server| self.taken(server)),
                None => Err(io::ErrorKind::NotConnected.into()),
            };
            match attempt {
                Err(_) if !ended && start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
                result => return result,
            }
        }
    }

    /// A published port takes connections whether or not the server listens, and hangs up if it does not. A leader that is
    /// about to listen would lose its followers by that, and wait `initLimit` for them.
    fn taken(&self, server: TcpStream) -> io::Result<TcpStream> {
        if self.published {
            server.set_read_timeout(Some(HANG_UP))?;
            match server.peek(&mut [0]) {
                Ok(0) => return Err(io::ErrorKind::ConnectionRefused.into()),
                Err(error)
                    if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                {
                    return Err(error);
                }
                _ => server.set_read_timeout(None)?,
            }
        }
        Ok(server)
    }

    /// Copies until the source ends, then ends the target's half; an error ends both sides at once.
    fn pump(&self, mut source: &TcpStream, mut target: &TcpStream, direction: Direction) {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let read = source.read(&mut chunk);
            if !self.wait_open(direction) {
                return;
            }
            let written = match read {
                Ok(0) => {
                    let _ = target.shutdown(Shutdown::Write);
                    return;
                }
                Ok(length) => target.write_all(chunk.get(..length).unwrap_or_default()),
                Err(error) => Err(error),
            };
            if written.is_err() {
                abort(source);
                abort(target);
                return;
            }
        }
    }
}

/// Reads what opens an election connection and puts `address` in place of its sender's own.
fn read_first_message(mut client: &TcpStream, address: &str) -> io::Result<Vec<u8>> {
    let mut head = [0; 20];
    client.read_exact(&mut head)?;
    let mut fields = &head[..];
    let mut version = [0; 8];
    fields.read_exact(&mut version)?;
    let mut sender = [0; 8];
    fields.read_exact(&mut sender)?;
    let mut length = [0; 4];
    fields.read_exact(&mut length)?;
    if !FIRST_MESSAGE.contains(&i64::from_be_bytes(version)) {
        // A server older than 3.5 announces no address.
        return Ok(head.to_vec());
    }
    let mut announced = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap_or(0).min(64 * 1024)];
    client.read_exact(&mut announced)?;
    let length = i32::try_from(address.len()).map_err(io::Error::other)?;
    Ok([&version[..], &sender, &length.to_be_bytes(), address.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::TcpListener;

    use super::*;

    fn message(address: &str) -> Vec<u8> {
        let length = i32::try_from(address.len()).unwrap();
        [&(-65_536_i64).to_be_bytes()[..], &1_i64.to_be_bytes(), &length.to_be_bytes(), address.as_bytes()]
            .concat()
    }

    fn election(mesh: &Mesh, from: usize, to: usize) -> u16 {
        mesh.ways[&(from, to)].election.listener.port()
    }

    #[test]
    fn the_announced_address_becomes_that_of_the_proxy_back() {
        let mesh = Mesh::start(2, Ipv4Addr::LOCALHOST, "127.0.0.1").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        mesh.locate(1, "127.0.0.1:1", &server.local_addr().unwrap().to_string());

        let mut client = TcpStream::connect(("127.0.0.1", election(&mesh, 0, 1))).unwrap();
        client.write_all(&message("192.0.2.7:3888")).unwrap();
        client.write_all(b"and more").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut seen = Vec::new();
        server.accept().unwrap().0.read_to_end(&mut seen).unwrap();

        let mut expected = message(&format!("127.0.0.1:{}", election(&mesh, 1, 0)));
        expected.extend(b"and more");
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_isolated_connection_goes_on_after_healing_and_one_made_meanwhile_ends() {
        let mesh = Mesh::start(2, Ipv4Addr::LOCALHOST, "127.0.0.1").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        mesh.locate(1, &server.local_addr().unwrap().to_string(), "127.0.0.1:1");
        let proxy = ("127.0.0.1", mesh.ways[&(0, 1)].quorum.listener.port());

        let mut before = TcpStream::connect(proxy).unwrap();
        let mut accepted = server.accept().unwrap().0;
        mesh.isolate(0);
        before.write_all(b"late").unwrap();
        let mut meanwhile = TcpStream::connect(proxy).unwrap();
        accepted.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut four = [0; 4];
        assert!(accepted.read(&mut four).is_err(), "bytes came through a partition");

        accepted.set_read_timeout(None).unwrap();
        mesh.heal();
        accepted.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"late");
        assert!(matches!(meanwhile.read(&mut four), Ok(0) | Err(_)));
    }

    #[test]
    fn a_server_that_rejoins_is_still_cut_off_from_those_that_do_not() {
        let mesh = Mesh::start(3, Ipv4Addr::LOCALHOST, "127.0.0.1").unwrap();
        let is_blocked = |way: &Way| way.quorum.shared.lock().blocked && way.election.shared.lock().blocked;
        mesh.isolate(0);
        mesh.isolate(1);
        mesh.rejoin(0);
        let blocked: HashSet<_> =
            mesh.ways.iter().filter(|(_, way)| is_blocked(way)).map(|(ends, _)| *ends).collect();
        assert_eq!(blocked, HashSet::from([(0, 1), (1, 0), (1, 2), (2, 1)]));
        mesh.rejoin(1);
        assert!(!mesh.ways.values().any(is_blocked));
    }

    #[test]
    fn a_stalled_direction_is_kept_back_and_the_other_is_not() {
        let mesh = Mesh::start(2, Ipv4Addr::LOCALHOST, "127.0.0.1").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        mesh.locate(1, &server.local_addr().unwrap().to_string(), "127.0.0.1:1");
        let mut there = TcpStream::connect(("127.0.0.1", mesh.ways[&(0, 1)].quorum.listener.port())).unwrap();
        let mut back = server.accept().unwrap().0;

        mesh.stall(1, 0);
        back.write_all(b"late").unwrap();
        there.write_all(b"ping").unwrap();
        let mut four = [0; 4];
        back.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"ping");
        there.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(there.read(&mut four).is_err(), "bytes came through a stall");

        there.set_read_timeout(None).unwrap();
        mesh.flow(1, 0);
        there.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"late");
    }

    #[test]
    fn a_published_port_that_hangs_up_is_tried_again() {
        let mesh = Mesh::start(2, Ipv4Addr::UNSPECIFIED, "127.0.0.1").unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        mesh.locate(1, &server.local_addr().unwrap().to_string(), "127.0.0.1:1");

        let mut client =
            TcpStream::connect(("127.0.0.1", mesh.ways[&(0, 1)].quorum.listener.port())).unwrap();
        client.write_all(b"follower").unwrap();
        drop(server.accept().unwrap());
        let mut seen = [0; 8];
        server.accept().unwrap().0.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"follower");
    }
}
