//! Errors of a transaction.

use std::fmt;

use super::lost::Lost;

/// Why a transaction was not committed, or why its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The guard was lost before zklock sent anything, or the server found the holder's node gone or written to.
    /// Nothing was written.
    #[error(transparent)]
    Lost(Lost),
    /// The server could not do one of the caller's operations, or the client refused it. Nothing was written.
    #[error(
        "operation {operation}, on {path}, failed: {problem}; nothing was written; look at the node and try again"
    )]
    Condition {
        /// The operation's index among the caller's operations, from 0.
        operation: usize,
        /// The path that the caller gave.
        path: String,
        /// Why the server cannot do the operation.
        problem: ConditionProblem,
    },
    /// One of the caller's operations is not allowed. Nothing was sent.
    #[error("operation {operation}, on {path:?}, is invalid: {cause}")]
    Invalid {
        /// The operation's index among the caller's operations, from 0.
        operation: usize,
        /// The path that the caller gave.
        path: String,
        /// What is wrong with the operation.
        cause: String,
    },
    /// The connection, the session or the guard was lost before the answer came. ZooKeeper has written the whole
    /// transaction, or nothing of it. It may also write the whole transaction later.
    ///
    /// The outcome is settled once [`Guard::verify`](crate::Guard::verify) says that this guard is still held, or once
    /// anybody has acquired the lock again. Look at the nodes after that, and not before. Without a look, repeat only
    /// operations that cannot take effect twice: a `set` that names the version, or a `create` that is not sequential.
    #[error(
        "the answer to a transaction under the lock {path} was lost, so ZooKeeper may have committed it, or may commit \
         it later; call `verify` on the guard or acquire the lock again, then look at the nodes before you repeat the \
         transaction"
    )]
    Unknown {
        /// The lock's path.
        path: String,
    },
    /// The server is overloaded, and did not execute the transaction (`ThrottledOp`, since ZooKeeper 3.6). Nothing was
    /// written.
    #[error(
        "the server is overloaded, and did not execute a transaction under the lock {path}; nothing was written; try \
         again later"
    )]
    Throttled {
        /// The lock's path.
        path: String,
    },
    /// The server refused the transaction for another reason. Nothing was written.
    #[error(
        "a transaction under the lock {path} was refused: {cause}; nothing was written; remove the cause, and try again"
    )]
    Refused {
        /// The lock's path.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

impl TransactionError {
    /// Returns true if the same transaction may succeed later with nothing changed by hand, and was certainly not
    /// written. If the outcome is [`Unknown`](Self::Unknown), look at the nodes before you repeat the transaction.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Throttled { .. })
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Lost(lost) if lost.needs_new_session())
    }
}

/// Why one operation of a transaction was not done.
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
    /// The parent is an ephemeral node, which cannot have children.
    EphemeralParent,
    /// An ACL forbids the operation.
    NotAuthorized,
    /// The server does not accept the ACL of the node that was to be created.
    InvalidAcl,
    /// A quota is used up.
    QuotaExceeded,
    /// Another problem, in the words of the server or of the client.
    Other(String),
}

impl fmt::Display for ConditionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNode => "the node, or its parent, does not exist",
            Self::NodeExists => "the node exists",
            Self::BadVersion => "the node has another version",
            Self::NotEmpty => "the node has children",
            Self::EphemeralParent => "the parent is an ephemeral node, which cannot have children",
            Self::NotAuthorized => "an ACL forbids it",
            Self::InvalidAcl => "the server does not accept its ACL",
            Self::QuotaExceeded => "a quota is used up",
            Self::Other(cause) => cause,
        })
    }
}
