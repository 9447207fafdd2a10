//! Thousands of waiters and guards on one session survive the loss of its connection.

mod support;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use support::{eventually, linked, monitored, server, session, until_nothing_is_left, within};

const TIMEOUT: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_waiters_survive_a_reconnection() {
    const WAITERS: u64 = 20_000;
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    let other = session(&server).await;
    let (lock, holder) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let t=std::time::Instant::now();
    let guard = holder.acquire().await.unwrap();
    let waiters = (0..WAITERS).map(|_| support::acquire(&lock)).collect::<FuturesUnordered<_>>();
    eventually("the queue", async || monitored(&server, "zk_ephemerals_count").await == WAITERS + 1).await;
    eventually("the watches", async || monitored(&server, "zk_watch_count").await >= WAITERS).await;
    println!("queued {:?}", t.elapsed());
    let id = unlucky.id();
    let watched = monitored(&server, "zk_watch_count").await;
    link.cut();
    eventually("lost", async || monitored(&server, "zk_watch_count").await < WAITERS).await;
    eventually("the watches again", async || monitored(&server, "zk_watch_count").await == watched).await;
    println!("rewatched {:?}", t.elapsed());
    assert_eq!((unlucky.id(), unlucky.requeued()), (id, 0));
    guard.release().await.unwrap();
    let mut waiters = waiters;
    for _ in 0..100 {
        within("a grant", waiters.next()).await.unwrap().unwrap().unwrap().release().await.unwrap();
    }
    println!("100 {:?}", t.elapsed());
    unlucky.close().await.unwrap();
    drop(waiters);
    println!("closed {:?}", t.elapsed());
    until_nothing_is_left(&server).await;
    println!("end {:?}", t.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_guards_survive_a_reconnection() {
    const GUARDS: usize = 10_000;
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    let t=std::time::Instant::now();
    let guards = futures::stream::iter(0..GUARDS).map(|number| {
        let lock = unlucky.lock(&format!("/lock/{number}")).unwrap();
        async move { lock.acquire().await.unwrap() }
    });
    let guards = guards.buffer_unordered(500).collect::<Vec<_>>().await;
    println!("acquired {:?}", t.elapsed());
    eventually("the watches", async || monitored(&server, "zk_watch_count").await == GUARDS as u64).await;
    println!("watched {:?}", t.elapsed());
    link.cut();
    eventually("lost", async || monitored(&server, "zk_watch_count").await < GUARDS as u64).await;
    eventually("the watches again", async || monitored(&server, "zk_watch_count").await == GUARDS as u64).await;
    println!("rewatched {:?}", t.elapsed());
    assert!(guards.iter().all(|guard| guard.is_held()));
    unlucky.close().await.unwrap();
    until_nothing_is_left(&server).await;
    println!("end {:?}", t.elapsed());
}
