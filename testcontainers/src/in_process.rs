//! A simulated server in this process, at a real port of this machine.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use zklock_ensemble::{Config, ConnectionId, Effect, Event, Now, Server, ServerId};

use crate::listener::{Listener, spawn};

/// The longest session timeout that the server grants: what clients ask for, whatever the tick.
const LONGEST_SESSION: Duration = Duration::from_secs(600);

/// The server waits for so long for a client that does not read, and then closes its connection.
const UNREAD: Duration = Duration::from_millis(500);

/// A simulated ZooKeeper server in this process, at a real port of this machine. It starts in a millisecond, without
/// Java and without a container. It ends when it is dropped, and its data with it.
///
/// It speaks ZooKeeper's protocol as a standalone server of 3.9.5 does, at least all that zookeeper-client and zklock
/// send: nodes of every kind, watches, transactions, ACLs with `digest`, sessions, `srvr` and `conf`. Random requests
/// are sent to it and to real servers in zklock's tests, and the answers are compared. It has no TLS, no SASL, no
/// quotas, no reconfiguration and no second server, and it writes nothing to disk. One thread serves all clients: a client
/// that does not read holds the others up for half a second, and then loses its connection. So it is for many quick tests of a
/// service's own logic. Test what must never happen twice on a real [`ZooKeeper`](crate::ZooKeeper) or
/// [`Ensemble`](crate::Ensemble), too.
///
/// A [`Link`](crate::Link) in front of it cuts connections, loses replies and delays them.
///
/// A service loses its leader in milliseconds:
///
/// ```
/// use std::time::Duration;
///
/// use zklock_testcontainers::InProcess;
/// use zookeeper_client::{Acls, Client, CreateMode};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = InProcess::start(Duration::from_millis(100))?;
/// let leader = Client::connect(&server.connect_string()).await?;
/// let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
/// leader.create("/leader", b"web1", &mode).await?;
///
/// let other = Client::connect(&server.connect_string()).await?;
/// let (_, _, watcher) = other.get_and_watch_data("/leader").await?;
/// server.expire_session(leader.session_id().0);
/// watcher.changed().await; // web2 leads now
/// assert!(leader.get_data("/leader").await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct InProcess {
    listener: Listener,
    inputs: Sender<Input>,
}

enum Input {
    Accepted(ConnectionId, TcpStream),
    Of(Event),
    /// The server is to crash and to start again.
    Restart,
    /// The server is to end.
    End,
}

impl InProcess {
    /// Starts a server with this tick. It grants session timeouts from two ticks to ten minutes.
    ///
    /// # Errors
    ///
    /// If this machine has no port or no thread left.
    pub fn start(tick: Duration) -> io::Result<Self> {
        let (inputs, taken) = channel();
        let accepted = inputs.clone();
        let mut connected = 0;
        let listener = Listener::start(Ipv4Addr::LOCALHOST, move |stream| {
            connected += 1;
            let id = ConnectionId(connected);
            let Ok(reader) = stream.try_clone() else { return };
            // The other end is gone if the server is.
            let _ = accepted.send(Input::Accepted(id, stream));
            let inputs = accepted.clone();
            let _ = spawn("zk-read", move || read(id, reader, &inputs));
        })?;
        let config = Config {
            tick,
            min_session_timeout: tick * 2,
            max_session_timeout: LONGEST_SESSION,
            words: vec!["*".to_owned()],
            ..Config::new(ServerId(1), 1)
        };
        spawn("zk-server", move || Driver::new(Server::new(config)).run(&taken))?;
        Ok(Self { listener, inputs })
    }

    /// The server's address, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.listener.port())
    }

    /// The connect string for clients.
    pub fn connect_string(&self) -> String {
        self.address()
    }

    /// Expires a session at once, as if its client had been silent for its timeout. A session that does not exist is
    /// none to expire.
    pub fn expire_session(&self, id: i64) {
        self.send(Input::Of(Event::Expire(id)));
    }

    /// Has the server crash and start again, with its data. Connections break, and sessions live on.
    pub fn restart(&self) {
        self.send(Input::Restart);
    }

    fn send(&self, input: Input) {
        // The server ends by the last input.
        let _ = self.inputs.send(input);
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.send(Input::End);
    }
}

fn read(id: ConnectionId, mut stream: TcpStream, inputs: &Sender<Input>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if inputs.send(Input::Of(Event::Received(id, buffer[..length].to_vec()))).is_err() {
            return;
        }
    }
    let _ = inputs.send(Input::Of(Event::Closed(id)));
}

/// The thread that has the server.
struct Driver {
    server: Server,
    started: Instant,
    streams: BTreeMap<ConnectionId, TcpStream>,
}

impl Driver {
    fn new(server: Server) -> Self {
        Self { server, started: Instant::now(), streams: BTreeMap::new() }
    }

    fn run(mut self, inputs: &Receiver<Input>) {
        loop {
            let wake = self.server.next_wake().map(|at| at.saturating_sub(self.started.elapsed()));
            if wake.is_some_and(|wake| wake.is_zero()) {
                self.handle(Event::Wake);
            }
            match inputs.recv_timeout(wake.unwrap_or(Duration::MAX)) {
                Ok(Input::Accepted(id, stream)) => {
                    // It cannot fail: the time is not zero.
                    let _ = stream.set_write_timeout(Some(UNREAD));
                    self.streams.insert(id, stream);
                    self.handle(Event::Accepted(id));
                }
                Ok(Input::Of(event)) => {
                    if let Event::Closed(id) = event {
                        self.streams.remove(&id);
                    }
                    self.handle(event);
                }
                Ok(Input::Restart) => {
                    self.server = self.server.restart();
                    self.close_all();
                    self.handle(Event::Wake);
                }
                Err(RecvTimeoutError::Timeout) => self.handle(Event::Wake),
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return self.close_all(),
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let wall = UNIX_EPOCH.elapsed().unwrap_or_default();
        let now = Now { monotonic: self.started.elapsed(), wall };
        let mut effects = Vec::new();
        self.server.handle(now, event, &mut effects);
        for effect in effects {
            match effect {
                // A client that has gone, or that does not read, is closed by its reader.
                Effect::Send(id, bytes) => {
                    if let Some(mut stream) = self.streams.get(&id)
                        && stream.write_all(&bytes).is_err()
                    {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                }
                Effect::Close(id) => {
                    drop(self.streams.remove(&id).map(|stream| stream.shutdown(Shutdown::Both)))
                }
                // A server alone has no peers.
                Effect::ToPeer(..) => {}
            }
        }
    }

    fn close_all(&mut self) {
        for stream in std::mem::take(&mut self.streams).into_values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
    }

    /// A frame with a request that has the fields of one, or nearly so.
    fn request() -> impl Strategy<Value = Vec<u8>> {
        let open = [&[0, 0, 0, 1, 0, 0, 0, 31][..], &text("world"), &text("anyone")].concat();
        let path = prop_oneof![Just("/"), Just("/a"), Just("/a/b"), Just("/zookeeper"), Just("a//")];
        let field = prop_oneof![
            3 => (-1..4_i32).prop_map(|number| number.to_be_bytes().to_vec()),
            3 => path.clone().prop_map(text),
            2 => Just(open),
            2 => Just(vec![1]),
            1 => vec(any::<u8>(), 0..9),
        ];
        let codes = [
            1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21, 22, 100, 101, 103, 104, 105, 106, 107,
            -11,
        ];
        let code = prop_oneof![9 => prop::sample::select(codes.to_vec()), 1 => any::<i32>()];
        (code, path, vec(field, 0..5)).prop_map(|(code, path, fields)| {
            let message = [&[0, 0, 0, 1][..], &code.to_be_bytes(), &text(path), &fields.concat()].concat();
            [&(message.len() as u32).to_be_bytes()[..], &message].concat()
        })
    }

    proptest! {
        #[test]
        fn any_bytes_of_a_client_are_answered_or_end_its_connection(
            requests in vec(request(), 0..12),
            bytes in vec(any::<u8>(), 0..40),
            greets: bool,
        ) {
            let mut server = Server::new(Config { words: vec!["*".to_owned()], ..Config::new(ServerId(1), 1) });
            let greeting = [&[0; 12][..], &10_000_i32.to_be_bytes(), &[0; 8], &[0, 0, 0, 16], &[0; 16]].concat();
            let greeting = [&[0, 0, 0, 44], &greeting[..]].concat();
            let greeted = requests.into_iter().map(|request| [&greeting[..], &request].concat());
            let last = if greets { [greeting.clone(), bytes].concat() } else { bytes };
            let (mut monotonic, mut effects) = (Duration::from_secs(7), Vec::new());
            for (id, sent) in (1..).map(ConnectionId).zip(greeted.chain([last])) {
                for event in [Event::Accepted(id), Event::Received(id, sent), Event::Wake] {
                    monotonic += Duration::from_millis(1);
                    server.handle(Now { monotonic, wall: monotonic }, event, &mut effects);
                }
            }
        }
    }
}
