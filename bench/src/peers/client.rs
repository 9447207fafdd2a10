//! What every peer offers, and what all of them have in common.

use std::time::Duration;

use futures::future::BoxFuture;

/// Everybody's session timeout.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// What everybody's nodes contain, at zklock's length: an id, an owner, a time.
pub(super) const DATA: &[u8] =
    br#"{"id":"00000000-0000-4000-8000-000000000000","owner":"bench","since":1700000000000}"#;

/// A client of one peer, with a session and a lock. It may contend several times at once.
pub(crate) trait Client: Send + Sync {
    /// Acquires the lock.
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Release<'_>>>;
}

/// Releases a lock that is held; returns once it is free, where the peer can tell.
pub(crate) type Release<'a> = BoxFuture<'a, anyhow::Result<()>>;
