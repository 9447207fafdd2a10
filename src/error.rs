//! Errors of the whole family: why a member cannot be made, why it was not acquired, why it could not be looked at.

mod acquire;

use std::time::Duration;

use crate::fence::Sequencer;
use crate::layout::Layout;
use crate::path::PathProblem;
use crate::text::{LONGEST, harmless};
pub use acquire::AcquireError;

/// Why a [`Lock`](crate::Lock) cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLock {
    /// No lock can have this path.
    #[error("the lock path {path:?} cannot be used: {problem}")]
    Path {
        /// The path that the caller gave.
        path: String,
        /// What is wrong with the path.
        problem: PathProblem,
    },
    /// Only a single lock that is held alone shares the queue of another client.
    #[error(
        "{path} cannot share a queue of {layout}: only a single lock that is held alone can; leave the layout out"
    )]
    Layout {
        /// The path that the caller gave.
        path: String,
        /// The layout that the caller asked for.
        layout: Layout,
    },
    /// A queue is shared with another client, and no takeover delay was set.
    #[error(
        "{path} is to contend in a queue of {layout}, whose holders have no lease: set takeover_delay to the time for \
         which such a holder may go on after its session has expired (see Layout)"
    )]
    NoDelay {
        /// The path that the caller gave.
        path: String,
        /// The layout that the caller asked for.
        layout: Layout,
    },
    /// An option is too long. zklock writes it to each contender's node, and others read that node whenever they look
    /// at the queue.
    #[error("the {option} of the lock {path} has {length} bytes; shorten it to {longest} at most")]
    TooLong {
        /// The lock's path.
        path: String,
        /// The option's name: `owner` or `data`.
        option: &'static str,
        /// The option's length, in bytes.
        length: usize,
        /// The longest that the option may be, in bytes.
        longest: usize,
    },
    /// The stop margin is too long: the work would have to stop although nothing is wrong.
    #[error(
        "the stop margin of {path} is {stop_margin:?}, but with a session timeout of {timeout:?} it can be at most \
         {longest:?}; set a shorter stop margin, or ask for a longer session timeout"
    )]
    StopMargin {
        /// The lock's path.
        path: String,
        /// The stop margin that the caller asked for.
        stop_margin: Duration,
        /// The longest stop margin in this session.
        longest: Duration,
        /// The session timeout with which zklock computes the lease.
        timeout: Duration,
    },
    /// The longest hold is zero, or no longer than the stop margin: each guard would be over before its work could begin.
    #[error(
        "the max_hold of {path} is {max_hold:?}, and its stop margin is {stop_margin:?}; set a longer max_hold, or a shorter stop margin"
    )]
    MaxHold {
        /// The lock's path.
        path: String,
        /// The longest hold that the caller asked for.
        max_hold: Duration,
        /// The stop margin that the caller asked for.
        stop_margin: Duration,
    },
    /// The operating system gives no thread for [`LockOptions::fail_stop`](crate::LockOptions::fail_stop).
    #[error(
        "no thread can be started for the fail_stop of {path}: {reason}; raise the limit of threads, or leave fail_stop out"
    )]
    FailStop {
        /// The lock's path.
        path: String,
        /// What the operating system says.
        reason: String,
    },
}

/// Why a queue, a record or a tree of locks could not be read, or why a sequencer was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// ZooKeeper does not allow this path, or it is inside the servers' own subtree.
    #[error("the path {path:?} cannot be used: {problem}")]
    Path {
        /// The path that the caller gave.
        path: String,
        /// What is wrong with the path.
        problem: PathProblem,
    },
    /// An ACL forbids the session to list or to read the node.
    #[error(
        "an ACL does not allow this session to read {path}; authenticate the session as an identity that the ACL \
         names, or change the ACL so that it grants READ"
    )]
    NotAuthorized {
        /// The lock's path.
        path: String,
    },
    /// The session is over.
    #[error("the session is over, so {path} cannot be read; connect a new session")]
    SessionOver {
        /// The lock's path.
        path: String,
    },
    /// The connection was lost before the answer came.
    #[error(
        "the connection was lost while {path} was read; try again, and if that repeats, look into the servers' log: the request may be \
         longer than their jute.maxbuffer"
    )]
    Disconnected {
        /// The lock's path.
        path: String,
    },
    /// ZooKeeper did not answer in time.
    #[error(
        "ZooKeeper did not answer within {waited:?} while {path} was read; check the servers, and try again"
    )]
    Unanswered {
        /// The lock's path.
        path: String,
        /// How long zklock waited for the answer: half a session timeout.
        waited: Duration,
    },
    /// The holder that made a sequencer does not hold the lock any more. Only
    /// [`Session::verify_sequencer`](crate::Session::verify_sequencer) says so.
    #[error(
        "the sequencer {sequencer} is outdated: its holder has lost or released the lock; refuse the request that came \
         with it",
        sequencer = harmless(&sequencer.to_string(), LONGEST)
    )]
    Outdated {
        /// The sequencer that the caller gave.
        sequencer: Sequencer,
    },
    /// The server refused for another reason.
    #[error("the server refused to read {path}: {cause}; remove the cause, and try again")]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

impl QueryError {
    /// Returns true if the same call may succeed later with nothing changed by hand: ZooKeeper did not answer.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Disconnected { .. } | Self::Unanswered { .. })
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::SessionOver { .. })
    }
}
