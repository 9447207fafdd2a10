//! A session by which tasks contend for locks: zklock's, or the other client's.

use std::sync::Arc;
use std::time::Duration;

use zklock::Sequencer;
use zklock::ask::{self, AskError, Asking};

use super::held::{Granted, Held};
use super::peer::ZookeeperClient;
use super::world::World;
use super::zklock::Zklock;
use crate::record::{Leaving, Who};
use crate::request::{Patience, Request, Terms};

pub enum Client<W> {
    Zklock(Arc<Zklock<W>>),
    Foreign(Arc<ZookeeperClient>),
}

impl<W> Clone for Client<W> {
    fn clone(&self) -> Self {
        match self {
            Self::Zklock(zklock) => Self::Zklock(zklock.clone()),
            Self::Foreign(peer) => Self::Foreign(peer.clone()),
        }
    }
}

impl<W: World> Client<W> {
    /// Acquires what is requested, on these terms. The other client knows one lock, and no terms.
    pub async fn acquire(
        &self,
        who: Who,
        request: &Request,
        terms: Terms,
        patience: Patience,
    ) -> Result<Held, Leaving> {
        match self {
            Self::Zklock(zklock) => zklock.acquire(who, request, terms, patience).await,
            Self::Foreign(peer) => {
                let lock = peer.acquire(who, patience).await?;
                Ok(Held { session: lock.session(), granted: Granted::Peer(lock) })
            }
        }
    }

    /// Asks those who hold something at this path to let go. The other client cannot.
    pub async fn ask(&self, path: &str, request: ask::Request) -> Result<Option<Asking>, AskError> {
        match self {
            Self::Zklock(zklock) => zklock.session().ask(path, request).await,
            Self::Foreign(_) => Ok(None),
        }
    }

    /// Uses the session.
    pub async fn look(&self) {
        if let Self::Zklock(zklock) = self {
            // It may fail: it counts as a use all the same.
            let _looked = zklock.session().child_count("/").await;
        }
    }

    /// How often the session's acquisitions have queued again. The other client's never do.
    pub fn requeued(&self) -> u64 {
        match self {
            Self::Zklock(zklock) => zklock.session().requeued(),
            Self::Foreign(_) => 0,
        }
    }

    /// Whether this claim is current, by the word of the servers. Without an answer it counts as not.
    pub async fn is_current(&self, claim: &Sequencer) -> bool {
        match self {
            Self::Zklock(zklock) => zklock.session().verify_sequencer(claim).await.is_ok(),
            Self::Foreign(_) => false,
        }
    }

    /// Ends the session. Returns which one that was, and its timeout, if that is confirmed. If it is not, the session expires.
    pub async fn close(&self) -> Option<(i64, Duration)> {
        match self {
            Self::Zklock(zklock) => {
                let session = zklock.session();
                let ended = (session.id(), session.timeout());
                session.close().await.ok().map(|()| ended)
            }
            // Each of its locks has a session of its own.
            Self::Foreign(_) => None,
        }
    }
}
