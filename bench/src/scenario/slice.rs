//! What a slice of a scenario comes to.

use std::time::Duration;

/// What a slice of the measurement took.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// From its start to its end, less what was not measured.
    pub(crate) wall: Duration,
    /// Each cycle of each client.
    pub(crate) cycles: Vec<Duration>,
    /// How often a lock changed hands.
    pub(crate) handoffs: u64,
    /// How many contended for it.
    pub(crate) contenders: usize,
    /// The longest time that one of them waited.
    pub(crate) longest_wait: Duration,
}
