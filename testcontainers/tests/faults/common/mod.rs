//! What several test files need.
use std::{
    future::Future,
    time::{Duration, Instant},
};

use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

pub(crate) const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

pub(crate) async fn connect(address: &str) -> Client {
    connect_for(address, Duration::from_secs(40)).await
}

/// A session that asks for this timeout.
pub(crate) async fn connect_for(address: &str, timeout: Duration) -> Client {
    Client::connector().with_session_timeout(timeout).connect(address).await.expect("a session")
}

/// Polls until `look` sees something; panics after `limit`.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    look: impl Fn() -> F,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} for {what} in vain");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Fails the test when `future` takes longer than half a minute.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen"))
}
