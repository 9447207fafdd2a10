//! The servers of a connect string, and the four-letter words that they answer without a session.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use async_net::TcpStream;
use futures::future::join_all;
use futures::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use zookeeper_client::{Client, Connector, Error};

use super::error::{ConnectError, ServerFailure, ServerProblem};
use crate::mutex::Mutex;
use crate::path::check_node;

/// The scheme of an address without TLS.
const PLAIN: &str = "tcp://";

/// The scheme of an address with TLS.
const TLS: &str = "tcp+tls://";

/// The port of an address without one.
const DEFAULT_PORT: u16 = 2181;

/// How long to wait whether a server closes a connection before it has been sent anything.
const CLOSING: Duration = Duration::from_millis(300);

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
    host: String,
    port: u16,
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
        match read(&text, tls) {
            Ok((servers, chroot)) => Ok(Self { servers, chroot, text }),
            Err(cause) => Err(ConnectError::Servers { servers: text, cause }),
        }
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
            problem.map(|cause| ServerFailure { server: server.to_string(), cause })
        });
        Diagnosis { causes: causes.collect(), any_is_read_only }
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads the servers and the chroot of a connect string. The program `zklock` reads them by the same rules, in
/// `cli/src/connection/address.rs`.
fn read(text: &str, tls: bool) -> Result<(Vec<Server>, String), String> {
    let (mut servers, mut chroot) = (Vec::new(), "");
    for server in text.split(',').map(str::trim) {
        if !chroot.is_empty() {
            return Err("the chroot stands once, after the last server".to_owned());
        }
        let (address, below) = split(server);
        servers.push(Server::parse(address, tls)?);
        chroot = below;
    }
    if !chroot.is_empty() {
        check_node(chroot).map_err(|problem| format!("the chroot is no path: {problem}"))?;
    }
    Ok((servers, chroot.trim_end_matches('/').to_owned()))
}

/// Splits a server from the chroot behind it. The slashes of a scheme begin no chroot.
fn split(server: &str) -> (&str, &str) {
    let scheme = server.find("://").map_or(0, |at| at + "://".len());
    server.split_at(server[scheme..].find('/').map_or(server.len(), |slash| scheme + slash))
}

/// Asks a four-letter word on a new connection.
async fn ask(mut connection: TcpStream, word: &str) -> std::io::Result<String> {
    connection.write_all(word.as_bytes()).await?;
    let mut answer = String::new();
    connection.take(LONGEST_ANSWER).read_to_string(&mut answer).await?;
    Ok(answer)
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Server {
    fn parse(text: &str, tls: bool) -> Result<Self, &'static str> {
        let (is_tls, rest) = match (text.strip_prefix(TLS), text.strip_prefix(PLAIN)) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => (tls, text),
        };
        if tls && !is_tls {
            return Err("tcp:// asks for clear text, but TLS options are set; write tcp+tls:// or no scheme");
        }
        if !tls && is_tls {
            return Err("tcp+tls:// needs TLS options; set them, or write tcp:// or no scheme");
        }
        if rest.contains("://") {
            return Err("a scheme is neither tcp:// nor tcp+tls://");
        }
        if !rest.starts_with('[') && rest.matches(':').count() > 1 {
            return Err("an IPv6 address needs brackets: [::1]:2181");
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("a bracket is not closed")?,
            None => rest.find(':').map_or((rest, ""), |colon| rest.split_at(colon)),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => DEFAULT_PORT,
            Some("") => DEFAULT_PORT,
            Some(port) => {
                port.parse().ok().filter(|port| *port > 0).ok_or("a port is not a number from 1 to 65535")?
            }
            None => return Err("something other than a port follows a bracket"),
        };
        if host.is_empty() {
            return Err("a host is missing");
        }
        if host.contains(|character: char| character.is_whitespace() || character.is_control()) {
            return Err("a host contains a blank");
        }
        Ok(Self { host: host.to_owned(), port, tls: is_tls, granted: Mutex::default() })
    }

    /// Makes zookeeper-client connect to this server only, below this chroot.
    pub(crate) async fn connect(&self, connector: Connector, chroot: &str) -> Result<Client, Error> {
        let scheme = if self.tls { TLS } else { PLAIN };
        connector.connect(&format!("{scheme}{self}{chroot}")).await
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
        if self.tls {
            return Some(ServerProblem::NoTlsSession);
        }
        match timeout_at(deadline, ask(connection, "srvr")).await {
            Ok(Ok(answer)) if answer.contains("\nMode: read-only") => None,
            Ok(Ok(answer)) if answer.contains("not currently serving requests") => {
                Some(ServerProblem::NoQuorum)
            }
            _ => Some(ServerProblem::NoSession),
        }
    }

    async fn reach(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect((self.host.as_str(), self.port)).await
    }

    /// Returns the server's configuration, if the server is configured to answer `conf`. zklock does not ask a server with TLS,
    /// because the word would go out in clear text.
    pub(crate) async fn settings(&self) -> Option<Settings> {
        if self.tls {
            return None;
        }
        let answer = ask(self.reach().await.ok()?, "conf").await.ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is malformed is a test of the program's.
    #[test]
    fn a_port_and_a_chroot_may_be_left_out() {
        let read = |text: &str, tls| {
            let servers = Servers::parse(text.to_owned(), tls).unwrap();
            let all = servers.iter().map(|server| (server.to_string(), server.tls)).collect::<Vec<_>>();
            (all, servers.chroot)
        };
        let plain = |address: &str| (address.to_owned(), false);
        let (servers, chroot) = read("zk1, tcp://zk2: ,[::1]:1/app/locks", false);
        assert_eq!(servers, [plain("zk1:2181"), plain("zk2:2181"), plain("[::1]:1")]);
        assert_eq!(chroot, "/app/locks");
        assert_eq!(read("tcp+tls://zk1/", true), (vec![("zk1:2181".to_owned(), true)], String::new()));
    }
}
