//! zookeeper-client's own recipe.

use futures::FutureExt;
use futures::future::BoxFuture;
use zookeeper_client::{Acls, Client as Session, LockPrefix, SessionState};

use super::client::{Client, DATA, Held, SESSION_TIMEOUT};

/// What can be chosen about zookeeper-client's recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// It queues in Curator's layout. That tells contenders of one session apart after a lost reply, at the price of
    /// longer names; the other layout is the one that is fastest.
    pub(crate) curator: bool,
    /// It releases by dropping, all it offers for that: a task in the background then deletes the node. Otherwise
    /// that request is awaited, which is faster where the same session goes on to acquire: of two small requests in a
    /// row, Nagle's algorithm holds the second.
    pub(crate) drops: bool,
}

pub(super) struct ZookeeperClient {
    session: Session,
    directory: String,
    shared_prefix: String,
    recipe: Recipe,
}

impl ZookeeperClient {
    pub(super) async fn connect(address: &str, directory: &str, recipe: Recipe) -> anyhow::Result<Self> {
        let session = Session::connector().with_session_timeout(SESSION_TIMEOUT).connect(address).await?;
        let (directory, shared_prefix) = (directory.to_owned(), format!("{directory}/lock-"));
        Ok(Self { session, directory, shared_prefix, recipe })
    }
}

impl Client for ZookeeperClient {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Held<'_>>> {
        async move {
            let prefix = match self.recipe.curator {
                true => LockPrefix::new_curator(&self.directory, "lock-")?,
                false => LockPrefix::new_shared(&self.shared_prefix)?,
            };
            let lock = self.session.lock(prefix, DATA, Acls::anyone_all()).await?;
            let mut states = self.session.state_watcher();
            let told = async move {
                loop {
                    let state = states.changed().await;
                    if state != SessionState::SyncConnected {
                        return format!("{state:?}");
                    }
                }
            };
            let release = async move {
                if self.recipe.drops {
                    drop(lock);
                    return Ok(());
                }
                // The one request that dropping it sends; dropped, it would send that once more.
                let path = lock.lock_path().to_owned();
                std::mem::forget(lock);
                Ok(self.session.delete(&path, None).await?)
            };
            Ok(Held { release: release.boxed(), told: told.boxed() })
        }
        .boxed()
    }
}
