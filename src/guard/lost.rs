//! Why a guard was lost, and why a release was not confirmed.

use std::fmt;
use std::time::Duration;

use zklock_recipe::{Lapse, SessionEnd};

/// The guard no longer holds its lock, or can no longer be sure that it does. Stop the work that the lock protects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock at {path} {}", self.fate())]
#[non_exhaustive]
pub struct Lost {
    /// The lock's path.
    pub path: String,
    /// Why the guard was lost, or is about to be.
    pub reason: LostReason,
}

impl Lost {
    fn fate(&self) -> String {
        match self.reason {
            LostReason::Ending { left } => {
                format!(
                    "ends in {left:.1?}, because ZooKeeper does not confirm the session; stop what it protects now"
                )
            }
            reason => format!("is lost ({reason}); stop what it protects and acquire it again"),
        }
    }

    /// Returns true if the lock may be acquired again with nothing changed by hand: unless the session is over.
    pub fn is_retryable(&self) -> bool {
        !self.is_session_over()
    }

    /// Returns true if the session is over, so that only a new session can help.
    pub fn is_session_over(&self) -> bool {
        matches!(self.reason, LostReason::SessionClosed | LostReason::AuthFailed)
    }
}

/// Why a guard was lost, or is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No quorum confirmed the session in time, so it may have ended unnoticed. Or no server showed the holder's node
    /// in time after a reconnection.
    Unconfirmed,
    /// The guard is still held, but its [stop margin](crate::LockOptions::stop_margin) has begun. Nothing puts off the
    /// guard's end any more. After that end, the reason is [`Unconfirmed`](Self::Unconfirmed).
    Ending {
        /// The time that was left when zklock made this value.
        left: Duration,
    },
    /// ZooKeeper expired the session.
    SessionExpired,
    /// The session was closed, or its runtime is shutting down.
    SessionClosed,
    /// ZooKeeper rejected the session's credentials.
    AuthFailed,
    /// Somebody else wrote to the holder's node, or deleted it.
    NodeDeleted,
    /// The guard was released or dropped. Two callers can see this reason: a task that awaits
    /// [`Guard::lost`](crate::Guard::lost), and a task that shares a guard which another task released by
    /// [`Guard::release_all`](crate::Guard::release_all).
    Released,
}

impl From<SessionEnd> for LostReason {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::Expired => Self::SessionExpired,
            SessionEnd::Closed => Self::SessionClosed,
            SessionEnd::AuthFailed => Self::AuthFailed,
        }
    }
}

impl From<Lapse> for LostReason {
    fn from(lapse: Lapse) -> Self {
        match lapse {
            Lapse::Unconfirmed => Self::Unconfirmed,
            Lapse::Ended(end) => end.into(),
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ending { left } => {
                return write!(f, "ZooKeeper does not confirm the session, and the lease ends in {left:.1?}");
            }
            Self::Unconfirmed => "ZooKeeper did not confirm the session in time",
            Self::SessionExpired => "ZooKeeper expired the session",
            Self::SessionClosed => "the session was closed",
            Self::AuthFailed => "ZooKeeper rejected the session's credentials",
            Self::NodeDeleted => "somebody else touched the holder's node",
            Self::Released => "it was released",
        })
    }
}

/// Why ZooKeeper did not confirm a release, or the end of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The guard was lost before the release took effect. If the node still exists, zklock removes it in the
    /// background.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// ZooKeeper did not confirm the release before the guard's lease ended, or the caller did not poll the release in
    /// time. The release goes on in the background.
    #[error(
        "ZooKeeper did not confirm the release of {path} in time; the release goes on in the background, and the lock is free \
         at the latest when the session expires"
    )]
    Unconfirmed {
        /// The lock's path.
        path: String,
    },
    /// No server confirmed the end of the session that [`Session::close`](crate::Session::close) closes. It goes on in the
    /// background.
    #[error(
        "no server confirmed the end of session {session:#x}; its nodes stay until it expires, {timeout:?} after the ensemble \
         last heard from it"
    )]
    SessionUnconfirmed {
        /// The id of the ZooKeeper session.
        session: i64,
        /// The session timeout.
        timeout: Duration,
    },
    /// The server refuses to delete the node. The node stays until the session ends.
    #[error(
        "the server refused to delete the holder's node at {path} ({cause}); have the directory's ACL grant DELETE, and \
         close the session to free the lock"
    )]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

impl ReleaseError {
    /// Returns false: no release has to be called again. It took effect, or it goes on in the background, or somebody has to
    /// act first.
    pub fn is_retryable(&self) -> bool {
        false
    }

    /// Returns true if the session is over, so that the lock is free, or will be with its end.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::Lost(lost) if lost.is_session_over())
            || matches!(self, Self::SessionUnconfirmed { .. })
    }
}
