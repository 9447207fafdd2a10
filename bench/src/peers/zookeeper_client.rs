//! zookeeper-client's own recipe.

use futures::FutureExt;
use futures::future::BoxFuture;
use zookeeper_client::{Acls, Client as Session, LockPrefix, SessionState};

use super::client::{Client, DATA, Held, SESSION_TIMEOUT};

pub(super) struct ZookeeperClient {
    session: Session,
    prefix: String,
}

impl ZookeeperClient {
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        let session = Session::connector().with_session_timeout(SESSION_TIMEOUT).connect(address).await?;
        Ok(Self { session, prefix: format!("{directory}/lock-") })
    }
}

impl Client for ZookeeperClient {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Held<'_>>> {
        async move {
            // The layout with the shortest names.
            let prefix = LockPrefix::new_shared(&self.prefix)?;
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
                // The one request that dropping it sends, in the background; dropped, it would send that once more. To await the
                // request is faster where the same session goes on to acquire: of two small requests in a row, Nagle's algorithm
                // holds the second.
                let path = lock.lock_path().to_owned();
                std::mem::forget(lock);
                Ok(self.session.delete(&path, None).await?)
            };
            Ok(Held { release: release.boxed(), told: told.boxed() })
        }
        .boxed()
    }
}
