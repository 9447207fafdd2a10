//! Acquires locks: what every primitive's `acquire` stands on.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use zklock_recipe::{Arrival, End, Event, Look, Patience, Stranger};

use super::error::AcquireError;
use crate::contender::{Attended, Driver, Outcome};
use crate::guard::Guard;
use crate::settings::{Entry, Settings, paths};
use crate::zk::{Over, Succession};

/// Acquires one lock, or several at once.
#[derive(Clone)]
pub(crate) struct Acquirer {
    pub(crate) succession: Arc<Succession>,
    /// The queues to join. There is at least one.
    pub(crate) entries: Arc<[Entry]>,
}

impl Acquirer {
    /// The settings of each lock.
    pub(super) fn locks(&self) -> impl Iterator<Item = &Arc<Settings>> {
        self.entries.iter().map(|entry| &entry.lock)
    }

    /// See [`Lock::acquire`](crate::Lock::acquire).
    pub(super) async fn acquire<K>(&self) -> Result<Guard<K>, AcquireError> {
        self.contend(Patience::Wait).await.map_err(|unsuccessful| self.error(unsuccessful))
    }

    /// See [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub(super) async fn try_acquire<K>(&self) -> Result<Option<Guard<K>>, AcquireError> {
        match self.succession.patiently(self.contend(Patience::Try)).await {
            Ok(Ok(guard)) => Ok(Some(guard)),
            Ok(Err(Unsuccessful::Ended(_, End::Busy))) => Ok(None),
            Ok(Err(unsuccessful)) => Err(self.error(unsuccessful)),
            Err(waited) => Err(AcquireError::Unanswered { path: self.paths(), waited }),
        }
    }

    /// See [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    pub(super) fn acquire_timeout<K>(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Guard<K>>, AcquireError>> + Send + '_ {
        let deadline = tokio::time::Instant::now().checked_add(timeout);
        async move { self.succession.by(deadline, self.acquire()).await }
    }

    /// Contends until every lock is granted or the acquisition ends, in one ZooKeeper session after the other.
    async fn contend<K>(&self, patience: Patience) -> Result<Guard<K>, Unsuccessful> {
        self.contend_as(patience, Arrival::New).await.map(|(guard, _)| guard)
    }

    /// Contends as one that arrives like this. Also returns how the contender stands at its grant: whether a holder may
    /// have vanished since the first one came.
    pub(crate) async fn contend_as<K>(
        &self,
        patience: Patience,
        mut arrival: Arrival,
    ) -> Result<(Guard<K>, Arrival), Unsuccessful> {
        loop {
            let session = self.succession.living().await.map_err(Unsuccessful::Over)?;
            if arrival == Arrival::Queued {
                warn!(
                    paths = %self.paths(),
                    "the contender has lost its place in the queue, and joins the queue again, at the end"
                );
                self.succession.requeue();
            }
            let mut driver = Driver::new(session.clone(), &self.entries, patience, arrival);
            driver.handle(Event::Begin(self.look()));
            match Attended::new(&session, driver).await {
                Some((driver, Outcome::Granted(nodes, term))) => {
                    let arrival = if driver.has_waited() { Arrival::Queued } else { arrival };
                    return Ok((Guard::new(driver, nodes, term), arrival));
                }
                // Nobody polled it, or its session is over. Without a guard nothing is lost.
                None | Some((_, Outcome::Ended(_, End::SessionOver(_)) | Outcome::Lost)) => {
                    arrival = Arrival::Queued;
                }
                Some((_, Outcome::Ended(lock, end))) => return Err(Unsuccessful::Ended(lock, end)),
            }
        }
    }

    fn look(&self) -> Look {
        match &*self.entries {
            [entry] => entry.lock.hints.look(),
            _ => Look::Count,
        }
    }

    fn paths(&self) -> String {
        paths(self.locks())
    }

    pub(crate) fn error(&self, unsuccessful: Unsuccessful) -> AcquireError {
        let (lock, end) = match unsuccessful {
            Unsuccessful::Over(over) => return AcquireError::over(self.paths(), over),
            // A group has as many members as there are entries.
            Unsuccessful::Ended(lock, end) => (&self.entries[lock].lock, end),
        };
        let path = lock.path.to_string();
        match end {
            End::Refused(refusal) => AcquireError::refused(path, refusal),
            End::Foreign(Stranger::Client(foreign)) => AcquireError::foreign(path, foreign),
            End::Foreign(Stranger::Kind(other)) => {
                AcquireError::other_kind(lock.subject().to_owned(), lock.kind, other)
            }
            End::Exhausted(sequence) => AcquireError::exhausted(path, sequence),
            // Of these, only `NodeDeleted` happens here. Nobody gives up or releases for the caller. Only `try_acquire`
            // finds a queue busy. If a ZooKeeper session ends, `contend` goes on in the next one.
            End::NodeDeleted | End::GivenUp | End::Released | End::Busy | End::SessionOver(_) => {
                AcquireError::NodeDeleted { path }
            }
        }
    }
}

/// Why an acquisition has no guard.
pub(crate) enum Unsuccessful {
    /// The contender of the lock with this index ended like this.
    Ended(usize, End),
    Over(Over),
}
