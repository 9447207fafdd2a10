//! Thousands of waiters and guards on one session survive the loss of its connection.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use support::{
    BOUND, Steps, eventually, granted, linked, make, operator, own_server, patient, queue,
    until_nothing_is_left, until_watched, within,
};
use tokio::time::timeout;
use zklock::Lock;
use zklock_testcontainers::{Link, RequestKind};

/// Long enough for a busy machine to set all the watches again.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Breaks the connection, and waits until the session has set so many watches again. Each takes a request of this kind.
async fn until_watched_again(link: &Link, kind: RequestKind, watches: u64) {
    let before = link.requests_of(kind);
    link.cut();
    eventually("the watches of the next connection", async || link.requests_of(kind) >= before + watches)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_waiters_survive_a_reconnection() {
    const WAITERS: u64 = 20_000;
    let server = own_server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    // The server is busy with the others when the holder's heartbeats come.
    let other = patient(server.connect_string(), TIMEOUT).connect().await.unwrap();
    let (lock, holder) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = holder.acquire().await.unwrap();
    let mut waiters = (0..WAITERS).map(|_| support::acquire(&lock)).collect::<FuturesUnordered<_>>();
    until_watched(&server, 1, WAITERS).await;
    let id = unlucky.id();
    until_watched_again(&link, RequestKind::GetChildren, WAITERS).await;
    until_watched(&server, 1, WAITERS).await;
    assert_eq!((unlucky.id(), unlucky.requeued()), (id, 0));
    guard.release().await.unwrap();
    for _ in 0..10 {
        within("a grant", waiters.next()).await.unwrap().unwrap().unwrap().release().await.unwrap();
    }
    unlucky.close().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_guards_survive_a_reconnection() {
    const GUARDS: usize = 10_000;
    let server = own_server().await;
    let (link, session) = linked(&server, TIMEOUT).await;
    let guards = futures::stream::iter(0..GUARDS).map(|number| {
        let lock = session.lock(&format!("/lock/{number}")).unwrap();
        async move { lock.acquire().await.unwrap() }
    });
    let guards = guards.buffer_unordered(500).collect::<Vec<_>>().await;
    until_watched(&server, GUARDS as u64, 0).await;
    until_watched_again(&link, RequestKind::GetData, GUARDS as u64).await;
    until_watched(&server, GUARDS as u64, 0).await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    session.close().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// How many entries of one session are under way at the same time.
const UNDER_WAY: u64 = 256;

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_loses_few_of_many_entries_and_one_search_finds_them() {
    const KEYS: usize = 1_000;
    let server = own_server().await;
    let (link, session) = linked(&server, TIMEOUT).await;
    let operator = operator(&server).await;
    for key in 0..KEYS {
        make(&operator, &format!("/lock/{key}")).await;
    }
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let before = link.requests_of(RequestKind::Create);
    let held = link.hold_reply(RequestKind::Create);
    let polled = Arc::new(AtomicUsize::new(0));
    let keys = (0..KEYS).map(|key| {
        let (lock, polled) = (session.lock(&format!("/lock/{key}")).unwrap(), polled.clone());
        tokio::spawn(async move {
            let mut acquiring = pin!(lock.acquire());
            poll_fn(|cx| {
                let poll = acquiring.as_mut().poll(cx);
                polled.fetch_add(1, Ordering::Relaxed);
                poll
            })
            .await
        })
    });
    let keys = keys.collect::<Vec<_>>();
    eventually("the tasks", async || polled.load(Ordering::Relaxed) >= KEYS).await;
    // A client sends its requests in order.
    let asked = tokio::spawn({
        let lock = session.lock("/lock/orders").unwrap();
        async move { lock.contenders().await }
    });
    eventually("a later request", async || link.requests_of(RequestKind::GetChildren) >= 1).await;
    assert_eq!(link.requests_of(RequestKind::Create) - before, UNDER_WAY);
    // All of these have taken effect, and nobody knows.
    eventually("their nodes", async || server.ephemerals().await == UNDER_WAY + 1).await;
    drop(asked);
    link.cut();
    drop(held);
    let mut guards = vec![guard];
    for key in keys {
        guards.push(granted(key).await);
    }
    assert_eq!(server.ephemerals().await, guards.len() as u64, "no create was sent twice");
    // A task that comes late may begin another one.
    let searches = link.requests_of(RequestKind::GetEphemerals);
    assert!((1..=10).contains(&searches), "{searches} searches");
    assert_eq!(session.requeued(), 0);
    assert!(guards.iter().all(|guard| guard.is_held()));
    session.close().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn entries_that_nobody_polls_keep_nobody_out() {
    let server = own_server().await;
    let session = patient(server.connect_string(), BOUND).connect().await.unwrap();
    let mut forgotten = (0..2 * UNDER_WAY)
        .map(|key| {
            let lock = session.lock(&format!("/lock/{key}")).unwrap();
            Steps::new(async move { lock.acquire().await })
        })
        .collect::<Vec<_>>();
    assert!(forgotten.iter_mut().all(|entry| entry.poll().is_pending()));
    // Long before they are given up.
    let acquiring = session.lock("/lock/orders").unwrap();
    let guard = timeout(BOUND / 4, acquiring.acquire()).await.unwrap().unwrap();
    guard.release().await.unwrap();
    // Those who wait in line leave without a request.
    drop(forgotten);
    session.close().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// The waiters have a runtime of their own, which needs longer to reach them all than a caller may let an acquisition wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_its_runtime_has_not_reached_keeps_its_place_and_one_that_does_not_poll_loses_it() {
    const WAITERS: u64 = 500;
    let server = own_server().await;
    let (link, session) = linked(&server, WORK * WAITERS as u32).await;
    let other = patient(server.connect_string(), TIMEOUT).connect().await.unwrap();
    let guard = other.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let lock = session.lock("/lock/orders").unwrap();
    let mut forgotten = Steps::new(lock.acquire());
    eventually("its watches", async || {
        assert!(forgotten.poll().is_pending());
        server.watches().await == 2
    })
    .await;
    let place = queue(&lock).await[1].path.clone();
    let (busy, waiters) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let runtime = std::thread::spawn({
        let (lock, busy, waiters) = (lock.clone(), busy.clone(), waiters.clone());
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let tasks =
                    (0..WAITERS).map(|_| tokio::spawn(slow(lock.clone(), busy.clone(), waiters.clone())));
                futures::future::join_all(tasks).await;
            });
        }
    });
    until_watched(&server, 1, WAITERS + 1).await;
    busy.store(true, Ordering::Relaxed);
    // Everybody who waits is woken.
    link.cut();
    eventually("the tasks", async || waiters.load(Ordering::Relaxed) as u64 == WAITERS).await;
    eventually("the end of the forgotten one", async || {
        other.lock("/lock/orders").unwrap().contenders().await.unwrap().iter().all(|it| it.path != place)
    })
    .await;
    assert_eq!(session.requeued(), 0, "only the forgotten one has lost its place");
    session.close().await.unwrap();
    guard.release().await.unwrap();
    runtime.join().unwrap();
}

/// How long each of the waiters keeps its thread at its next poll. All together take a session timeout.
const WORK: Duration = Duration::from_millis(12);

/// Acquires a lock. While it is busy, it works for a while at its next poll, and counts itself.
async fn slow(lock: Lock, busy: Arc<AtomicBool>, waiters: Arc<AtomicUsize>) {
    let (mut acquiring, mut worked) = (pin!(lock.acquire()), false);
    let acquired = poll_fn(|cx| {
        if !worked && busy.load(Ordering::Relaxed) {
            worked = true;
            let began = Instant::now();
            while began.elapsed() < WORK {}
            waiters.fetch_add(1, Ordering::Relaxed);
        }
        acquiring.as_mut().poll(cx)
    });
    drop(acquired.await);
}
