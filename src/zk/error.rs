//! Why there is no session.

use std::fmt;
use std::time::Duration;

/// Why a session could not be established. Nothing is left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connect string is empty or malformed.
    #[error("the connect string {servers:?} is malformed ({cause}); write host:port,host:port/chroot")]
    Servers {
        /// As it was given.
        servers: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The session timeout is out of range.
    #[error("a session timeout of {timeout:?} is out of range; set one from {shortest:?} to {longest:?}")]
    SessionTimeout {
        /// As it was given.
        timeout: Duration,
        /// The shortest one.
        shortest: Duration,
        /// The longest one.
        longest: Duration,
    },
    /// The server's own limits do not allow the session timeout that was asked for.
    #[error(
        "the server grants a session timeout of {granted:?} instead of {asked:?}; ask for one within its limits \
         or change its minSessionTimeout and maxSessionTimeout"
    )]
    TimeoutNotGranted {
        /// As it was given.
        asked: Duration,
        /// The nearest one within the server's limits.
        granted: Duration,
    },
    /// Heartbeats could not keep a lease this short: what the session timeout leaves must take three of them.
    #[error(
        "a session timeout of {timeout:?} is too short for these servers: less {lag:?} for the leader to ask for \
         a heartbeat and {margin:?} for clocks, it does not take three heartbeats of {heartbeat:?}; ask for a longer one, or \
         set a shorter `tick` if the servers have one"
    )]
    LeaseTooShort {
        /// The session timeout.
        timeout: Duration,
        /// Three quarters of a tick.
        lag: Duration,
        /// The part of the session timeout that allows for clocks that drift.
        margin: Duration,
        /// The time between heartbeats.
        heartbeat: Duration,
    },
    /// The servers' tick is not given, and cannot be told from the session timeouts that they grant: with the longer one
    /// of two that it may be, no lease can be kept.
    #[error(
        "the servers' limits of session timeouts fit a tick of {shorter:?} and one of {longer:?}; set `tick` to the \
         `tickTime` of the servers"
    )]
    TickUnknown {
        /// The shorter one.
        shorter: Duration,
        /// The longer one.
        longer: Duration,
    },
    /// No server established a session in time.
    #[error(
        "no server of {servers:?} established a session within {timeout:?}{}; check that they run, have a quorum, \
         and can be reached from here",
        listed(causes)
    )]
    Unreachable {
        /// The connect string.
        servers: String,
        /// How long they were asked: the connect timeout, less the time to find the causes.
        timeout: Duration,
        /// What a TCP connection to each server came to afterwards, as far as that was known in time.
        causes: Vec<ServerFailure>,
    },
    /// The only servers to be reached have lost their ensemble and take only reads.
    #[error(
        "the servers that can be reached of {servers:?} are read-only; a lock needs a quorum: bring it back"
    )]
    ReadOnly {
        /// The connect string.
        servers: String,
    },
    /// The server rejected the credentials.
    #[error("the server rejected the credentials; check the scheme and the credentials given to `auth`")]
    AuthFailed,
    /// There is no tokio runtime to run the session's tasks.
    #[error("there is no tokio runtime here; connect from inside one")]
    NoRuntime,
    /// The client could not be set up: TLS or SASL options, mostly.
    #[error("the client could not be set up: {cause}")]
    Client {
        /// The error, as zookeeper-client words it.
        cause: String,
    },
}

/// Why one server gives no session; see [`ConnectError::Unreachable`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFailure {
    /// Its address, as in the connect string.
    pub server: String,
    /// What is known of the cause.
    pub cause: ServerProblem,
}

/// What is known of a server that gives no session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerProblem {
    /// Its name cannot be resolved, or no TCP connection to it can be made: the operating system's word.
    NoConnection(String),
    /// It takes TCP connections, but established no session: it has no quorum, or is no ZooKeeper server, or only one side
    /// uses TLS.
    NoSession,
    /// It takes TCP connections, but established no session by TLS: mostly the certificates, or it expects clear text.
    NoTlsSession,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.cause)
    }
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(cause) => f.write_str(cause),
            Self::NoSession => f.write_str(
                "it takes connections but gives no session; look at its quorum, and whether it expects TLS",
            ),
            Self::NoTlsSession => f.write_str(
                "it takes connections but gives no session by TLS; look at the certificates and its quorum",
            ),
        }
    }
}

/// The causes, in brackets.
fn listed(causes: &[ServerFailure]) -> String {
    let causes = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if causes.is_empty() { causes } else { format!(" ({causes})") }
}
