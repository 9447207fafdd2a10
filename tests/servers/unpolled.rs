//! An acquisition, or a release, that is kept but not polled.

use zklock_test_support as support;

use std::task::Poll;
use std::time::Duration;

use support::{
    Steps, acquire, enqueue, enqueue_seen_by, eventually, granted, linked, monitored, operator, patient,
    queue, server, session, until_nothing_is_left, until_queued, within,
};
use zklock::{ReleaseError, SessionState};

/// Half of it is how long a contender may be due.
const TIMEOUT: Duration = Duration::from_secs(6);

#[tokio::test]
async fn gives_its_place_up_once_its_turn_has_come_and_queues_again_when_it_is_polled() {
    let server = server().await;
    let builder = patient(server.connect_string(), TIMEOUT);
    let (lazy, other) = (builder.connect().await.unwrap(), session(&server).await);
    let (theirs, ours) = (lazy.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = ours.acquire().await.unwrap();
    let mut forgotten = Steps::new(theirs.acquire());
    // Until it watches its predecessor by two watches, beside the holder's own.
    eventually("its watches", async || {
        assert!(forgotten.poll().is_pending());
        monitored(&server, "zk_watch_count").await == 3
    })
    .await;
    let next = enqueue(&ours).await;
    guard.release().await.unwrap();
    let guard = granted(next).await;
    until_queued(&ours, 1).await;
    assert!(forgotten.poll().is_pending());
    until_queued(&ours, 2).await;
    assert_eq!(lazy.requeued(), 1);
    guard.release().await.unwrap();
    let guard = within("the grant", forgotten.finished()).await.unwrap();
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn that_would_be_granted_without_waiting_does_not_block_the_queue() {
    let server = server().await;
    let builder = patient(server.connect_string(), TIMEOUT);
    let (lazy, other) = (builder.connect().await.unwrap(), session(&server).await);
    let (theirs, ours) = (lazy.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    // The directory is there, so that entering takes one request.
    theirs.acquire().await.unwrap().release().await.unwrap();
    // It has its node, and the reply is not looked at. The first one made and deleted a child, this one makes another.
    let operator = operator(&server).await;
    let mut forgotten = Steps::new(theirs.acquire());
    assert!(forgotten.poll().is_pending());
    let changes = async || operator.check_stat("/lock/orders").await.unwrap().unwrap().cversion;
    eventually("its node", async || changes().await >= 3).await;
    let guard = granted(acquire(&ours)).await;
    // Polled late, it waits like any other.
    assert!(matches!(forgotten.poll(), Poll::Pending));
    guard.release().await.unwrap();
    within("the grant", forgotten.finished()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn that_is_polled_keeps_its_place_however_long_it_waits() {
    let server = server().await;
    let builder = patient(server.connect_string(), TIMEOUT);
    let (polled, other) = (builder.connect().await.unwrap(), session(&server).await);
    let (theirs, ours) = (polled.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = ours.acquire().await.unwrap();
    let mut waiter = enqueue_seen_by(&ours, &theirs).await;
    let place = queue(&ours).await[1].path.clone();
    // Longer than an acquisition may be due.
    assert!(tokio::time::timeout(TIMEOUT, &mut waiter).await.is_err());
    assert_eq!(queue(&ours).await[1].path, place);
    guard.release().await.unwrap();
    assert_eq!(granted(waiter).await.node(), place);
    assert_eq!(polled.requeued(), 0);
}

#[tokio::test]
async fn a_release_goes_on() {
    let server = server().await;
    let (link, lazy) = linked(&server, Duration::from_secs(8)).await;
    let other = session(&server).await;
    let (theirs, ours) = (lazy.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = theirs.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&ours, &ours).await;
    link.refuse();
    link.cut();
    eventually("the loss of the connection", async || lazy.state() != SessionState::Connected).await;
    // It begins without a connection, and nobody polls it once there is one.
    let mut release = Steps::new(guard.release());
    assert!(release.poll().is_pending());
    link.accept();
    granted(waiter).await.release().await.unwrap();
    let error = within("the answer", release.finished()).await.unwrap_err();
    assert!(matches!(error, ReleaseError::Unconfirmed { .. }), "{error}");
    assert_eq!(lazy.requeued(), 0, "the session lives");
}
