//! zookeeper-client's own recipe, `Client::lock`, used as carefully as it can be: its holder stops at the first thing that its
//! client is told, `Disconnected` included, and does not go on when the connection is back. And as a failed acquisition may
//! leave its node in the queue for as long as the session lives, that session is given up.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use zklock::FencingToken;
use zklock::ask::Asks;
use zookeeper_client::{
    Acls, Client, CreateMode, Error, LockOptions, LockPrefix, OwnedLockClient, SessionState, StateWatcher,
};

use super::guard::AnyGuard;
use crate::member::Member;
use crate::members::FOREIGN_TIMEOUT;
use crate::record::{Leaving, Who};
use crate::request::Patience;

/// Acquires the lock at this directory by `Client::lock`, with a node that has this data.
pub async fn peer_lock(client: &Client, directory: &str, data: &[u8]) -> Result<OwnedLockClient, Error> {
    let acls = Acls::anyone_all();
    let options = LockOptions::new(acls).with_ancestor_options(CreateMode::Persistent.with_acls(acls))?;
    let lock = client.lock(LockPrefix::new_curator(directory, "lock-")?, data, options).await?;
    Ok(lock.into_owned())
}

pub struct ZookeeperClient {
    member: Member,
    servers: String,
    timeout: Duration,
    /// The present session; a new one is opened once it is over.
    client: tokio::sync::Mutex<Option<Client>>,
}

pub struct PeerLock {
    lock: OwnedLockClient,
    told: Mutex<StateWatcher>,
    lost: AtomicBool,
}

impl ZookeeperClient {
    pub fn new(member: Member, servers: String) -> Self {
        let timeout = FOREIGN_TIMEOUT;
        Self { member, servers, timeout, client: tokio::sync::Mutex::default() }
    }

    async fn client(&self) -> Result<Client, Leaving> {
        let mut present = self.client.lock().await;
        if let Some(client) = present.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        let connector = Client::connector().with_session_timeout(self.timeout);
        let client = connector.connect(&self.servers).await.map_err(failed)?;
        Ok(present.insert(client).clone())
    }

    async fn lock(&self, who: Who) -> Result<PeerLock, Leaving> {
        let client = self.client().await?;
        let owner = format!(r#"{{"owner":"{who}"}}"#);
        let told = Mutex::new(client.state_watcher());
        match peer_lock(&client, &self.member.path(0), owner.as_bytes()).await {
            Ok(lock) => Ok(PeerLock { lock, told, lost: AtomicBool::new(false) }),
            Err(error) => {
                let mut present = self.client.lock().await;
                present.take_if(|present| present.session_id() == client.session_id());
                Err(failed(error))
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

    pub async fn close(&self) {
        if let Some(client) = self.client.lock().await.take() {
            let mut told = client.state_watcher();
            drop(client);
            let over = async { while !told.changed().await.is_terminated() {} };
            let _over = tokio::time::timeout(self.timeout, over).await;
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
        if self.lost.load(Ordering::SeqCst) {
            return Err("its client was told of trouble".to_owned());
        }
        let mut told = self.told.lock().map_err(|_| "a panic".to_owned())?;
        // Whatever was told since the last look, even if all is well again.
        let state = told.changed().now_or_never().unwrap_or_else(|| told.state());
        if state == SessionState::SyncConnected {
            return Ok(());
        }
        self.lost.store(true, Ordering::SeqCst);
        Err(format!("its client was told {state:?}"))
    }

    fn lost(&self) -> BoxFuture<'static, String> {
        Box::pin(pending())
    }

    fn remaining(&self) -> Option<Duration> {
        None
    }

    fn asks(&self) -> Option<Asks> {
        None
    }
}
