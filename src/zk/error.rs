//! Why no session could be established.

use std::fmt;
use std::time::Duration;

/// Why a session could not be established. No node is left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connect string is empty or malformed.
    #[error("the connect string {servers:?} is malformed ({cause}); write host:port,host:port/chroot")]
    Servers {
        /// The connect string that the caller gave.
        servers: String,
        /// What is wrong with the connect string.
        cause: String,
    },
    /// The session timeout that the caller set is out of range.
    #[error("a session timeout of {timeout:?} is out of range; set one from {shortest:?} to {longest:?}")]
    SessionTimeout {
        /// The session timeout that the caller set.
        timeout: Duration,
        /// The shortest session timeout that is allowed.
        shortest: Duration,
        /// The longest session timeout that is allowed.
        longest: Duration,
    },
    /// The server's limits do not allow the session timeout that the caller set.
    #[error(
        "the server grants a session timeout of {granted:?} instead of {asked:?}; ask for one within its limits \
         or change its minSessionTimeout and maxSessionTimeout"
    )]
    TimeoutNotGranted {
        /// The session timeout that the caller set.
        asked: Duration,
        /// The session timeout that the server grants instead: the nearest one within its limits.
        granted: Duration,
    },
    /// The session timeout is too short for a lease. Without the lag and the margin it must last for three heartbeats.
    #[error(
        "a session timeout of {timeout:?} is too short for these servers: {lag:?} of it is for the leader to ask for a \
         heartbeat and {margin:?} for clock drift, and the rest is too short for three heartbeats of {heartbeat:?}; ask for a \
         longer session timeout, or set a shorter `tick` if the servers have one"
    )]
    LeaseTooShort {
        /// The session timeout that the server granted.
        timeout: Duration,
        /// The time that the leader needs until it asks for a heartbeat: three quarters of a tick, and a little more
        /// for clock drift.
        lag: Duration,
        /// The part of the session timeout that allows for clock drift.
        margin: Duration,
        /// The time between heartbeats.
        heartbeat: Duration,
    },
    /// The caller set no tick, and the session timeouts that the servers grant fit two ticks. No lease can be kept with
    /// the longer one.
    #[error(
        "the servers' limits of session timeouts fit a tick of {shorter:?} and one of {longer:?}; set `tick` to the \
         `tickTime` of the servers"
    )]
    TickUnknown {
        /// The shorter tick that fits.
        shorter: Duration,
        /// The longer tick that fits.
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
        /// How long zklock asked the servers: the connect timeout, less the time for finding the causes.
        timeout: Duration,
        /// The result of a TCP connection to each server afterwards, as far as it was known in time.
        causes: Vec<ServerFailure>,
    },
    /// The servers that can be reached have lost their ensemble, and take only reads.
    #[error(
        "the servers of {servers:?} that can be reached are read-only; a lock needs a quorum, so bring the quorum back"
    )]
    ReadOnly {
        /// The connect string.
        servers: String,
    },
    /// A server rejected the credentials.
    #[error("the server rejected the credentials; check the scheme and the credentials given to `auth`")]
    AuthFailed,
    /// The caller is not in a tokio runtime, or it is shutting down, so nothing can run the session's tasks.
    #[error("the caller is not in a tokio runtime; connect from inside one")]
    NoRuntime,
    /// zookeeper-client could not be set up, mostly because of TLS or SASL options.
    #[error("zookeeper-client could not be set up: {cause}")]
    Client {
        /// The error, as zookeeper-client words it.
        cause: String,
    },
}

impl ConnectError {
    /// Returns true if the same call may succeed later with nothing changed by the caller: no server answered, or only servers
    /// without a quorum.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::ReadOnly { .. })
    }

    /// Returns true: there is no session.
    pub fn is_session_over(&self) -> bool {
        true
    }
}

/// Why one server gave no session; see [`ConnectError::Unreachable`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFailure {
    /// The server's address, as it is in the connect string.
    pub server: String,
    /// The cause, as far as zklock knows it.
    pub cause: ServerProblem,
}

/// Why a server gave no session, as far as zklock knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerProblem {
    /// The server's name cannot be resolved, or no TCP connection to it can be made. The text is the operating
    /// system's.
    NoConnection(String),
    /// The server takes TCP connections, but established no session: it has no quorum, or is not a ZooKeeper server, or
    /// only one side uses TLS.
    NoSession,
    /// The server takes TCP connections, but established no session by TLS. Mostly the certificates are wrong, or the
    /// server expects clear text.
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

/// Lists the causes in brackets, for the message.
fn listed(causes: &[ServerFailure]) -> String {
    let causes = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if causes.is_empty() { causes } else { format!(" ({causes})") }
}
