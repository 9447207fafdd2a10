//! The background task of one ZooKeeper session, which finishes what callers left behind.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::vitals::Vitals;
use crate::recipe::SessionEnd;

/// Runs until the session is over, or until nobody uses it any more and everything is finished. What is left when the
/// session is over has no node any more, and is dropped.
pub(super) async fn run(mut queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>, vitals: Arc<Vitals>) {
    // Without this task no heartbeat is sent: its runtime is shutting down, or nobody uses the session.
    let _lifeline = Lifeline(vitals.clone());
    let mut kept = FuturesUnordered::new();
    let mut over = std::pin::pin!(vitals.over());
    let mut used = true;
    while used || !kept.is_empty() {
        tokio::select! {
            _ = &mut over => return,
            future = queue.recv(), if used => match future {
                Some(future) => kept.push(future),
                None => used = false,
            },
            Some(()) = kept.next(), if !kept.is_empty() => {}
        }
    }
}

/// Ends the lease with this task.
struct Lifeline(Arc<Vitals>);

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.ended(SessionEnd::Closed);
    }
}
