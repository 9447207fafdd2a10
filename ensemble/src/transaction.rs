//! Transactions: what the leader decides, what is logged, and what every server applies.

use crate::{auth::Grant, operation::error};

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
    /// By one of the operations that create. So often have children of the parent been created by then.
    Create { code: i32, path: String, data: Vec<u8>, list: Vec<Grant>, owner: i64, parent_cversion: i32 },
    /// The node goes.
    Delete { path: String },
    /// The node has other data.
    SetData { path: String, data: Vec<u8>, version: i32 },
    /// The node lets others do other things.
    SetAcl { path: String, list: Vec<Grant>, version: i32 },
    /// A version was as expected.
    Check,
    /// A request that failed takes its place in the log all the same.
    Failed(i32),
    /// All of it happens or nothing: if one change is `Failed`, nothing does.
    Multi(Vec<Change>),
    /// A session begins.
    CreateSession { timeout: i32 },
    /// A session ends, and its nodes with it.
    CloseSession { ephemerals: Vec<String> },
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
