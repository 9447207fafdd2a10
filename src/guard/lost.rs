//! How a guard ends.

use std::fmt;
use std::time::Duration;

use zklock_recipe::{Lapse, SessionEnd};

/// The guard no longer holds its lock, or can no longer be sure that it does: stop what it protects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock at {path} {}", self.fate())]
#[non_exhaustive]
pub struct Lost {
    /// The lock's path.
    pub path: String,
    /// What happened.
    pub reason: LostReason,
}

impl Lost {
    fn fate(&self) -> String {
        match self.reason {
            LostReason::Ending { left } => {
                format!(
                    "ends in {left:.1?}, for ZooKeeper does not confirm the session; stop what it protects now"
                )
            }
            reason => format!("is lost ({reason}); stop what it protects and acquire it again"),
        }
    }
}

/// Why a guard was lost, or is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No quorum confirmed the session in time, so that it may have ended unnoticed; or none showed the holder's node in time
    /// after a reconnection.
    Unconfirmed,
    /// The guard is still held, for so long at most: its [stop margin](crate::LockOptions::stop_margin) has begun. Nothing
    /// prolongs it any more, and once it is over the reason is [`Unconfirmed`](Self::Unconfirmed).
    Ending {
        /// The time that was left when this was said.
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
    /// The guard was released or dropped; seen by those who share it, and by [`Guard::lost`](crate::Guard::lost) in another task.
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

/// Why a release is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The guard was lost before the release took effect. If the node is still there it is removed in the
    /// background.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// ZooKeeper did not confirm the release before the guard's lease ended, or the release was not polled in time. It goes on
    /// in the background.
    #[error(
        "the release of {path} was not seen to be confirmed in time; it goes on in the background, and at the latest the \
         lock is free when the session expires"
    )]
    Unconfirmed {
        /// The lock's path.
        path: String,
    },
    /// The server refuses to delete the node; it stays until the session ends.
    #[error(
        "the server refused to delete the holder's node at {path} ({cause}); have the directory's ACL grant DELETE, and \
         close the session to give the lock away"
    )]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}
