//! Thousands of waiters and guards on one session survive the loss of its connection.

use zklock_test_support as support;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use support::{eventually, linked, patient, server, until_nothing_is_left, until_watched, within};
use zklock_testcontainers::{Link, RequestKind};

/// Long enough for a busy machine to set all the watches again.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Breaks the connection, and waits until the session has set so many watches again. Each takes a request of this kind.
async fn until_watched_again(link: &Link, kind: RequestKind, watches: u64) {
    let before = link.requests_of(kind);
    link.cut();
    eventually("the watches of the next connection", async || link.requests_of(kind) >= before + watches)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_waiters_survive_a_reconnection() {
    const WAITERS: u64 = 20_000;
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    // The server is busy with the others when the holder's heartbeats come.
    let other = patient(server.connect_string(), TIMEOUT).connect().await.unwrap();
    let (lock, holder) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let mut waiters = (0..WAITERS).map(|_| support::acquire(&lock)).collect::<FuturesUnordered<_>>();
    until_watched(&server, 1, WAITERS).await;
    let id = unlucky.id();
    until_watched_again(&link, RequestKind::GetChildren, WAITERS).await;
    until_watched(&server, 1, WAITERS).await;
    assert_eq!((unlucky.id(), unlucky.requeued()), (id, 0));
    guard.release().await.unwrap();
    for _ in 0..10 {
        within("a grant", waiters.next()).await.unwrap().unwrap().unwrap().release().await.unwrap();
    }
    unlucky.close().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_guards_survive_a_reconnection() {
    const GUARDS: usize = 10_000;
    let server = server().await;
    let (link, session) = linked(&server, TIMEOUT).await;
    let guards = futures::stream::iter(0..GUARDS).map(|number| {
        let lock = session.lock(&format!("/lock/{number}")).unwrap();
        async move { lock.acquire().await.unwrap() }
    });
    let guards = guards.buffer_unordered(500).collect::<Vec<_>>().await;
    until_watched(&server, GUARDS as u64, 0).await;
    until_watched_again(&link, RequestKind::GetData, GUARDS as u64).await;
    until_watched(&server, GUARDS as u64, 0).await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    session.close().await.unwrap();
    until_nothing_is_left(&server).await;
}
