//! zookeeper-client's own recipe, `Client::lock`, under the same fault at the same time.

use tokio::task::JoinHandle;
use zklock_test_support::{eventually, within};
use zookeeper_client::{Client, OwnedLockClient, SessionState, StateWatcher};

use super::contest::{LONG_TIMEOUT, TIMEOUT, plain};
use crate::harness::{Instant, now};
use zklock_contest::contender::{peer_lock, trouble};

/// One client holds the lock, one waits for it, as in a [`Contest`](super::contest::Contest).
pub(crate) struct Peer {
    /// What the holder's client is told.
    told: StateWatcher,
    waiter: JoinHandle<(OwnedLockClient, Instant)>,
    _held: OwnedLockClient,
}

impl Peer {
    pub(crate) async fn contend(holder: &str, waiter: &str, directory: &str) -> Self {
        let (holding, waiting) = (plain(holder, TIMEOUT).await, plain(waiter, LONG_TIMEOUT).await);
        let told = holding.state_watcher();
        let held = peer_lock(&holding, directory, b"").await.expect("the peer's lock");
        let waiter = tokio::spawn(acquire(waiting.clone(), directory.to_owned()));
        eventually("the peer's waiter", async || {
            // Its server may not have heard of the directory yet.
            waiting.list_children(directory).await.is_ok_and(|queue| queue.len() == 2)
        })
        .await;
        Self { told, waiter, _held: held }
    }

    /// Seconds from when the holder's client is told anything to when the waiter has the lock; negative if that comes
    /// first, so that two hold it.
    pub(crate) async fn margin(self) -> f64 {
        let Self { told, waiter, _held } = self;
        let told = within("the peer's loss", async {
            trouble(told).await;
            now()
        });
        let (told, granted) = tokio::join!(told, within("the peer's grant", waiter));
        let (_next, granted) = granted.expect("no panic");
        granted.seconds_after(told)
    }
}

async fn acquire(client: Client, directory: String) -> (OwnedLockClient, Instant) {
    loop {
        match peer_lock(&client, &directory, b"").await {
            Ok(lock) => return (lock, now()),
            // It fails when its server stalls, as all do while they elect a leader. Its users try again.
            Err(error) if client.state() != SessionState::Expired => eprintln!("peer: {error}, trying again"),
            Err(error) => panic!("the peer's waiter: {error}"),
        }
    }
}
