//! What a contender is told at its start.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kind::Kind;

/// The part of one contender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) lock: Kind,
    /// The Redis or ZooKeeper server, as `host:port`.
    pub(crate) server: String,
    /// The lock's key, or path.
    pub(crate) key: String,
    pub(crate) ttl: Duration,
    /// The address of the register that the lock protects.
    pub(crate) register: String,
    /// Which contender it is, for the register.
    pub(crate) number: usize,
}
