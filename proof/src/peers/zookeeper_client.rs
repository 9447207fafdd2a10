//! zookeeper-client's own recipe. Or a bare create and a bare delete: no lock, but what one cannot be faster than.

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use zklock_contest::contender::trouble;
use zookeeper_client::{Acls, Client, CreateMode, LockPrefix};

use super::contestant::Contestant;
use super::contract::{DATA, Lock, Place};

pub(super) struct ZookeeperClient {
    session: Client,
    prefix: String,
    is_raw: bool,
    node: Option<String>,
}

impl Lock for ZookeeperClient {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        let session = Client::connector().with_session_timeout(place.timeout).connect(server).await?;
        let is_raw = place.contestant == Contestant::Raw;
        Ok(Self { session, prefix: format!("{}/lock-", place.path), is_raw, node: None })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        if self.is_raw {
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let (_, sequence) = self.session.create(&self.prefix, DATA, &options).await?;
            self.node = Some(format!("{}{sequence}", self.prefix));
            return Ok(());
        }
        // The layout with the shortest names.
        let prefix = LockPrefix::new_shared(&self.prefix)?;
        let lock = self.session.lock(prefix, DATA, Acls::anyone_all()).await?;
        self.node = Some(lock.lock_path().to_owned());
        // `release` sends the one request that dropping it would send, and awaits it. That is faster where the same session goes on to
        // acquire: of two small requests in a row, Nagle's algorithm holds the second.
        std::mem::forget(lock);
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let node = self.node.take().context("it is not held")?;
        Ok(self.session.delete(&node, None).await?)
    }

    fn told(&self) -> BoxFuture<'static, String> {
        trouble(self.session.state_watcher()).map(|state| format!("{state:?}")).boxed()
    }
}
