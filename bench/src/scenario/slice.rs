//! What a slice of a scenario comes to.

use std::time::Duration;

/// What a slice of the measurement took.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// From its start to its end, less what was not measured.
    pub(crate) wall: Duration,
    pub(crate) cycles: Vec<Duration>,
    pub(crate) handoffs: u64,
    pub(crate) contenders: usize,
    pub(crate) longest_wait: Duration,
}
