//! Thousands of waiters and guards on one session survive the loss of its connection.

use zklock_test_support as support;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use support::{eventually, linked, monitored, server, until_nothing_is_left, until_watched, within};
use zklock::Session;
use zklock_testcontainers::ZooKeeper;

/// Long enough for a busy machine to set all the watches again.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The server drops a connection's watches when it hears of its end.
async fn until_fewer_are_watched(server: &ZooKeeper, watches: u64) {
    eventually("lost watches", async || monitored(server, "zk_watch_count").await < watches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_waiters_survive_a_reconnection() {
    const WAITERS: u64 = 20_000;
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    // The server is busy with the others when the holder's heartbeats come.
    let other = Session::builder(server.connect_string()).session_timeout(TIMEOUT).connect().await.unwrap();
    let (lock, holder) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let mut waiters = (0..WAITERS).map(|_| support::acquire(&lock)).collect::<FuturesUnordered<_>>();
    until_watched(&server, 1, WAITERS).await;
    let id = unlucky.id();
    link.cut();
    until_fewer_are_watched(&server, WAITERS).await;
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
    link.cut();
    until_fewer_are_watched(&server, GUARDS as u64).await;
    until_watched(&server, GUARDS as u64, 0).await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    session.close().await.unwrap();
    until_nothing_is_left(&server).await;
}
