//! Longer queues.

use std::time::Duration;

use support::{
    enqueue, enqueue_seen_by, granted, linked, names_transactions, orders, own_server, queue, session,
    sessions, until_nothing_is_left, until_watched,
};
use zklock::inspect::{Cut, Kind};
use zklock_testcontainers::RequestKind;

#[tokio::test]
async fn a_long_queue_is_not_listed() {
    let (server, [holder]) = orders().await;
    let guard = holder.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..50 {
        waiters.push(enqueue(&holder).await);
    }
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    let lock = session.lock("/lock/orders").unwrap();
    link.reset_counts();
    let last = enqueue_seen_by(&holder, &lock).await;
    support::eventually("its watch", async || link.requests_of(RequestKind::GetData) == 1).await;
    assert_eq!(link.requests_of(RequestKind::Exists), 1, "a count, not a listing");
    // The holder's own watch is that of the first waiter, too: they share a session.
    until_watched(&server, 0, 51).await;
    support::eventually("its second watch", async || link.requests_of(RequestKind::GetChildren) == 1).await;
    guard.release().await.unwrap();
    for waiter in waiters {
        granted(waiter).await.release().await.unwrap();
    }
    granted(last).await.release().await.unwrap();
    let looks = u64::from(!names_transactions(&server).await);
    assert_eq!(link.requests_of(RequestKind::GetChildren), 1 + looks);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_locks_below_a_node_are_those_that_are_held() {
    let server = own_server().await;
    let session = session(&server).await;
    let [held, queued, free] = ["/lock/a", "/lock/b/c", "/lock/free"].map(|path| session.lock(path).unwrap());
    let first = held.acquire().await.unwrap();
    let second = queued.acquire().await.unwrap();
    let waiter = enqueue(&queued).await;
    free.acquire().await.unwrap().release().await.unwrap();
    let below = session.locks_below("/lock").await.unwrap();
    let found = below.locks.iter().map(|lock| (lock.path.as_str(), lock.waiting, lock.foreign));
    assert_eq!(found.collect::<Vec<_>>(), [("/lock/a", 0, 0), ("/lock/b/c", 1, 0)]);
    assert_eq!((below.exists, below.hidden), (true, 0));
    assert_eq!(below.locks[0].holder.token, Some(first.token()));
    assert_eq!(below.locks[0].holder, queue(&held).await[0]);
    // At a bound, what was found is as it is, and the rest is missing.
    let found = session.locks_below_up_to("/lock", 1, usize::MAX).await.unwrap();
    assert_eq!((found.locks, found.cut), (below.locks[..1].to_vec(), Some(Cut::Found)));
    let read = session.locks_below_up_to("/lock", usize::MAX, 3).await.unwrap();
    assert_eq!((read.locks, read.read, read.cut), (below.locks[..1].to_vec(), 3, Some(Cut::Read)));
    let all = session.locks_below_up_to("/lock", 2, below.read).await.unwrap();
    assert_eq!((all.locks, all.cut), (below.locks.clone(), None));
    assert!(session.locks_below_up_to("/lock", 1, 0).await.unwrap().exists);
    // The root of all, and a node that is not there.
    assert_eq!(session.locks_below("/").await.unwrap().locks, below.locks);
    assert!(!session.locks_below("/nowhere").await.unwrap().exists);
    let reserved = session.locks_below("/zookeeper").await.unwrap_err();
    assert!(reserved.to_string().contains("belongs to the servers"), "{reserved}");
    second.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
}

#[tokio::test]
async fn readers_that_hold_a_lock_together_are_counted() {
    let (_server, [session]) = sessions().await;
    let lock = session.rw_lock("/lock/a").unwrap();
    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    let waiter = enqueue(&session.lock("/lock/a").unwrap()).await;
    let held = session.locks_below("/lock").await.unwrap().locks.remove(0);
    assert_eq!((held.holders, held.waiting), (2, 1));
    assert_eq!((held.holder.kind, held.holder.token), (Kind::Shared, Some(readers[0].token())));
    assert_eq!(held.holder, lock.contenders().await.unwrap()[0]);
    drop(readers);
    let writing = granted(waiter).await;
    let held = session.locks_below("/lock").await.unwrap().locks.remove(0);
    assert_eq!((held.holder.kind, held.holders, held.waiting), (Kind::Exclusive, 1, 0));
    writing.release().await.unwrap();
}
