//! Several locks at once.

use std::time::Duration;

use support::{
    Server, Waiter, eventually, granted, linked, linked_session, make_foreign, operator, queue, refused,
    session, sessions, until_nothing_is_left, until_queued, within,
};
use zklock::{Access, AcquireError, InvalidLock, LockOptions, MultiGuard, MultiLock, Session};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

const PATHS: [&str; 3] = ["/lock/a", "/lock/b", "/lock/deep/c"];

fn all(session: &Session) -> MultiLock {
    session.lock_all(PATHS).unwrap()
}

fn acquire(locks: &MultiLock) -> Waiter<MultiGuard> {
    let locks = locks.clone();
    tokio::spawn(async move { locks.acquire().await })
}

/// The locks are free for everybody, and nothing of an earlier acquisition is left.
async fn nothing_remains(server: &Server, session: &Session) {
    granted(acquire(&all(session))).await.release().await.unwrap();
    until_nothing_is_left(server).await;
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

#[tokio::test]
async fn readers_and_writers_are_mixed() {
    let (server, [session]) = sessions().await;
    let accesses = || [Access::shared("/lock/prices"), Access::exclusive("/lock/report")];
    let (prices, report) = (session.rw_lock("/lock/prices").unwrap(), session.lock("/lock/report").unwrap());
    let reading = prices.read().await.unwrap();
    let guard = session.lock_all(accesses()).unwrap().acquire().await.unwrap();
    assert!(prices.try_read().await.unwrap().is_some());
    assert!(report.try_acquire().await.unwrap().is_none());
    assert!(prices.try_write().await.unwrap().is_none());
    drop((guard, reading));
    within("the writer", prices.write()).await.unwrap().release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// It is first in the other queues.
#[tokio::test]
async fn an_operator_who_deletes_a_node_of_a_waiter_ends_its_wait() {
    let (server, [session, other]) = sessions().await;
    let held = session.lock(PATHS[1]).unwrap();
    let guard = held.acquire().await.unwrap();
    let waiting = acquire(&all(&other));
    until_queued(&held, 2).await;
    let first = session.lock(PATHS[0]).unwrap();
    until_queued(&first, 1).await;
    operator(&server).await.delete(&queue(&first).await[0].path, None).await.unwrap();
    assert_eq!(refused(waiting).await, AcquireError::NodeDeleted { path: PATHS[0].into() });
    until_queued(&held, 1).await;
    guard.release().await.unwrap();
    nothing_remains(&server, &session).await;
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
async fn a_write_to_a_node_of_a_waiter_changes_nothing() {
    let (server, [session, other]) = sessions().await;
    let held = session.lock(PATHS[1]).unwrap();
    let guard = held.acquire().await.unwrap();
    let waiting = acquire(&all(&other));
    until_queued(&held, 2).await;
    let first = session.lock(PATHS[0]).unwrap();
    let node = queue(&first).await[0].path.clone();
    // It is first there, and watches its own node: one watch for the holder, two for its own nodes, one for the
    // predecessor.
    eventually("the watches", async || server.watches().await == 4).await;
    operator(&server).await.set_data(&node, b"forged", None).await.unwrap();
    eventually("the watches", async || server.watches().await == 4).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    // It is granted in its turn. A look at the node then shows that somebody wrote to it.
    let guard = granted(waiting).await;
    guard.verify().await.unwrap_err();
    drop(guard);
    nothing_remains(&server, &session).await;
}

/// Nobody can tell whose a node is that was written to. So the session is given up, and all its nodes go with it.
#[tokio::test]
async fn a_node_that_is_touched_while_its_create_is_unanswered() {
    let (server, [other]) = sessions().await;
    let operator = operator(&server).await;
    for deletes in [true, false] {
        let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
        let locks = all(&unlucky);
        locks.acquire().await.unwrap().release().await.unwrap();
        let (id, held) = (unlucky.id(), link.hold_reply(RequestKind::Multi));
        let waiting = acquire(&locks);
        within("the reply", held.reached()).await;
        let node = queue(&other.lock(PATHS[1]).unwrap()).await[0].path.clone();
        if deletes {
            operator.delete(&node, None).await.unwrap();
        } else {
            operator.set_data(&node, b"mine", None).await.unwrap();
        }
        link.cut();
        held.release();
        if deletes {
            assert_eq!(refused(waiting).await, AcquireError::NodeDeleted { path: PATHS[1].into() });
        } else {
            granted(waiting).await.release().await.unwrap();
            assert_ne!(unlucky.id(), id);
        }
        nothing_remains(&server, &other).await;
    }
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
async fn directories_with_data_of_others_are_left_alone() {
    let (server, [session]) = sessions().await;
    for paths in [&PATHS[..1], &PATHS[..]] {
        for path in paths {
            if operator(&server).await.check_stat(path).await.unwrap().is_none() {
                make_foreign(&server, path).await;
            }
        }
        let locks = all(&session);
        let held = session.lock(PATHS[0]).unwrap();
        let guard = held.acquire().await.unwrap();
        let waiting = acquire(&locks);
        until_queued(&held, 2).await;
        guard.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
        let (data, _) = operator(&server).await.get_data(PATHS[0]).await.unwrap();
        assert_eq!(data, b"precious");
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn each_mistake_is_told() {
    let (_server, [session]) = sessions().await;
    let refused = |paths: &[&str]| session.lock_all(paths.iter().copied()).unwrap_err();
    assert_eq!(refused(&[]), InvalidLock::NoLocks);
    let nested = |outer: &str, inner: &str| InvalidLock::Nested { outer: outer.into(), inner: inner.into() };
    assert_eq!(refused(&["/lock/a", "/lock/b", "/lock/a"]), nested("/lock/a", "/lock/a"));
    assert_eq!(refused(&["/lock/a/b", "/lock/a-b", "/lock/a"]), nested("/lock/a", "/lock/a/b"));
    assert!(matches!(refused(&["/lock/a", "lock"]), InvalidLock::Path { .. }));
    let many = (0..64).map(|index| format!("/lock/{index}")).collect::<Vec<_>>();
    let long = LockOptions::new().data("x".repeat(16 * 1024));
    let error = session.lock_all(many.clone()).and_then(|it| it.with_options(long)).unwrap_err();
    assert!(matches!(error, InvalidLock::TooMany { count: 64, .. }), "{error}");
    // A byte of data may take six in the node.
    let escaped = LockOptions::new().data("\u{1}".repeat(4 * 1024));
    let error = session.lock_all(many[..32].to_vec()).and_then(|it| it.with_options(escaped)).unwrap_err();
    assert!(matches!(error, InvalidLock::TooMany { count: 32, .. }), "{error}");
    // As many as are allowed are also accepted by the server.
    let locks = session.lock_all(many).unwrap();
    locks.acquire().await.unwrap().release().await.unwrap();
}
