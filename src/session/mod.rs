//! Sessions, as users hold them.

pub(crate) mod builder;
mod claim;
pub(crate) mod error;
pub(crate) mod locks;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use error::{CloseError, SequencerError};
use locks::LocksBelow;

use crate::fence::Sequencer;
use crate::lock::Lock;
use crate::lock::error::{InvalidLock, QueryError};
use crate::lock::options::LockOptions;
use crate::zk::{Closing, ConnectError, SessionEvents, SessionState, Succession};

/// A session with ZooKeeper, which any number of locks share. Cheap to clone; every clone is the same session.
///
/// It outlives ZooKeeper's own: when the servers end that (it expired, or an operator closed it), the next one, the
/// next *generation*, is opened in the background, with pauses of up to 10 to 20 seconds between the attempts, until
/// there is one or the session is closed. Guards of the old generation are lost for good. Acquisitions that were
/// waiting queue again: their new place is at the end, which is logged and counted ([`requeued`](Self::requeued)).
/// Three states are final: closed, by [`close`](Self::close); credentials rejected; and failed, when the servers refuse to open
/// another session like it. [`events`](Self::events) shows each change.
///
/// When the last clone, lock and guard of it are dropped, and the last future of them, the session is closed in the
/// background, and its nodes go with it. [`close`](Self::close) does so at once, and tells when it is done.
///
/// Needs a tokio runtime with time enabled; the one that is current in [`connect`](Self::connect) runs the
/// session's tasks.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zklock::Session;
///
/// let session = Session::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let lock = session.lock("/lock/orders")?;
/// let guard = lock.acquire().await?;
/// guard.release().await?;
/// session.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    succession: Arc<Succession>,
}

impl Session {
    pub(crate) fn new(succession: Arc<Succession>) -> Self {
        Self { succession }
    }

    /// The lock whose contenders queue in the directory `path`. Nothing is sent before the lock is used.
    ///
    /// # Errors
    ///
    /// [`InvalidLock::Path`] if ZooKeeper does not allow the path, or zklock does not.
    pub fn lock(&self, path: &str) -> Result<Lock, InvalidLock> {
        self.lock_with(path, LockOptions::new())
    }

    /// The lock at `path`, with options.
    ///
    /// # Errors
    ///
    /// [`InvalidLock`]: what is wrong with the path or with an option.
    pub fn lock_with(&self, path: &str, options: LockOptions) -> Result<Lock, InvalidLock> {
        Lock::new(self.succession.clone(), path, options)
    }

    /// Whether a holder's claim still stands: `Ok` only if a quorum says that the very node it names is there now,
    /// untouched and owned by the session it names. About one round trip, two on a slow network.
    ///
    /// A `Result` rather than a `bool`, so that an answer which is not looked at is no admission. Any session can
    /// ask, of whichever chroot, if it may read the holder's node.
    ///
    /// The answer is about a moment while this was awaited. The claim may end right behind it, so a late write is
    /// stopped only by a store that compares tokens. That the node ever held the lock is not checked: accept claims from
    /// those only whom you trust to pass on what [`Guard::sequencer`](crate::Guard::sequencer) gave them.
    ///
    /// # Errors
    ///
    /// [`SequencerError::Outdated`] if the claim does not stand; see there for the rest, after which nothing is known.
    /// Waits half a session timeout for the answer.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session, claim: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// session.verify_sequencer(&claim.parse()?).await?;
    /// // Serve the request that came with the claim.
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify_sequencer(&self, sequencer: &Sequencer) -> Result<(), SequencerError> {
        claim::verify_sequencer(&self.succession, sequencer).await
    }

    /// The locks at `root` and below it that somebody holds. For operators: by the time it is read it may have changed.
    /// Reads each node of the tree once, 64 at a time.
    ///
    /// # Errors
    ///
    /// See [`QueryError`]. Each request waits half a session timeout at most.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) -> Result<(), zklock::QueryError> {
    /// for lock in session.locks_below("/lock").await?.locks {
    ///     println!("{}: {:?}, {} waiting", lock.path, lock.holder.owner, lock.waiting);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn locks_below(&self, root: &str) -> Result<LocksBelow, QueryError> {
        locks::below(&self.succession, root).await
    }

    /// The present ZooKeeper session's id, as `cons` and `dump` show it in hexadecimal; that of the last one, while there
    /// is none.
    pub fn id(&self) -> i64 {
        self.succession.present().id()
    }

    /// The session timeout that may be in force: the smallest one that a server granted this ZooKeeper session, or may have.
    pub fn timeout(&self) -> Duration {
        self.succession.present().lengths().timeout
    }

    /// How often the session asks ZooKeeper whether it lives, and so extends the lease of its guards: a quarter of what is left
    /// of the session timeout after three quarters of a tick, from 100 ms to 10 s. That is 2.1 s by default.
    pub fn heartbeat(&self) -> Duration {
        self.succession.present().lengths().heartbeat
    }

    /// The servers' tick that leases are reckoned with: as it was given, or as it was learned from the servers.
    pub fn tick(&self) -> Duration {
        self.succession.tick()
    }

    /// Why the servers refuse to open another session like this one, in the state [`SessionState::Failed`].
    pub fn failure(&self) -> Option<ConnectError> {
        self.succession.failure().cloned()
    }

    /// The longest [`stop_margin`](LockOptions::stop_margin) a lock may have: what the lease of a guard never falls below
    /// while ZooKeeper answers each heartbeat within a quarter of one.
    pub fn longest_stop_margin(&self) -> Duration {
        self.succession.present().lengths().longest_stop_margin()
    }

    /// The longest that a guard stays valid once ZooKeeper has fallen silent: the session timeout, less the part of it that
    /// allows for clocks. The shortest is [`longest_stop_margin`](Self::longest_stop_margin).
    pub fn longest_validity(&self) -> Duration {
        self.succession.present().lengths().validity()
    }

    /// Where the session stands, as far as is known here.
    pub fn state(&self) -> SessionState {
        self.succession.event().state
    }

    /// The session's state now, and each change of it from then on; for logs, metrics and health checks. The stream ends
    /// after a final state, or once no `Session`, lock and acquisition of it is left: it does not keep it open. A reader that
    /// is slower than the changes sees the latest; the generation's number tells whether a ZooKeeper session has ended
    /// meanwhile.
    ///
    /// ```no_run
    /// # async fn example(session: zklock::Session) {
    /// let mut events = session.events();
    /// while let Some(event) = events.next().await {
    ///     println!("{} (session {:#x})", event.state, event.id);
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> SessionEvents {
        self.succession.events()
    }

    /// How many acquisitions had to queue again, at the end: because their ZooKeeper session ended while they waited, or
    /// because they were not polled (see [`Lock::acquire`]).
    pub fn requeued(&self) -> u64 {
        self.succession.requeued()
    }

    /// Ends the session: invalidates every guard, fails every acquisition under way, and returns once the server
    /// has ended the session, and so removed its nodes. The locks go to the next contenders at once rather than
    /// after a session timeout.
    ///
    /// Waits for the server until the lease ends, or for two fifths of the session timeout if that is longer; the session
    /// goes on being closed in the background. Further calls wait for the same end.
    ///
    /// # Errors
    ///
    /// [`CloseError::Unconfirmed`] if the server could not be reached. The guards are invalid all the same; nodes that
    /// are still there stay until the session expires. An earlier ZooKeeper session of this one that the ensemble has not
    /// expired yet is not waited for.
    ///
    /// # Cancel safety
    ///
    /// Safe: once polled, the session ends in the background whether or not this is awaited.
    pub async fn close(&self) -> Result<(), CloseError> {
        let last = self.succession.present();
        // While the lease lasts the session is there for certain. Without one, a server has as long as any has to answer.
        let bound = last.lease().remaining().max(last.lengths().timeout * 2 / 5);
        let last = self.succession.close();
        match self.succession.timeout_at(Instant::now() + bound, last.over()).await {
            Ok(Some(Closing::Confirmed)) => Ok(()),
            Ok(Some(Closing::Unconfirmed) | None) | Err(_) => {
                Err(CloseError::Unconfirmed { session: last.id(), timeout: last.lengths().timeout })
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &format_args!("{:#x}", self.id())).finish_non_exhaustive()
    }
}
