//! What a guard rests on, or what ended it.

use std::fmt;
use std::time::Duration;

use super::lost::LostReason;
use super::turn::Turn;
use crate::clock;
use crate::fence::FencingToken;

/// What a guard rests on at one instant, or what ended it; see [`Guard::explain`](crate::Guard::explain). Its text has three
/// lines, for logs and for operators. Once the guard has ended, what is said of the session is of the present, not of the end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The paths of what is held, as [`Guard::paths`](crate::Guard::paths) says them.
    pub paths: Vec<String>,
    /// The paths of the holder's nodes in ZooKeeper, in the same order.
    pub nodes: Vec<String>,
    /// The fencing token.
    pub token: FencingToken,
    /// The reason and the time of the end, if the guard has ended.
    pub end: Option<GuardEnd>,
    /// How long the lock is certainly held if ZooKeeper confirms nothing more.
    pub remaining: Duration,
    /// How much is left of its [`max_hold`](crate::LockOptions::max_hold), if it has one.
    pub limit: Option<Duration>,
    /// How long ago the request was sent from which the lease counts. A quorum has confirmed that the leader heard of it.
    pub confirmed: Duration,
    /// How long the lease lasts after that request: the session timeout, less the allowance for clocks that drift.
    pub validity: Duration,
    /// How long before the end [`Guard::lost`](crate::Guard::lost) and [`Guard::run`](crate::Guard::run) resolve.
    pub stop_margin: Duration,
    /// The id of the ZooKeeper session that owns the nodes.
    pub session: i64,
    /// The session timeout.
    pub timeout: Duration,
    /// The number of the session's present connection, if it has one. The first connection of a ZooKeeper session has 0.
    pub connection: Option<u64>,
    /// Whether a server has shown the holder's nodes on this connection. If not, confirmations on it do not extend the lease
    /// for this guard.
    pub is_node_seen: bool,
    /// How long ago the last heartbeat was sent that the servers have answered.
    pub answered: Duration,
    /// The time between two heartbeats.
    pub heartbeat: Duration,
}

/// The end of a guard, in an [`Explanation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardEnd {
    /// Why the guard has ended.
    pub reason: LostReason,
    /// How long ago the lease ended, if that is the reason and nothing has extended it since; else how long ago zklock noted the end.
    /// `None` once a hold of [`Locks`](crate::Locks) was passed on, or given back.
    pub ago: Option<Duration>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remaining, confirmed, validity, heartbeat, answered, timeout, session, .. } = self;
        write!(f, "{}: ", self.paths.join(", "))?;
        match self.end {
            None if *remaining <= self.stop_margin => f.write_str("held, but its stop margin has begun")?,
            None => f.write_str("held")?,
            Some(GuardEnd { reason, ago: None }) => write!(f, "ended: {reason}")?,
            Some(GuardEnd { reason, ago: Some(ago) }) => {
                write!(f, "ended, as noted {ago:.1?} ago: {reason}")?
            }
        }
        writeln!(f, "; token {}, node {}", self.token, self.nodes.join(", "))?;
        // Nothing that comes later makes an ended guard valid again.
        let now = match self.end {
            None => {
                write!(f, "lease: {remaining:.1?} left; ")?;
                if let Some(limit) = self.limit {
                    write!(f, "max_hold: {limit:.1?} left; ")?;
                }
                ""
            }
            Some(_) => {
                f.write_str("lease: over for this guard; as of now, ")?;
                " as of now"
            }
        };
        write!(f, "a quorum last confirmed a request sent {confirmed:.1?} ago, ")?;
        writeln!(f, "and a lease lasts {validity:.1?} from there; stop margin {:.1?}", self.stop_margin)?;
        write!(f, "session {session:#x}{now}: timeout {timeout:.1?}, ")?;
        match (self.connection, self.is_node_seen) {
            (None, _) => f.write_str("not connected")?,
            (Some(number), true) => write!(f, "connection {number}, on which the node was seen")?,
            (Some(number), false) => write!(f, "connection {number}, on which the node was not seen yet")?,
        }
        write!(f, "; last answered heartbeat {answered:.1?} ago, one is due every {heartbeat:.1?}")
    }
}

impl Turn {
    pub(super) fn explain(&self) -> Explanation {
        // The loss is noted first, if it is news.
        let reason = self.check().err().map(|lost| lost.reason);
        let (held, now) = (&self.held, clock::now());
        let fate = *held.fate.borrow();
        let noted = fate.loss.filter(|_| fate.turn == self.number).map(|loss| now.most_since(loss.from));
        let (lease, seen) = (held.shared_lease(), held.seen());
        let (lengths, connection) = (lease.lengths(), lease.connection());
        Explanation {
            paths: held.nodes.iter().map(|(lock, _)| lock.name.to_string()).collect(),
            nodes: held.nodes().collect(),
            token: self.token(),
            end: reason.map(|reason| GuardEnd { reason, ago: noted }),
            remaining: self.remaining(),
            limit: if fate.turn == self.number { fate.limit.left(now) } else { None },
            confirmed: now.most_since(lease.known()),
            validity: lengths.validity(),
            stop_margin: held.stop_margin,
            session: self.session().id,
            timeout: lengths.timeout,
            connection,
            is_node_seen: connection.is_some() && connection == seen,
            answered: now.most_since(lease.beaten().at),
            heartbeat: lengths.heartbeat,
        }
    }
}
