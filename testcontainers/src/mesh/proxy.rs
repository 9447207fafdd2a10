//! One proxy between two servers: a port of the host that leads to one port of one server.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::first_message;
use crate::listener::{Listener, abort, spawn};

/// How long a proxy tries to reach a server that does not listen. A new leader opens its quorum port at about the time
/// when its followers connect to it. A follower that is refused tries again; one that is hung up on starts another
/// election.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How long a published port may take to hang up on behalf of a server that does not listen. The tests hang up themselves.
const HANG_UP: Duration = Duration::from_millis(if cfg!(test) { 10_000 } else { 100 });

/// A proxy; dropping it ends its connections.
#[derive(Debug)]
pub(super) struct Proxy {
    shared: Arc<Shared>,
    listener: Listener,
}

/// Which way bytes go on a connection, as seen by the server that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    There,
    Back,
}

/// What the threads of a proxy share.
#[derive(Debug, Default)]
struct Shared {
    /// Servers are reached at published ports.
    published: bool,
    /// The address that the first message of a connection is to announce. Set for election proxies only.
    announce: OnceLock<String>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    upstream: Option<String>,
    blocked: bool,
    /// There, and back.
    stalled: [bool; 2],
    ended: bool,
    next_id: u64,
    /// Both ends of every connection, so that they can be ended.
    connections: HashMap<u64, Vec<Arc<TcpStream>>>,
    /// Connections that were attempted while the proxy was blocked.
    stillborn: Vec<TcpStream>,
}

impl Proxy {
    /// Opens a proxy on a free port of `host`. It leads nowhere until [`locate`](Self::locate).
    pub(super) fn start(host: Ipv4Addr) -> io::Result<Self> {
        // A proxy listens on every address only if its servers are elsewhere.
        let shared = Arc::new(Shared { published: host.is_unspecified(), ..Shared::default() });
        let listener = Listener::start(host, {
            let shared = shared.clone();
            move |client| shared.admit(client)
        })?;
        Ok(Self { shared, listener })
    }

    pub(super) fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Makes this an election proxy: the first message of each connection announces `address`. The first call counts.
    pub(super) fn announce(&self, address: String) {
        let _ = self.shared.announce.set(address);
    }

    /// Leads new connections to `upstream`.
    pub(super) fn locate(&self, upstream: &str) {
        self.shared.lock().upstream = Some(upstream.into());
    }

    /// Lets nothing pass in either direction.
    pub(super) fn block(&self) {
        self.shared.lock().blocked = true;
    }

    /// Ends [`block`](Self::block), and the connections that were attempted meanwhile.
    pub(super) fn unblock(&self) {
        let mut state = self.shared.lock();
        state.blocked = false;
        for client in state.stillborn.drain(..) {
            abort(&client);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    #[cfg(test)]
    pub(super) fn is_blocked(&self) -> bool {
        self.shared.lock().blocked
    }

    /// Holds back, or passes on, what goes in one direction.
    pub(super) fn set_stalled(&self, direction: Direction, stalled: bool) {
        self.shared.lock().stalled[direction as usize] = stalled;
        self.shared.changed.notify_all();
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

    /// Waits until bytes may pass in this direction. Returns false once the proxy has ended.
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
            let message = first_message::read_and_replace(&**client, address)?;
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

    /// Makes sure that the server itself took the connection. A published port takes every connection, and hangs up if the
    /// server does not listen. A leader that is about to listen would lose its followers by that, and wait `initLimit` for
    /// them.
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

    /// Copies until the source ends, then ends the target's half. An error ends both sides at once.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_published_port_that_hangs_up_is_tried_again() {
        let proxy = Proxy::start(Ipv4Addr::UNSPECIFIED).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        proxy.locate(&server.local_addr().unwrap().to_string());

        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        client.write_all(b"follower").unwrap();
        drop(server.accept().unwrap());
        let mut seen = [0; 8];
        let mut taken = server.accept().unwrap().0;
        // It is not about to hang up.
        taken.write_all(b"leader").unwrap();
        taken.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"follower");
    }

    #[test]
    fn a_blocked_connection_goes_on_afterwards_and_one_made_meanwhile_ends() {
        let proxy = Proxy::start(Ipv4Addr::LOCALHOST).unwrap();
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        proxy.locate(&server.local_addr().unwrap().to_string());
        let address = ("127.0.0.1", proxy.port());

        let mut before = TcpStream::connect(address).unwrap();
        let mut accepted = server.accept().unwrap().0;
        proxy.block();
        before.write_all(b"late").unwrap();
        let mut meanwhile = TcpStream::connect(address).unwrap();
        accepted.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut four = [0; 4];
        assert!(accepted.read(&mut four).is_err(), "bytes came through a blocked proxy");
        // The proxy has accepted it while it was blocked.
        while proxy.shared.lock().stillborn.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }

        accepted.set_read_timeout(None).unwrap();
        proxy.unblock();
        accepted.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"late");
        assert!(matches!(meanwhile.read(&mut four), Ok(0) | Err(_)));
    }
}
