//! What users see of a session's life.

use std::fmt;

use zklock_recipe::{Lease, SessionEnd};

/// Where a session stands, as far as its client knows.
///
/// For logs, metrics and health checks. Whether a lock is held is for its [`Guard`](crate::Guard) to say: a guard
/// outlives a short [`Disconnected`](Self::Disconnected), and a server that is cut off from its ensemble is
/// [`Connected`](Self::Connected) all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// No server has established the first ZooKeeper session yet: only after
    /// [`connect_lazy`](crate::SessionBuilder::connect_lazy).
    Connecting,
    /// There is a connection to a server.
    Connected,
    /// The connection is lost. The ZooKeeper session may live; its places in the queues are kept as long as it does.
    Disconnected,
    /// ZooKeeper has ended its session, or the client has heard nothing for too long. Its guards are lost. The next
    /// one is being opened; acquisitions that waited queue again in it.
    Expired,
    /// The session was closed, or its runtime is shutting down. Final.
    Closed,
    /// ZooKeeper rejected the session's credentials. Final.
    AuthFailed,
    /// The servers refuse to open another session like this one: each of them has done so for a session timeout.
    /// [`Session::failure`](crate::Session::failure) says why. Final.
    Failed,
}

impl SessionState {
    /// That of a session with this lease. Whoever closes it for good says so beforehand; a generation that was closed
    /// otherwise is succeeded like any other.
    pub(crate) fn of(lease: &Lease) -> Self {
        match (lease.end(), lease.connection()) {
            (Some(SessionEnd::Expired | SessionEnd::Closed), _) => Self::Expired,
            (Some(SessionEnd::AuthFailed), _) => Self::AuthFailed,
            (None, Some(_)) => Self::Connected,
            (None, None) => Self::Disconnected,
        }
    }

    /// True if the session never leaves this state.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Closed | Self::AuthFailed | Self::Failed)
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::AuthFailed => "authentication failed",
            Self::Failed => "failed",
        })
    }
}

/// A change of a session's state; see [`Session::events`](crate::Session::events).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SessionEvent {
    /// The state since then.
    pub state: SessionState,
    /// Which of the session's ZooKeeper sessions it is about: 0 is the first.
    pub generation: u64,
    /// That ZooKeeper session's id.
    pub id: i64,
}
