//! Requests that took effect though their replies were lost, and requests that did not.

use std::time::Duration;

use support::{
    Server, enqueue_seen_by, eventually, granted, hide, linked, linked_session, operator, server,
    until_nothing_is_left, within,
};
use zklock::{AcquireError, LockOptions, SessionState};
use zklock_testcontainers::{RequestKind, ZooKeeper};

#[tokio::test]
async fn a_server_that_hangs_up_on_every_create_is_not_hammered() {
    let server =
        ZooKeeper::builder().java_property("jute.maxbuffer", "8192").start().await.expect("a server");
    let server = Server::from(server);
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    let options = LockOptions::new().data("x".repeat(16 * 1024));
    let lock = session.lock("/lock/orders").unwrap().with_options(options).unwrap();
    let creates = || link.requests_of(RequestKind::Create);
    let acquiring = support::acquire(&lock);
    eventually("another create", async || creates() >= 2).await;
    let before = creates();
    assert!(tokio::time::timeout(Duration::from_secs(3), acquiring).await.is_err(), "it goes on");
    assert!(creates() - before < 20, "{} creates in three seconds", creates() - before);
}

#[tokio::test]
async fn a_create_is_adopted_though_another_node_of_its_session_is_hidden() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    hide(&operator(&server).await, &guard.node()).await;
    let lost = link.lose_reply(RequestKind::Multi);
    // The node in front of it is not ours to watch, and that is told: the own node was found, and deleted.
    let error = within("the refusal", lock.acquire()).await.unwrap_err();
    assert_eq!(error, AcquireError::NotAuthorized { path: "/lock/orders".into() });
    assert!(lost.has_happened());
    assert_eq!(server.ephemerals().await, 1, "the node that was created is left");
    assert!(guard.is_held());
    assert_eq!(session.requeued(), 0);
}

/// Nobody can tell whose a node is that its own session may not read, or whose data was overwritten: its contender finds a
/// node by an id in its data. It would keep the lock from everybody.
#[tokio::test]
async fn a_create_that_its_session_cannot_find_goes_with_the_session() {
    let server = server().await;
    let operator = operator(&server).await;
    for (hides, waits) in [(true, true), (false, true), (false, false)] {
        let (link, session) = linked(&server, Duration::from_secs(20)).await;
        let lock = session.lock(&format!("/lock/{hides}-{waits}")).unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let (id, held) = (session.id(), link.hold_reply(RequestKind::Multi));
        let acquiring = support::acquire(&lock);
        within("the create", held.reached()).await;
        let node = format!("{}/lock-0000000001", lock.path());
        if hides {
            hide(&operator, &node).await;
        } else {
            operator.set_data(&node, b"mine", None).await.unwrap();
        }
        if !waits {
            acquiring.abort();
        }
        link.cut();
        drop(held);
        if waits {
            let guard = granted(acquiring).await;
            assert_eq!(session.requeued(), 1);
            assert_eq!(server.ephemerals().await, 1, "the lost node is gone");
            guard.release().await.unwrap();
        }
        eventually("another session", async || session.id() != id).await;
        until_nothing_is_left(&server).await;
    }
}

/// A server tells a session which nodes it has, whatever their ACLs say.
#[tokio::test]
async fn a_hidden_node_is_deleted_on_another_connection() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let holder = support::session(&server).await;
    let theirs = holder.lock("/lock/orders").unwrap();
    let guard = theirs.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&theirs, &session.lock("/lock/orders").unwrap()).await;
    hide(&operator(&server).await, "/lock/orders/lock-0000000001").await;
    link.refuse();
    link.cut();
    eventually("the connection", async || session.state() == SessionState::Disconnected).await;
    waiter.abort();
    link.accept();
    eventually("its end", async || server.ephemerals().await == 1).await;
    assert_eq!(session.requeued(), 0);
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}
