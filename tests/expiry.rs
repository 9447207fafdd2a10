//! ZooKeeper expires the session.

mod support;

use std::time::Duration;

use support::{
    enqueue, granted, linked, queue, server, session, until_nothing_is_left, until_queued, within,
};
use zklock::{AcquireError, LostReason};

const TIMEOUT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn while_waiting_the_acquisition_fails_and_the_queue_goes_on() {
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    let other = session(&server).await;
    let (lock, holder) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let second = enqueue(&holder).await;
    let doomed = support::acquire(&lock);
    until_queued(&holder, 3).await;
    let third = enqueue(&holder).await;
    link.black_hole();
    until_queued(&holder, 3).await;
    link.restore();
    let error = within("the error", doomed).await.unwrap().unwrap_err();
    assert_eq!(error, AcquireError::SessionExpired { path: "/lock/orders".into() });
    assert!(error.is_session_over());
    assert_eq!(lock.acquire().await.unwrap_err(), error, "an expired session stays expired");
    guard.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    granted(third).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn while_holding_the_guard_is_lost_first() {
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    let other = session(&server).await;
    let (lock, next) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = lock.acquire().await.unwrap();
    let waiter = enqueue(&next).await;
    link.black_hole();
    let second = granted(waiter).await;
    assert!(!guard.is_held(), "two guards at once");
    assert!(second.token() > guard.token());
    assert_eq!(within("the loss", guard.lost()).await, LostReason::Unconfirmed);
    assert!(guard.release().await.is_err());
    assert_eq!(queue(&next).await.len(), 1);
    second.release().await.unwrap();
    link.restore();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_client_says_so_though_no_server_does() {
    let server = server().await;
    let (link, session) = linked(&server, TIMEOUT).await;
    let lock = session.lock("/lock/orders").unwrap();
    link.black_hole();
    let error = within("the error", lock.acquire()).await.unwrap_err();
    assert_eq!(error, AcquireError::SessionExpired { path: "/lock/orders".into() });
}
