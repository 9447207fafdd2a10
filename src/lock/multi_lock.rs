//! The [`MultiLock`]: several locks at once.

use std::sync::Arc;
use std::time::Duration;

use zklock_recipe::Kind;

use crate::acquire::acquirer::{Acquirer, Wait};
use crate::acquire::options::LockOptions;
use crate::error::{AcquireError, InvalidLock};
use crate::guard::MultiGuard;
use crate::settings::{QueueEntry, Settings};
use crate::zk::Succession;

/// The most bytes that the transaction which creates a multi-lock's contenders may have. ZooKeeper drops a connection
/// that sends more than `jute.maxbuffer` (1 MiB by default), and the next connection, too.
const LONGEST_TRANSACTION: usize = 512 * 1024;

/// What an operation of a transaction has besides its path, data and ACL: its header, flags and lengths.
const OVERHEAD: usize = 64;

/// One of the locks of a [`MultiLock`]: its path, and how to hold it. A path alone means exclusively.
///
/// ```
/// use zklock::Access;
///
/// assert_eq!(Access::from("/lock/a"), Access::exclusive("/lock/a"));
///
/// // The elements of an array have one type, so a path beside another access becomes one by `into`.
/// let locks = ["/lock/report".into(), Access::shared("/lock/prices")];
/// assert_eq!(locks[0], Access::exclusive("/lock/report"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    path: String,
    kind: Kind,
}

impl Access {
    /// Holds the lock alone: as [`Lock`](crate::Lock), or as a writer of [`RwLock`](crate::RwLock).
    pub fn exclusive(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Exclusive }
    }

    /// Holds the lock beside other readers: as a reader of [`RwLock`](crate::RwLock).
    pub fn shared(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Shared }
    }
}

impl<T: AsRef<str>> From<T> for Access {
    fn from(path: T) -> Self {
        Self::exclusive(path.as_ref())
    }
}

/// Why a [`MultiLock`] cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidMultiLock {
    /// A path or an option is wrong, as for a single lock.
    #[error(transparent)]
    Lock(#[from] InvalidLock),
    /// A multi-lock has no locks.
    #[error("no locks were given; name at least one path")]
    NoLocks,
    /// A multi-lock names one lock twice, or a lock in the directory of another one.
    #[error(
        "{inner} is the same lock as {outer}, or is in its directory; name each lock once, and no lock in the \
         directory of another one"
    )]
    Nested {
        /// The path of the one lock.
        outer: String,
        /// The path of the other lock.
        inner: String,
    },
    /// A multi-lock has too many locks, or their data is too long, for one transaction.
    #[error(
        "a transaction for {count} locks would have about {length} bytes, but zklock sends {longest} at most; name \
         fewer locks at once, or shorten paths and data"
    )]
    TooMany {
        /// The number of locks.
        count: usize,
        /// About how long the transaction would be, in bytes.
        length: usize,
        /// The longest transaction that zklock sends, in bytes.
        longest: usize,
    },
}

/// Several locks of one session that are acquired at once. Cloning it is cheap.
///
/// One transaction puts a contender into every queue. The locks are granted together, when the contender is first in each
/// queue, and one transaction releases them all. If all locks are free, this takes as many round trips as one lock. The
/// guard has one token for all locks. It is lost as soon as one of the locks is lost.
///
/// It contends with every [`Lock`](crate::Lock) and [`RwLock`](crate::RwLock) at the same paths, and with other
/// multi-locks that share some of them.
///
/// # No deadlock
///
/// Callers may name the locks in any order. Every contender of a multi-lock has the same place in time, so callers that
/// enter their queues once never wait for each other in a circle. A caller that already holds a lock and acquires another
/// one can still deadlock: acquire all of them at once.
///
/// # What is waited for
///
/// A multi-lock waits in all of its queues at once. While it waits for one lock, it keeps everybody behind it from the
/// others, even from those that are free. Name only the locks that you need together.
///
/// ```no_run
/// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zklock::Access;
///
/// let accounts = session.lock_all(["/lock/account/7", "/lock/account/9"])?;
/// let guard = accounts.acquire().await?;
/// println!("token {} for both", guard.token());
/// guard.release().await?;
///
/// // Readers and writers may be mixed.
/// let report = session.lock_all(["/lock/report".into(), Access::shared("/lock/prices")])?;
/// let guard = report.acquire().await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MultiLock {
    acquirer: Acquirer,
}

impl MultiLock {
    pub(crate) fn new(
        succession: Arc<Succession>,
        accesses: impl IntoIterator<Item = impl Into<Access>>,
        options: &LockOptions,
    ) -> Result<Self, InvalidMultiLock> {
        let session = succession.present();
        let accesses = accesses.into_iter().map(Into::into).collect::<Vec<Access>>();
        // Several are entered by one transaction, which lists no queue.
        let is_one = accesses.len() == 1;
        let entry = |access: Access| {
            if !is_one || access.kind == Kind::Shared {
                options.refuse_layout(&access.path)?;
            }
            let lock = Arc::new(options.clone().settings(&access.path, &session)?);
            Ok(QueueEntry { lock, kind: access.kind })
        };
        let entries = accesses.into_iter().map(entry);
        let entries = entries.collect::<Result<Vec<_>, InvalidMultiLock>>()?;
        let locks = entries.iter().map(|entry| &entry.lock).collect::<Vec<_>>();
        check_paths(&locks)?;
        check_size(&locks, &session.chroot)?;
        Ok(Self { acquirer: Acquirer { succession, entries: entries.into() } })
    }

    /// Returns it with these options in place of the default ones, for each of the locks. It sends nothing.
    ///
    /// Errors: [`InvalidMultiLock`] says what is wrong with an option.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, InvalidMultiLock> {
        let access =
            |entry: &QueueEntry| Access { path: entry.lock.queue.path.to_string(), kind: entry.kind };
        Self::new(self.acquirer.succession.clone(), self.acquirer.entries.iter().map(access), &options)
    }

    /// Returns the paths of the locks, in the order in which the caller gave them.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.acquirer.locks().map(|lock| lock.queue.path.as_str())
    }

    /// Acquires all locks, and waits in the queues for as long as that takes. Free locks take one round trip together.
    /// The first acquisition of a `MultiLock` takes two, and more if it must create directories or may not write to them.
    /// Otherwise as [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Errors
    ///
    /// See [`AcquireError`]. Its path is that of the lock that failed. An error of the session, or a missing answer,
    /// names all locks. No node is left in any queue, unless the server refuses to delete it.
    ///
    /// # Cancel safety
    ///
    /// Safe. You may drop the future at any point; zklock then removes its nodes in the background. The places in the
    /// queues are lost, and so are the locks if the future had just acquired them.
    pub async fn acquire(&self) -> Result<MultiGuard, AcquireError> {
        self.acquirer.acquire().await
    }

    /// Acquires all locks if no other contender blocks any of them. Returns `None` if one does. Otherwise as
    /// [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// Errors and cancel safety: as [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, AcquireError> {
        self.acquirer.acquire_within(Wait::Never).await
    }

    /// Acquires all locks, and returns `None` if `timeout` passes first. Otherwise as
    /// [`Lock::acquire_timeout`](crate::Lock::acquire_timeout).
    ///
    /// Errors and cancel safety: as [`acquire`](Self::acquire).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<MultiGuard>, AcquireError>> + Send + '_ {
        self.acquirer.acquire_within(Wait::within(timeout))
    }
}

/// Refuses no locks, one lock twice, and a lock inside the directory of another one.
fn check_paths(locks: &[&Arc<Settings>]) -> Result<(), InvalidMultiLock> {
    if locks.is_empty() {
        return Err(InvalidMultiLock::NoLocks);
    }
    let mut paths = locks.iter().map(|lock| format!("{}/", lock.queue.path)).collect::<Vec<_>>();
    // A path is followed by those that begin with it.
    paths.sort_unstable();
    let nested = paths.windows(2).find(|pair| pair[1].starts_with(&pair[0]));
    let name = |path: &str| path.trim_end_matches('/').to_owned();
    match nested {
        Some(pair) => Err(InvalidMultiLock::Nested { outer: name(&pair[0]), inner: name(&pair[1]) }),
        None => Ok(()),
    }
}

fn check_size(locks: &[&Arc<Settings>], chroot: &str) -> Result<(), InvalidMultiLock> {
    // A create and a write to the directory.
    let of_one = |lock: &&Arc<Settings>| {
        let path = chroot.len() + lock.queue.path.as_str().len();
        2 * (path + OVERHEAD) + lock.options.longest_node + lock.options.acl.encoded_length()
    };
    let length = locks.iter().map(of_one).sum();
    if length > LONGEST_TRANSACTION {
        return Err(InvalidMultiLock::TooMany { count: locks.len(), length, longest: LONGEST_TRANSACTION });
    }
    Ok(())
}

debug_shows!(MultiLock, it, { paths: it.paths().collect::<Vec<_>>() });
