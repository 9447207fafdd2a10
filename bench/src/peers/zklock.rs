//! zklock.

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{Guard, Lock, LockOptions, Locks, LocksOptions, MultiLock, RwLock, Semaphore, Session};

use super::client::{Client, Held, SESSION_TIMEOUT};
use super::peer::{PERMITS, Peer};

pub(super) enum Zklock {
    One(Lock),
    Several(MultiLock),
    Readers(RwLock),
    Permits(Semaphore),
    /// With the default budget.
    Key(Box<Locks>, String),
}

impl Zklock {
    pub(super) async fn connect(peer: Peer, address: &str, directory: &str) -> anyhow::Result<Self> {
        let session = Session::builder(address).session_timeout(SESSION_TIMEOUT).connect().await?;
        let options = LockOptions::new().owner("bench");
        Ok(match peer {
            Peer::ZklockSeveral => {
                Self::Several(session.lock_all(peer.directories(directory))?.with_options(options)?)
            }
            Peer::ZklockReaders => Self::Readers(session.rw_lock(directory)?.with_options(options)?),
            Peer::ZklockPermits => {
                Self::Permits(session.semaphore(directory, PERMITS)?.with_options(options)?)
            }
            Peer::ZklockKeys => {
                let (root, key) = directory.rsplit_once('/').context("a directory has a parent")?;
                let options = LocksOptions::new().lock(options);
                Self::Key(Box::new(session.locks(root)?.with_options(options)?), key.to_owned())
            }
            _ => Self::One(session.lock(directory)?.with_options(options)?),
        })
    }
}

impl Client for Zklock {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Held<'_>>> {
        async move {
            Ok(match self {
                Self::One(lock) => held(lock.acquire().await?),
                Self::Several(locks) => held(locks.acquire().await?),
                Self::Readers(lock) => held(lock.read().await?),
                Self::Permits(semaphore) => held(semaphore.acquire().await?),
                Self::Key(locks, key) => held(locks.acquire(key).await?),
            })
        }
        .boxed()
    }
}

fn held<K: Send + Sync + 'static>(guard: Guard<K>) -> Held<'static> {
    let lost = guard.lost();
    Held {
        release: async move { Ok(guard.release().await?) }.boxed(),
        told: async move { format!("{:?}", lost.await) }.boxed(),
    }
}
