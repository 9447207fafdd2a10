//! The [`Slots`]: a number of places, each held by one.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zklock_recipe::{Stock, Wish};

use super::error::SemaphoreError;
use super::pool::Pool;
use crate::guard::Slot;
use crate::lock::acquire::Wait;
use crate::lock::contender::Contender;
use crate::lock::error::{InvalidLock, QueryError};
use crate::lock::options::LockOptions;
use crate::zk::Succession;

/// Slots of one session: a number of places, each of which one guard holds, among all machines. Use them for worker ids,
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
/// let slot = session.slots("/worker-ids", 1024)?.claim().await?;
/// slot.run(serve(slot.index())).await?; // dropped the moment the slot is lost
/// slot.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Slots {
    pool: Arc<Pool>,
}

/// The number of slots, and those that are held; see [`Slots::slots`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotsHeld {
    /// The number of slots; `None` if nobody has used them yet, or if they are no slots but a
    /// [`Semaphore`](crate::Semaphore).
    pub count: Option<u32>,
    /// The slots that are held, the oldest claim first. The [`kind`](Contender::kind) of each is
    /// [`Kind::Slot`](crate::Kind::Slot), with its index.
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
    ) -> Result<Self, InvalidLock> {
        if count == 0 {
            return Err(InvalidLock::Nothing { path: path.to_owned() });
        }
        if count > Self::LARGEST_COUNT {
            let (path, largest) = (path.to_owned(), Self::LARGEST_COUNT);
            return Err(InvalidLock::TooManySlots { path, count, largest });
        }
        let pool = Pool::new(succession, path, Stock::Slots(count), options)?;
        Ok(Self { pool: Arc::new(pool) })
    }

    /// Returns the path of the slots, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.pool.path()
    }

    /// Returns the number of slots that this process states.
    pub fn count(&self) -> u32 {
        let (Stock::Permits(count) | Stock::Slots(count)) = self.pool.stated();
        count
    }

    /// Claims the free slot with the lowest index, and waits in order of arrival until one is free. It takes as many round
    /// trips as a permit, waits as [`Semaphore::acquire_many`](crate::Semaphore::acquire_many) does, and must be polled as
    /// that.
    ///
    /// Errors: [`SemaphoreError`]. Cancel safety: as [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    pub async fn claim(&self) -> Result<Slot, SemaphoreError> {
        self.pool.acquire(Wish::Slot(None)).await
    }

    /// As [`claim`](Self::claim), but claims the slot with this index if it is free. It does not wait for that index. A
    /// process that starts again can so ask for the index that it had.
    ///
    /// Errors: [`SemaphoreError`]; [`SemaphoreError::Index`] if there is no such slot. Cancel safety: as [`claim`](Self::claim).
    pub async fn claim_preferring(&self, index: u32) -> Result<Slot, SemaphoreError> {
        self.pool.acquire(self.preferring(index)?).await
    }

    /// Claims a slot if one is free now. Returns `None` if none is, or if another claim is in the turnstile, even one that
    /// is just passing. It waits for nobody, and for ZooKeeper's answers for half a session timeout at most.
    ///
    /// Errors: [`SemaphoreError`]. Cancel safety: as [`claim`](Self::claim).
    pub async fn try_claim(&self) -> Result<Option<Slot>, SemaphoreError> {
        self.pool.acquire_by(Wish::Slot(None), Wait::Never).await
    }

    /// As [`try_claim`](Self::try_claim), but claims the slot with this index if it is free.
    ///
    /// Errors: as [`claim_preferring`](Self::claim_preferring). Cancel safety: as [`claim`](Self::claim).
    pub async fn try_claim_preferring(&self, index: u32) -> Result<Option<Slot>, SemaphoreError> {
        self.pool.acquire_by(self.preferring(index)?, Wait::Never).await
    }

    /// Claims a slot, and returns `None` if `timeout` passes first; see
    /// [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// Errors: [`SemaphoreError`]. Cancel safety: as [`claim`](Self::claim).
    pub fn claim_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Slot>, SemaphoreError>> + Send + 'static {
        let (pool, wait) = (self.pool.clone(), Wait::within(timeout));
        async move { pool.acquire_by(Wish::Slot(None), wait).await }
    }

    /// Changes the number of slots for everybody, as
    /// [`Semaphore::set_capacity`](crate::Semaphore::set_capacity) changes a capacity. Slots that are held stay, also those
    /// whose index is not below the new number. They count: nobody is granted a slot while as many are held as the new number.
    ///
    /// Errors and cancel safety: as there. [`SemaphoreError::Number`] if the number is zero, or larger than
    /// [`LARGEST_COUNT`](Self::LARGEST_COUNT).
    pub async fn set_count(&self, count: u32) -> Result<(), SemaphoreError> {
        if count == 0 || count > Self::LARGEST_COUNT {
            let (path, largest) = (self.path().to_owned(), Self::LARGEST_COUNT);
            return Err(SemaphoreError::Number { path, asked: count, largest });
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

    fn preferring(&self, index: u32) -> Result<Wish, SemaphoreError> {
        let count = self.pool.largest();
        if index >= count {
            return Err(SemaphoreError::Index { path: self.path().to_owned(), index, count });
        }
        Ok(Wish::Slot(Some(index)))
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("path", &self.path())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}
