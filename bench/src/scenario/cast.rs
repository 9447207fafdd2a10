//! What every scenario offers.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::stage::Stage;

/// One peer's clients in their places.
pub(crate) trait Cast: Send + Sync {
    /// Has each measured client go through so many cycles.
    fn perform<'a>(&'a self, stage: &'a Stage, cycles: u32) -> BoxFuture<'a, anyhow::Result<Slice>>;

    /// The directories of the locks, all of them empty between two slices.
    fn directories(&self) -> &[String];
}

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
