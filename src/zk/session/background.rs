//! The background task of one ZooKeeper session. It finishes what callers left behind.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use zklock_recipe::SessionEnd;

use crate::wire::shared_lease::SharedLease;

/// A handle that gives futures to the background task.
#[derive(Clone)]
pub(crate) struct Background(mpsc::UnboundedSender<BoxFuture<'static, ()>>);

impl Background {
    /// Makes the handle, and the queue that the task reads.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Gives the task a future that nobody awaits any more. It never blocks, spawns or panics. Once the session or its
    /// runtime is gone, nothing is left to finish.
    pub(crate) fn finish(&self, future: BoxFuture<'static, ()>) {
        drop(self.0.send(future));
    }
}

/// Runs until the session is over, or until nobody uses it any more and every future is finished. Futures that are left
/// when the session is over have no node any more, and are dropped.
pub(crate) async fn run(mut queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>, lease: Arc<SharedLease>) {
    // Without this task the session sends no heartbeat: its runtime is shutting down, or nobody uses the session.
    let _lifeline = Lifeline(lease.clone());
    let mut kept = FuturesUnordered::new();
    let mut over = std::pin::pin!(lease.over());
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

/// Ends the lease when this task ends.
struct Lifeline(Arc<SharedLease>);

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.ended(SessionEnd::Closed);
    }
}
