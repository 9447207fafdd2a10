//! An operator deletes nodes by hand.

mod support;

use std::time::Duration;

use support::{
    enqueue, enqueue_seen_by, granted, linked, operator, queue, server, session, until_nothing_is_left,
    until_watched, within,
};
use zklock::{AcquireError, LostReason, ReleaseError};

#[tokio::test]
async fn the_holders_node() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    operator(&server).await.delete(&guard.node(), None).await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    assert!(!guard.is_held());
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Lost(lost) if lost.reason == LostReason::NodeDeleted));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_holders_node_just_before_the_release() {
    let server = server().await;
    let session = session(&server).await;
    let operator = operator(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let node = guard.node();
    // Sent by two clients at once: whichever is first, the answers agree.
    let (deleted, released) = tokio::join!(operator.delete(&node, None), guard.release());
    assert_eq!(deleted.is_ok(), released.is_err(), "{deleted:?}, {released:?}");
}

#[tokio::test]
async fn the_holders_data_which_releases_the_lock() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let guard = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue(&second.lock("/lock/orders").unwrap()).await;
    // The holder's own watch is there, so it learns when the waiter does.
    until_watched(&server, 2).await;
    operator(&server).await.set_data(&guard.node(), b"", None).await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    granted(waiter).await.release().await.unwrap();
    drop(guard);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_waiters_node_whose_predecessor_goes() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let (holder, lock) = (first.lock("/lock/orders").unwrap(), second.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let evicted = enqueue(&lock).await;
    let node = queue(&lock).await[1].path.clone();
    operator(&server).await.delete(&node, None).await.unwrap();
    // The holder's session ends, so its node is deleted rather than released, and the waiter looks at the queue.
    first.close().await.unwrap();
    drop(guard);
    let error = within("the error", evicted).await.unwrap().unwrap_err();
    assert_eq!(error, AcquireError::NodeDeleted { path: "/lock/orders".into() });
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_waiters_node_whose_predecessor_releases() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let (holder, lock) = (first.lock("/lock/orders").unwrap(), second.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let evicted = enqueue(&lock).await;
    until_watched(&server, 2).await;
    let node = queue(&lock).await[1].path.clone();
    operator(&server).await.delete(&node, None).await.unwrap();
    guard.release().await.unwrap();
    // It is granted by the event, and told by its own watch, which a contender that waited sets at once.
    let guard = granted(evicted).await;
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    drop(guard);
    until_nothing_is_left(&server).await;
}

/// An operator deletes the whole queue and its directory.
async fn wipe(server: &zklock_testcontainers::ZooKeeper, contenders: usize) {
    let operator = operator(server).await;
    for number in 0..contenders {
        operator.delete(&format!("/lock/orders/lock-{number:010}"), None).await.unwrap();
    }
    operator.delete("/lock/orders", None).await.unwrap();
}

#[tokio::test]
async fn the_directory_while_a_waiter_is_away() {
    let server = server().await;
    let (first, second, third) = (session(&server).await, session(&server).await, session(&server).await);
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let holder = first.lock("/lock/orders").unwrap();
    let _lost = holder.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&holder, &unlucky.lock("/lock/orders").unwrap()).await;
    until_watched(&server, 2).await;
    link.refuse();
    link.cut();
    wipe(&server, 2).await;
    // The numbers start over, so both names are taken again, by others.
    let guard = second.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let next = enqueue(&third.lock("/lock/orders").unwrap()).await;
    link.accept();
    let error = within("the waiter", waiter).await.unwrap().map(|guard| guard.is_held()).unwrap_err();
    assert_eq!(error, AcquireError::NodeDeleted { path: "/lock/orders".into() });
    assert!(guard.is_held());
    guard.release().await.unwrap();
    granted(next).await.release().await.unwrap();
}

#[tokio::test]
async fn the_directory_while_a_holder_is_away() {
    let server = server().await;
    let other = session(&server).await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let away = unlucky.lock("/lock/orders").unwrap().acquire().await.unwrap();
    link.refuse();
    link.cut();
    wipe(&server, 1).await;
    let guard = other.lock("/lock/orders").unwrap().acquire().await.unwrap();
    assert_eq!(guard.node(), away.node());
    // Its release is waiting for the connection; by name it would hit the new holder's node.
    drop(away);
    link.accept();
    let unlucky = unlucky.lock("/lock/orders").unwrap();
    support::eventually("the connection", async || unlucky.contenders().await.is_ok()).await;
    let waiter = enqueue_seen_by(&other.lock("/lock/orders").unwrap(), &unlucky).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}
