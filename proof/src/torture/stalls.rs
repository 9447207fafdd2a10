//! Whether the machine itself was ever away: a figure from a run in which it was says little about the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::harness::Instant;

/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// Watches for the longest time in which this process did nothing though it should, in milliseconds.
#[derive(Default)]
pub(crate) struct Stalls {
    longest: Arc<AtomicU64>,
    watch: JoinSet<()>,
}

impl Stalls {
    pub(crate) fn watch() -> Self {
        let mut stalls = Self::default();
        let longest = stalls.longest.clone();
        stalls.watch.spawn(async move {
            loop {
                let before = Instant::now();
                tokio::time::sleep(LOOK).await;
                let late = Instant::now().since(before).saturating_sub(LOOK);
                longest.fetch_max(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
            }
        });
        stalls
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::SeqCst))
    }
}
