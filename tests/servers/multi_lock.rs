//! Several locks at once.

use std::time::Duration;

use support::{eventually, linked_session, operator, session, sessions, until_nothing_is_left, within};
use zklock::{AcquireError, InvalidLock, InvalidMultiLock, LockOptions, MultiLock, Session};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

const PATHS: [&str; 3] = ["/lock/a", "/lock/b", "/lock/deep/c"];

fn all(session: &Session) -> MultiLock {
    session.lock_all(PATHS).unwrap()
}

#[tokio::test]
async fn free_locks_are_granted_in_one_transaction_with_one_token() {
    let (server, link, session) = linked_session(Duration::from_secs(60)).await;
    let locks = all(&session);
    locks.acquire().await.unwrap().release().await.unwrap();
    link.reset_counts();
    let guard = locks.acquire().await.unwrap();
    let sent = |kind| link.requests_of(kind);
    assert_eq!(sent(RequestKind::Multi), 1, "one transaction enters all queues");
    assert_eq!([RequestKind::Create, RequestKind::GetChildren].map(sent), [0, 0]);
    let operator = operator(&server).await;
    for (path, node) in PATHS.iter().zip(guard.nodes()) {
        assert!(node.starts_with(path));
        let (_, stat) = operator.get_data(&node).await.unwrap();
        assert_eq!(stat.czxid, guard.token().zxid());
    }
    guard.verify().await.unwrap();
    for claim in guard.sequencers().unwrap() {
        session.verify_sequencer(&claim).await.unwrap();
    }
    guard.transaction().create("/proof", "of three locks").commit().await.unwrap();
    link.reset_counts();
    guard.release().await.unwrap();
    assert_eq!(link.requests_of(RequestKind::Multi), 1, "and one leaves them");
    until_nothing_is_left(&server).await;
}

/// ZooKeeper numbers the children anew in a directory that is made again.
#[tokio::test]
async fn a_lost_guard_leaves_nodes_alone_that_have_got_the_names_of_its_own() {
    let (server, link, loser) = linked_session(Duration::from_secs(60)).await;
    let (next, operator) = (session(&server).await, operator(&server).await);
    let guard = all(&loser).acquire().await.unwrap();
    eventually("the watches", async || server.watches().await == 3).await;
    let nodes = guard.nodes().collect::<Vec<_>>();
    for (path, node) in PATHS.iter().zip(&nodes) {
        operator.delete(node, None).await.unwrap();
        operator.delete(path, None).await.unwrap();
    }
    within("the loss", guard.lost()).await;
    let next = next.lock_all(&PATHS[1..]).unwrap().acquire().await.unwrap();
    assert_eq!(next.nodes().collect::<Vec<_>>(), nodes[1..], "the same names");
    link.reset_counts();
    drop(guard);
    eventually("the loser has looked", async || link.requests_of(RequestKind::GetData) >= 3).await;
    // What it would send next is on its way at the latest now, and is answered before this.
    loser.lock("/lock/other").unwrap().acquire().await.unwrap().release().await.unwrap();
    next.verify().await.unwrap();
    assert_eq!(link.requests_of(RequestKind::Delete), 0);
    next.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_refusal_in_one_queue_leaves_nothing_in_the_others() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    let readable = [Acl::new(Permission::READ, AuthId::anyone())];
    let closed = CreateMode::Persistent.with_acls(Acls::new(&readable));
    operator.mkdir("/lock", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    operator.create(PATHS[1], b"", &closed).await.unwrap();
    let error = within("the refusal", all(&session).acquire()).await.unwrap_err();
    assert_eq!(error, AcquireError::NotAuthorized { path: PATHS[1].into() });
    until_nothing_is_left(&server).await;
    assert!(operator.check_stat("/lock/a/lock-0000000000").await.unwrap().is_none());
}

#[tokio::test]
async fn each_mistake_is_told() {
    let (_server, [session]) = sessions().await;
    let refused = |paths: &[&str]| session.lock_all(paths.iter().copied()).unwrap_err();
    assert_eq!(refused(&[]), InvalidMultiLock::NoLocks);
    let nested =
        |outer: &str, inner: &str| InvalidMultiLock::Nested { outer: outer.into(), inner: inner.into() };
    assert_eq!(refused(&["/lock/a", "/lock/b", "/lock/a"]), nested("/lock/a", "/lock/a"));
    assert_eq!(refused(&["/lock/a/b", "/lock/a-b", "/lock/a"]), nested("/lock/a", "/lock/a/b"));
    assert!(matches!(refused(&["/lock/a", "lock"]), InvalidMultiLock::Lock(InvalidLock::Path { .. })));
    let many = (0..64).map(|index| format!("/lock/{index}")).collect::<Vec<_>>();
    let long = LockOptions::new().data("x".repeat(16 * 1024));
    let error = session.lock_all(many.clone()).and_then(|it| it.with_options(long)).unwrap_err();
    assert!(matches!(error, InvalidMultiLock::TooMany { count: 64, .. }), "{error}");
    // A byte of data may take six in the node.
    let escaped = LockOptions::new().data("\u{1}".repeat(4 * 1024));
    let error = session.lock_all(many[..32].to_vec()).and_then(|it| it.with_options(escaped)).unwrap_err();
    assert!(matches!(error, InvalidMultiLock::TooMany { count: 32, .. }), "{error}");
    // As many as are allowed are also accepted by the server.
    let locks = session.lock_all(many).unwrap();
    locks.acquire().await.unwrap().release().await.unwrap();
}
