//! Locks that share a session, and handles that share a lock.

mod support;

use support::{enqueue, granted, queue, server, session, until_nothing_is_left, within};

#[tokio::test]
async fn two_locks_of_one_session_are_independent() {
    let server = server().await;
    let session = session(&server).await;
    let (orders, bills) = (session.lock("/lock/orders").unwrap(), session.lock("/lock/bills").unwrap());
    let first = orders.acquire().await.unwrap();
    let second = within("the other lock", bills.acquire()).await.unwrap();
    assert!(first.is_held() && second.is_held());
    let waiter = enqueue(&orders).await;
    second.release().await.unwrap();
    assert!(!waiter.is_finished());
    assert!(first.is_held());
    first.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn handles_of_one_session_exclude_each_other() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let same = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert!(same.try_acquire().await.unwrap().is_none());
    assert!(lock.clone().try_acquire().await.unwrap().is_none());
    assert_eq!(queue(&same).await.len(), 1);
    guard.release().await.unwrap();
    assert!(same.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_lock_and_a_guard_outlive_their_session_handle() {
    let server = server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    drop(session);
    let guard = within("acquire", lock.acquire()).await.unwrap();
    drop(lock);
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_last_handle_closes_the_session() {
    let server = server().await;
    let session = session(&server).await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let sessions = async || support::monitored(&server, "zk_global_sessions").await;
    assert_eq!(sessions().await, 1);
    drop(session);
    assert_eq!(sessions().await, 1);
    drop(guard);
    support::eventually("the session's end", async || sessions().await == 0).await;
    until_nothing_is_left(&server).await;
}
