//! Plain requests, and nothing else: what no lock can be faster than.

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use zookeeper_client::{Acls, Client as Session, CreateMode};

use super::client::{Client, DATA, Held, SESSION_TIMEOUT};

pub(super) struct Plain {
    session: Session,
    directory: String,
    /// Whether it watches the lowest node twice, and awaits both events: what readers cannot be faster than.
    watches: bool,
}

impl Plain {
    pub(super) async fn connect(address: &str, directory: &str, watches: bool) -> anyhow::Result<Self> {
        let session = Session::connector().with_session_timeout(SESSION_TIMEOUT).connect(address).await?;
        Ok(Self { session, directory: directory.to_owned(), watches })
    }

    async fn watch(&self) -> anyhow::Result<()> {
        let lowest = self.session.list_children(&self.directory).await?.into_iter().min();
        let lowest = format!("{}/{}", self.directory, lowest.context("its own node is gone")?);
        let data = self.session.get_and_watch_data(&lowest);
        let children = self.session.get_and_watch_children(&lowest);
        let (_, _, data) = data.await?;
        let (_, _, children) = children.await?;
        data.changed().await;
        children.changed().await;
        Ok(())
    }
}

impl Client for Plain {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Held<'_>>> {
        async move {
            let prefix = format!("{}/lock-", self.directory);
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let (_, sequence) = self.session.create(&prefix, DATA, &options).await?;
            if self.watches {
                self.watch().await?;
            }
            let path = format!("{prefix}{sequence}");
            Ok(Held::untold(async move { Ok(self.session.delete(&path, None).await?) }))
        }
        .boxed()
    }
}
