//! A session by which tasks contend for locks: zklock's, or the other client's.

use std::sync::Arc;

use zklock::Sequencer;
use zklock::ask::{AskError, Asking, Request};

use super::held::Held;
use super::patience::Patience;
use super::peer::ZookeeperClient;
use super::zklock::Zklock;
use crate::torture::record::{Leaving, Who};
use crate::torture::wish::{Terms, Wish};

#[derive(Clone)]
pub(super) enum Contest {
    Zklock(Arc<Zklock>),
    ZookeeperClient(Arc<ZookeeperClient>),
}

impl Contest {
    /// Acquires what is wished for, on these terms. The other client knows one lock, and no terms.
    pub(super) async fn acquire(
        &self,
        who: Who,
        wish: &Wish,
        terms: Terms,
        patience: Patience,
    ) -> Result<Held, Leaving> {
        match self {
            Self::Zklock(zklock) => zklock.acquire(who, wish, terms, patience).await,
            Self::ZookeeperClient(peer) => peer.acquire(who, patience).await.map(Held::peer),
        }
    }

    /// Asks those who hold something at this path to let go. The other client cannot.
    pub(super) async fn ask(&self, path: &str, request: Request) -> Result<Option<Asking>, AskError> {
        match self {
            Self::Zklock(zklock) => zklock.session().ask(path, request).await,
            Self::ZookeeperClient(_) => Ok(None),
        }
    }

    /// How often the session's acquisitions have queued again. The other client's never do.
    pub(super) fn requeued(&self) -> u64 {
        match self {
            Self::Zklock(zklock) => zklock.session().requeued(),
            Self::ZookeeperClient(_) => 0,
        }
    }

    /// Whether this claim is current, by the word of the servers. Without an answer it counts as not.
    pub(super) async fn is_current(&self, claim: &Sequencer) -> bool {
        match self {
            Self::Zklock(zklock) => zklock.session().verify_sequencer(claim).await.is_ok(),
            Self::ZookeeperClient(_) => false,
        }
    }

    /// Ends the session.
    pub(super) async fn close(&self) {
        match self {
            // Unconfirmed, the session expires; the coordinator waits for that anyway.
            Self::Zklock(zklock) => drop(zklock.session().close().await),
            Self::ZookeeperClient(peer) => peer.close().await,
        }
    }
}
