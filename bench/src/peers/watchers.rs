//! A node created, the lowest node watched twice, and both events awaited: no lock, but what readers cannot be faster than.

use futures::FutureExt;
use futures::future::BoxFuture;

use anyhow::Context;
use zookeeper_client::Client as Session;

use super::client::{Client, Held, SESSION_TIMEOUT};
use super::raw;

pub(super) struct Watchers {
    session: Session,
    directory: String,
}

impl Watchers {
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        let session = Session::connector().with_session_timeout(SESSION_TIMEOUT).connect(address).await?;
        Ok(Self { session, directory: directory.to_owned() })
    }
}

impl Client for Watchers {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async {
            let node = raw::create(&self.session, &format!("{}/lock-", self.directory)).await?;
            let lowest = self.session.list_children(&self.directory).await?.into_iter().min();
            let lowest = format!("{}/{}", self.directory, lowest.context("its own node is gone")?);
            let data = self.session.get_and_watch_data(&lowest);
            let children = self.session.get_and_watch_children(&lowest);
            let (_, _, data) = data.await?;
            let (_, _, children) = children.await?;
            data.changed().await;
            children.changed().await;
            Ok(Box::new(node) as Box<dyn Held>)
        }
        .boxed()
    }
}
