//! Transactions: what the leader decides, what is logged, and what every server applies.

use crate::{auth::Grant, operation::error};

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) zxid: i64,
    /// Milliseconds since the Unix epoch, by the leader's clock.
    pub(crate) time: i64,
    pub(crate) session: i64,
    /// The client's number of the request.
    pub(crate) xid: i32,
    pub(crate) change: Change,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create {
        /// Which of the operations that create.
        code: i32,
        path: String,
        data: Vec<u8>,
        list: Vec<Grant>,
        owner: i64,
        /// How often children of the parent have been created, this one included.
        parent_cversion: i32,
    },
    Delete {
        path: String,
    },
    SetData {
        path: String,
        data: Vec<u8>,
        version: i32,
    },
    SetAcl {
        path: String,
        list: Vec<Grant>,
        version: i32,
    },
    Check,
    /// A request that failed takes its place in the log all the same.
    Failed(i32),
    /// All of it happens or nothing: if one change is `Failed`, nothing does.
    Multi(Vec<Change>),
    CreateSession {
        timeout: i32,
    },
    CloseSession {
        ephemerals: Vec<String>,
    },
}

impl Change {
    /// Whether this is the answer to a client whose session has moved to another server. It gets no reply.
    pub(crate) fn is_moved(&self) -> bool {
        match self {
            Self::Failed(code) => *code == error::SESSION_MOVED,
            Self::Multi(changes) => changes.iter().any(Self::is_moved),
            _ => false,
        }
    }
}
