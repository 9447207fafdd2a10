//! The [`Semaphore`]: permits up to a capacity, strictly in order. [`Slots`] stand on the same pool.

mod admission;
pub(crate) mod error;
mod pool;
mod requests;
pub(crate) mod slots;
mod statement;

use std::sync::Arc;
use std::time::Duration;

use zklock_recipe::{Stock, Wish};

pub use error::{InvalidPool, PoolError};
use pool::Pool;
pub use slots::{Slots, SlotsHeld};

use crate::acquire::acquirer::Wait;
use crate::acquire::contender::Contender;
use crate::acquire::options::LockOptions;
use crate::error::QueryError;
use crate::guard::Permit;
use crate::zk::Succession;

/// A semaphore of one session: permits whose weights add up to its capacity at most, among all machines. Cloning it is
/// cheap. Its clones contend with each other, and with semaphores at the same path in other sessions and processes.
///
/// A [`Permit`] is a guard: it is valid under the session's lease, it says when it is lost, and it has a fencing token.
/// zklock does not grant a permit if, as the servers see it, the weights of all permits whose nodes exist would then
/// exceed the capacity. So the permits that say that they are held do not exceed it
/// ([limits](crate::guard#what-it-cannot-do)).
///
/// Permits are granted strictly in order of arrival, each whole or not at all. Nobody overtakes an acquisition that
/// waits for its weight. So a large permit is not starved. The price is that a small permit behind it waits, although
/// there is room for it. And no two callers can each hold half of what both need, if each asks for its whole need at
/// once.
///
/// # In ZooKeeper
///
/// The semaphore at `/pool` is the *turnstile* `/pool/queue`, which is a lock, and the persistent node `/pool/permits`,
/// whose data is the capacity. A permit of weight 3 is its child `permit-3-0000000042`. An acquisition holds the turnstile
/// until it is admitted. So a free permit takes three round trips, and a release one. The turnstile passes from one acquisition to the
/// next in two round trips.
///
/// # The capacity
///
/// The first acquisition of all writes the capacity that it states. From then on an acquisition that states another one is
/// refused with [`PoolError::Capacity`]. [`set_capacity`](Self::set_capacity) changes it. ZooKeeper keeps it until
/// somebody deletes `/pool/permits`.
///
/// # Limits
///
/// If an operator deletes a permit, its weight is free at once, and its holder learns of that as the holder of a lock does:
/// within a round trip, or later in its first 40 ms. Until then more may be held than the capacity. A
/// [`LockOptions::takeover_delay`] closes that gap for acquisitions that have to wait. A child's end looks the same whether
/// it was released or its holder crashed. So with a delay every acquisition that has to wait waits for it, after it has
/// seen that there is room. Without waiting, an acquisition is admitted at once.
///
/// A node that somebody makes by hand in `/pool/permits` counts by its name.
///
/// ```no_run
/// # async fn convert() {}
/// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
/// let semaphore = session.semaphore("/convert", 8)?; // at most 8 conversions at once, on all machines
/// let permit = semaphore.acquire().await?;
/// permit.run(convert()).await?;                      // dropped the moment the permit is lost
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    pool: Arc<Pool>,
}

/// The capacity of a semaphore, and the permits that are held; see [`Semaphore::permits`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitsHeld {
    /// The semaphore's capacity; `None` if nobody has used it yet, or if the path has [`Slots`] instead.
    pub capacity: Option<u32>,
    /// The permits that are held, the oldest first. The [`kind`](Contender::kind) of each is
    /// [`Kind::Permit`](crate::inspect::Kind::Permit), with its weight.
    pub permits: Vec<Contender>,
}

impl Semaphore {
    pub(crate) fn new(
        succession: Arc<Succession>,
        path: &str,
        capacity: u32,
        options: LockOptions,
    ) -> Result<Self, InvalidPool> {
        if capacity == 0 {
            return Err(InvalidPool::Nothing { path: path.to_owned() });
        }
        let pool = Pool::new(succession, path, Stock::Permits(capacity), options)?;
        Ok(Self { pool: Arc::new(pool) })
    }

    /// Returns it with these options in place of the default ones. It sends nothing.
    ///
    /// Errors: [`InvalidPool`] says what is wrong with an option.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, InvalidPool> {
        Self::new(self.pool.succession().clone(), self.path(), self.capacity(), options)
    }

    /// Returns the semaphore's path, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.pool.path()
    }

    /// Returns the capacity that this process states.
    pub fn capacity(&self) -> u32 {
        self.pool.statement.stock().number()
    }

    /// Acquires a permit of weight 1, and waits for as long as that takes. As [`acquire_many`](Self::acquire_many).
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`acquire_many`](Self::acquire_many).
    pub async fn acquire(&self) -> Result<Permit, PoolError> {
        self.acquire_many(1).await
    }

    /// Acquires a permit of this weight, whole, and waits in order of arrival for as long as that takes.
    ///
    /// The wait goes on while ZooKeeper is away, as [`Lock::acquire`](crate::Lock::acquire) does. If ZooKeeper ends the
    /// session, or an operator deletes the acquisition's node while it is the first in the turnstile, it queues again, at
    /// the end; [`Session::requeued`](crate::Session::requeued) counts that.
    ///
    /// Poll the future, or drop it; see [`Lock::acquire`](crate::Lock::acquire). An acquisition that has asked to be polled,
    /// and is not polled for half a session timeout, gives up its place in the turnstile, and a permit that it was about to
    /// take. It queues again at its next poll.
    ///
    /// # Errors
    ///
    /// See [`PoolError`]. [`PoolError::Weight`] if the weight is zero or more than the capacity.
    ///
    /// # Cancel safety
    ///
    /// Safe. You may drop the future at any point; zklock then removes its nodes in the background. The place in the queue
    /// is lost, and so is the permit if the future had just acquired it.
    pub async fn acquire_many(&self, weight: u32) -> Result<Permit, PoolError> {
        self.pool.acquire(self.wish(weight)?).await
    }

    /// Acquires a permit of weight 1 if that is free now. As [`try_acquire_many`](Self::try_acquire_many).
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`acquire_many`](Self::acquire_many).
    pub async fn try_acquire(&self) -> Result<Option<Permit>, PoolError> {
        self.try_acquire_many(1).await
    }

    /// Acquires a permit of this weight if that is free now. Returns `None` if it is not, or if another acquisition is in
    /// the turnstile, even one that is just passing. It waits for nobody, and for ZooKeeper's answers for half a session
    /// timeout at most.
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`acquire_many`](Self::acquire_many).
    pub async fn try_acquire_many(&self, weight: u32) -> Result<Option<Permit>, PoolError> {
        self.pool.acquire_within(self.wish(weight)?, Wait::Never).await
    }

    /// Acquires a permit of weight 1, and returns `None` if `timeout` passes first. As
    /// [`acquire_many_timeout`](Self::acquire_many_timeout).
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`acquire_many`](Self::acquire_many).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Permit>, PoolError>> + Send + 'static {
        self.acquire_many_timeout(1, timeout)
    }

    /// Acquires a permit of this weight, and returns `None` if `timeout` passes first; see
    /// [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`acquire_many`](Self::acquire_many).
    pub fn acquire_many_timeout(
        &self,
        weight: u32,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Permit>, PoolError>> + Send + 'static {
        let pool = self.pool.clone();
        let wish = self.wish(weight);
        let wait = Wait::within(timeout);
        async move { pool.acquire_within(wish?, wait).await }
    }

    /// Changes the capacity for everybody. From then on this semaphore and its clones state the new one, and acquisitions
    /// that state another one are refused, also those that wait. Permits that are held stay, also if they are more than the
    /// new capacity by now; then nobody is admitted until enough of them are gone.
    ///
    /// # Errors
    ///
    /// See [`PoolError`]. The function waits for the answer for half a session timeout at most. If none came
    /// ([`AcquireError::Unanswered`](crate::AcquireError::Unanswered)), the capacity may have changed. Then acquisitions of
    /// this semaphore go by whichever of the two they find.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the capacity may have changed or not. Call it again. If you keep the future and do not poll
    /// it, the next change waits for it, as long as for an answer.
    pub async fn set_capacity(&self, capacity: u32) -> Result<(), PoolError> {
        if capacity == 0 {
            return Err(PoolError::Number { path: self.path().to_owned(), asked: 0, largest: u32::MAX });
        }
        self.pool.set_stock(Stock::Permits(capacity)).await
    }

    /// Returns the capacity and the permits that are held. This function is meant for operators and tests: the answer may
    /// be outdated by the time you read it.
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn permits(&self) -> Result<PermitsHeld, QueryError> {
        let (stock, permits) = self.pool.holders().await?;
        let capacity = match stock {
            Some(Stock::Permits(capacity)) => Some(capacity),
            Some(Stock::Slots(_)) | None => None,
        };
        Ok(PermitsHeld { capacity, permits })
    }

    fn wish(&self, weight: u32) -> Result<Wish, PoolError> {
        let capacity = self.pool.statement.largest();
        if weight == 0 || weight > capacity {
            return Err(PoolError::Weight { path: self.path().to_owned(), weight, capacity });
        }
        Ok(Wish::Permit(weight))
    }
}

debug_shows!(Semaphore, it, { path: it.path(), capacity: it.capacity() });
