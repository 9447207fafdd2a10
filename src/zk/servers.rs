//! The servers of a connect string, and the four-letter words that they answer without a session.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use zookeeper_client::{Client, Connector, Error};

use super::error::{ConnectError, ServerFailure, ServerProblem};
use crate::mutex::Mutex;
use crate::path::check_node;

/// The scheme of an address without TLS.
const PLAIN: &str = "tcp://";

/// The scheme of an address with TLS.
const TLS: &str = "tcp+tls://";

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
    /// `host:port`, in the user's spelling.
    address: String,
    tls: bool,
    /// The least session timeout that zklock has seen this server grant.
    granted: Mutex<Option<Duration>>,
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
        let malformed =
            |cause: &str| ConnectError::Servers { servers: text.clone(), cause: cause.to_owned() };
        let (mut servers, mut chroot) = (Vec::new(), String::new());
        let count = text.split(',').count();
        for (index, server) in text.split(',').enumerate() {
            let (scheme, rest) = match (server.strip_prefix(PLAIN), server.strip_prefix(TLS)) {
                (Some(rest), _) => (PLAIN, rest),
                (None, Some(rest)) => (TLS, rest),
                (None, None) => (if tls { TLS } else { PLAIN }, server),
            };
            if tls && scheme == PLAIN {
                return Err(malformed(
                    "tcp:// asks for clear text, but TLS options are set; write tcp+tls:// or no scheme",
                ));
            }
            if !tls && scheme == TLS {
                return Err(malformed(
                    "tcp+tls:// needs TLS options; set them, or write tcp:// or no scheme",
                ));
            }
            let (address, below) = match rest.find('/') {
                Some(slash) => rest.split_at(slash),
                None => (rest, ""),
            };
            if address.is_empty() {
                return Err(malformed("a server has no address"));
            }
            if port(address).is_some_and(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
                return Err(malformed("a port is no number from 1 to 65535"));
            }
            if !below.is_empty() && index + 1 < count {
                return Err(malformed("a chroot stands behind the last server only"));
            }
            if !below.is_empty() {
                check_node(below)
                    .map_err(|problem| malformed(&format!("the chroot is no path: {problem}")))?;
            }
            chroot = below.trim_end_matches('/').to_owned();
            servers.push(Server {
                address: address.to_owned(),
                tls: scheme == TLS,
                granted: Mutex::default(),
            });
        }
        Ok(Self { text, servers, chroot })
    }

    /// Returns every server, in the order of the connect string.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter()
    }

    /// Returns every server, in random order, so that clients spread over the servers.
    pub(crate) fn shuffled(&self) -> Vec<&Server> {
        let mut servers = self.servers.iter().collect::<Vec<_>>();
        fastrand::shuffle(&mut servers);
        servers
    }

    /// Finds out why none of these servers gave a session, as far as that is known by `deadline`.
    pub(crate) async fn diagnose(&self, deadline: Instant) -> Diagnosis {
        let problems = join_all(self.iter().map(|server| server.diagnose(deadline))).await;
        let any_is_read_only = problems.contains(&None);
        let causes = self.iter().zip(problems).filter_map(|(server, problem)| {
            problem.map(|cause| ServerFailure { server: server.address.clone(), cause })
        });
        Diagnosis { causes: causes.collect(), any_is_read_only }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What stands behind the colon of an address. An IPv6 address without brackets has no port.
fn port(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    (!host.contains(':') || host.ends_with(']')).then_some(port)
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
        let scheme = if self.tls { TLS } else { PLAIN };
        connector.connect(&format!("{scheme}{}{chroot}", self.address)).await
    }

    /// Remembers the session timeout that this server granted.
    pub(crate) fn learn(&self, granted: Duration) {
        let mut least = self.granted.lock();
        *least = Some(least.map_or(granted, |least| least.min(granted)));
    }

    /// The least session timeout that zklock has seen this server grant.
    pub(crate) fn granted(&self) -> Option<Duration> {
        *self.granted.lock()
    }

    /// Finds out why this server gave no session; `None` if it is read-only. A server that can become read-only answers `isro` without being
    /// configured to: `FourLetterCommands` then whitelists that word.
    async fn diagnose(&self, deadline: Instant) -> Option<ServerProblem> {
        let unconnected = |cause| Some(ServerProblem::NoConnection(cause));
        let connection = match timeout_at(deadline, TcpStream::connect(self.socket_address())).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return unconnected(error.to_string()),
            Err(_) => return unconnected("no TCP connection in time".to_owned()),
        };
        // A word would go out in clear text.
        if self.tls {
            return Some(ServerProblem::NoTlsSession);
        }
        match timeout_at(deadline, ask(connection, "isro")).await {
            Ok(Ok(answer)) if answer.trim() == "ro" => None,
            _ => Some(ServerProblem::NoSession),
        }
    }

    /// Returns the address with a port, which is 2181 if the address has none.
    fn socket_address(&self) -> String {
        match port(&self.address) {
            Some(_) => self.address.clone(),
            None => format!("{}:2181", self.address),
        }
    }

    /// Returns the server's configuration, if the server is configured to answer `conf`. zklock does not ask a server with TLS,
    /// because the word would go out in clear text.
    pub(crate) async fn settings(&self) -> Option<Settings> {
        if self.tls {
            return None;
        }
        let answer = ask(TcpStream::connect(self.socket_address()).await.ok()?, "conf").await.ok()?;
        let number = |key: &str| {
            let value = answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            value.trim().parse().ok().map(Duration::from_millis)
        };
        Some(Settings {
            tick: number("tickTime")?,
            shortest: number("minSessionTimeout")?,
            longest: number("maxSessionTimeout")?,
        })
    }
}

/// The parts of a server's configuration that zklock needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) tick: Duration,
    /// The shortest session timeout that the server grants.
    pub(crate) shortest: Duration,
    /// The longest session timeout that the server grants.
    pub(crate) longest: Duration,
}
