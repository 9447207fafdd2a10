//! The background task of one ZooKeeper session: it follows the client's state into the lease, and finishes what
//! callers left behind.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use zookeeper_client::{SessionState, StateWatcher};

use super::vitals::Vitals;
use super::wire;
use crate::lease::Lengths;
use crate::recipe::SessionEnd;

/// How many times a heartbeat the client's state is looked at, though it tells of no change: a session that is resumed
/// counts from the last look before its connection was lost.
const LOOKS: u32 = 4;

/// Who says that a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obituary {
    /// The server, so its nodes are gone.
    Confirmed,
    /// Only the client.
    Unconfirmed,
}

pub(crate) struct Keeper {
    states: StateWatcher,
    vitals: Arc<Vitals>,
    lengths: Lengths,
    over: watch::Sender<Option<Obituary>>,
    queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    kept: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Keeper {
    pub(crate) fn new(
        states: StateWatcher,
        vitals: Arc<Vitals>,
        lengths: Lengths,
        over: watch::Sender<Option<Obituary>>,
        queue: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    ) -> Self {
        Self { states, vitals, lengths, over, queue, kept: FuturesUnordered::new() }
    }

    /// Runs until the session is over, or until nobody uses it any more and everything is finished. What is left
    /// when the session is over has no node any more, and is dropped.
    pub(crate) async fn run(mut self) {
        // The present state first: it may be the last one.
        let present = self.states.state();
        if self.hear(present) {
            return;
        }
        let mut looks = interval(self.lengths.heartbeat / LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                _ = looks.tick() => self.vitals.follow(),
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
        let Some(end) = wire::end(state) else { return false };
        let obituary = match end {
            SessionEnd::Closed => Obituary::Confirmed,
            // The server may end the connection before its last reply is read. The client declares a session expired
            // by itself only after hearing nothing for 7/5 of its timeout.
            SessionEnd::Expired if self.vitals.silence() < self.lengths.timeout * 7 / 5 => {
                Obituary::Confirmed
            }
            SessionEnd::Expired | SessionEnd::AuthFailed => Obituary::Unconfirmed,
        };
        self.over.send_replace(Some(obituary));
        true
    }
}

impl Drop for Keeper {
    /// Without this task nobody follows the client, so nothing is known about the session any more: its runtime
    /// is shutting down, or it is over.
    fn drop(&mut self) {
        self.vitals.ended(SessionEnd::Closed);
    }
}
