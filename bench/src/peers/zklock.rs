//! zklock.

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{Guard, Lock, LockOptions, Locks, LocksOptions, MultiLock, RwLock, Semaphore, Session};

use super::client::{Client, Held, SESSION_TIMEOUT};

pub(super) struct Zklock {
    lock: Lock,
}

pub(super) struct Several {
    locks: MultiLock,
}

pub(super) struct Readers {
    lock: RwLock,
}

pub(super) struct Permits {
    semaphore: Semaphore,
}

pub(super) struct Keys {
    locks: Locks,
    key: String,
}

async fn connect(address: &str) -> anyhow::Result<Session> {
    Ok(Session::builder(address).session_timeout(SESSION_TIMEOUT).connect().await?)
}

fn options() -> LockOptions {
    LockOptions::new().owner("bench")
}

impl Zklock {
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        Ok(Self { lock: connect(address).await?.lock(directory)?.with_options(options())? })
    }
}

impl Several {
    pub(super) async fn connect(address: &str, directories: &[String]) -> anyhow::Result<Self> {
        Ok(Self { locks: connect(address).await?.lock_all(directories)?.with_options(options())? })
    }
}

impl Readers {
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        Ok(Self { lock: connect(address).await?.rw_lock(directory)?.with_options(options())? })
    }
}

impl Keys {
    /// The lock of the key at `directory`, with the default budget.
    pub(super) async fn connect(address: &str, directory: &str) -> anyhow::Result<Self> {
        let (root, key) = directory.rsplit_once('/').context("a directory has a parent")?;
        let options = LocksOptions::new().lock(options());
        Ok(Self { locks: connect(address).await?.locks(root)?.with_options(options)?, key: key.to_owned() })
    }
}

impl Permits {
    pub(super) async fn connect(address: &str, directory: &str, permits: u32) -> anyhow::Result<Self> {
        let session = connect(address).await?;
        Ok(Self { semaphore: session.semaphore(directory, permits)?.with_options(options())? })
    }
}

impl Client for Permits {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async { Ok(Box::new(self.semaphore.acquire().await?) as Box<dyn Held>) }.boxed()
    }
}

impl Client for Keys {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async { Ok(Box::new(self.locks.lock(&self.key).await?) as Box<dyn Held>) }.boxed()
    }
}

impl Client for Zklock {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async { Ok(Box::new(self.lock.acquire().await?) as Box<dyn Held>) }.boxed()
    }
}

impl Client for Several {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async { Ok(Box::new(self.locks.acquire().await?) as Box<dyn Held>) }.boxed()
    }
}

impl Client for Readers {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Box<dyn Held + '_>>> {
        async { Ok(Box::new(self.lock.read().await?) as Box<dyn Held>) }.boxed()
    }
}

impl<K: Send + Sync> Held for Guard<K> {
    fn release<'a>(self: Box<Self>) -> BoxFuture<'a, anyhow::Result<()>>
    where
        Self: 'a,
    {
        async move { Ok(Guard::release(*self).await?) }.boxed()
    }
}
