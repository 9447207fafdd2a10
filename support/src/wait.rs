//! Waiting for facts, with a bound.

use std::future::Future;
use std::time::Duration;

/// The longest time that any observable fact may take. It is far more than a fact does take, even on a loaded machine.
pub const BOUND: Duration = Duration::from_secs(60);

/// Waits for a future that must resolve within [`BOUND`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {BOUND:?}"),
    }
}

/// Looks again and again until a condition holds.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    within(what, async {
        while !holds().await {
            looks.tick().await;
        }
    })
    .await;
}
