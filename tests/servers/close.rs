//! Closing a session hands everything over at once.

use std::time::Duration;

use support::{
    Steps, enqueue, linked_session, server, session, sessions, until_nothing_is_left, until_queued, within,
};
use zklock::AcquireError;
use zklock_testcontainers::RequestKind;

#[tokio::test]
async fn does_not_wait_for_futures_nobody_polls() {
    let (server, link, session) = linked_session(Duration::from_secs(60)).await;
    let lock = session.lock("/lock/orders").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let held = link.hold_reply(RequestKind::Multi);
    let mut forgotten = Steps::new(lock.acquire());
    assert!(forgotten.poll().is_pending());
    within("the create", held.reached()).await;
    held.release();
    within("close", session.close()).await.unwrap();
    until_nothing_is_left(&server).await;
    forgotten.woken().await;
    match forgotten.poll() {
        std::task::Poll::Ready(Err(AcquireError::SessionClosed { .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn may_be_cancelled() {
    let (server, [session]) = sessions().await;
    let other = support::session(&server).await;
    let lock = other.lock("/lock/orders").unwrap();
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    assert!(Steps::new(session.close()).poll().is_pending());
    until_queued(&lock, 0).await;
    assert!(!guard.is_held());
}

#[tokio::test]
async fn right_after_connecting_waits_for_the_server_all_the_same() {
    let (_server, link, session) = linked_session(Duration::from_secs(20)).await;
    let held = link.hold_request(RequestKind::CloseSession);
    let mut close = Steps::new(session.close());
    assert!(close.poll().is_pending());
    within("the request", held.reached()).await;
    assert!(close.poll().is_pending(), "the server has not heard of it");
    held.release();
    close.woken().await;
    assert!(matches!(close.poll(), std::task::Poll::Ready(Ok(()))));
}

/// An event of a watch that was dropped comes while the session is being closed. The client answers it with a removal,
/// which must not come behind the closing.
#[tokio::test]
async fn is_confirmed_though_the_event_of_a_dropped_watch_comes() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let holder = support::session(&server).await;
    let guard = holder.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue(&session.lock("/lock/orders").unwrap()).await;
    let held = link.hold_request(RequestKind::RemoveWatches);
    waiter.abort();
    within("the removal", held.reached()).await;
    let mut close = Steps::new(session.close());
    assert!(close.poll().is_pending());
    let events = link.counts().events;
    guard.release().await.unwrap();
    support::eventually("the event", async || link.counts().events > events).await;
    held.release();
    close.woken().await;
    assert!(matches!(close.poll(), std::task::Poll::Ready(Ok(()))));
}
/// An event of a watch comes while the session is being closed. It must not look like a lost connection.
#[tokio::test]
async fn is_confirmed_while_events_come() {
    let server = server().await;
    for _ in 0..30 {
        let session = session(&server).await;
        let election = session.election("/service").unwrap();
        let leadership = election.campaign("one").await.unwrap();
        let mut leaders = election.observe();
        assert!(within("the leader", leaders.next()).await.unwrap().unwrap().is_some());
        leadership.transaction().create("/service/data", "").commit().await.unwrap();
        leadership.transaction().delete("/service/data", None).commit().await.unwrap();
        // The leader's announcement goes with the session, and tells so.
        session.close().await.unwrap();
        drop(leadership);
    }
}
