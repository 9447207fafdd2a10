//! Names of connections and servers, and the time.

use std::time::Duration;

/// A server's clocks, when something happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock. Timeouts and sessions' expiry go by it.
    pub monotonic: Duration,
    /// The time since the Unix epoch. Nodes' times go by it.
    pub wall: Duration,
}

/// A client's connection to one server. The driver chooses it, and uses each number once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A server of the ensemble: 1, 2, 3, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u8);
