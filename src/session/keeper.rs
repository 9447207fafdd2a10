//! The session's one background task: it follows the client's state into the lease, and finishes what callers
//! left behind.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use zookeeper_client::StateWatcher;

use super::vitals::Vitals;
use super::wire;
use crate::recipe::SessionEnd;

pub(crate) struct Keeper {
    states: StateWatcher,
    vitals: Arc<Vitals>,
    over: watch::Sender<Option<SessionEnd>>,
    queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    kept: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Keeper {
    pub(crate) fn new(
        states: StateWatcher,
        vitals: Arc<Vitals>,
        over: watch::Sender<Option<SessionEnd>>,
        queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    ) -> Self {
        Self { states, vitals, over, queue, kept: FuturesUnordered::new() }
    }

    /// Runs until the session is over, or until nobody uses it any more and everything is finished. What is left
    /// when the session is over has no node any more, and is dropped.
    pub(crate) async fn run(mut self) {
        // What came before we began to wait is seen here.
        self.vitals.follow();
        if let Some(end) = self.vitals.end() {
            self.over.send_replace(Some(end));
            return;
        }
        let mut used = true;
        while used || !self.kept.is_empty() {
            tokio::select! {
                // The lease first: everything else may depend on it.
                biased;
                state = self.states.changed() => {
                    self.vitals.follow();
                    if let Some(end) = wire::end(state) {
                        self.over.send_replace(Some(end));
                        return;
                    }
                }
                future = self.queue.recv(), if used => match future {
                    Some(future) => self.kept.push(future),
                    None => used = false,
                },
                Some(()) = self.kept.next(), if !self.kept.is_empty() => {}
            }
        }
    }
}

impl Drop for Keeper {
    /// Without this task nobody follows the client, so nothing is known about the session any more: its runtime
    /// is shutting down, or it is over.
    fn drop(&mut self) {
        self.vitals.ended(SessionEnd::Closed);
    }
}
