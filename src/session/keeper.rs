//! The session's one background task: it follows the client's state into the lease, and finishes what callers
//! left behind.

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};
use zookeeper_client::{SessionState, StateWatcher};

use super::wire;
use crate::lease::Lease;
use crate::recipe::SessionEnd;

pub(crate) struct Keeper {
    states: StateWatcher,
    lease: watch::Sender<Lease>,
    over: watch::Sender<Option<SessionEnd>>,
    queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    kept: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Keeper {
    pub(crate) fn new(
        states: StateWatcher,
        lease: watch::Sender<Lease>,
        over: watch::Sender<Option<SessionEnd>>,
        queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    ) -> Self {
        Self { states, lease, over, queue, kept: FuturesUnordered::new() }
    }

    /// Runs until the session is over, or until nobody uses it any more and everything is finished. What is left
    /// when the session is over has no node any more, and is dropped.
    pub(crate) async fn run(mut self) {
        let mut used = true;
        while used || !self.kept.is_empty() {
            tokio::select! {
                // The lease first: everything else may depend on it.
                biased;
                state = self.states.changed() => {
                    self.lease.send_modify(|lease| apply(lease, state));
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
        self.lease.send_modify(|lease| lease.ended(SessionEnd::Closed));
    }
}

/// Tells the lease what state the client is in.
pub(crate) fn apply(lease: &mut Lease, state: SessionState) {
    match (wire::end(state), state) {
        (Some(end), _) => {
            info!(?end, "the ZooKeeper session is over");
            lease.ended(end);
        }
        (None, SessionState::SyncConnected) => lease.reconnected(),
        // A server that only takes reads knows nothing about the session's life.
        (None, _) => {
            warn!("the connection to ZooKeeper is lost: every guard of this session is invalid");
            lease.disconnected();
        }
    }
}
