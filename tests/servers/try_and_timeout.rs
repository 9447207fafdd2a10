//! Trying, and waiting for so long only.

use zklock_test_support as support;

use std::time::{Duration, Instant};

use support::{BOUND, enqueue, granted, linked, queue, server, session, until_queued, within};

#[tokio::test]
async fn try_acquire_takes_a_free_lock_only() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.try_acquire().await.unwrap().expect("a free lock");
    for _ in 0..3 {
        assert!(lock.try_acquire().await.unwrap().is_none(), "the lock is held");
    }
    assert_eq!(queue(&lock).await.len(), 1, "a try leaves nothing behind");
    guard.release().await.unwrap();
    drop(lock.try_acquire().await.unwrap().expect("a free lock"));
}

#[tokio::test]
async fn try_acquire_does_not_overtake_waiters() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = enqueue(&lock).await;
    guard.release().await.unwrap();
    let second = granted(waiter).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_timeout_passes_while_the_lock_is_held() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let (timeout, started) = (Duration::from_millis(200), Instant::now());
    let waited = within("the timeout", lock.acquire_timeout(timeout)).await.unwrap();
    assert!(waited.is_none());
    assert!(started.elapsed() >= timeout);
    until_queued(&lock, 1).await;
    guard.release().await.unwrap();
    let guard = within("acquire", lock.acquire_timeout(BOUND)).await.unwrap();
    assert!(guard.expect("a free lock").is_held());
}

#[tokio::test]
async fn a_timeout_counts_from_the_call() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
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
    let server = server().await;
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
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
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    assert!(lock.acquire_timeout(Duration::MAX).await.unwrap().is_some());
}
