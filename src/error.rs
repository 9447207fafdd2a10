//! One error type an operation. Each message says what happened, to what, and what to do about it.

use std::fmt;
use std::time::Duration;

use crate::fence::{FencingToken, Sequencer};
use crate::guard::LostReason;
pub use crate::path::PathProblem;
use crate::recipe::{Foreign, ForeignClient, Refusal, Sequence};

/// Why a session could not be established. Nothing is left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connect string is empty or malformed.
    #[error("the connect string {servers:?} is malformed ({cause}); write host:port,host:port/chroot")]
    Servers {
        /// As it was given.
        servers: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The session timeout is out of range.
    #[error("a session timeout of {timeout:?} is out of range; set one from {shortest:?} to {longest:?}")]
    SessionTimeout {
        /// As it was given.
        timeout: Duration,
        /// The shortest one.
        shortest: Duration,
        /// The longest one.
        longest: Duration,
    },
    /// The server's own limits do not allow the session timeout that was asked for.
    #[error(
        "the server grants a session timeout of {granted:?} instead of {asked:?}; ask for one within its limits \
         or change its minSessionTimeout and maxSessionTimeout"
    )]
    TimeoutNotGranted {
        /// As it was given.
        asked: Duration,
        /// The nearest one within the server's limits.
        granted: Duration,
    },
    /// Heartbeats could not keep a lease this short: what the session timeout leaves must take three of them.
    #[error(
        "a session timeout of {timeout:?} is too short for these servers: less {lag:?} for the leader to ask for \
         a heartbeat and {margin:?} for clocks, it does not take three heartbeats of {heartbeat:?}; ask for a longer one, or \
         set a shorter `tick` if the servers have one"
    )]
    LeaseTooShort {
        /// The session timeout.
        timeout: Duration,
        /// Three quarters of a tick.
        lag: Duration,
        /// The part of the session timeout that allows for clocks that drift.
        margin: Duration,
        /// The time between heartbeats.
        heartbeat: Duration,
    },
    /// The servers' tick is not given, and cannot be told from the session timeouts that they grant: with the longer one
    /// of two that it may be, no lease can be kept.
    #[error(
        "the servers' limits of session timeouts fit a tick of {shorter:?} and one of {longer:?}; set `tick` to the \
         `tickTime` of the servers"
    )]
    TickUnknown {
        /// The shorter one.
        shorter: Duration,
        /// The longer one.
        longer: Duration,
    },
    /// No server established a session in time.
    #[error(
        "no server of {servers:?} established a session within {timeout:?}; check that they run, have a quorum, \
         and can be reached from here"
    )]
    Unreachable {
        /// The connect string.
        servers: String,
        /// The connect timeout.
        timeout: Duration,
    },
    /// The only servers to be reached have lost their ensemble and take only reads.
    #[error(
        "the servers that can be reached of {servers:?} are read-only; a lock needs a quorum: bring it back"
    )]
    ReadOnly {
        /// The connect string.
        servers: String,
    },
    /// The server rejected the credentials.
    #[error("the server rejected the credentials; check the scheme and the credentials given to `auth`")]
    AuthFailed,
    /// There is no tokio runtime to run the session's tasks.
    #[error("there is no tokio runtime here; connect from inside one")]
    NoRuntime,
    /// The client could not be set up: TLS or SASL options, mostly.
    #[error("the client could not be set up: {cause}")]
    Client {
        /// In zookeeper-client's words.
        cause: String,
    },
}

/// Why a lock cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLock {
    /// The path is not one a lock can have.
    #[error("the lock path {path:?} cannot be used: {problem}")]
    Path {
        /// As it was given.
        path: String,
        /// What is wrong with it.
        problem: PathProblem,
    },
    /// An option is too long for a node that is read with every look at the queue.
    #[error("the {option} of the lock {path} has {length} bytes; shorten it to {longest} at most")]
    TooLong {
        /// The lock's path.
        path: String,
        /// `owner` or `data`.
        option: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The longest it may be.
        longest: usize,
    },
    /// Guards would have to wind down though nothing is wrong.
    #[error(
        "a stop margin of {stop_margin:?} for {path} is too long: with this session timeout a lease may fall to \
         {longest:?} between heartbeats; shorten it, or ask for a longer session timeout"
    )]
    StopMargin {
        /// The lock's path.
        path: String,
        /// As it was given.
        stop_margin: Duration,
        /// The longest it may be in this session.
        longest: Duration,
    },
}

/// Why a lock was not acquired. No node is left behind, but where the variant says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// An ACL forbids it: to create the lock's directory, to create, list or delete children there, or to read the
    /// predecessor's node (the server tells its fate only to those who may). If it is the deletion that is forbidden, the
    /// contender's node stays in the queue until its session ends.
    #[error(
        "no permission to queue at {path}; authenticate the session, or have ACLs grant READ, CREATE and DELETE on \
         the directory and READ on every contender's node"
    )]
    NotAuthorized {
        /// The lock's path.
        path: String,
    },
    /// An ancestor, or the path itself, is an ephemeral node, which can have no children.
    #[error("{path} is, or is below, an ephemeral node, which can have no children; use another path")]
    EphemeralParent {
        /// The lock's path.
        path: String,
    },
    /// The server takes only reads: it has lost its ensemble.
    #[error("the server is read-only, so nobody can queue at {path}; bring the quorum back and try again")]
    ReadOnly {
        /// The lock's path.
        path: String,
    },
    /// The server does not accept the ACL given in the lock's options.
    #[error("the server does not accept the ACL for {path}; `creator_only` needs an authenticated session")]
    InvalidAcl {
        /// The lock's path.
        path: String,
    },
    /// The sequence numbers of the lock's directory are near their end, where ZooKeeper no longer keeps the order.
    #[error(
        "the sequence numbers at {path} are near their end (last: {sequence}); let the queue drain and delete the \
         directory (ZooKeeper does within about a minute if zklock made it), then try again"
    )]
    SequenceExhausted {
        /// The lock's path.
        path: String,
        /// The number this contender was given.
        sequence: i32,
    },
    /// A contender of another client is in the lock's directory, or a node with a contender's name that was made by hand. Such
    /// a client may ignore zklock's nodes, so both could hold the lock.
    #[error(
        "{node} is a contender of {client}, and zklock shares no queue with other clients; let all that contend at {path} \
         use zklock, use another path, or wait until that node is gone (delete it if \
         it was made by hand)"
    )]
    ForeignContender {
        /// The lock's path.
        path: String,
        /// The path of the other contender's node.
        node: String,
        /// Whose it seems to be, by its name.
        client: ForeignClient,
        /// The id of the session that the node lives with; `None` if the node is not ours to read, or not ephemeral.
        session: Option<i64>,
    },
    /// Somebody else deleted this contender's node, or the whole directory.
    #[error("the contender's node at {path} was deleted by somebody else, and with it its place; try again")]
    NodeDeleted {
        /// The lock's path.
        path: String,
    },
    /// The session is closed.
    #[error("the session was closed, so nothing can queue at {path}; connect a new one")]
    SessionClosed {
        /// The lock's path.
        path: String,
    },
    /// The server rejected the session's credentials.
    #[error(
        "the server rejected the session's credentials while queueing at {path}; check them and connect anew"
    )]
    AuthFailed {
        /// The lock's path.
        path: String,
    },
    /// ZooKeeper did not answer in time; from [`try_acquire`](crate::Lock::try_acquire) only.
    #[error(
        "ZooKeeper did not answer within {waited:?} whether {path} is free; check the servers, and try again"
    )]
    Unanswered {
        /// The lock's path.
        path: String,
        /// How long it was given: half a session timeout.
        waited: Duration,
    },
    /// The ZooKeeper session has ended, and the servers refuse to open another one like it.
    #[error("no session can be opened any more, so nothing can queue at {path}: {cause}")]
    SessionFailed {
        /// The lock's path.
        path: String,
        /// What the servers said, and what to do.
        cause: Box<ConnectError>,
    },
    /// The server refused for another reason.
    #[error("the server refused a request for {path}: {cause}")]
    Refused {
        /// The lock's path.
        path: String,
        /// In the server's words.
        cause: String,
    },
}

impl AcquireError {
    pub(crate) fn refused(path: String, refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotAuthorized => Self::NotAuthorized { path },
            Refusal::EphemeralParent => Self::EphemeralParent { path },
            Refusal::ReadOnly => Self::ReadOnly { path },
            Refusal::InvalidAcl => Self::InvalidAcl { path },
            Refusal::Other(cause) => Self::Refused { path, cause },
        }
    }

    pub(crate) fn foreign(path: String, foreign: Foreign) -> Self {
        let Foreign { name, client, session } = foreign;
        Self::ForeignContender { node: format!("{path}/{name}"), path, client, session }
    }

    pub(crate) fn exhausted(path: String, sequence: Sequence) -> Self {
        Self::SequenceExhausted { path, sequence: sequence.0 }
    }

    /// True if the session is over, so that only a new one can help.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::SessionClosed { .. } | Self::AuthFailed { .. } | Self::SessionFailed { .. })
    }
}

/// Why the queue could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// An ACL forbids it.
    #[error("no permission to list {path}; authenticate the session, or have the directory's ACL grant READ")]
    NotAuthorized {
        /// The lock's path.
        path: String,
    },
    /// The session is over.
    #[error("the session is over, so {path} cannot be read; connect a new one")]
    SessionOver {
        /// The lock's path.
        path: String,
    },
    /// The connection was lost before the answer came.
    #[error("the connection was lost while reading {path}; try again")]
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
        /// How long it was given: half a session timeout.
        waited: Duration,
    },
    /// The server refused for another reason.
    #[error("the server refused to read {path}: {cause}")]
    Refused {
        /// The lock's path.
        path: String,
        /// In the server's words.
        cause: String,
    },
}

/// The guard no longer holds its lock, or can no longer be sure that it does: stop what it protects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock at {path} is lost ({reason}); stop what it protects and acquire it again")]
#[non_exhaustive]
pub struct Lost {
    /// The lock's path.
    pub path: String,
    /// What happened.
    pub reason: LostReason,
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
        /// In the server's words.
        cause: String,
    },
}

/// Why a gate turned a token away: its holder is no longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token {token} is stale, {highest} was seen before: the lock has had another holder since; drop this request and \
     have its sender acquire the lock again"
)]
#[non_exhaustive]
pub struct StaleToken {
    /// The token that was turned away.
    pub token: FencingToken,
    /// The highest token that was accepted before.
    pub highest: FencingToken,
}

/// Why a string is no sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSequencer {
    /// It does not have four fields.
    #[error("a sequencer has four fields, TOKEN:SESSION:NUMBER:PATH; pass it on as it was made")]
    Fields,
    /// Its token is none.
    #[error(
        "the sequencer's token, its first field, is no positive decimal number; pass it on as it was made"
    )]
    Token,
    /// Its session id is none.
    #[error(
        "the sequencer's session id, its second field, is no hexadecimal number other than 0, in small letters and \
         without 0x; pass it on as it was made"
    )]
    Session,
    /// The number of its node is none that a holder can have.
    #[error(
        "the sequencer's node number, its third field, is no decimal number that a holder can have; pass it on as it was \
         made"
    )]
    Number,
    /// Its path is not one a lock can have.
    #[error("the sequencer's path, its last field, cannot be a lock's: {0}")]
    Path(PathProblem),
}

/// Why a sequencer was not found current. Only [`Outdated`](Self::Outdated) says that it is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SequencerError {
    /// Whoever made it does not hold the lock any more.
    #[error(
        "the sequencer {sequencer} is outdated: its holder has lost or released the lock; refuse its request"
    )]
    Outdated {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// An ACL forbids reading the holder's node.
    #[error(
        "no permission to verify the sequencer {sequencer}; authenticate the session, or have the holder's ACL grant it READ"
    )]
    NotAuthorized {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// The verifying session is over.
    #[error("the session is over, so the sequencer {sequencer} cannot be verified; connect a new one")]
    SessionOver {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// ZooKeeper did not answer in time: nothing is known.
    #[error(
        "ZooKeeper did not answer within {waited:?} while the sequencer {sequencer} was verified; try again before \
         trusting it"
    )]
    Unanswered {
        /// As it was given.
        sequencer: Sequencer,
        /// How long it was given: half a session timeout.
        waited: Duration,
    },
    /// No quorum answered before the connection was lost: nothing is known.
    #[error(
        "the connection was lost while the sequencer {sequencer} was verified; try again before trusting it"
    )]
    Disconnected {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// The server refused for another reason.
    #[error("the server refused to verify the sequencer {sequencer}: {cause}")]
    Refused {
        /// As it was given.
        sequencer: Sequencer,
        /// In the server's words.
        cause: String,
    },
}

/// Why a transaction was not committed, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The guard was lost before anything was sent, or the server found the holder's node gone. Nothing was written.
    #[error(transparent)]
    Lost(Lost),
    /// One of the caller's operations could not be done. Nothing was written.
    #[error(
        "operation {operation}, on {path}, failed: {problem}; nothing was written, look at the node and try again"
    )]
    Condition {
        /// Its index among the caller's operations, from 0.
        operation: usize,
        /// Its path, as it was given.
        path: String,
        /// What is in the way.
        problem: ConditionProblem,
    },
    /// One of the caller's operations cannot be asked for. Nothing was sent.
    #[error("operation {operation}, on {path:?}, is invalid: {cause}")]
    Invalid {
        /// Its index among the caller's operations, from 0.
        operation: usize,
        /// Its path, as it was given.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The connection, the session or the guard was lost before the answer came. All was written, or nothing, or it may
    /// still come to be written.
    ///
    /// It is decided, for whoever looks then, once [`Guard::verify`](crate::Guard::verify) says that this guard is still
    /// held, or else once the lock has been acquired anew by anybody. What may be repeated without a look is what cannot
    /// take effect twice: a set of a certain version, a create of a certain name.
    #[error(
        "the answer to a transaction under the lock {path} was lost, so it may have been committed, or be yet; \
         verify the guard, or acquire the lock again, and look before repeating it"
    )]
    Unknown {
        /// The lock's path.
        path: String,
    },
    /// The server refused for another reason. Nothing was written.
    #[error("a transaction under the lock {path} was refused: {cause}")]
    Refused {
        /// The lock's path.
        path: String,
        /// In the server's words.
        cause: String,
    },
}

/// What is in the way of one operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConditionProblem {
    /// The node, or the parent of one that was to be created, does not exist.
    NoNode,
    /// The node that was to be created exists.
    NodeExists,
    /// The node has another version.
    BadVersion,
    /// The node that was to be deleted has children.
    NotEmpty,
    /// The parent is an ephemeral node, which can have no children.
    EphemeralParent,
    /// An ACL forbids it.
    NotAuthorized,
    /// The server does not accept the ACL of the node that was to be created.
    InvalidAcl,
    /// A quota is used up.
    QuotaExceeded,
    /// Anything else, in the server's words.
    Other(String),
}

impl fmt::Display for ConditionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNode => "there is no such node, or no parent for it",
            Self::NodeExists => "the node exists",
            Self::BadVersion => "the node has another version",
            Self::NotEmpty => "the node has children",
            Self::EphemeralParent => "its parent is ephemeral, and can have no children",
            Self::NotAuthorized => "an ACL forbids it",
            Self::InvalidAcl => "the server does not accept its ACL",
            Self::QuotaExceeded => "a quota is used up",
            Self::Other(cause) => cause,
        })
    }
}

/// Why the end of a session is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The server could not be reached.
    #[error(
        "no server confirmed the end of session {session:#x}; its nodes stay until it expires, {timeout:?} after \
             the ensemble last heard from it"
    )]
    Unconfirmed {
        /// The session id.
        session: i64,
        /// The session timeout.
        timeout: Duration,
    },
}
