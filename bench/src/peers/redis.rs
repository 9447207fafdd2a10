//! Locks on Redis: those of the proof.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Mutex;
use zklock_proof::redis_lock::Lock;

use super::client::{Client, Held, SESSION_TIMEOUT};

pub(super) struct Redis<L>(Arc<Mutex<L>>);

impl<L: Lock> Redis<L> {
    pub(super) async fn connect(address: &str, key: &str) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(L::connect(address, key, SESSION_TIMEOUT).await?))))
    }
}

impl<L: Lock> Client for Redis<L> {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Held<'_>>> {
        async {
            self.0.lock().await.acquire().await?;
            Ok(Held::untold(async { Ok(self.0.lock().await.release().await?) }))
        }
        .boxed()
    }
}
