//! The [`RwLock`]: many readers, or one writer.

use std::sync::Arc;
use std::time::Duration;

use zklock_recipe::Kind;

use super::Lock;
use crate::acquire::acquirer::{Acquirer, Wait};
use crate::acquire::options::LockOptions;
use crate::error::{AcquireError, InvalidLock};
use crate::guard::{Guard, ReadGuard};
use crate::zk::Succession;

/// A read-write lock of one session: many readers may hold it at once, or one writer. Cloning it is cheap.
///
/// It is as strict as [`Lock`]: at any instant, if a writer's [`Guard`] says that it is held, no other
/// guard of the lock does, on any machine. Writers contend with each [`Lock`] at the same path. Look at the queue through
/// such a `Lock`: [`Lock::contenders`] lists readers, too, and says which of them hold the lock.
///
/// # Order
///
/// It is fair: contenders are served in the order in which they came. A reader that comes after a waiting writer waits
/// for that writer, as in [`tokio::sync::RwLock`]. So a stream of readers does not starve writers. It also means that a
/// task must not take a second read guard while it holds one: if a writer has come in between, both wait for ever.
///
/// The release of a writer grants all readers between it and the next writer at once. None of them lists the queue. If
/// a reader's session has held nothing for some seconds, its lease must be confirmed first, which takes a round trip,
/// as for every waiter. A writer behind several readers waits for each of them, and looks at the queue again after each
/// release.
///
/// # No upgrade, no downgrade
///
/// A guard stays what it is. Two readers that both upgrade would wait for each other for ever. After a downgrade, the
/// reader's token would be higher than those of writers that came before it and wait still, so a store that checks
/// tokens would refuse these writers. Release the guard, acquire the other kind, and look at the data again.
///
/// # Takeover delay
///
/// With a [`takeover_delay`](LockOptions::takeover_delay), a reader that finds other readers in front of it waits for the
/// delay before it is granted the lock, and [`try_read`](Self::try_read) returns `None`. These readers may hold the
/// lock, or may themselves wait for the delay after a writer that vanished, and nothing shows which. A writer is spared
/// the delay only if it has watched each reader in front of it release the lock, so not if several of them hold it at
/// once.
///
/// ```no_run
/// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
/// let prices = session.rw_lock("/lock/prices")?;
///
/// let reading = prices.read().await?; // beside other readers
/// reading.release().await?;
///
/// let writing = prices.write().await?; // alone
/// publish(&writing).await;
/// writing.release().await?;
/// # Ok(())
/// # }
/// // A function that needs exclusivity asks for a `Guard`. A `ReadGuard` is another type.
/// async fn publish(alone: &zklock::Guard) { /* ... */ }
/// ```
#[derive(Clone)]
pub struct RwLock {
    /// The lock as writers see it.
    lock: Lock,
    readers: Acquirer,
}

impl RwLock {
    pub(crate) fn new(
        succession: Arc<Succession>,
        path: &str,
        options: LockOptions,
    ) -> Result<Self, InvalidLock> {
        options.refuse_layout(path)?;
        let lock = Lock::new(succession.clone(), path, options)?;
        let readers = Acquirer::of_one(succession, lock.settings.clone(), Kind::Shared);
        Ok(Self { lock, readers })
    }

    /// Returns it with these options in place of the default ones, for readers and writers. It sends nothing.
    ///
    /// Errors: [`InvalidLock`] says what is wrong with an option.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, InvalidLock> {
        Self::new(self.lock.succession().clone(), self.path(), options)
    }

    /// Returns the path of the lock's directory, relative to the connect string's chroot.
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// Acquires the lock for reading, and waits for each writer that came before. It takes a round trip if nobody else
    /// is in the queue, and two if other readers are. Otherwise as [`Lock::acquire`].
    ///
    /// Errors and cancel safety: as [`Lock::acquire`].
    pub async fn read(&self) -> Result<ReadGuard, AcquireError> {
        self.readers.acquire().await
    }

    /// Acquires the lock for reading if no writer holds it or waits for it. Returns `None` if one does. Otherwise as
    /// [`Lock::try_acquire`].
    ///
    /// Errors: [`AcquireError`]. Cancel safety: as [`read`](Self::read).
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, AcquireError> {
        self.readers.acquire_within(Wait::Never).await
    }

    /// Acquires the lock for reading, and returns `None` if `timeout` passes first. Otherwise as
    /// [`Lock::acquire_timeout`].
    ///
    /// Errors: [`AcquireError`]. Cancel safety: as [`read`](Self::read).
    pub fn read_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<ReadGuard>, AcquireError>> + Send + '_ {
        self.readers.acquire_within(Wait::within(timeout))
    }

    /// Acquires the lock for writing, and waits for everybody who came before. Otherwise as
    /// [`Lock::acquire`].
    ///
    /// Errors: [`AcquireError`]. Cancel safety: as [`read`](Self::read).
    pub async fn write(&self) -> Result<Guard, AcquireError> {
        self.lock.acquire().await
    }

    /// Acquires the lock for writing if nobody holds it or waits for it. Returns `None` if somebody does. Otherwise as
    /// [`Lock::try_acquire`].
    ///
    /// Errors: [`AcquireError`]. Cancel safety: as [`read`](Self::read).
    pub async fn try_write(&self) -> Result<Option<Guard>, AcquireError> {
        self.lock.try_acquire().await
    }

    /// Acquires the lock for writing, and returns `None` if `timeout` passes first. Otherwise as
    /// [`Lock::acquire_timeout`].
    ///
    /// Errors: [`AcquireError`]. Cancel safety: as [`read`](Self::read).
    pub fn write_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Guard>, AcquireError>> + Send + '_ {
        self.lock.acquire_timeout(timeout)
    }
}

debug_shows!(RwLock, it, { path: it.path() });
