//! The lock: acquiring it, and looking at its queue.

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

/// A lock of one session: a directory in ZooKeeper in which contenders queue. Cheap to clone; clones, like locks at
/// the same path in other sessions and processes, contend with each other.
///
/// Contenders are served first come, first served. A waiter watches only its predecessor, so a release wakes one
/// waiter.
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

    /// The path of the lock's directory, from the connect string's chroot.
    pub fn path(&self) -> &str {
        self.settings.path.as_str()
    }

    /// Waits in the queue until the lock is held. A free lock takes one round trip; the first acquisition of a `Lock` takes up
    /// to two, and one that must create the directory three or more.
    ///
    /// Waits as long as it takes, ZooKeeper's absence included: while the connection is lost the place in the queue
    /// is kept for as long as the ZooKeeper session lives. If the servers end that, the acquisition queues again in the
    /// next one, at the end.
    ///
    /// # Poll it, or drop it
    ///
    /// The future does its work when it is polled. One that is kept and not polled, say beside a `select!` that has moved on,
    /// would hold the queue up once its turn has come. So an acquisition that has asked to be polled gives its place up
    /// after half a session timeout (three eighths at the least). It asks when there is news, and after ten session timeouts
    /// without any. It queues again, at the end, when it is polled next;
    /// [`Session::requeued`](crate::Session::requeued) counts that. Acquire in a task of its own if the caller may be busy
    /// with something else:
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
    /// Safe: dropping the future at any point removes its node in the background. The place in the queue is
    /// lost; so is the lock, if it had just been granted.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        match self.contend(Patience::Wait).await {
            Ok(guard) => Ok(guard),
            Err(unsuccessful) => Err(self.error(unsuccessful)),
        }
    }

    /// Acquires the lock if nobody holds it or waits for it; `None` if somebody does, and if another call like this one
    /// is just leaving. Waits for no other contender, and for ZooKeeper's answer no longer than half a session timeout.
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

    /// Waits in the queue until the lock is held, or until `timeout` has passed since this call (not since the
    /// first poll): `None` then. Holds while ZooKeeper is unreachable, too. The clock is monotonic and stops while
    /// the machine is suspended.
    ///
    /// A `timeout` of zero leaves no time for ZooKeeper's answer; see [`try_acquire`](Self::try_acquire).
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

    /// The queue as it is now, the holder first; empty if nobody contends. For operators and tests: by the time it
    /// is read it may have changed.
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

    /// Contenders of other clients in the lock's directory, which keep everybody from acquiring the lock; see
    /// [`AcquireError::ForeignContender`]. For operators and tests: by the time it is read it may have changed.
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

    /// Contends until the lock is held, or something ends it: in one ZooKeeper session after the other.
    async fn contend(&self, patience: Patience) -> Result<Guard, Unsuccessful> {
        let mut arrival = Arrival::New;
        loop {
            let session = self.succession.living().await.map_err(Unsuccessful::Over)?;
            if arrival == Arrival::Queued {
                warn!(path = self.path(), "the place in the queue is lost; queueing again, at the end");
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
            // Nobody gives up or releases for the caller, only `try_acquire` finds a queue busy, and with the end of
            // a ZooKeeper session it goes on.
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
