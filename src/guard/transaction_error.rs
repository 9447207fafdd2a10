//! Why a transaction was not committed.

use std::fmt;

use super::lost::Lost;

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
        /// The server's error, as zookeeper-client words it.
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
