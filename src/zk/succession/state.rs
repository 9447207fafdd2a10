//! The states of a session, and their changes, as users see them.

use std::fmt;

use zklock_recipe::Lease;

/// The state of a session, as far as this process knows it.
///
/// It is meant for logs, metrics and health checks. Only a [`Guard`](crate::Guard) says whether its lock is held: a
/// guard outlives a short [`Disconnected`](Self::Disconnected), and a session whose server is partitioned from its
/// ensemble is [`Connected`](Self::Connected) all the same. [`Guard::at_risk`](crate::Guard::at_risk) says that its lease is not
/// extended, for either reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// No server has established the ZooKeeper session yet: the first one after
    /// [`connect_lazy`](crate::SessionBuilder::connect_lazy), or the next one after [`Idle`](Self::Idle).
    Connecting,
    /// The session has a connection to a server.
    Connected,
    /// The connection is lost. The ZooKeeper session may live, and its contenders keep their places in the queues for
    /// as long as it does.
    Disconnected,
    /// Nobody has used the session for ten session timeouts or somewhat more: no guard, acquisition, observer, ask or other call. A
    /// future that a guard has given, as by [`lost`](crate::Guard::lost), is a use until the future ends or is dropped. An ephemeral
    /// node that a [transaction](crate::guard::Transaction) may have made is a use for as long as the ZooKeeper session lives. zklock has closed the ZooKeeper session, so that it costs the servers nothing. The next call opens another one, which takes
    /// some round trips. A health check should take this state for a good one, though it says nothing of the servers.
    Idle,
    /// ZooKeeper has ended the ZooKeeper session, or zklock has given it up, mostly because no server resumed it for a
    /// session timeout. The guards of that session are lost. zklock is opening the next one, and acquisitions that were
    /// waiting join the queue again in it.
    Expired,
    /// The session was closed. This state is final.
    Closed,
    /// The servers reject the session's credentials: each of them has done so for a session timeout, or each one that answers for ten.
    /// This state is final.
    AuthFailed,
    /// The servers refuse to open another session like this one, for as long, or the session's runtime has shut down.
    /// [`Session::failure`](crate::Session::failure) says why.
    /// This state is final.
    Failed,
}

impl SessionState {
    /// Returns the state of a ZooKeeper session with this lease. A `Session` that is closed for good is marked as
    /// `Closed` beforehand. If a ZooKeeper session was closed in another way, the next one follows it.
    pub(crate) fn of(lease: &Lease) -> Self {
        match (lease.end(), lease.connection()) {
            (Some(_), _) => Self::Expired,
            (None, Some(_)) => Self::Connected,
            (None, None) => Self::Disconnected,
        }
    }

    /// Returns true if the session never leaves this state.
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
            Self::Idle => "idle",
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
    /// The state after the change.
    pub state: SessionState,
    /// The number of the ZooKeeper session that the event is about: the first one of a session has 0. In `Idle` and `Connecting` it is
    /// that of the last one.
    pub generation: u64,
    /// The id of that ZooKeeper session; 0 before the first one.
    pub id: i64,
}
