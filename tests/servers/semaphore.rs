//! Semaphores: capacity, and what operators see and change.

use std::task::Poll;
use std::time::Duration;

use support::{
    Server, Steps, Waiter, eventually, granted, linked_session, make, operator, queue, queued, refused,
    sessions, until_nothing_is_left, within,
};
use zklock::semaphore::{InvalidPool, PoolError};
use zklock::{Permit, Semaphore, Session, inspect::Kind};
use zklock_testcontainers::RequestKind;

const PATH: &str = "/pool";

/// Acquires a permit in a separate task, and waits until the acquisition is in the turnstile.
async fn enqueue(observer: &Session, semaphore: &Semaphore) -> Waiter<Permit, PoolError> {
    let turnstile = observer.lock("/pool/queue").unwrap();
    let acquiring = semaphore.clone();
    queued(async || queue(&turnstile).await.len(), async move { acquiring.acquire().await }).await
}

/// The weights of all permits that are held.
async fn held(semaphore: &Semaphore) -> Vec<u32> {
    let weight = |kind| match kind {
        Kind::Permit(weight) => weight,
        other => panic!("{other:?}"),
    };
    semaphore.permits().await.unwrap().permits.iter().map(|permit| weight(permit.kind)).collect()
}

/// Waits until the first in the turnstile watches the pool: its data and its children.
async fn until_it_waits_for_room(server: &Server) {
    let pool = server.full("/pool/permits");
    eventually("its watch", async || server.admin("wchp").await.lines().any(|line| line == pool)).await;
}

/// Entering the turnstile, a look, and the transaction; and the release. An acquisition that finds no room releases the turnstile.
#[tokio::test]
async fn a_free_permit_takes_three_requests_and_its_release_one() {
    let (_server, link, session) = linked_session(Duration::from_secs(60)).await;
    let semaphore = session.semaphore(PATH, 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    link.reset_counts();
    let permit = semaphore.acquire().await.unwrap();
    let sent = |kind| link.requests_of(kind);
    // A heartbeat may come in between. On a busy machine the node in the turnstile is old enough to be watched.
    let all = sent(RequestKind::Any) - sent(RequestKind::Sync) - sent(RequestKind::GetData);
    assert_eq!((all, sent(RequestKind::Multi), sent(RequestKind::MultiRead)), (3, 2, 1));
    let other = semaphore.acquire().await.unwrap();
    link.reset_counts();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!((sent(RequestKind::Multi), sent(RequestKind::Delete)), (2, 0));
    other.release().await.unwrap();
    permit.release().await.unwrap();
    assert_eq!(sent(RequestKind::Multi), 4);
}

#[tokio::test]
async fn what_can_never_be_had_is_refused_at_the_call() {
    let (_server, link, session) = linked_session(Duration::from_secs(20)).await;
    assert_eq!(session.semaphore(PATH, 0).unwrap_err(), InvalidPool::Nothing { path: PATH.into() });
    let semaphore = session.semaphore(PATH, 4).unwrap();
    link.reset_counts();
    for weight in [0, 5] {
        for refused in [
            semaphore.acquire_many(weight).await.map(Some),
            semaphore.try_acquire_many(weight).await,
            semaphore.acquire_many_timeout(weight, Duration::from_secs(1)).await,
        ] {
            assert_eq!(refused.unwrap_err(), PoolError::Weight { path: PATH.into(), weight, capacity: 4 });
        }
    }
    let impossible = semaphore.set_capacity(0).await.unwrap_err();
    assert!(matches!(impossible, PoolError::Number { asked: 0, .. }), "{impossible}");
    let sent = |kind| link.requests_of(kind);
    assert_eq!(sent(RequestKind::Any), sent(RequestKind::Sync), "nothing but heartbeats");
}

#[tokio::test]
async fn its_capacity_can_be_changed() {
    let (server, [ours, theirs]) = sessions().await;
    let (semaphore, other) = (ours.semaphore(PATH, 2).unwrap(), theirs.semaphore(PATH, 2).unwrap());
    assert_eq!(semaphore.permits().await.unwrap().capacity, None);
    let held_already = semaphore.acquire_many(2).await.unwrap();
    // One that waits is refused, because it states the old one.
    let stale = enqueue(&ours, &other).await;
    until_it_waits_for_room(&server).await;
    semaphore.set_capacity(4).await.unwrap();
    assert_eq!((semaphore.capacity(), semaphore.clone().capacity(), other.capacity()), (4, 4, 2));
    let refused = refused(stale).await;
    assert_eq!(refused, PoolError::Capacity { path: PATH.into(), stated: 2, found: 4 });
    assert!(!refused.is_retryable() && !refused.needs_new_session());
    assert_eq!(
        refused.to_string(),
        "the semaphore at /pool has a capacity of 4, but this process states 2; state the same capacity in all processes, or \
         change it with `set_capacity`"
    );
    assert!(held_already.is_held());
    let more = semaphore.acquire_many(2).await.unwrap();
    // Those that are held stay, though they are more than the new capacity.
    semaphore.set_capacity(3).await.unwrap();
    assert!(held_already.is_held() && more.is_held());
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    // One that waits and states the new one is woken by it, although no permit comes or goes.
    let waiter = enqueue(&theirs, &semaphore).await;
    until_it_waits_for_room(&server).await;
    semaphore.set_capacity(5).await.unwrap();
    let third = granted(waiter).await;
    assert_eq!(held(&semaphore).await, [2, 2, 1]);
    drop((held_already, more, third));
    until_nothing_is_left(&server).await;
    // It can be set before anybody has used it.
    ours.semaphore("/a/new/pool", 7).unwrap().set_capacity(8).await.unwrap();
    assert_eq!(ours.semaphore("/a/new/pool", 1).unwrap().permits().await.unwrap().capacity, Some(8));
}

#[tokio::test]
async fn nodes_that_somebody_made_by_hand_count_by_their_names() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    let semaphore = session.semaphore(PATH, 3).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for name in ["permit-2-0000000700", "notes", "permit-03-0000000007"] {
        make(&operator, &format!("{PATH}/permits/{name}")).await;
    }
    let permit = semaphore.acquire().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(held(&semaphore).await, [1, 2]);
    permit.release().await.unwrap();
    make(&operator, &format!("{PATH}/permits/slot-2-0000000701")).await;
    let error = semaphore.acquire().await.unwrap_err();
    assert_eq!(error, PoolError::Mixed { directory: "/pool/permits".into() });
    operator.set_data("/pool/permits", b"10.0.0.1", None).await.unwrap();
    let unknown = PoolError::UnknownData { directory: "/pool/permits".into() };
    assert_eq!(semaphore.acquire().await.unwrap_err(), unknown);
    assert_eq!(semaphore.set_capacity(3).await.unwrap_err(), unknown);
}

/// Each ends, and what this process states is what the semaphore has in the end.
#[tokio::test]
async fn two_changes_at_once_leave_one_capacity() {
    let (_server, [session]) = sessions().await;
    let semaphore = session.semaphore(PATH, 4).unwrap();
    drop(semaphore.acquire().await.unwrap());
    for round in 0..10 {
        let (one, other) =
            tokio::join!(semaphore.set_capacity(100 + round), semaphore.set_capacity(200 + round));
        one.and(other).unwrap();
        assert_eq!(semaphore.permits().await.unwrap().capacity, Some(semaphore.capacity()));
        semaphore.acquire().await.unwrap().release().await.unwrap();
    }
}

/// An acquisition has asked, and reads the answer only after this process has changed the capacity.
#[tokio::test]
async fn an_answer_from_before_a_change_refuses_nobody() {
    let (_server, [session]) = sessions().await;
    for steps in 0.. {
        let semaphore = session.semaphore(&format!("/pools/{steps}"), 2).unwrap();
        semaphore.acquire().await.unwrap().release().await.unwrap();
        let mut acquiring = Steps::new(semaphore.acquire());
        for _ in 0..steps {
            if let Poll::Ready(permit) = acquiring.poll() {
                assert!(steps >= 3, "the turnstile, a look, the admission: {steps} steps");
                return drop(permit.unwrap());
            }
            acquiring.woken().await;
        }
        semaphore.set_capacity(3).await.unwrap();
        within("the permit", acquiring.finished()).await.unwrap().release().await.unwrap();
    }
}
