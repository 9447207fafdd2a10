//! The connection is lost and comes back within the session's life.

mod support;

use std::time::Duration;

use support::{
    enqueue, enqueue_seen_by, granted, linked, queue, server, session, until_nothing_is_left, until_queued,
    within,
};
use zklock::{LostReason, ReleaseError};

#[tokio::test]
async fn while_waiting_the_place_is_kept() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let other = session(&server).await;
    let (lock, holder) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let second = enqueue_seen_by(&holder, &lock).await;
    let third = enqueue(&holder).await;
    let before = queue(&holder).await;
    link.cut();
    support::eventually("the reconnection", async || link.connections() == 1).await;
    assert_eq!(queue(&holder).await, before);
    guard.release().await.unwrap();
    let guard = granted(second).await;
    assert_eq!(guard.node(), before[1].path);
    assert!(!third.is_finished());
    guard.release().await.unwrap();
    granted(third).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_release_during_the_outage_is_noticed_after_it() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let other = session(&server).await;
    let (lock, holder) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&holder, &lock).await;
    link.refuse();
    link.cut();
    guard.release().await.unwrap();
    until_queued(&holder, 1).await;
    assert!(!waiter.is_finished());
    link.accept();
    granted(waiter).await.release().await.unwrap();
}

#[tokio::test]
async fn while_holding_the_guard_is_lost_for_good() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let other = session(&server).await;
    let (lock, next) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = lock.acquire().await.unwrap();
    let waiter = enqueue(&next).await;
    let lost = tokio::spawn(guard.lost());
    link.cut();
    assert_eq!(within("the loss", lost).await.unwrap(), LostReason::Disconnected);
    assert!(!guard.is_held());
    support::eventually("the reconnection", async || link.connections() == 1).await;
    assert_eq!(guard.check().unwrap_err().reason, LostReason::Disconnected, "loss is final");
    assert!(!waiter.is_finished(), "the loser's node stays until its guard is gone");
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Lost(lost) if lost.reason == LostReason::Disconnected));
    granted(waiter).await.release().await.unwrap();
    // The session lives, and is good for another guard.
    let guard = within("acquire", lock.acquire()).await.unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_running_future_is_dropped_at_once() {
    let server = server().await;
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let (dropped, mut still_running) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(async move {
        let work = async move {
            let _dropped = dropped;
            std::future::pending::<()>().await;
        };
        guard.run(work).await
    });
    tokio::task::yield_now().await;
    assert!(
        still_running
            .try_recv()
            .is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty)
    );
    link.cut();
    assert_eq!(within("the loss", run).await.unwrap().unwrap_err().reason, LostReason::Disconnected);
    assert!(within("the drop", still_running).await.is_err());
}
