//! zklock. The guard is asked as its users ask it.

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use zklock::{AnyGuard, LockOptions, Locks, LocksOptions, MultiLock, Semaphore, Session};

use super::contestant::Contestant;
use super::contract::{CONNECT, Lock, Place};

const PERMITS: u32 = 8;

pub(super) struct Zklock {
    member: Member,
    guard: Option<AnyGuard>,
}

enum Member {
    One(zklock::Lock),
    Several(MultiLock),
    Permits(Semaphore),
    /// With the default budget.
    Key(Box<Locks>, String),
}

impl Lock for Zklock {
    async fn connect(place: &Place, server: &str) -> anyhow::Result<Self> {
        let Place { contestant, path, timeout, .. } = place;
        let builder = Session::builder(server).session_timeout(*timeout).connect_timeout(CONNECT);
        let session = builder.connect().await.context("cannot connect to ZooKeeper")?;
        let options = LockOptions::new().owner("bench");
        let member = match contestant {
            Contestant::Several => {
                let paths = ["", "-1", "-2"].map(|end| format!("{path}{end}"));
                Member::Several(session.lock_all(paths)?.with_options(options)?)
            }
            Contestant::Permits => Member::Permits(session.semaphore(path, PERMITS)?.with_options(options)?),
            Contestant::Keys => {
                let (root, key) = path.rsplit_once('/').context("a path has a parent")?;
                let options = LocksOptions::new().lock(options);
                Member::Key(Box::new(session.locks(root)?.with_options(options)?), key.to_owned())
            }
            _ => Member::One(session.lock(path)?.with_options(options)?),
        };
        Ok(Self { member, guard: None })
    }

    /// The tasks of a process wait for a key in one line.
    fn another(&self) -> Option<Self> {
        match &self.member {
            Member::Key(locks, key) => {
                Some(Self { member: Member::Key(locks.clone(), key.clone()), guard: None })
            }
            _ => None,
        }
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        self.guard = Some(match &self.member {
            Member::One(lock) => lock.acquire().await?.into_any(),
            Member::Several(locks) => locks.acquire().await?.into_any(),
            Member::Permits(semaphore) => semaphore.acquire().await?.into_any(),
            Member::Key(locks, key) => locks.acquire(key).await?.into_any(),
        });
        Ok(())
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let guard = self.guard.take().context("only a guard can be released, and there is none")?;
        Ok(guard.release().await?)
    }

    fn told(&self) -> BoxFuture<'static, String> {
        match &self.guard {
            Some(guard) => guard.lost().map(|reason| format!("{reason:?}")).boxed(),
            None => std::future::pending().boxed(),
        }
    }
}
