//! Acquiring: a free lock, the order of a queue, and for how long one waits.

use std::time::{Duration, Instant};

use support::{
    enqueue, eventually, granted, linked_session, names_transactions, orders, session, until_watched, within,
};
use zklock_testcontainers::RequestKind;

#[tokio::test]
async fn a_free_lock_takes_one_request() {
    let (_server, link, session) = linked_session(Duration::from_secs(40)).await;
    let lock = session.lock("/lock/orders").unwrap();
    // The first acquisition finds that the directory has no data that could be lost.
    lock.acquire().await.unwrap().release().await.unwrap();
    for _ in 0..3 {
        link.reset_counts();
        let guard = lock.acquire().await.unwrap();
        let counts = link.counts();
        assert_eq!((counts.requests, counts.replies, counts.events), (1, 1, 0));
        guard.release().await.unwrap();
        assert_eq!(link.counts().requests, 2);
    }
}

#[tokio::test]
async fn a_contended_acquisition_takes_four_requests_and_two_events() {
    let (server, link, waiting) = linked_session(Duration::from_secs(40)).await;
    let (holding, other) = (session(&server).await, session(&server).await);
    let lock = waiting.lock("/lock/orders").unwrap();
    // From here on the directory is known to have no data.
    lock.acquire().await.unwrap().release().await.unwrap();
    let looks = u64::from(!names_transactions(&server).await);
    for others in [2, 1, 2] {
        let holder = holding.lock("/lock/orders").unwrap();
        let guard = holder.acquire().await.unwrap();
        let before = match others {
            1 => None,
            _ => Some(enqueue(&other.lock("/lock/orders").unwrap()).await),
        };
        link.reset_counts();
        let waiter = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap().release().await }
        });
        until_watched(&server, 1, others).await;
        let listed = u64::from(others == 1);
        // A server names no watches on children: the second watch is there once the waiter has all its answers.
        eventually("both watches", async || link.counts().replies >= 3 + listed).await;
        guard.release().await.unwrap();
        if let Some(before) = before {
            granted(before).await.release().await.unwrap();
        }
        within("the waiter", waiter).await.unwrap().unwrap();
        let counts = link.counts();
        // Enter, two watches, release; a contender older than 20 ms also watches its own node. The second of two lists
        // the queue first.
        let own_watch = link.requests_of(RequestKind::GetData) - 1;
        assert!(own_watch <= 1);
        assert_eq!(counts.requests - own_watch, 4 + listed + looks, "{counts:?}");
        assert!(counts.events <= 2 + own_watch, "{counts:?}");
        assert_eq!(link.requests_of(RequestKind::GetChildren), 1 + listed + looks);
    }
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
