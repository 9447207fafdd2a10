//! Acquires locks: what every primitive's `acquire` stands on, and the stages that follow the grant in some.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use zklock_recipe::acquisition::Input;
use zklock_recipe::{Arrival, End, Look, Patience, Stranger};

use super::error::AcquireError;
use crate::contender::{Attended, Driver, Outcome, attend};
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
        let contended = self.contend(Patience::Wait, Arrival::New).await;
        contended.map(|(guard, _)| guard).map_err(|unsuccessful| self.error(unsuccessful))
    }

    /// See [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub(super) async fn try_acquire<K>(&self) -> Result<Option<Guard<K>>, AcquireError> {
        self.acquire_as(Wait::Never, Arrival::New).await.map(|granted| granted.map(|(guard, _)| guard))
    }

    /// See [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    pub(super) fn acquire_timeout<K>(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Guard<K>>, AcquireError>> + Send + '_ {
        let deadline = Instant::now().checked_add(timeout);
        async move { self.succession.by(deadline, self.acquire()).await }
    }

    /// Acquires the locks, and then passes the further stages that need them. `stages` makes these of the guard, and of how its
    /// contender stood at the grant. If they lose their place, or nobody polls them, it queues again. `None` if it would have
    /// to wait for longer than the caller wants to.
    pub(crate) async fn pass<K, T, E, F>(
        &self,
        wait: Wait,
        mut stages: impl FnMut(Guard<K>, Arrival) -> F + Send,
    ) -> Result<Option<T>, E>
    where
        T: 'static,
        E: From<AcquireError> + 'static,
        F: Future<Output = Result<Passage<T>, E>> + Send + 'static,
    {
        let mut arrival = Arrival::New;
        loop {
            let Some((guard, arrived)) = self.acquire_as(wait, arrival).await? else { return Ok(None) };
            let session = guard.session().clone();
            match attend(&session, self.paths(), stages(guard, arrived)).await.transpose()? {
                Some(Passage::Passed(passed)) => return Ok(Some(passed)),
                Some(Passage::Busy) => return Ok(None),
                Some(Passage::Displaced) | None => arrival = Arrival::Queued,
            }
        }
    }

    /// Acquires the locks as one that arrives like this. `None` if it would have to wait for longer than that.
    async fn acquire_as<K>(
        &self,
        wait: Wait,
        arrival: Arrival,
    ) -> Result<Option<(Guard<K>, Arrival)>, AcquireError> {
        let granted = match wait {
            Wait::Until(deadline) => {
                self.succession.by(deadline, self.contend(Patience::Wait, arrival)).await
            }
            Wait::Never => match self.succession.patiently(self.contend(Patience::Try, arrival)).await {
                Ok(Err(Unsuccessful::Ended(_, End::Busy))) => Ok(None),
                Ok(contended) => contended.map(Some),
                Err(waited) => return Err(AcquireError::Unanswered { path: self.paths(), waited }),
            },
        };
        granted.map_err(|unsuccessful| self.error(unsuccessful))
    }

    /// Contends until every lock is granted or the acquisition ends, in one ZooKeeper session after the other. It arrives like
    /// this. Also returns how the contender stands at its grant: whether a holder may have vanished since the first one came.
    async fn contend<K>(
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
            driver.handle(Input::Begin(self.look()));
            match Attended::new(&session, driver).await {
                Some((driver, Outcome::Granted(nodes, term))) => {
                    let arrival = driver.arrival();
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

    fn error(&self, unsuccessful: Unsuccessful) -> AcquireError {
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
                AcquireError::other_kind(lock.subject.to_string(), lock.kind, other)
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

/// How long an acquisition waits for other contenders.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Until this instant; `None` for as long as it takes.
    Until(Option<Instant>),
    Never,
}

impl Wait {
    pub(crate) const FOR_EVER: Self = Self::Until(None);
}

/// How an acquisition passed the stages after its grant.
pub(crate) enum Passage<T> {
    /// It has what it was for.
    Passed(T),
    /// It would have to wait, and the caller does not want to.
    Busy,
    /// It has lost its place.
    Displaced,
}

/// Why an acquisition has no guard.
enum Unsuccessful {
    /// The contender of the lock with this index ended like this.
    Ended(usize, End),
    Over(Over),
}
