//! Why no session could be established.

use std::any::Any;
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
    /// The connect string's chroot does not exist. Locks below a chroot with a typing error would keep nobody out who
    /// connects with the right one.
    #[error(
        "the chroot {chroot} does not exist; check the connect string, or create the chroot (with `create_chroot` the first \
         lock creates it)"
    )]
    NoChroot {
        /// The chroot.
        chroot: String,
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
        "the server grants a session timeout of {granted:?} instead of {asked:?}; ask for a session timeout within the \
         server's limits, or change the server's minSessionTimeout and maxSessionTimeout"
    )]
    TimeoutNotGranted {
        /// The session timeout that the caller set.
        asked: Duration,
        /// The session timeout that the server grants instead: the nearest one within its limits.
        granted: Duration,
    },
    /// The session timeout is too short for a lease. After the lag and the margin are subtracted, three heartbeats must
    /// fit into the rest.
    #[error(
        "a session timeout of {timeout:?} is too short for these servers: the leader may take {lag:?} to ask for a \
         heartbeat, clock drift takes {margin:?}, and three heartbeats of {heartbeat:?} do not fit into the rest; ask \
         for a longer session timeout, or set `tick` if the servers' tickTime is shorter"
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
    /// The caller set no tick, and two ticks fit the session timeouts that the servers grant. With the longer tick no
    /// lease is possible.
    #[error(
        "zklock cannot tell whether the servers' tick is {shorter:?} or {longer:?}, because both fit their limits of \
         session timeouts; set `tick` to the `tickTime` of the servers"
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
        /// How long zklock asked the servers: the connect timeout minus the time for finding the causes.
        timeout: Duration,
        /// The result of a TCP connection to each server afterwards, as far as it was known in time.
        causes: Vec<ServerFailure>,
    },
    /// The servers that can be reached have no quorum, and serve only reads.
    #[error(
        "the servers of {servers:?} that can be reached are read-only; a lock needs a quorum, so bring the quorum back"
    )]
    ReadOnly {
        /// The connect string.
        servers: String,
    },
    /// Each server that answered rejected the credentials, or demands others.
    #[error(
        "the server rejected the credentials, or demands others; check what was given to `auth`, and whether the server \
         demands SASL"
    )]
    AuthFailed,
    /// The caller is not in a tokio runtime, so nothing can run the session's tasks.
    #[error("the caller is not in a tokio runtime; connect from inside one")]
    NoRuntime,
    /// The tokio runtime in which the session was connected has shut down. A session ends with its runtime.
    #[error(
        "the tokio runtime of the session has shut down; connect another session in a runtime that goes on"
    )]
    RuntimeGone,
    /// zookeeper-client could not be set up. Usually a TLS or SASL option is wrong, or this process may open no more files.
    #[error(
        "zookeeper-client could not be set up: {cause}; check the TLS and SASL options, and how many files this process may open"
    )]
    Client {
        /// The error, as zookeeper-client words it.
        cause: String,
    },
    /// zklock's task has panicked. The runtime has no timers (`enable_time`), or zklock has a defect.
    #[error("the task that connects has panicked: {cause}")]
    Panicked {
        /// The panic's message.
        cause: String,
    },
}

impl ConnectError {
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        Self::Panicked { cause: panic_text(panic) }
    }

    /// Returns true if the same call may succeed later with nothing changed by the caller: no server answered, or only
    /// servers without a quorum answered.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::ReadOnly { .. })
    }

    /// Returns true: there is no session yet.
    pub fn needs_new_session(&self) -> bool {
        true
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it has no message").to_owned()
}

/// Why one server established no session; see [`ConnectError::Unreachable`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFailure {
    /// The server's address, with its port.
    pub server: String,
    /// The cause, as far as zklock knows it.
    pub cause: ServerProblem,
}

/// Why a server established no session, as far as zklock knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerProblem {
    /// The server's name cannot be resolved, or no TCP connection to it can be made. The text is the operating
    /// system's.
    NoConnection(String),
    /// The server accepts TCP connections, and closes them before zklock has sent anything. A ZooKeeper server does so if its
    /// limit of connections is reached: `maxClientCnxns` from this address, or `maxCnxns` from all. A proxy does so if it
    /// cannot reach the server behind it.
    Closes,
    /// The server says that it serves nobody. It has no quorum, or has just started.
    NoQuorum,
    /// The server serves clients, but gave this one no session: zklock did not ask it in time, or it took too long.
    Serves,
    /// The server accepts TCP connections, but established no session: it hangs, or is not a ZooKeeper server, or only one
    /// of client and server uses TLS.
    NoSession,
    /// The server accepts TCP connections, but established no session over TLS. Usually a certificate is wrong or has
    /// expired, or the server does not use TLS at this port.
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
            Self::Closes => f.write_str(
                "it closes connections at once; perhaps its limit maxClientCnxns is reached for this machine, or it is a \
                 proxy that cannot reach the server behind it",
            ),
            Self::NoQuorum => f.write_str(
                "it runs, but has no quorum; check that the other servers of its ensemble run, and that it reaches them",
            ),
            Self::Serves => f.write_str(
                "it serves clients, but was not asked in time or gave no session in time; give it more time to connect",
            ),
            Self::NoSession => f.write_str(
                "it accepts connections but establishes no session; check that it is a ZooKeeper server, and whether it \
                 expects TLS",
            ),
            Self::NoTlsSession => f.write_str(
                "it accepts connections but establishes no session over TLS; check that it has a quorum and uses TLS at this \
                 port, that its certificate is for this name, is trusted and has not expired, and whether it demands a \
                 certificate",
            ),
        }
    }
}

/// Lists the causes in brackets, for the message.
fn listed(causes: &[ServerFailure]) -> String {
    let causes = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if causes.is_empty() { causes } else { format!(" ({causes})") }
}
