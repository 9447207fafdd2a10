//! zklock.

use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{Guard, Lock, LockOptions, Session};

use super::client::{Client, Held, SESSION_TIMEOUT};

pub(super) struct Zklock {
    lock: Lock,
}

impl Zklock {
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        let session = Session::builder(address).session_timeout(SESSION_TIMEOUT).connect().await?;
        Ok(Self { lock: session.lock_with(directory, LockOptions::new().owner("bench"))? })
    }
}

impl Client for Zklock {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async { Ok(Box::new(self.lock.acquire().await?) as Box<dyn Held>) }.boxed()
    }
}

impl Held for Guard {
    fn release<'a>(self: Box<Self>) -> BoxFuture<'a, anyhow::Result<()>> {
        async { Ok(Guard::release(*self).await?) }.boxed()
    }
}
