//! What every peer offers, and what all of them have in common.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};

/// Everybody's session timeout.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// What everybody's nodes contain, at zklock's length: an id, an owner, a time.
pub(super) const DATA: &[u8] =
    br#"{"id":"00000000-0000-4000-8000-000000000000","owner":"bench","since":1700000000000}"#;

/// A client of one peer, with a session and a lock. It may contend several times at once.
pub(crate) trait Client: Send + Sync {
    fn acquire(&self) -> BoxFuture<'_, anyhow::Result<Held<'_>>>;
}

pub(crate) struct Held<'a> {
    /// Releases it; returns once it is free, where the peer can tell.
    pub(crate) release: BoxFuture<'a, anyhow::Result<()>>,
    /// Returns a word once the peer tells its user that the lock may be lost.
    pub(crate) told: BoxFuture<'static, String>,
}

impl<'a> Held<'a> {
    /// The peer does not tell.
    pub(super) fn untold(release: impl Future<Output = anyhow::Result<()>> + Send + 'a) -> Self {
        Self { release: release.boxed(), told: pending().boxed() }
    }
}
