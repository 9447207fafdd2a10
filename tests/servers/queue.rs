//! What longer queues cost, and looks for locks.

use std::time::Duration;

use support::{
    enqueue, enqueue_seen_by, eventually, granted, linked, linked_session, names_transactions, orders,
    queued, session, sessions, until_nothing_is_left, until_watched,
};
use zklock::Guard;
use zklock::inspect::Cut;
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
    eventually("its watch", async || link.requests_of(RequestKind::GetData) == 1).await;
    assert_eq!(link.requests_of(RequestKind::Exists), 1, "a count, not a listing");
    // The holder's own watch is that of the first waiter, too: they share a session.
    until_watched(&server, 0, 51).await;
    eventually("its second watch", async || link.requests_of(RequestKind::GetChildren) == 1).await;
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
async fn a_writers_release_grants_every_reader_behind_it_without_a_request() {
    let (server, link, readers) = linked_session(Duration::from_secs(60)).await;
    let other = session(&server).await;
    let (held, lock) = (other.rw_lock("/lock/prices").unwrap(), readers.rw_lock("/lock/prices").unwrap());
    let seen = other.lock("/lock/prices").unwrap();
    let writing = held.write().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..10 {
        let lock = lock.clone();
        let length = async || seen.contenders().await.unwrap().len();
        waiting.push(queued(length, async move { lock.read().await }).await);
    }
    // Each has listed the queue, and watches the writer by two reads.
    let sent = || [RequestKind::GetChildren, RequestKind::GetData].map(|kind| link.requests_of(kind));
    eventually("every watch", async || sent() == [20, 10]).await;
    writing.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in waiting {
        guards.push(granted(reader).await);
    }
    assert!(guards.iter().all(Guard::is_held));
    let [listings, reads] = sent();
    assert_eq!(listings, 20, "no listing");
    assert!(
        reads <= 20,
        "each reader watches its own node once it is granted, and reads nothing else: {reads}"
    );
    drop(guards);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_look_for_locks_that_is_cut_says_so_and_one_that_finds_all_does_not() {
    let (_server, [session]) = sessions().await;
    let first = session.lock("/lock/a").unwrap().acquire().await.unwrap();
    let _second = session.lock("/lock/b/c").unwrap().acquire().await.unwrap();
    let below = session.locks_below("/lock").await.unwrap();
    assert_eq!((below.exists, below.hidden, below.locks.len(), below.cut), (true, 0, 2, None));
    assert_eq!(below.locks[0].holder.token, Some(first.token()));
    // At a bound, what was found is as it is, and the rest is missing.
    let found = session.locks_below_up_to("/lock", 1, usize::MAX).await.unwrap();
    assert_eq!((found.locks, found.cut), (below.locks[..1].to_vec(), Some(Cut::Found)));
    let read = session.locks_below_up_to("/lock", usize::MAX, 3).await.unwrap();
    assert_eq!((read.locks, read.read, read.cut), (below.locks[..1].to_vec(), 3, Some(Cut::Read)));
    let all = session.locks_below_up_to("/lock", 2, below.read).await.unwrap();
    assert_eq!((all.locks, all.cut), (below.locks, None));
    assert!(session.locks_below_up_to("/lock", 1, 0).await.unwrap().exists);
}
