//! Dropping an acquisition, at every point where it can be dropped.

use zklock_test_support as support;

use std::time::Duration;

use support::{
    Server, dropped_before, linked, queue, server, session, until_nothing_is_left, until_queued, within,
};
use zklock::Session;
use zklock_testcontainers::RequestKind;

/// The queue goes on without the dropped one, and nothing of it stays.
async fn nothing_remains(server: &Server, other: &Session, path: &str) {
    let lock = other.lock(path).unwrap();
    let guard = within("the next contender", lock.acquire()).await.unwrap();
    until_queued(&lock, 1).await;
    guard.release().await.unwrap();
    until_nothing_is_left(server).await;
}

#[tokio::test]
async fn of_a_held_lock_at_every_await() {
    let server = server().await;
    let (session, other) = (session(&server).await, session(&server).await);
    // A long queue, as far as a new `Lock` knows, and a short one.
    for (name, known) in [("unknown", false), ("short", true)] {
        let mut steps = 0;
        loop {
            let path = format!("/lock/{name}-{steps}");
            let (lock, holder) = (session.lock(&path).unwrap(), other.lock(&path).unwrap());
            if known {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
            let guard = holder.acquire().await.unwrap();
            let done = dropped_before(steps, lock.acquire(), async || guard.release().await.unwrap()).await;
            nothing_remains(&server, &other, &path).await;
            if done {
                break;
            }
            steps += 1;
        }
        assert!(steps >= 3, "create and look, watch, wait: {steps} steps");
    }
}

#[tokio::test]
async fn with_each_reply_on_its_way() {
    let server = server().await;
    for kind in
        [RequestKind::CreateContainer, RequestKind::Create, RequestKind::GetData, RequestKind::GetChildren]
    {
        let (link, session) = linked(&server, Duration::from_secs(20)).await;
        let other = support::session(&server).await;
        let path = format!("/lock/{kind:?}");
        let lock = session.lock(&path).unwrap();
        if matches!(kind, RequestKind::Create | RequestKind::GetChildren) {
            support::make_foreign(&server, &path).await;
        }
        if kind != RequestKind::CreateContainer {
            // The directory exists, and this lock knows it.
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        let holder = other.lock(&path).unwrap();
        let guard = match kind {
            RequestKind::CreateContainer => None,
            _ => Some(holder.acquire().await.unwrap()),
        };
        let held = link.hold_reply(kind);
        let acquire = support::acquire(&lock);
        within("the reply", held.reached()).await;
        acquire.abort();
        assert!(acquire.await.unwrap_err().is_cancelled());
        held.release();
        if let Some(guard) = guard {
            until_queued(&holder, 1).await;
            guard.release().await.unwrap();
        }
        nothing_remains(&server, &other, &path).await;
    }
}

#[tokio::test]
async fn with_the_connection_lost_in_the_middle() {
    let server = server().await;
    for kind in [RequestKind::Create, RequestKind::Multi] {
        let (link, session) = linked(&server, Duration::from_secs(20)).await;
        let other = support::session(&server).await;
        let path = format!("/lock/{kind:?}");
        let lock = session.lock(&path).unwrap();
        if kind == RequestKind::Create {
            support::make_foreign(&server, &path).await;
        }
        lock.acquire().await.unwrap().release().await.unwrap();
        let lost = link.lose_reply(kind);
        let acquire = support::acquire(&lock);
        within("the lost reply", lost.happened()).await;
        acquire.abort();
        drop(acquire.await);
        nothing_remains(&server, &other, &path).await;
    }
}

#[tokio::test]
async fn of_a_waiter_does_not_block_those_behind() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let (middle, last) = (support::enqueue(&lock).await, support::enqueue(&lock).await);
    middle.abort();
    until_queued(&lock, 2).await;
    assert!(!last.is_finished());
    guard.release().await.unwrap();
    let guard = support::granted(last).await;
    assert_eq!(queue(&lock).await[0].path, guard.node());
}
