//! Trying, and waiting for so long only.

use zklock_test_support as support;

use std::time::{Duration, Instant};

use support::{enqueue, granted, linked_session, orders, until_queued, within};

#[tokio::test]
async fn try_acquire_does_not_overtake_waiters() {
    let (_server, [lock]) = orders().await;
    let guard = lock.acquire().await.unwrap();
    let waiter = enqueue(&lock).await;
    guard.release().await.unwrap();
    let second = granted(waiter).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_timeout_counts_from_the_call() {
    let (_server, [lock]) = orders().await;
    let guard = lock.acquire().await.unwrap();
    let timeout = Duration::from_millis(300);
    let waiting = lock.acquire_timeout(timeout);
    // Another wait of the same length passes before the first one is polled at all.
    assert!(lock.acquire_timeout(timeout).await.unwrap().is_none());
    let started = Instant::now();
    assert!(waiting.await.unwrap().is_none());
    assert!(started.elapsed() < timeout);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_timeout_holds_while_zookeeper_is_unreachable() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let lock = session.lock("/lock/orders").unwrap();
    link.black_hole();
    let started = Instant::now();
    assert!(within("the timeout", lock.acquire_timeout(Duration::from_millis(300))).await.unwrap().is_none());
    assert!(started.elapsed() < Duration::from_secs(10));
    // What was asked for in vain is taken back once the server is there again.
    link.restore();
    let other = support::session(&server).await;
    let guard = within("acquire", other.lock("/lock/orders").unwrap().acquire()).await.unwrap();
    until_queued(&lock, 1).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_timeout_beyond_all_clocks_is_no_timeout() {
    let (_server, [lock]) = orders().await;
    assert!(lock.acquire_timeout(Duration::MAX).await.unwrap().is_some());
}
