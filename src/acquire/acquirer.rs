//! Acquires locks: what every primitive's `acquire` stands on, and the stages that follow the grant in some.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use zklock_recipe::{Arrival, End, Event, Foreign, Kind, Outcome, Patience, Stranger, Tries};

use crate::contender::{Attended, Driver, attend};
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::settings::{QueueEntry, Settings, paths};
use crate::telemetry::{self, Acquired, FamilyMember};
use crate::zk::{Over, Succession};

/// Acquires one lock, or several at once.
#[derive(Clone)]
pub(crate) struct Acquirer {
    pub(crate) succession: Arc<Succession>,
    /// The queues to join. There is at least one.
    pub(crate) entries: Arc<[QueueEntry]>,
}

impl Acquirer {
    pub(crate) fn of_one(succession: Arc<Succession>, lock: Arc<Settings>, kind: Kind) -> Self {
        Self { succession, entries: [QueueEntry { lock, kind }].into() }
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = &Arc<Settings>> {
        self.entries.iter().map(|entry| &entry.lock)
    }

    /// See [`Lock::acquire`](crate::Lock::acquire).
    pub(crate) async fn acquire<K>(&self) -> Result<Guard<K>, AcquireError> {
        self.at_last(self.acquire_within(Wait::FOR_EVER).await?)
    }

    /// See [`Lock::try_acquire`](crate::Lock::try_acquire) and [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    pub(crate) async fn acquire_within<K>(&self, wait: Wait) -> Result<Option<Guard<K>>, AcquireError> {
        let member = match &*self.entries {
            [QueueEntry { kind: Kind::Shared, .. }] => FamilyMember::Reader,
            [_] => FamilyMember::Lock,
            _ => FamilyMember::Several,
        };
        let acquisition = async { Ok(self.contend(wait, Arrival::New).await?.map(|(guard, _)| guard)) };
        self.instrument(member, wait, pin!(acquisition)).await
    }

    /// Awaits the acquisition of a caller in its span, counts it, and tells of the hold.
    pub(crate) async fn instrument<T: Acquired, E>(
        &self,
        member: FamilyMember,
        wait: Wait,
        acquisition: Pin<&mut impl Future<Output = Result<Option<T>, E>>>,
    ) -> Result<Option<T>, E> {
        let name = self.entries.first().map(|entry| &entry.lock.options.label).unwrap_or(&None);
        let waits = wait.patience() == Patience::Wait;
        self.locks().for_each(|lock| lock.clear_place());
        let acquired =
            telemetry::acquisition(member, name, Paths(&self.entries), wait, waits, acquisition).await;
        if let Ok(Some(acquired)) = &acquired {
            self.locks().for_each(|lock| lock.clear_place());
            if self.locks().any(|lock| lock.options.fail_stop) {
                acquired.fail_stop();
            }
        }
        acquired
    }

    /// What a caller gets that waits for as long as that takes. Only those that do not want to wait find it busy.
    pub(crate) fn at_last<T, E: From<AcquireError>>(&self, got: Option<T>) -> Result<T, E> {
        got.ok_or_else(|| AcquireError::NodeDeleted { path: self.paths() }.into())
    }

    /// Acquires the locks, and then passes the further stages that need them. `stages` makes these of the guard, and of how its contender
    /// stood at the grant. If they lose their place, or nobody polls them, it queues again, after a pause if they lose it again and again.
    /// `None` if the locks are not acquired within this wait, or if a stage would have to wait and the caller does not want to.
    pub(crate) async fn acquire_in_stages<K, T, E, F>(
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
        let mut displaced = Tries::default();
        loop {
            let Some((guard, arrived)) = self.contend(wait, arrival).await? else { return Ok(None) };
            let session = guard.session().clone();
            match attend(&session, self.paths(), stages(guard, arrived)).await.transpose()? {
                Some(Passage::Passed(passed)) => return Ok(Some(passed)),
                Some(Passage::Busy) => return Ok(None),
                Some(Passage::Displaced) => {
                    let pause = async {
                        session.repeat(&mut displaced).await;
                        Ok::<_, E>(Some(()))
                    };
                    if self.within(wait, pause).await?.is_none() {
                        return Ok(None);
                    }
                }
                None => {}
            }
            arrival = Arrival::Queued;
        }
    }

    /// Awaits an acquisition for as long as the caller wants to wait. `None` if that was too short.
    pub(crate) async fn within<T, E: From<AcquireError>>(
        &self,
        wait: Wait,
        acquisition: impl Future<Output = Result<Option<T>, E>>,
    ) -> Result<Option<T>, E> {
        match wait {
            Wait::Until(deadline) => self.succession.by(deadline, acquisition).await.map(Option::flatten),
            Wait::Never => {
                self.succession.patiently(acquisition).await.unwrap_or_else(|waited| {
                    Err(AcquireError::Unanswered { path: self.paths(), waited }.into())
                })
            }
        }
    }

    /// Contends until every lock is granted or the acquisition ends, in one ZooKeeper session after the other. It arrives like
    /// this. Also returns how the contender stands at its grant: whether a holder may have vanished since its first contender came.
    /// `None` if the locks are not acquired within this wait. No caller is told of the hold.
    pub(crate) async fn contend<K>(
        &self,
        wait: Wait,
        mut arrival: Arrival,
    ) -> Result<Option<(Guard<K>, Arrival)>, AcquireError> {
        let contending = async {
            loop {
                let living = self.succession.living().await;
                let session = living.map_err(|over| AcquireError::over(self.paths(), over))?;
                if arrival == Arrival::Queued {
                    warn!(
                        paths = %self.paths(),
                        "the contender has lost its place in the queue, and joins the queue again, at the end"
                    );
                    self.succession.requeued.fetch_add(1, Ordering::Relaxed);
                }
                let mut driver = Driver::new(session.clone(), &self.entries, wait.patience(), arrival);
                driver.handle(Event::Begin);
                match Attended::new(&session, driver).await {
                    Some((driver, Outcome::Granted(nodes, term))) => {
                        let arrival = driver.arrival();
                        return Ok(Some((Guard::new(driver, nodes, term), arrival)));
                    }
                    // Nobody polled it, or its session is over, or another client has asked it to leave. Without a guard nothing is
                    // lost.
                    None
                    | Some((_, Outcome::Ended(_, End::SessionOver(_) | End::Displaced) | Outcome::Lost(_))) =>
                    {
                        arrival = Arrival::Queued;
                    }
                    Some((_, Outcome::Ended(_, End::Busy))) => return Ok(None),
                    // A group has as many members as there are entries.
                    Some((_, Outcome::Ended(lock, end))) => return Err(error(&self.entries[lock].lock, end)),
                }
            }
        };
        tokio::select! {
            biased;
            // What is released before the session goes must not grant anybody whom the session's end would take the lock from.
            () = self.succession.closed() => Err(AcquireError::over(self.paths(), Over::Closed)),
            contended = self.within(wait, contending) => contended,
        }
    }

    fn paths(&self) -> String {
        paths(self.locks())
    }
}

/// Why an acquisition of this lock ended without a guard.
fn error(lock: &Settings, end: End) -> AcquireError {
    let path = lock.queue.path.to_string();
    match end {
        End::Refused(refusal) => AcquireError::refused(path, refusal),
        End::Foreign(Stranger::Client(Foreign { name, client, session })) => {
            AcquireError::ForeignContender { node: lock.queue.path.of_child(&name), path, client, session }
        }
        End::Foreign(Stranger::Kind(other)) => {
            AcquireError::other_kind(lock.queue.subject().to_string(), lock.queue.kind(), other)
        }
        End::Exhausted(sequence) => AcquireError::SequenceExhausted { path, sequence: sequence.0 },
        // Of these, only `NodeDeleted` comes here. Nobody gives up or releases for the caller. If a queue is busy, a contender is
        // displaced or a ZooKeeper session ends, `contend` knows what to do.
        End::NodeDeleted
        | End::GivenUp
        | End::Released
        | End::Busy
        | End::Displaced
        | End::SessionOver(_) => AcquireError::NodeDeleted { path },
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

    /// For this time from now on.
    pub(crate) fn within(timeout: Duration) -> Self {
        Self::Until(Instant::now().checked_add(timeout))
    }

    /// Whether to wait at all.
    pub(crate) fn patience(self) -> Patience {
        match self {
            Self::Until(_) => Patience::Wait,
            Self::Never => Patience::Try,
        }
    }
}

/// The paths of these queues' locks, for a span.
struct Paths<'a>(&'a [QueueEntry]);

impl fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An election and a pool are known by their own paths, and their queues are below.
        for (index, entry) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(entry.lock.queue.subject().as_str())?;
        }
        Ok(())
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(None) => f.write_str("forever"),
            Self::Until(Some(deadline)) => {
                write!(f, "{:.1?}", deadline.saturating_duration_since(Instant::now()))
            }
            Self::Never => f.write_str("never"),
        }
    }
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
