//! The servers of a connect string, and the four-letter words that they answer without a session.

pub(crate) mod address;

use std::fmt;
use std::io::ErrorKind;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_net::TcpStream;
use futures::FutureExt;
use futures::future::join_all;
use futures::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use zookeeper_client::{Client, Connector, Error};

use self::address::ServerAddress;
use super::error::{ConnectError, ServerFailure, ServerProblem, panic_text};
use crate::mutex::Mutex;

/// How long to wait whether a server closes a connection before it has been sent anything.
const CLOSING: Duration = Duration::from_millis(300);

/// How long zklock remembers the least session timeout that a server granted.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The longest answer to a four-letter word that zklock reads, in bytes.
const LONGEST_ANSWER: u64 = 16 * 1024;

/// A connect string: `host:port,host:port/chroot`.
pub(crate) struct Servers {
    text: String,
    servers: Vec<Server>,
    /// The connect string's chroot; empty if it has none.
    pub(crate) chroot: String,
}

/// One server of a connect string.
pub(crate) struct Server {
    address: ServerAddress,
    /// The least session timeout that zklock has seen this server grant lately, and when.
    granted: Mutex<Option<(Duration, Instant)>>,
    /// Whether the name had a single IP address when a session was first connected. A load balancer may have one, too.
    is_single: AtomicBool,
    /// Whether the last connection was to this server, and did not break.
    serves: AtomicBool,
}

/// Why no server gave a session.
pub(crate) struct Diagnosis {
    pub(crate) causes: Vec<ServerFailure>,
    pub(crate) any_is_read_only: bool,
}

impl Servers {
    /// Reads a connect string. With TLS options every server is reached over TLS. An address with another scheme is an
    /// error, so that zklock never sends anything in clear text by mistake.
    pub(crate) fn parse(text: String, tls: bool) -> Result<Self, ConnectError> {
        let (addresses, chroot) = ServerAddress::parse(&text, tls)?;
        let cause = match (tls, addresses.iter().all(|address| address.tls == tls)) {
            (_, true) => {
                let servers = addresses.into_iter();
                let servers = servers
                    .map(|address| Server {
                        address,
                        granted: Mutex::default(),
                        is_single: AtomicBool::default(),
                        serves: AtomicBool::default(),
                    })
                    .collect();
                return Ok(Self { text, servers, chroot });
            }
            (true, false) => {
                "tcp:// asks for clear text, but TLS options are set; write tcp+tls:// or no scheme"
            }
            (false, false) => "tcp+tls:// needs TLS options; set them, or write tcp:// or no scheme",
        };
        Err(ConnectError::Servers { servers: text, cause: cause.to_owned() })
    }

    /// Returns every server, in the order of the connect string.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter()
    }

    /// Returns every server: first the one that served last, and then the others in random order, so that clients spread.
    pub(crate) fn last_one_first(&self) -> Vec<&Server> {
        let mut servers = self.servers.iter().collect::<Vec<_>>();
        fastrand::shuffle(&mut servers);
        servers.sort_by_key(|server| !server.serves.load(Ordering::Relaxed));
        servers
    }

    /// Takes in which server a session has its connection to; `None` once the connection has broken.
    pub(crate) fn served(&self, by: Option<&Server>) {
        for server in &self.servers {
            server.serves.store(by.is_some_and(|by| std::ptr::eq(by, server)), Ordering::Relaxed);
        }
    }

    /// Finds out why none of these servers gave a session, as far as that is known by `deadline`.
    pub(crate) async fn diagnose(&self, deadline: Instant) -> Diagnosis {
        let problems = join_all(self.iter().map(|server| server.diagnose(deadline))).await;
        let any_is_read_only = problems.contains(&None);
        let causes = self.iter().zip(problems).filter_map(|(server, problem)| {
            problem.map(|cause| ServerFailure { server: server.address.to_string(), cause })
        });
        Diagnosis { causes: causes.collect(), any_is_read_only }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Asks a four-letter word on a new connection.
async fn ask(mut connection: TcpStream, word: &str) -> std::io::Result<String> {
    connection.write_all(word.as_bytes()).await?;
    let mut answer = String::new();
    connection.take(LONGEST_ANSWER).read_to_string(&mut answer).await?;
    Ok(answer)
}

impl Server {
    /// Makes zookeeper-client connect to this server only, below this chroot.
    pub(crate) async fn connect(&self, connector: Connector, chroot: &str) -> Result<Client, Error> {
        connector.connect(&format!("{}{chroot}", self.address.connect_string())).await
    }

    /// Remembers the session timeout that this server granted. A limit may be raised, so a lesser one is forgotten after a while,
    /// unless it may be that of another server with the same name.
    pub(crate) fn learn(&self, granted: Duration) {
        self.learn_at(granted, Instant::now());
    }

    fn learn_at(&self, granted: Duration, now: Instant) {
        let mut least = self.granted.lock();
        let is_less = least.is_some_and(|(least, seen)| {
            let is_forgotten = self.is_single() && now - seen > REMEMBERED;
            least < granted && !is_forgotten
        });
        if !is_less {
            *least = Some((granted, now));
        }
    }

    /// The least session timeout that zklock has seen this server grant lately.
    pub(crate) fn granted(&self) -> Option<Duration> {
        self.granted.lock().map(|(granted, _)| granted)
    }

    /// Whether the name has a single IP address.
    pub(crate) fn is_single(&self) -> bool {
        self.is_single.load(Ordering::Relaxed)
    }

    /// Finds out whether the name has a single IP address.
    pub(crate) async fn resolve(&self) {
        let addresses = async_net::resolve((self.address.host.as_str(), self.address.port)).await;
        self.is_single.store(addresses.is_ok_and(|addresses| addresses.len() == 1), Ordering::Relaxed);
    }

    /// Finds out why this server gave no session; `None` if it is read-only. Every server answers `srvr`, whatever its
    /// configuration says: `FourLetterCommands` always whitelists that word.
    async fn diagnose(&self, deadline: Instant) -> Option<ServerProblem> {
        let unconnected = |cause| Some(ServerProblem::NoConnection(cause));
        let connection = match timeout_at(deadline, self.reach()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                return Some(ServerProblem::Closes);
            }
            Ok(Err(error)) => return unconnected(error.to_string()),
            Err(_) => return unconnected("no TCP connection in time".to_owned()),
        };
        // A server waits for the first bytes of a client that it takes.
        let closing = CLOSING.min((deadline - Instant::now()) / 2);
        if timeout(closing, connection.peek(&mut [0])).await.is_ok_and(|read| !matches!(read, Ok(1..))) {
            return Some(ServerProblem::Closes);
        }
        // A word would go out in clear text.
        if self.address.tls {
            return Some(ServerProblem::NoTlsSession);
        }
        match timeout_at(deadline, ask(connection, "srvr")).await {
            Ok(Ok(answer)) if answer.contains("\nMode: read-only") => None,
            Ok(Ok(answer)) if answer.contains("not currently serving requests") => {
                Some(ServerProblem::NoQuorum)
            }
            Ok(Ok(answer)) if answer.contains("\nMode: ") => Some(ServerProblem::Serves),
            _ => Some(ServerProblem::NoSession),
        }
    }

    /// Connects. async-net panics if this process may open no more files, and none was opened before.
    async fn reach(&self) -> std::io::Result<TcpStream> {
        let connecting = TcpStream::connect((self.address.host.as_str(), self.address.port));
        let connected = AssertUnwindSafe(connecting).catch_unwind().await;
        connected.unwrap_or_else(|panic| Err(std::io::Error::other(panic_text(&*panic))))
    }

    /// Returns the server's configuration, if the server is configured to answer `conf`. zklock does not ask a server with TLS,
    /// because the word would go out in clear text.
    pub(crate) async fn settings(&self) -> Option<ServerSettings> {
        if self.address.tls {
            return None;
        }
        let answer = ask(self.reach().await.ok()?, "conf").await.ok()?;
        let number = |key: &str| {
            let value = answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            value.trim().parse().ok().map(Duration::from_millis)
        };
        Some(ServerSettings {
            tick: number("tickTime")?,
            shortest: number("minSessionTimeout")?,
            longest: number("maxSessionTimeout")?,
        })
    }
}

/// The parts of a server's configuration that zklock needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerSettings {
    pub(crate) tick: Duration,
    /// The shortest session timeout that the server grants.
    pub(crate) shortest: Duration,
    /// The longest session timeout that the server grants.
    pub(crate) longest: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_low_limit_is_forgotten_where_no_other_server_can_have_it() {
        let second = Duration::from_secs(1);
        let now = Instant::now();
        let servers = Servers::parse("127.0.0.1:1,several:1".to_owned(), false).unwrap();
        servers.servers[0].resolve().await;
        for (server, later) in servers.iter().zip([16, 4]) {
            server.learn_at(second * 4, now);
            server.learn_at(second * 16, now + REMEMBERED);
            assert_eq!(server.granted(), Some(second * 4));
            server.learn_at(second * 16, now + REMEMBERED + second);
            assert_eq!(server.granted(), Some(second * later));
        }
    }
}
