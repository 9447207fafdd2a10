//! zookeeper-client's own recipe, `Client::lock`, used as carefully as it can be: its holder stops at the first thing that its
//! client is told, `Disconnected` included, and does not go on when the connection is back. A waiter does the same. An acquisition that
//! fails or is dropped may leave its node in the queue for as long as its session lives, and so may a release whose answer is lost. So each
//! acquisition has a session of its own.

use std::future::ready;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use zklock::FencingToken;
use zklock::ask::Asks;
use zookeeper_client::{
    Acls, Client, CreateMode, Error, LockOptions, LockPrefix, OwnedLockClient, SessionState, StateWatcher,
};

use super::guard::AnyGuard;
use crate::record::{Leaving, Who};
use crate::request::Patience;

/// Acquires the lock at this directory by `Client::lock`, with a node that has this data.
pub async fn peer_lock(client: &Client, directory: &str, data: &[u8]) -> Result<OwnedLockClient, Error> {
    let acls = Acls::anyone_all();
    let options = LockOptions::new(acls).with_ancestor_options(CreateMode::Container.with_acls(acls))?;
    let lock = client.lock(LockPrefix::new_curator(directory, "lock-")?, data, options).await?;
    Ok(lock.into_owned())
}

pub struct ZookeeperClient {
    directory: String,
    servers: String,
    timeout: Duration,
}

pub struct PeerLock {
    lock: OwnedLockClient,
    trouble: Trouble,
}

/// What a client is told of trouble.
type Trouble = Shared<BoxFuture<'static, String>>;

impl ZookeeperClient {
    /// It asks for a shorter session timeout than zklock's, so its node goes long before a server that is partitioned drops its holder.
    pub fn new(directory: String, servers: String, zklocks: Duration) -> Self {
        Self { directory, servers, timeout: zklocks / 4 }
    }

    async fn lock(&self, who: Who) -> Result<PeerLock, Leaving> {
        let connector = Client::connector().with_session_timeout(self.timeout);
        let client = connector.connect(&self.servers).await.map_err(failed)?;
        let owner = format!(r#"{{"owner":"{who}"}}"#);
        let trouble = trouble(client.state_watcher());
        let trouble = trouble.map(|state| format!("its client was told {state:?}")).boxed().shared();
        tokio::select! {
            biased;
            why = trouble.clone() => Err(Leaving::Failed(why)),
            lock = peer_lock(&client, &self.directory, owner.as_bytes()) => {
                Ok(PeerLock { lock: lock.map_err(failed)?, trouble })
            }
        }
    }

    pub async fn acquire(&self, who: Who, patience: Patience) -> Result<PeerLock, Leaving> {
        let limit = match patience {
            Patience::Endless => return self.lock(who).await,
            Patience::Within(limit) => limit,
            // It cannot; a short wait comes near.
            Patience::None => Duration::from_millis(50),
        };
        // It has no time limit of its own; its documentation says to drop it.
        tokio::time::timeout(limit, self.lock(who)).await.unwrap_or(Err(Leaving::TimedOut))
    }
}

/// The first thing that a client is told, except that it is connected.
pub async fn trouble(mut told: StateWatcher) -> SessionState {
    loop {
        let state = told.changed().await;
        if state != SessionState::SyncConnected {
            return state;
        }
    }
}

fn failed(error: Error) -> Leaving {
    Leaving::Failed(error.to_string())
}

impl PeerLock {
    pub fn session(&self) -> i64 {
        self.lock.client().session_id().0
    }
}

impl AnyGuard for PeerLock {
    fn token(&self) -> Option<FencingToken> {
        None
    }

    fn nodes(&self) -> Vec<String> {
        vec![self.lock.lock_path().to_owned()]
    }

    fn check(&self) -> Result<(), String> {
        self.trouble.clone().now_or_never().map_or(Ok(()), Err)
    }

    fn verify(&self) -> BoxFuture<'_, Result<(), String>> {
        ready(self.check()).boxed()
    }

    fn lost(&self) -> BoxFuture<'static, String> {
        self.trouble.clone().boxed()
    }

    fn remaining(&self) -> Option<Duration> {
        None
    }

    fn asks(&self) -> Option<Asks> {
        None
    }
}
