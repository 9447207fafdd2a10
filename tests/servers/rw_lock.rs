//! Readers and writers.

use std::time::Duration;

use support::{
    Waiter, eventually, granted, linked_session, queued, session, sessions, until_nothing_is_left,
};
use zklock::{FenceGate, Guard, ReadGuard, RwLock};
use zklock_testcontainers::RequestKind;

const PATH: &str = "/lock/prices";

async fn length(lock: &RwLock) -> usize {
    lock.contenders().await.unwrap().len()
}

async fn until_queued(lock: &RwLock, contenders: usize) {
    eventually("the queue's length", async || length(lock).await == contenders).await;
}

async fn reader(lock: &RwLock) -> Waiter<ReadGuard> {
    reader_seen_by(lock, lock).await
}

async fn reader_seen_by(observer: &RwLock, lock: &RwLock) -> Waiter<ReadGuard> {
    let lock = lock.clone();
    queued(async || length(observer).await, async move { lock.read().await }).await
}

async fn writer(lock: &RwLock) -> Waiter {
    let writer = lock.clone();
    queued(async || length(lock).await, async move { writer.write().await }).await
}

/// The numbers of those in the queue that hold the lock.
async fn holders(lock: &RwLock) -> Vec<i32> {
    let queue = lock.contenders().await.unwrap();
    queue.iter().filter(|contender| contender.holds).map(|contender| contender.number).collect()
}

#[tokio::test]
async fn they_are_served_in_the_order_of_their_arrival() {
    let (server, [session]) = sessions().await;
    let lock = session.rw_lock(PATH).unwrap();
    let first = lock.write().await.unwrap();
    let (second, third) = (reader(&lock).await, reader(&lock).await);
    let (fourth, fifth) = (writer(&lock).await, reader(&lock).await);
    assert_eq!(holders(&lock).await, [0]);

    first.release().await.unwrap();
    // The readers in front of the next writer overlap. The reader behind it waits, though only readers hold the lock.
    let (second, third) = (granted(second).await, granted(third).await);
    assert!(second.is_held() && third.is_held());
    assert_eq!(holders(&lock).await, [1, 2]);
    assert!(!fourth.is_finished() && !fifth.is_finished());
    assert!(lock.try_read().await.unwrap().is_none(), "a writer waits");

    third.release().await.unwrap();
    until_queued(&lock, 3).await;
    assert!(!fourth.is_finished(), "one reader still holds the lock");
    second.release().await.unwrap();
    let fourth = granted(fourth).await;
    assert!(!fifth.is_finished());
    assert_eq!(holders(&lock).await, [3]);
    fourth.release().await.unwrap();
    granted(fifth).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_writers_release_grants_every_reader_behind_it_without_a_request() {
    let (server, link, readers) = linked_session(Duration::from_secs(60)).await;
    let other = session(&server).await;
    let (held, lock) = (other.rw_lock(PATH).unwrap(), readers.rw_lock(PATH).unwrap());
    let writing = held.write().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(reader_seen_by(&held, &lock).await);
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
async fn readers_fence_by_two_marks_and_may_write_under_their_lock() {
    let (_server, [session, other]) = sessions().await;
    let lock = session.rw_lock(PATH).unwrap();
    let mut gate = FenceGate::new();
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    gate.admit_shared(two.token()).unwrap();
    gate.admit_shared(one.token()).unwrap();
    let (claim, late) = (one.sequencer().unwrap(), one.token());
    assert!(claim.is_shared() && late < two.token());
    other.verify_sequencer(&claim.to_string().parse().unwrap()).await.unwrap();
    one.transaction().create("/seen", "by a reader").commit().await.unwrap();
    drop(two);
    one.release().await.unwrap();
    other.verify_sequencer(&claim).await.unwrap_err();
    gate.admit(lock.write().await.unwrap().token()).unwrap();
    gate.admit_shared(late).unwrap_err();
}
