//! The [`Slots`]: a number of places, each held by one.

use std::sync::Arc;
use std::time::Duration;

use zklock_recipe::{Stock, Wish};

use super::error::{InvalidPool, PoolError};
use super::pool::Pool;
use crate::acquire::acquirer::Wait;
use crate::acquire::contender::Contender;
use crate::acquire::options::LockOptions;
use crate::error::QueryError;
use crate::guard::Slot;
use crate::zk::Succession;

/// Slots of one session: a number of places, each held by one guard, among all machines. Use them for worker ids,
/// shards and partitions. Cloning it is cheap. Its clones contend with each other, and with slots at the same path in other
/// sessions and processes.
///
/// A [`Slot`] is a guard with an [`index`](Slot::index), from 0 to the number of slots less one. While it is valid, no other
/// guard with this index is. When it is lost, another process may soon hold the index. So stop using the index then, and
/// pass the guard's token to stores that can compare it.
///
/// Slots are a [`Semaphore`](crate::Semaphore) whose permits have an index: claims are served strictly in order, the same
/// limits apply, and the number of slots is kept and changed as a capacity is. A slot's node is
/// `/pool/permits/slot-INDEX-0000000042`.
///
/// ```no_run
/// # async fn serve(worker: u32) {}
/// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
/// let slot = session.slots("/worker-ids", 1024)?.acquire().await?;
/// slot.run(serve(slot.index())).await?; // dropped the moment the slot is lost
/// slot.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Slots {
    pool: Arc<Pool>,
    preferred: Option<u32>,
}

/// The number of slots, and those that are held; see [`Slots::slots`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotsHeld {
    /// The number of slots; `None` if nobody has used them yet, or if they are no slots but a
    /// [`Semaphore`](crate::Semaphore).
    pub count: Option<u32>,
    /// The slots that are held, the oldest claim first. The [`kind`](Contender::kind) of each is
    /// [`Kind::Slot`](crate::inspect::Kind::Slot), with its index.
    pub slots: Vec<Contender>,
}

impl Slots {
    /// The largest number of slots at one path. Each claim lists those that are held.
    pub const LARGEST_COUNT: u32 = 10_000;

    pub(crate) fn new(
        succession: Arc<Succession>,
        path: &str,
        count: u32,
        options: LockOptions,
    ) -> Result<Self, InvalidPool> {
        if count == 0 {
            return Err(InvalidPool::Nothing { path: path.to_owned() });
        }
        if count > Self::LARGEST_COUNT {
            let largest = Self::LARGEST_COUNT;
            return Err(InvalidPool::TooManySlots { path: path.to_owned(), count, largest });
        }
        let pool = Pool::new(succession, path, Stock::Slots(count), options)?;
        Ok(Self { pool: Arc::new(pool), preferred: None })
    }

    /// Returns it with these options in place of the default ones. It sends nothing.
    ///
    /// Errors: [`InvalidPool`] says what is wrong with an option.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, InvalidPool> {
        let slots = Self::new(self.pool.succession().clone(), self.path(), self.count(), options)?;
        Ok(Self { preferred: self.preferred, ..slots })
    }

    /// Returns the path of the slots, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.pool.path()
    }

    /// Returns the number of slots that this process states.
    pub fn count(&self) -> u32 {
        self.pool.statement.stock().number()
    }

    /// Returns these slots with a preference: acquisitions through it get the slot with this index if it is free, and do not
    /// wait for that index. A process that starts again can so ask for the index that it had. It sends nothing. If there is no
    /// such slot, acquisitions fail with [`PoolError::Index`].
    pub fn preferring(&self, index: u32) -> Self {
        Self { pool: self.pool.clone(), preferred: Some(index) }
    }

    /// Acquires the [preferred](Self::preferring) slot, or the free slot with the lowest index, and waits in order of arrival
    /// until one is free. It takes as many round trips as a permit, waits as
    /// [`Semaphore::acquire_many`](crate::Semaphore::acquire_many) does, and must be polled as that.
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    pub async fn acquire(&self) -> Result<Slot, PoolError> {
        self.pool.acquire(self.wish()?).await
    }

    /// Acquires a slot if one is free now. Returns `None` if none is, or if another acquisition is in the turnstile, even one
    /// that is just passing. It waits for nobody, and for ZooKeeper's answers for half a session timeout at most.
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Slot>, PoolError> {
        self.pool.acquire_within(self.wish()?, Wait::Never).await
    }

    /// Acquires a slot, and returns `None` if `timeout` passes first; see
    /// [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// Errors: [`PoolError`]. Cancel safety: as [`acquire`](Self::acquire).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Slot>, PoolError>> + Send + 'static {
        let pool = self.pool.clone();
        let wish = self.wish();
        let wait = Wait::within(timeout);
        async move { pool.acquire_within(wish?, wait).await }
    }

    /// Changes the number of slots for everybody, as
    /// [`Semaphore::set_capacity`](crate::Semaphore::set_capacity) changes a capacity. Slots that are held stay, also those
    /// whose index is not below the new number. They count: nobody is granted a slot while as many are held as the new number.
    ///
    /// Errors and cancel safety: as there. [`PoolError::Number`] if the number is zero, or larger than
    /// [`LARGEST_COUNT`](Self::LARGEST_COUNT).
    pub async fn set_count(&self, count: u32) -> Result<(), PoolError> {
        if count == 0 || count > Self::LARGEST_COUNT {
            let largest = Self::LARGEST_COUNT;
            return Err(PoolError::Number { path: self.path().to_owned(), asked: count, largest });
        }
        self.pool.set_stock(Stock::Slots(count)).await
    }

    /// Returns the number of slots, and those that are held. This function is meant for operators and tests: the answer may
    /// be outdated by the time you read it.
    ///
    /// Errors: [`QueryError`]. Cancel safety: nothing is lost.
    pub async fn slots(&self) -> Result<SlotsHeld, QueryError> {
        let (stock, slots) = self.pool.holders().await?;
        let count = match stock {
            Some(Stock::Slots(count)) => Some(count),
            Some(Stock::Permits(_)) | None => None,
        };
        Ok(SlotsHeld { count, slots })
    }

    fn wish(&self) -> Result<Wish, PoolError> {
        let count = self.pool.statement.largest();
        match self.preferred {
            Some(index) if index >= count => {
                Err(PoolError::Index { path: self.path().to_owned(), index, count })
            }
            preferred => Ok(Wish::Slot(preferred)),
        }
    }
}

debug_shows!(Slots, it, { path: it.path(), count: it.count() });
