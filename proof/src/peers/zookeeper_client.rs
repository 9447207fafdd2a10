//! zookeeper-client's own recipe.

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use zookeeper_client::{Acls, Client, LockPrefix, SessionState};

use super::contract::{DATA, Lock, Place};

pub(super) struct ZookeeperClient {
    session: Client,
    prefix: String,
    node: Option<String>,
}

impl Lock for ZookeeperClient {
    async fn connect(place: &Place) -> anyhow::Result<Self> {
        let session = Client::connector().with_session_timeout(place.timeout).connect(&place.server).await?;
        Ok(Self { session, prefix: format!("{}/lock-", place.path), node: None })
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        // The layout with the shortest names.
        let prefix = LockPrefix::new_shared(&self.prefix)?;
        let lock = self.session.lock(prefix, DATA, Acls::anyone_all()).await?;
        self.node = Some(lock.lock_path().to_owned());
        // The one request that dropping it sends is sent by `release`, which awaits it. That is faster where the same session goes on
        // to acquire: of two small requests in a row, Nagle's algorithm holds the second.
        std::mem::forget(lock);
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let node = self.node.take().context("it is not held")?;
        Ok(self.session.delete(&node, None).await?)
    }

    fn told(&self) -> BoxFuture<'static, String> {
        let mut states = self.session.state_watcher();
        let told = async move {
            loop {
                let state = states.changed().await;
                if state != SessionState::SyncConnected {
                    return format!("{state:?}");
                }
            }
        };
        told.boxed()
    }
}
