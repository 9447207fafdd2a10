//! Sessions: connecting, closing, and what goes on between.

mod builder;
mod generation;
mod keeper;
mod revocable;
mod vitals;
pub(crate) mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use builder::SessionBuilder;
pub(crate) use generation::{Generation, Holding, SETTLING, Settle};
pub(crate) use revocable::Revocable;
pub(crate) use vitals::Vitals;
pub(crate) use wire::Reply;

use crate::clock;
use crate::error::{CloseError, ConnectError, InvalidLock};
use crate::lock::{Lock, LockOptions};
use crate::recipe::SessionEnd;

/// A ZooKeeper session, which any number of locks share. Cheap to clone; every clone is the same session.
///
/// When the last clone, lock and guard of it are dropped, and the last future of them, the session is closed in the
/// background, and its nodes go with it. [`close`](Self::close) does so at once, and tells when it is done.
///
/// Needs a tokio runtime with time enabled; the one that is current in [`connect`](Self::connect) runs the
/// session's tasks.
///
/// When ZooKeeper ends the session (it expired, or an operator closed it), it stays ended: acquisitions fail
/// with [`AcquireError::SessionExpired`](crate::AcquireError::SessionExpired) until the caller connects anew.
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
    generation: Arc<Generation>,
}

impl Session {
    /// Connects with the default options: a session timeout of 10 seconds, no authentication.
    ///
    /// `servers` is ZooKeeper's connect string: `host:port` pairs separated by commas (port 2181 if left out),
    /// and optionally a chroot behind the last one: `zk1:2181,zk2:2181/app`. A chroot that does not exist is
    /// created with the first lock.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    ///
    /// # Cancel safety
    ///
    /// Safe. A session that the server has established by then is left to expire; it owns no nodes.
    pub async fn connect(servers: impl Into<String>) -> Result<Self, ConnectError> {
        Self::builder(servers).connect().await
    }

    /// Connects with other options.
    pub fn builder(servers: impl Into<String>) -> SessionBuilder {
        SessionBuilder::new(servers.into())
    }

    fn new(generation: Arc<Generation>) -> Self {
        Self { generation }
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
        Lock::new(self.generation.clone(), path, options)
    }

    /// The session id, as ZooKeeper's `cons` and `dump` show it in hexadecimal.
    pub fn id(&self) -> i64 {
        self.generation.id()
    }

    /// The session timeout that the server granted.
    pub fn timeout(&self) -> Duration {
        self.generation.timeout()
    }

    /// Ends the session: invalidates every guard, fails every acquisition under way, and returns once the server
    /// has ended the session, and so removed its nodes. The locks go to the next contenders at once rather than
    /// after a session timeout.
    ///
    /// Further calls wait for the same end.
    ///
    /// # Errors
    ///
    /// [`CloseError::Unconfirmed`] if the server could not be reached. The guards are invalid all the same; nodes that
    /// are still there stay until the session expires.
    ///
    /// # Cancel safety
    ///
    /// Safe: once polled, the session ends in the background whether or not this is awaited.
    pub async fn close(&self) -> Result<(), CloseError> {
        let timeout = self.generation.timeout();
        // The client declares a session expired by itself after hearing nothing for 7/5 of its timeout; an expiry
        // that comes sooner is the server's word. It comes if the server ends the connection before its last reply
        // is read.
        let latest = (timeout * 7 / 5).saturating_sub(self.generation.vitals().silence());
        let started = clock::now();
        self.generation.close();
        match self.generation.over().await {
            Some(SessionEnd::Closed) => Ok(()),
            Some(SessionEnd::Expired) if clock::now() - started < latest => Ok(()),
            _ => Err(CloseError::Unconfirmed { session: self.id(), timeout }),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &format_args!("{:#x}", self.id())).finish_non_exhaustive()
    }
}
