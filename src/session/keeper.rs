//! The session's one background task: it follows the client's state into the lease, and finishes what callers
//! left behind.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use zookeeper_client::{SessionState, StateWatcher};

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
        // The present state first: it may be the last one.
        let present = self.states.state();
        if self.hear(present) {
            return;
        }
        let mut used = true;
        while used || !self.kept.is_empty() {
            tokio::select! {
                // The lease first: everything else may depend on it.
                biased;
                state = self.states.changed() => {
                    if self.hear(state) {
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

    /// Takes in a state of the client; true if it is the last one. By the client's own word: the lease may have been
    /// ended before, by whoever closes the session and waits for this.
    fn hear(&self, state: SessionState) -> bool {
        self.vitals.follow();
        let end = wire::end(state);
        if end.is_some() {
            self.over.send_replace(end);
        }
        end.is_some()
    }
}

impl Drop for Keeper {
    /// Without this task nobody follows the client, so nothing is known about the session any more: its runtime
    /// is shutting down, or it is over.
    fn drop(&mut self) {
        self.vitals.ended(SessionEnd::Closed);
    }
}
