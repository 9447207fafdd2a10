//! Why a guard was lost, and why a release was not confirmed.

use std::fmt;
use std::time::Duration;

use zklock_recipe::{Breach, Lapse, SessionEnd};

/// The guard no longer holds its lock, or cannot be sure that it still holds it. Stop the work that the lock protects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fate())]
#[non_exhaustive]
pub struct Lost {
    /// The lock's path.
    pub path: String,
    /// Why the guard was lost, or is about to be.
    pub reason: LostReason,
}

impl Lost {
    fn fate(&self) -> String {
        let path = &self.path;
        match self.reason {
            LostReason::Ending { left } => format!(
                "the lease of the lock at {path} ends in {left:.1?}, because ZooKeeper does not confirm the session; stop now \
                 the work that the lock protects"
            ),
            LostReason::MaxHoldEnds { left } => format!(
                "the lock at {path} was held for almost as long as it may be held, and is given up in {left:.1?}; stop now the \
                 work that the lock protects"
            ),
            reason => {
                let next =
                    if self.needs_new_session() { "connect a new session" } else { "acquire the lock again" };
                format!(
                    "the guard of {path} is lost: {reason}; stop the work that the lock protects, and {next}"
                )
            }
        }
    }

    /// Returns true if you can acquire the lock again without a change by hand: always, unless the session is over.
    pub fn is_retryable(&self) -> bool {
        !self.needs_new_session()
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        self.reason == LostReason::SessionClosed
    }
}

/// Why a guard was lost, or is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No quorum confirmed the session in time, so the session may have expired unnoticed. Or, after a reconnection, no
    /// server confirmed in time that the holder's node still exists.
    Unconfirmed,
    /// The guard is still held, but its [stop margin](crate::LockOptions::stop_margin) has begun. Nothing extends the
    /// lease any more. After the lease has ended, the reason is [`Unconfirmed`](Self::Unconfirmed).
    Ending {
        /// The time that was left when zklock made this value.
        left: Duration,
    },
    /// The guard was held for as long as its [`max_hold`](crate::LockOptions::max_hold) allows. zklock gives the lock up.
    MaxHold,
    /// The guard is still held, but the [stop margin](crate::LockOptions::stop_margin) before the end of its
    /// [`max_hold`](crate::LockOptions::max_hold) has begun. After that the reason is [`MaxHold`](Self::MaxHold).
    MaxHoldEnds {
        /// The time that was left when zklock made this value.
        left: Duration,
    },
    /// ZooKeeper expired the session.
    SessionExpired,
    /// The session was closed, or its runtime is shutting down.
    SessionClosed,
    /// Somebody else wrote to the holder's node, or deleted it.
    NodeDeleted,
    /// A contender that blocks the holder is still in the queue, so another client has forged the release by which zklock
    /// granted the guard. Both guards may have been valid for up to 40 ms and a round trip.
    ReleaseForged,
    /// The guard was released or dropped. Two callers can see this reason: a task that awaits
    /// [`Guard::lost`](crate::Guard::lost), and a task that shares a guard which another task released with
    /// [`Guard::release_all`](crate::Guard::release_all).
    Released,
}

impl LostReason {
    /// All [labels](Self::label).
    #[cfg(feature = "metrics")]
    pub(crate) const LABELS: [&str; 6] =
        ["unconfirmed", "max_hold", "session_expired", "session_closed", "node_deleted", "release_forged"];

    /// The reason as a label of metrics; `None` if it is no loss.
    pub(super) fn label(self) -> Option<&'static str> {
        match self {
            Self::Unconfirmed | Self::Ending { .. } => Some("unconfirmed"),
            Self::MaxHold | Self::MaxHoldEnds { .. } => Some("max_hold"),
            Self::SessionExpired => Some("session_expired"),
            Self::SessionClosed => Some("session_closed"),
            Self::NodeDeleted => Some("node_deleted"),
            Self::ReleaseForged => Some("release_forged"),
            Self::Released => None,
        }
    }
}

impl From<Breach> for LostReason {
    fn from(breach: Breach) -> Self {
        match breach {
            Breach::Touched => Self::NodeDeleted,
            Breach::Forged => Self::ReleaseForged,
        }
    }
}

impl From<SessionEnd> for LostReason {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::Expired => Self::SessionExpired,
            SessionEnd::Closed => Self::SessionClosed,
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
            Self::MaxHoldEnds { left } => {
                return write!(
                    f,
                    "it was held for almost as long as it may be, and is given up in {left:.1?}"
                );
            }
            Self::MaxHold => "it was held for as long as it may be",
            Self::Unconfirmed => "ZooKeeper did not confirm the session in time",
            Self::SessionExpired => "ZooKeeper expired the session",
            Self::SessionClosed => "the session was closed, or its runtime has shut down",
            Self::NodeDeleted => "somebody else deleted or changed the holder's node",
            Self::ReleaseForged => {
                "the release that granted it was forged, and a contender before it is still in the queue"
            }
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
    /// No server confirmed the end of the session that [`Session::close`](crate::Session::close) closes. The close goes
    /// on in the background.
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
        "the server refused to delete the holder's node at {path} ({cause}); change the ACL of the directory so that \
         it grants DELETE; to release the lock now, close the session"
    )]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

impl ReleaseError {
    /// Always returns false: calling the release again does not help. The release has taken effect, or goes on in the
    /// background, or somebody must change an ACL first.
    pub fn is_retryable(&self) -> bool {
        false
    }

    /// Returns true if you need a new session to acquire again: this one is over, so the lock is free, or will be when ZooKeeper ends it.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Lost(lost) if lost.needs_new_session())
            || matches!(self, Self::SessionUnconfirmed { .. })
    }
}
