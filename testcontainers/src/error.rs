//! What can go wrong. Each message says what to do about it.

use std::time::Duration;

/// Why a server, an ensemble or a link could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither a container engine nor a local ZooKeeper was found, or the one that was asked for does not work.
    #[error("no way to run ZooKeeper here. {0}")]
    NoBackend(String),

    /// An option has a value that cannot work.
    #[error("{0}")]
    InvalidOption(String),

    /// This ensemble has no such server.
    #[error("there is no server {index}: this ensemble has {len}, counted from 0")]
    NoSuchServer {
        /// The index that was asked for.
        index: usize,
        /// The number of servers.
        len: usize,
    },

    /// The operation needs a running server, and this one was killed.
    #[error("server {index} cannot be {action}: it is killed; restart({index}) first")]
    NotRunning {
        /// The server.
        index: usize,
        /// What was to be done with it.
        action: &'static str,
    },

    /// The ensemble knows no such session.
    #[error(
        "there is no session {id:#x} to close: it has ended, or it is another ensemble's; \
         a client knows its session's id once it is connected"
    )]
    NoSuchSession {
        /// The session that was asked for.
        id: i64,
    },

    /// A server ended by itself, or somebody else ended it.
    #[error(
        "server {index} has ended by itself; restart({index}) starts it again. The end of its log:\n{log}"
    )]
    Exited {
        /// The server.
        index: usize,
        /// The last lines it logged.
        log: String,
    },

    /// Something did not happen in time.
    #[error("waited {waited:?} for {what} in vain{detail}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// What was seen instead; empty when nothing was.
        detail: String,
    },

    /// The container engine refused something.
    #[error("docker could not {action}: {reason}")]
    Docker {
        /// What was to be done.
        action: String,
        /// The engine's own words.
        reason: String,
    },

    /// The operating system refused something, or a server did not answer.
    #[error("could not {action}: {source}")]
    Io {
        /// What was to be done.
        action: String,
        /// The failure.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    /// Another process took a port after it was chosen and before the server bound it. Another attempt may succeed.
    pub(crate) fn is_port_collision(&self) -> bool {
        let text = match self {
            Self::Exited { log, .. } => log,
            Self::Docker { reason, .. } => reason,
            _ => return false,
        };
        let text = text.to_ascii_lowercase();
        text.contains("address already in use") || text.contains("port is already allocated")
    }
}
