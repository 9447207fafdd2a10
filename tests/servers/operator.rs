//! An operator deletes and writes to nodes by hand.

use std::time::Duration;

use support::{
    Server, enqueue, enqueue_seen_by, eventually, granted, hide, linked, linked_session, names_transactions,
    operator, queue, refused, sessions, until_nothing_is_left, until_queued, until_watched, within,
};
use zklock::{AcquireError, LostReason};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acls, CreateMode};

#[tokio::test]
async fn the_holders_node_just_before_the_release() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let node = guard.node();
    // Sent by two clients at once: whichever is first, the answers agree.
    let (deleted, released) = tokio::join!(operator.delete(&node, None), guard.release());
    assert_eq!(deleted.is_ok(), released.is_err(), "{deleted:?}, {released:?}");
}

/// Its successor hears of the write, but it waits until the node is gone with the guard, and then it looks.
#[tokio::test]
async fn the_holders_data_which_takes_the_lock_from_it() {
    let (server, [holder]) = sessions().await;
    let (link, waiting) = linked(&server, Duration::from_secs(20)).await;
    let lock = holder.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&lock, &waiting.lock("/lock/orders").unwrap()).await;
    // The holder's own watch is there.
    until_watched(&server, 1, 1).await;
    link.reset_counts();
    operator(&server).await.set_data(&guard.node(), b"", None).await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    assert!(!guard.is_held());
    assert_eq!(queue(&lock).await.len(), 2, "nobody is granted before the loser has finished");
    assert!(!waiter.is_finished());
    drop(guard);
    let next = granted(waiter).await;
    assert_eq!(link.requests_of(RequestKind::GetChildren), 1, "a look");
    next.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// A holder and two waiters. The second waiter looks, now that the first one's node is gone, and waits for the holder.
#[tokio::test]
async fn a_waiters_data_and_its_node_in_two_transactions() {
    for at_once in [true, false] {
        let (server, [holder, first]) = sessions().await;
        let (link, second) = linked(&server, Duration::from_secs(20)).await;
        let lock = holder.lock("/lock/orders").unwrap();
        let guard = lock.acquire().await.unwrap();
        let first = enqueue(&first.lock("/lock/orders").unwrap()).await;
        let second = enqueue_seen_by(&lock, &second.lock("/lock/orders").unwrap()).await;
        until_watched(&server, 1, 2).await;
        let (operator, node) = (operator(&server).await, queue(&lock).await[1].path.clone());
        link.reset_counts();
        let writes = operator.set_data(&node, b"", None);
        // Each is sent where it is made.
        if at_once {
            let (written, deleted) = tokio::join!(writes, operator.delete(&node, None));
            written.unwrap();
            deleted.unwrap();
        } else {
            writes.await.unwrap();
            eventually("the event", async || link.counts().events == 1).await;
            operator.delete(&node, None).await.unwrap();
        }
        eventually("its look, and its watch", async || link.requests_of(RequestKind::GetChildren) == 2).await;
        until_watched(&server, 1, 2).await;
        assert!(!second.is_finished() && guard.is_held());
        // Two would hear of the holder's release, as the first one has not noticed that its node is gone.
        first.abort();
        until_watched(&server, 1, 1).await;
        guard.release().await.unwrap();
        granted(second).await.release().await.unwrap();
        until_nothing_is_left(&server).await;
    }
}

#[tokio::test]
async fn a_waiters_node_whose_predecessor_goes_or_releases() {
    for releases in [true, false] {
        let (server, [first, second]) = sessions().await;
        let (holder, lock) = (first.lock("/lock/orders").unwrap(), second.lock("/lock/orders").unwrap());
        let guard = holder.acquire().await.unwrap();
        let evicted = enqueue(&lock).await;
        until_watched(&server, 1, 1).await;
        let node = queue(&lock).await[1].path.clone();
        operator(&server).await.delete(&node, None).await.unwrap();
        if releases {
            guard.release().await.unwrap();
        } else {
            first.close().await.unwrap();
        }
        if releases && names_transactions(&server).await {
            // It is granted by the event, and told by its own watch, which a contender that waited sets at once.
            let guard = granted(evicted).await;
            assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
        } else {
            // It has to look, and misses its node.
            assert_eq!(refused(evicted).await, AcquireError::NodeDeleted { path: "/lock/orders".into() });
        }
        until_nothing_is_left(&server).await;
    }
}

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

#[tokio::test]
async fn a_lower_number_that_was_made_by_hand() {
    let (server, [holder, waiting]) = sessions().await;
    let operator = operator(&server).await;
    let lock = holder.lock("/lock/orders").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiter = enqueue(&waiting.lock("/lock/orders").unwrap()).await;
    until_watched(&server, 1, 1).await;
    let by_hand = "/lock/orders/lock-0000000000";
    operator.create(by_hand, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    operator.delete(&guard.node(), None).await.unwrap();
    let error = within("the acquisition's end", waiter).await.unwrap().map(drop).unwrap_err();
    assert!(matches!(&error, AcquireError::ForeignContender { node, .. } if node == by_hand), "{error}");
    until_queued(&lock, 1).await;
    operator.delete(by_hand, None).await.unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}
