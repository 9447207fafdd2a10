//! What a user of a lock calls.

use std::future::pending;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::contestant::Contestant;

/// How long connecting may take, on a busy machine too: it is not what is measured.
pub(super) const CONNECT: Duration = Duration::from_secs(30);

/// What nodes contain, at zklock's length: an id, an owner, a time.
pub(super) const DATA: &[u8] =
    br#"{"id":"00000000-0000-4000-8000-000000000000","owner":"bench","since":1700000000000}"#;

/// Says the session timeout in milliseconds.
pub(super) const TIMEOUT_VARIABLE: &str = "PEER_TIMEOUT_MS";

/// Whose lock it is, and where: what its program is told.
#[derive(Debug, Args)]
pub(crate) struct Place {
    pub(super) contestant: Contestant,
    pub(super) servers: String,
    /// Its path, or its key.
    pub(super) path: String,
    /// As the other programs have it: `mutex`.
    _what: String,
    /// The session timeout, or the time to live.
    #[arg(skip = timeout())]
    pub(super) timeout: Duration,
}

fn timeout() -> Duration {
    let milliseconds = std::env::var(TIMEOUT_VARIABLE).ok().and_then(|text| text.parse().ok());
    Duration::from_millis(milliseconds.unwrap_or(6_000))
}

/// A lock as one contender has it.
pub(super) trait Lock: Send + Sized + 'static {
    fn connect(place: &Place, server: &str) -> impl Future<Output = anyhow::Result<Self>> + Send;

    /// Another contender with the same session, if it is about those.
    fn another(&self) -> Option<Self> {
        None
    }

    /// Waits until it is held.
    fn acquire(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Gives it back, whether this process holds it or not. Returns once it is free, where the client can tell.
    fn release(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Returns a word once the lock tells its holder that it may be lost, if it ever does.
    fn told(&self) -> BoxFuture<'static, String> {
        pending().boxed()
    }
}
