//! The [`Lock`]: acquiring it, and looking at its queue.

pub(crate) mod contender;
pub(crate) mod error;
pub(crate) mod options;
pub(crate) mod query;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use zklock_recipe::{Arrival, End, Event, Foreign, Patience};

use contender::{Contender, ForeignContender};
use error::{AcquireError, InvalidLock, QueryError};
use options::LockOptions;
use query::query;

use crate::contender::{Attended, Driver, Finish};
use crate::guard::Guard;
use crate::path::LockPath;
use crate::requests::{self, Node};
use crate::settings::Settings;
use crate::zk::{Over, Succession};

/// A lock of one session: a directory in ZooKeeper in which contenders queue. Cloning it is cheap. Its clones contend
/// with each other, and with locks at the same path in other sessions and processes.
///
/// Contenders acquire the lock in the order in which they came. A waiter watches only its predecessor, so a release
/// wakes one waiter.
#[derive(Clone)]
pub struct Lock {
    succession: Arc<Succession>,
    settings: Arc<Settings>,
}

impl Lock {
    pub(crate) fn new(
        succession: Arc<Succession>,
        path: &str,
        options: LockOptions,
    ) -> Result<Self, InvalidLock> {
        let present = succession.present();
        let path = LockPath::parse(path, present.chroot())
            .map_err(|problem| InvalidLock::Path { path: path.to_owned(), problem })?;
        let settings = options.settings(path, present.lengths())?;
        Ok(Self { succession, settings: Arc::new(settings) })
    }

    /// Returns the path of the lock's directory, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.settings.path.as_str()
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
    /// not polled for half a session timeout (three eighths at least), gives up its place. It asks to be polled when it
    /// hears news, and after ten session timeouts without any. At its next poll it joins the queue again, at the end;
    /// [`Session::requeued`](crate::Session::requeued) counts that. If the caller may be busy with something else,
    /// acquire in a separate task:
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
        match self.contend(Patience::Wait).await {
            Ok(guard) => Ok(guard),
            Err(unsuccessful) => Err(self.error(unsuccessful)),
        }
    }

    /// Acquires the lock if nobody holds it or waits for it. Returns `None` if somebody does, even if that is only
    /// another call like this one that is just leaving. It waits for no other contender, and for ZooKeeper's answer for
    /// half a session timeout at most.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        match self.succession.patiently(self.contend(Patience::Try)).await {
            Ok(Ok(guard)) => Ok(Some(guard)),
            Ok(Err(Unsuccessful::Ended(End::Busy))) => Ok(None),
            Ok(Err(unsuccessful)) => Err(self.error(unsuccessful)),
            Err(waited) => Err(AcquireError::Unanswered { path: self.settings.path.to_string(), waited }),
        }
    }

    /// Acquires the lock, and returns `None` if `timeout` passes first. The time begins with this call, not with the
    /// first poll. It also bounds the wait while ZooKeeper cannot be reached. The clock is monotonic and stops while
    /// the machine is suspended.
    ///
    /// A `timeout` of zero leaves ZooKeeper no time to answer; use [`try_acquire`](Self::try_acquire) instead.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Guard>, AcquireError>> + Send + '_ {
        let deadline = tokio::time::Instant::now().checked_add(timeout);
        async move {
            match deadline {
                Some(deadline) => self.succession.timeout_at(deadline, self.acquire()).await.ok().transpose(),
                None => self.acquire().await.map(Some),
            }
        }
    }

    /// Returns the queue, with the holder first. It is empty if nobody contends. This function is meant for operators
    /// and tests: the answer may be outdated by the time you read it.
    ///
    /// # Errors
    ///
    /// See [`QueryError`].
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn contenders(&self) -> Result<Vec<Contender>, QueryError> {
        let settings = self.settings.clone();
        let nodes =
            query(&self.succession, self.path(), |wire| requests::contenders(wire.client, settings)).await?;
        let contender = |(position, node): (usize, Node)| {
            Contender::new(position, self.settings.path.contender(node.sequence), node)
        };
        Ok(nodes.into_iter().enumerate().map(contender).collect())
    }

    /// Returns the contenders of other clients in the lock's directory. They keep every zklock contender from acquiring
    /// the lock; see [`AcquireError::ForeignContender`]. This function is meant for operators and tests: the answer may
    /// be outdated by the time you read it.
    ///
    /// # Errors
    ///
    /// See [`QueryError`].
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub async fn foreign_contenders(&self) -> Result<Vec<ForeignContender>, QueryError> {
        let settings = self.settings.clone();
        let found =
            query(&self.succession, self.path(), |wire| requests::foreigners(wire.client, settings)).await?;
        let contender = |Foreign { name, client, session }| ForeignContender {
            path: format!("{}/{name}", self.path()),
            client,
            session,
        };
        Ok(found.into_iter().map(contender).collect())
    }

    /// Contends until the lock is granted or the acquisition ends, in one ZooKeeper session after the other.
    async fn contend(&self, patience: Patience) -> Result<Guard, Unsuccessful> {
        let mut arrival = Arrival::New;
        loop {
            let session = self.succession.living().await.map_err(Unsuccessful::Over)?;
            if arrival == Arrival::Queued {
                warn!(
                    path = self.path(),
                    "the contender has lost its place in the queue, and joins the queue again, at the end"
                );
                self.succession.requeue();
            }
            let mut driver = Driver::new(session, self.settings.clone(), patience, arrival);
            driver.handle(Event::Begin(self.settings.hints.look()));
            match Attended::new(driver).await {
                Finish::Granted(driver, own, term) => return Ok(Guard::new(driver, own, term)),
                Finish::Ended(End::SessionOver(_)) | Finish::Unpolled => arrival = Arrival::Queued,
                Finish::Ended(end) => return Err(Unsuccessful::Ended(end)),
            }
        }
    }

    fn error(&self, unsuccessful: Unsuccessful) -> AcquireError {
        let path = self.settings.path.to_string();
        match unsuccessful {
            Unsuccessful::Over(Over::Closed) => AcquireError::SessionClosed { path },
            Unsuccessful::Over(Over::AuthFailed) => AcquireError::AuthFailed { path },
            Unsuccessful::Over(Over::Failed(cause)) => {
                AcquireError::SessionFailed { path, cause: Box::new(cause) }
            }
            Unsuccessful::Ended(End::Refused(refusal)) => AcquireError::refused(path, refusal),
            Unsuccessful::Ended(End::Foreign(foreign)) => AcquireError::foreign(path, foreign),
            Unsuccessful::Ended(End::Exhausted(sequence)) => AcquireError::exhausted(path, sequence),
            // Of these, only `NodeDeleted` happens here. Nobody gives up or releases for the caller. Only `try_acquire`
            // finds a queue busy. If a ZooKeeper session ends, `contend` goes on in the next one.
            Unsuccessful::Ended(
                End::NodeDeleted | End::GivenUp | End::Released | End::Busy | End::SessionOver(_),
            ) => AcquireError::NodeDeleted { path },
        }
    }
}

/// Why an acquisition has no guard.
enum Unsuccessful {
    Ended(End),
    Over(Over),
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("path", &self.path()).finish_non_exhaustive()
    }
}
