//! The [`Lock`]: acquiring it, and looking at its queue.

pub(crate) mod multi_lock;
pub(crate) mod requests;
pub(crate) mod rw_lock;

use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt;
use zklock_recipe::{Event, Kind};
use zookeeper_client::Client;

use crate::acquire::acquirer::{Acquirer, Wait};
use crate::acquire::contender::{Contender, ForeignContender};
use crate::acquire::options::LockOptions;
use crate::acquire::query::query;
use crate::error::{AcquireError, InvalidLock, QueryError};

use crate::guard::Guard;
use crate::observe::Observer;
use crate::requests::{Evidence, QueueNode};
use crate::settings::Settings;
use crate::zk::Succession;

/// A lock of one session: a directory in ZooKeeper in which contenders queue. Cloning it is cheap. Its clones contend
/// with each other, and with locks at the same path in other sessions and processes.
///
/// Contenders acquire the lock in the order in which they came. A waiter watches only its predecessor. A release
/// wakes one waiter, or the readers that wait for that writer.
///
/// To acquire a free lock takes one round trip. The first acquisition through a `Lock` may take two. If the directory is missing, it
/// takes three. Each missing ancestor adds two. The release itself grants the next waiter, which does not read the queue again.
///
/// # In ZooKeeper
///
/// A lock is a directory, a [container
/// node](https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html#Container+Nodes) that ZooKeeper removes once it is empty.
/// Each contender is an ephemeral, sequential child `lock-0000000042`. The lowest number holds the lock. A reader's child is
/// `rlock-0000000043`; it holds the lock if no `lock-` child is lower. The data of a contender is a small JSON object with its `owner`
/// and `since`, for operators who look with `zkCli`. If the directory has no data when zklock first sees it, zklock writes its own data
/// there. If others write to the directory later, zklock overwrites that. `docs/DESIGN.md` argues the whole layout and the protocol.
#[derive(Clone)]
pub struct Lock {
    /// What all acquisitions of this lock share.
    pub(crate) settings: Arc<Settings>,
    pub(crate) acquirer: Acquirer,
}

impl Lock {
    pub(crate) fn new(
        succession: Arc<Succession>,
        path: &str,
        options: LockOptions,
    ) -> Result<Self, InvalidLock> {
        let settings = options.settings(path, &succession.present())?;
        Ok(Self::of(succession, settings))
    }

    pub(crate) fn of(succession: Arc<Succession>, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        let acquirer = Acquirer::of_one(succession, settings.clone(), Kind::Exclusive);
        Self { settings, acquirer }
    }

    /// The ZooKeeper sessions in which this lock contends.
    pub(crate) fn succession(&self) -> &Arc<Succession> {
        &self.acquirer.succession
    }

    /// Returns it with these options in place of the default ones. It sends nothing.
    ///
    /// Errors: [`InvalidLock`] says what is wrong with an option.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, InvalidLock> {
        Self::new(self.succession().clone(), self.path(), options)
    }

    /// Returns the path of the lock's directory, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.settings.queue.path.as_str()
    }

    /// Acquires the lock, and waits in the queue for as long as that takes. A free lock takes one round trip. The first
    /// acquisition of a `Lock` takes up to two, and one that must create the directory takes three or more.
    ///
    /// The wait goes on while ZooKeeper is away. If the connection is lost, the contender keeps its place for as long
    /// as its ZooKeeper session lives. If ZooKeeper ends that session, the acquisition joins the queue again in the
    /// next session, at the end.
    ///
    /// # Poll it, or drop it
    ///
    /// The future works only while it is polled. If you keep it and do not poll it, say beside a `select!` that has
    /// moved on, it would block the queue once its turn has come. So an acquisition that has asked to be polled, and is
    /// not polled for half a session timeout (three eighths at least), gives up its place. If the runtime is so busy
    /// that it polls other acquisitions of the session late, too, this one has up to two session timeouts. It asks to
    /// be polled when an event or an answer comes, and after ten session timeouts without one. At its next poll it
    /// joins the queue again, at the end; [`Session::requeued`](crate::Session::requeued) counts that. If the caller
    /// may be busy with something else, acquire in a separate task:
    ///
    /// ```no_run
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let acquiring = tokio::spawn({ let lock = lock.clone(); async move { lock.acquire().await } });
    /// let guard = acquiring.await??;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// Safe. You may drop the future at any point; zklock then removes its node in the background. The place in the
    /// queue is lost, and so is the lock if the future had just acquired it.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquirer.acquire().await
    }

    /// Acquires the lock if nobody holds it or waits for it. Returns `None` if somebody does, even if that is only
    /// another call like this one that is just leaving. It waits for no other contender, and for ZooKeeper's answer for
    /// half a session timeout at most.
    ///
    /// Errors: [`AcquireError`]. Cancel safety: as [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        self.acquirer.acquire_within(Wait::Never).await
    }

    /// Acquires the lock, and returns `None` if `timeout` passes first. The time begins with this call, not with the
    /// first poll. It also bounds the wait while ZooKeeper cannot be reached. The clock is monotonic and stops while
    /// the machine is suspended.
    ///
    /// A `timeout` of zero leaves ZooKeeper no time to answer; use [`try_acquire`](Self::try_acquire) instead.
    ///
    /// Errors: [`AcquireError`]. Cancel safety: as [`acquire`](Self::acquire).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Guard>, AcquireError>> + Send + '_ {
        self.acquirer.acquire_within(Wait::within(timeout))
    }

    /// Returns the queue, with the holder first. It is empty if nobody contends. This function is meant for operators
    /// and tests: the answer may be outdated by the time you read it.
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn contenders(&self) -> Result<Vec<Contender>, QueryError> {
        Ok(Contender::queue(self.query(requests::read_queue).await?))
    }

    /// Returns the holder: the first contender in the queue, which holds the lock or is about to. Returns `None` if nobody
    /// contends. It takes one listing and one read, however long the queue is. The answer may be outdated by the time you
    /// read it.
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn holder(&self) -> Result<Option<Contender>, QueryError> {
        let first = self.query(requests::holder).await?;
        Ok(first.map(|node: QueueNode| Contender::new(0, true, node)))
    }

    /// Observes the first contender in the queue, which holds the lock or is about to: first the present one, then each
    /// change; see [`Observer`]. Readers may hold the lock together with it. It costs one watch, and one listing and one
    /// read for each change. The observer is no contender.
    ///
    /// ```no_run
    /// # async fn example(lock: zklock::Lock) -> Result<(), zklock::inspect::WentBack> {
    /// let mut holders = lock.holders();
    /// while let Some(holder) = holders.next().await {
    ///     match holder? {
    ///         Some(holder) => println!("{:?} is first, token {:?}", holder.owner, holder.token),
    ///         None => println!("nobody contends"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn holders(&self) -> Observer<Contender> {
        let settings = self.settings.clone();
        let look = move |client, footing| {
            let holder = |node: QueueNode| Contender::new(0, true, node);
            requests::watch_holder(client, settings.clone(), footing).map_ok(move |seen| seen.map(holder))
        };
        Observer::start(self.succession(), self.path().to_owned(), look)
    }

    /// Returns the contenders of other clients in the lock's directory. They keep every zklock contender from acquiring
    /// the lock; see [`AcquireError::ForeignContender`]. This function is meant for operators and tests: the answer may
    /// be outdated by the time you read it.
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn foreign_contenders(&self) -> Result<Vec<ForeignContender>, QueryError> {
        let found = self.query(requests::find_foreigners).await?;
        Ok(found.into_iter().map(|foreign| ForeignContender::new(&self.settings, foreign)).collect())
    }

    /// Asks ZooKeeper a question about this lock.
    pub(crate) async fn query<T, F>(
        &self,
        question: impl FnOnce(Arc<Client>, Arc<Settings>) -> F + Send + 'static,
    ) -> Result<T, QueryError>
    where
        T: Evidence + Send + 'static,
        F: Future<Output = Result<T, Event>> + Send + 'static,
    {
        let settings = self.settings.clone();
        query(self.succession(), self.path(), |wire| question(wire.client, settings)).await
    }
}

debug_shows!(Lock, it, { path: it.path() });
