//! An operator deletes and writes to nodes by hand.

use std::time::Duration;

use futures::FutureExt;
use support::{
    Server, Steps, enqueue, enqueue_seen_by, eventually, granted, hide, linked, linked_session,
    names_transactions, operator, queue, queued, session, sessions, until_children_are_watched,
    until_nothing_is_left, until_queued, until_watched, within,
};
use zklock::{AcquireError, Guard, LockOptions, LostReason};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acls, Client, CreateMode};

/// An operator deletes the whole queue and its directory.
async fn wipe(server: &Server, contenders: usize) {
    let operator = operator(server).await;
    for number in 0..contenders {
        operator.delete(&format!("/lock/orders/lock-{number:010}"), None).await.unwrap();
    }
    operator.delete("/lock/orders", None).await.unwrap();
}

#[tokio::test]
async fn the_directory_while_a_waiter_is_away() {
    let (server, [first, second, third]) = sessions().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let holder = first.lock("/lock/orders").unwrap();
    let _lost = holder.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&holder, &unlucky.lock("/lock/orders").unwrap()).await;
    until_watched(&server, 1, 1).await;
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
    let (server, [other]) = sessions().await;
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
    eventually("the connection", async || unlucky.contenders().await.is_ok()).await;
    let waiter = enqueue_seen_by(&other.lock("/lock/orders").unwrap(), &unlucky).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// Nothing has told the two of the deletions when they give up. By its name each would delete another contender's node.
#[tokio::test]
async fn the_directory_of_a_holder_and_a_waiter_who_then_give_up() {
    let (server, link, unlucky) = linked_session(Duration::from_secs(60)).await;
    let second = session(&server).await.lock("/lock/orders").unwrap();
    let unlucky = unlucky.lock("/lock/orders").unwrap();
    let limited = unlucky.clone().with_options(LockOptions::new().max_hold(Duration::from_secs(2))).unwrap();
    let guard = limited.acquire().await.unwrap();
    let waiter = enqueue(&unlucky).await;
    eventually("the watches", async || link.requests_of(RequestKind::GetData) >= 2).await;
    // What follows this answer on the connection comes late.
    let late = link.hold_reply(RequestKind::GetChildren);
    let mut contenders = Steps::new(unlucky.contenders());
    assert!(contenders.poll().is_pending());
    within("the question", late.reached()).await;
    wipe(&server, 2).await;
    let holder = second.acquire().await.unwrap();
    assert_eq!(holder.node(), guard.node());
    let next = enqueue(&second).await;
    link.reset_counts();
    waiter.abort();
    let gives_up = || link.requests_of(RequestKind::Delete) + link.requests_of(RequestKind::GetData);
    eventually("the ends", async || gives_up() >= 2).await;
    late.release();
    // A deletion would be on its way at the latest now, and is answered before this.
    contenders.finished().await.unwrap();
    unlucky.contenders().await.unwrap();
    holder.verify().await.unwrap();
    assert_eq!(link.requests_of(RequestKind::Delete), 0);
    holder.release().await.unwrap();
    granted(next).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// A server withholds events of a node from those who may not read it (ZOOKEEPER-4799), so no watch tells of its end.
#[tokio::test]
async fn a_holders_node_that_was_hidden_before() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    let lock = |path| session.lock(path).unwrap();
    let other = lock("/lock/bills").acquire().await.unwrap();
    let guard = lock("/lock/orders").acquire().await.unwrap();
    until_watched(&server, 2, 0).await;
    hide(&operator, &guard.node()).await;
    operator.delete(&guard.node(), None).await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    assert!(other.is_held());
}

#[tokio::test]
async fn a_holders_node_that_is_hidden_and_there() {
    let (server, link, session) = linked_session(Duration::from_secs(10)).await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    until_watched(&server, 1, 0).await;
    hide(&operator(&server).await, &guard.node()).await;
    // On the next connection it cannot be watched any more.
    link.cut();
    let heartbeats = link.requests_of(RequestKind::Multi) + 6;
    eventually("heartbeats", async || link.requests_of(RequestKind::Multi) > heartbeats).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_waiter_whose_predecessor_was_hidden_looks_again() {
    let (server, [holder]) = sessions().await;
    let (_link, waiting) = linked(&server, Duration::from_secs(2)).await;
    let lock = holder.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&lock, &waiting.lock("/lock/orders").unwrap()).await;
    until_watched(&server, 1, 1).await;
    hide(&operator(&server).await, &guard.node()).await;
    guard.release().await.unwrap();
    // After ten session timeouts.
    granted(waiter).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// Makes a contender of a stranger's in the queue. Returns its node.
async fn intrude(stranger: &Client) -> String {
    let data = br#"{"id":"5f3a3c1e-4b8e-4c55-8d3a-6f1c2f1f8a01","owner":"stranger"}"#;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = stranger.create("/lock/orders/lock-", data, &options).await.unwrap();
    format!("/lock/orders/lock-{sequence}")
}

/// Removes the stranger's contender as if it had held the lock and released it.
async fn forge_release(stranger: &Client, node: &str) {
    let mut forged = stranger.new_multi_writer();
    forged.add_set_data(node, b"", None).unwrap();
    forged.add_delete(node, None).unwrap();
    forged.commit().await.unwrap();
}

/// Its successor is granted while the lock is held, and learns of that once it has held the lock for a while.
#[tokio::test]
async fn a_forged_release_costs_its_successor_the_guard() {
    let (server, [holding, waiting]) = sessions().await;
    if !names_transactions(&server).await {
        // Such a server does not show that it was one transaction, so the successor looks before its grant.
        return;
    }
    let (stranger, rivals) = (operator(&server).await, holding.lock("/lock/orders").unwrap());
    let (lock, read) = (waiting.lock("/lock/orders").unwrap(), waiting.rw_lock("/lock/orders").unwrap());
    let both = waiting.lock_all(["/lock/bills", "/lock/orders"]).unwrap();
    let lock = async move { lock.acquire().await.map(Guard::into_any) };
    let read = async move { read.read().await.map(Guard::into_any) };
    let both = async move { both.acquire().await.map(Guard::into_any) };
    for (acquire, watches) in [(lock.boxed(), 1), (read.boxed(), 1), (both.boxed(), 2)] {
        let held = rivals.acquire().await.unwrap();
        let node = intrude(&stranger).await;
        let waiter = queued(async || queue(&rivals).await.len(), acquire).await;
        until_watched(&server, 1, watches).await;
        until_children_are_watched(&waiting).await;
        forge_release(&stranger, &node).await;
        let granted = granted(waiter).await;
        assert_eq!(within("the loss", granted.lost()).await, LostReason::ReleaseForged);
        held.check().unwrap();
        drop(granted);
        until_queued(&rivals, 1).await;
        held.release().await.unwrap();
        until_nothing_is_left(&server).await;
    }
}

/// With a takeover delay, the successor looks at the queue before its grant.
#[tokio::test]
async fn a_forged_release_grants_nobody_with_a_takeover_delay() {
    let (server, [holding, waiting]) = sessions().await;
    let stranger = operator(&server).await;
    let held = holding.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let node = intrude(&stranger).await;
    let options = LockOptions::new().takeover_delay(Duration::from_secs(60));
    let waiter = enqueue(&waiting.lock("/lock/orders").unwrap().with_options(options).unwrap()).await;
    until_watched(&server, 1, 1).await;
    until_children_are_watched(&waiting).await;
    forge_release(&stranger, &node).await;
    // It goes on to watch the holder.
    eventually("the watches", async || waiter.is_finished() || server.watches().await == 2).await;
    assert!(!waiter.is_finished());
    until_children_are_watched(&waiting).await;
    held.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}
