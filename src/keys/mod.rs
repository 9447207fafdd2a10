//! The [`Locks`] of a session: a lock for each key, which the tasks of one process hand to each other.

mod acquire;
mod background;
mod budget;
pub(crate) mod error;
mod in_use;
mod key;
mod line;
pub(crate) mod options;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt;

use acquire::{Waiting, try_acquire};
use error::KeyError;
use in_use::InUse;
use line::Line;
use options::LocksOptions;

use crate::acquire::acquirer::Wait;
use crate::error::InvalidLock;
use crate::guard::Guard;
use crate::lock::Lock;
use crate::lock::multi_lock::{InvalidMultiLock, MultiLock};
use crate::path::LockPath;
use crate::telemetry::FamilyMember;
use crate::zk::Succession;

/// The longest key, in bytes. ZooKeeper drops a connection that sends more than `jute.maxbuffer` (1 MiB by default), and an
/// escaped byte takes three.
const LONGEST_KEY: usize = 4 * 1024;

/// Locks by key, for a process in which many tasks want the same ones: as a lock registry. Cloning it is cheap, and its
/// clones are the same registry. Two calls of [`Session::locks`](crate::Session::locks) make two registries, which contend
/// with each other as two processes do. Let the root belong to these locks alone: an election or a semaphore at the root
/// has directories there, too.
///
/// The lock of the key `42` below the root `/lock/orders` is at `/lock/orders/42`, and every contender at that path
/// contends for it, in this process and elsewhere. A key is any text of up to 4 KiB; the lock's path shows it, with `%2F` for a
/// slash, as in a URL. A registry keeps nothing of a key once no task of the process waits for it and
/// nobody keeps a guard of it, held or not.
///
/// # In line
///
/// The tasks of a process wait in line, in the order in which they came, and the process has one contender in ZooKeeper's
/// queue for all of them. A task that gives up costs the others no place. When a task releases its guard, the lock passes
/// to the next task of the process without a request, within a [budget](LocksOptions). Then it goes to the next process,
/// and this one joins the queue again, at the end. So between two turns of a process, each other process has at most the
/// budget's turns, and one more.
///
/// A guard that was passed on is as strict as any: it has the same lease, and is lost like any other. Only its
/// [`token`](Guard::token) shows that it was passed on: by the [turn](crate::FencingToken::turn), which grows with each task.
/// So a store that the lock protects must compare the turns as well.
///
/// The lock is not passed on, but released, if a [transaction](Guard::transaction) of the guard has no definite answer yet,
/// or if the guard has made a [sequencer](Guard::sequencer). The node proves to ZooKeeper that the process holds the lock,
/// and not which of its tasks. So nothing that rests on the node outlives the turn in which it was made.
///
/// # Tasks that are polled late
///
/// A task takes the lock when it is polled. Until then the lock lies idle, while a `select!` handles a message, for instance.
///
/// * **If no other task of the process waits**, the offer stands for the [budget's time](LocksOptions::time). It stands for
///   200 ms at least, and for half a session timeout at most. So a task that is polled once a second gets an uncontended key, with the
///   default budget. If it is polled later than that, the lock is released, and the process joins the queue again when the
///   task is polled.
/// * **If others wait**, a task that does not take the lock for 100 to 200 ms is *late*, and the next one has it. A late task
///   keeps its place, gets nothing until it is polled again, and counts as nobody until then. So poll the wait every
///   100 ms, or spawn it: the wait of a task that is polled every 500 ms has no bound while others wait, and each of its polls
///   may cost them 200 ms.
///
/// A hold lies idle for that time and 200 ms at most, also for contenders elsewhere.
///
/// # What a key costs
///
/// While a process holds the lock of a key or waits for it, the key costs what a [`Lock`] costs. Each key also leaves
/// its directory in ZooKeeper for a minute or more: a container node, of about 0.5 kB in each server's memory (computed
/// from ZooKeeper's source). The leader looks for empty containers once a minute (`znode.container.checkIntervalMs`),
/// and removes 10,000 of them a minute at most (`znode.container.maxPerMinute`; above 60,000 there is no limit). So
/// 1,000 new keys a second leave 50,000 nodes a minute behind, in memory and in each snapshot. If keys come faster than
/// the leader removes them, raise that limit, a Java property of the servers, or let many keys share a lock: lock a
/// hash of the key, out of a bounded set.
///
/// # Several keys
///
/// Do not wait for one key while you hold another one: another process may do it the other way round, and then both
/// wait for ever, as with any two locks. [`lock_all`](Self::lock_all) acquires several keys at once.
///
/// ```no_run
/// # async fn pay(order: u64) {}
/// # async fn example(session: zklock::Session) -> Result<(), Box<dyn std::error::Error>> {
/// let orders = session.locks("/lock/orders")?;
/// let guard = orders.acquire("42").await?;
/// guard.run(pay(42)).await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Locks {
    /// The lock at the root, whose options each lock has. Nobody acquires it.
    root: Lock,
    options: LocksOptions,
    /// A line is here for as long as somebody waits in it or holds its lock.
    lines: Arc<InUse<Line>>,
}

impl Locks {
    pub(crate) fn new(
        succession: Arc<Succession>,
        root: &str,
        options: LocksOptions,
    ) -> Result<Self, InvalidLock> {
        options.lock.refuse_layout(root)?;
        let root = Lock::new(succession, root, options.lock.clone())?;
        Ok(Self { root, options, lines: InUse::new() })
    }

    /// Returns it with these options in place of the default ones. It sends nothing.
    /// Its tasks and those of the locks before contend with each other in ZooKeeper only.
    ///
    /// Errors: [`InvalidLock`] says what is wrong with an option.
    pub fn with_options(&self, options: LocksOptions) -> Result<Self, InvalidLock> {
        Self::new(self.root.succession().clone(), self.root.path(), options)
    }

    /// Returns the path of a key's lock. For example, [`Session::lock`](crate::Session::lock) at this path has its queue.
    pub fn path(&self, key: &str) -> String {
        self.lock_path(key).to_string()
    }

    /// Acquires the lock of a key, and waits in line for as long as that takes. If this process has nothing of the lock, it
    /// costs what [`Lock::acquire`](crate::Lock::acquire) costs.
    ///
    /// The process waits for ZooKeeper in the background. So an acquisition that is not polled blocks nobody, and keeps its
    /// place among the tasks of its process.
    ///
    /// # Errors
    ///
    /// See [`KeyError`]. All tasks that wait in line get the error that their process's contender had.
    ///
    /// # Cancel safety
    ///
    /// Safe. You may drop the future at any point. The place in line is lost; the process keeps its place in
    /// ZooKeeper's queue while other tasks wait.
    pub async fn acquire(&self, key: &str) -> Result<Guard, KeyError> {
        let line = self.line(key)?;
        let waiting = pin!(Waiting::new(line.clone()).map_ok(Some));
        let acquirer = &line.lock.acquirer;
        acquirer.at_last(acquirer.instrument(FamilyMember::Key, Wait::FOR_EVER, waiting).await?)
    }

    /// Acquires the lock of a key if nobody holds it or waits for it. Returns `None` at once if a task of this process does,
    /// and otherwise does as [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// Errors: [`KeyError`]. Cancel safety: as [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, key: &str) -> Result<Option<Guard>, KeyError> {
        let line = self.line(key)?;
        let acquired = pin!(try_acquire(line.clone()));
        Ok(line.lock.acquirer.instrument(FamilyMember::Key, Wait::Never, acquired).await?)
    }

    /// Acquires the lock of a key, and returns `None` if `timeout` passes first; see [`Lock::acquire_timeout`].
    ///
    /// Errors: [`KeyError`]. Cancel safety: as [`acquire`](Self::acquire).
    pub fn acquire_timeout<'a>(
        &'a self,
        key: &'a str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Guard>, KeyError>> + Send + 'a {
        let deadline = tokio::time::Instant::now().checked_add(timeout);
        async move {
            let line = self.line(key)?;
            let waiting = pin!(self.root.succession().by(deadline, Waiting::new(line.clone())));
            Ok(line.lock.acquirer.instrument(FamilyMember::Key, Wait::Until(deadline), waiting).await?)
        }
    }

    /// Returns the locks of these keys as one lock, as [`Session::lock_all`](crate::Session::lock_all) does, with the same
    /// errors. It sends nothing.
    ///
    /// Its acquisitions have nodes of their own, made in one transaction, and their guards are never passed on. If they were
    /// made of guards that were passed on, two processes could wait for each other for ever: each would hold by an old node
    /// what the other one waits for by a young one.
    pub fn lock_all<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<MultiLock, InvalidMultiLock> {
        let paths = keys.into_iter().map(|key| self.path(key.as_ref()));
        MultiLock::new(self.root.succession().clone(), paths, &self.options.lock)
    }

    /// Returns the number of keys that tasks of this process wait for or hold.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether no task of this process waits for a key or holds one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The line of a key, which exists from now on if it did not before.
    fn line(&self, key: &str) -> Result<Arc<Line>, KeyError> {
        let Self { root, options: LocksOptions { budget, .. }, lines } = self;
        if key.len() > LONGEST_KEY {
            let path = root.path().to_owned();
            return Err(KeyError::TooLong { path, length: key.len(), longest: LONGEST_KEY });
        }
        let make = || {
            let settings = root.settings.of_key(self.lock_path(key));
            let succession = root.succession().clone();
            Line::new(settings, succession, budget.clone(), lines.clone(), key.to_owned())
        };
        Ok(lines.of(key, make))
    }

    fn lock_path(&self, key: &str) -> LockPath {
        self.root.settings.queue.path.lock_below(&key::encode(key))
    }
}

debug_shows!(Locks, it, { root: it.root.path() });
