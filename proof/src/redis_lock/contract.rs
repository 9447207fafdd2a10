//! What a user calls.

use std::time::Duration;

use thiserror::Error;
use zklock::FencingToken;

/// How long connecting may take, on a busy machine too: it is not what is measured.
pub(super) const CONNECT: Duration = Duration::from_secs(30);

/// A lock as one process has it.
pub trait Lock: Send + Sized + 'static {
    /// The lock with this key, or at this path. Its time to live is the session timeout of zklock.
    fn connect(server: &str, key: &str, ttl: Duration) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Waits until it is held; the fencing token, if the lock has any.
    fn acquire(&mut self) -> impl Future<Output = Result<Option<FencingToken>, Failure>> + Send;

    /// Gives it back, whether this process holds it or not.
    fn release(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// What the lock tells its holder without being asked over the network; `None` if it tells nothing.
    fn check(&self) -> Option<bool> {
        None
    }

    /// Asks the servers whether it is held; `None` if there is no such question.
    fn inquire(&mut self) -> impl Future<Output = Result<Option<bool>, Failure>> + Send {
        async { Ok(None) }
    }
}

/// What an acquisition or a release throws.
#[derive(Debug, Error)]
pub enum Failure {
    /// Redis refused, or did not answer.
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
    /// zklock did not get it.
    #[error(transparent)]
    Acquire(#[from] zklock::AcquireError),
    /// zklock could not release it.
    #[error(transparent)]
    Release(#[from] zklock::ReleaseError),
    /// The client that releases does not hold it, in the original's words where it has any.
    #[error("{0}")]
    NotHeld(String),
}
