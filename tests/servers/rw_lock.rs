//! Readers and writers.

use std::time::Duration;

use support::{
    Waiter, eventually, granted, linked_session, operator, patient, queued, server, session, sessions,
    until_nothing_is_left, within,
};
use zklock::{FenceGate, Guard, LockOptions, ReadGuard, RwLock};
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

/// A session without a guard does not extend its lease. So after a long wait its readers need a quorum's word, and ask for
/// it together.
#[tokio::test]
async fn readers_of_one_session_that_have_waited_for_long_ask_a_quorum_once() {
    let (server, link, readers) = linked_session(Duration::from_secs(6)).await;
    let other = session(&server).await;
    let (held, lock) = (other.rw_lock(PATH).unwrap(), readers.rw_lock(PATH).unwrap());
    let writing = held.write().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(reader_seen_by(&held, &lock).await);
    }
    eventually("every watch", async || link.requests_of(RequestKind::GetData) >= 20).await;
    let synced = link.requests_of(RequestKind::Sync);
    // Each heartbeat sends one, a quarter of the session timeout after the last one. So the lease that the last create
    // left is over.
    eventually("the end of the lease", async || link.requests_of(RequestKind::Sync) >= synced + 5).await;
    let written = link.requests_of(RequestKind::Multi);
    writing.release().await.unwrap();
    for reader in waiting {
        granted(reader).await.release().await.unwrap();
    }
    // Each reader's release is one. The rest are the confirmations of the lease, and heartbeats.
    let asked = link.requests_of(RequestKind::Multi) - written - 20;
    assert!((1..10).contains(&asked), "{asked} confirmations for 20 readers");
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_writer_that_gives_up_causes_no_listing() {
    let (server, link, readers) = linked_session(Duration::from_secs(60)).await;
    let other = session(&server).await;
    let (held, lock) = (other.rw_lock(PATH).unwrap(), readers.rw_lock(PATH).unwrap());
    let reading = held.read().await.unwrap();
    let first = writer(&held).await;
    let second = writer(&held).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(reader_seen_by(&held, &lock).await);
    }
    // Each has listed the queue. A watch on a writer is two reads, of its data and of its children.
    let sent = || [RequestKind::GetChildren, RequestKind::GetData].map(|kind| link.requests_of(kind));
    eventually("every watch on the second writer", async || sent() == [10, 5]).await;
    second.abort();
    eventually("every watch on the first writer, and no listing", async || sent() == [15, 10]).await;
    reading.release().await.unwrap();
    granted(first).await.release().await.unwrap();
    for reader in waiting {
        granted(reader).await.release().await.unwrap();
    }
    assert_eq!(link.requests_of(RequestKind::GetChildren), 15, "no listing");
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn readers_fence_by_two_marks_and_may_write_under_their_lock() {
    let (_server, [session, other]) = sessions().await;
    let lock = session.rw_lock(PATH).unwrap();
    let mut gate = FenceGate::new();
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    assert!(one.token() < two.token());
    gate.admit_shared(two.token()).unwrap();
    gate.admit_shared(one.token()).unwrap();
    one.verify().await.unwrap();
    let claim = one.sequencer().unwrap();
    assert!(claim.is_shared());
    other.verify_sequencer(&claim.to_string().parse().unwrap()).await.unwrap();
    one.transaction().create("/seen", "by a reader").commit().await.unwrap();
    let late = one.token();
    one.release().await.unwrap();
    two.release().await.unwrap();
    other.verify_sequencer(&claim).await.unwrap_err();
    let writing = lock.write().await.unwrap();
    gate.admit(writing.token()).unwrap();
    gate.admit_shared(late).unwrap_err();
}

/// Readers in front may hold the lock, or wait for the delay themselves.
#[tokio::test]
async fn with_a_takeover_delay_a_reader_that_vanished_unseen_delays_the_writer() {
    let (server, sessions) = sessions::<2>().await;
    let delay = Duration::from_secs(2);
    let lock =
        sessions[0].rw_lock(PATH).unwrap().with_options(LockOptions::new().takeover_delay(delay)).unwrap();
    let first = lock.read().await.unwrap();
    assert!(
        lock.try_read().await.unwrap().is_none(),
        "nothing shows whether the first reader holds the lock"
    );
    let began = std::time::Instant::now();
    let second = lock.read().await.unwrap();
    assert!(began.elapsed() >= delay, "a reader beside others waits for the delay");
    let waiting = writer(&lock).await;
    let operator = operator(&server).await;
    operator.delete(&first.node(), None).await.unwrap();
    within("the loss", first.lost()).await;
    let began = std::time::Instant::now();
    second.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    assert!(began.elapsed() >= delay, "the writer has not seen how the first reader went");
    // A writer that has seen every reader release the lock is granted at once, where servers name transactions.
    if support::names_transactions(&server).await {
        let never = LockOptions::new().takeover_delay(Duration::from_secs(3600));
        let other = sessions[1].rw_lock(PATH).unwrap().with_options(never).unwrap();
        let reading = lock.read().await.unwrap();
        let waiting = writer(&other).await;
        support::until_watched(&server, 1, 1).await;
        reading.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_thousand_readers_wait_behind_one_writer() {
    let server = server().await;
    // A thousand requests may be in front of a heartbeat, of the other session as well.
    let session = || patient(server.connect_string(), Duration::from_secs(60)).connect();
    let (one, other) = (session().await.unwrap(), session().await.unwrap());
    let (held, lock) = (one.rw_lock(PATH).unwrap(), other.rw_lock(PATH).unwrap());
    let writing = held.write().await.unwrap();
    let readers = (0..1000).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.read().await })
    });
    let readers = readers.collect::<Vec<_>>();
    eventually("all of them in the queue", async || server.ephemerals().await == 1001).await;
    writing.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(granted(reader).await);
    }
    assert!(guards.iter().all(Guard::is_held), "all at once");
    drop(guards);
    until_nothing_is_left(&server).await;
}
