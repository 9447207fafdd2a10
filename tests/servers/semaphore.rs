//! Semaphores: capacity, order, and what operators see and change.

use std::time::Duration;

use support::{
    Server, Waiter, eventually, granted, linked, linked_session, make, operator, own_server, queued, refused,
    sessions, until_nothing_is_left, within,
};
use zklock::{
    AcquireError, InvalidLock, LockOptions, LostReason, Permit, Semaphore, Session,
    guard::{NodeOptions, TransactionError},
    inspect::{Kind, PathKind},
};
use zklock_testcontainers::RequestKind;

const PATH: &str = "/pool";

/// How many contenders are in the turnstile.
async fn in_turnstile(session: &Session, path: &str) -> usize {
    let turnstile = session.lock(&format!("{path}/queue")).unwrap();
    turnstile.contenders().await.unwrap().len()
}

/// Acquires a permit in a separate task, and waits until the acquisition is in the turnstile.
pub(crate) async fn enqueue(observer: &Session, semaphore: &Semaphore, weight: u32) -> Waiter<Permit> {
    let acquiring = semaphore.clone();
    let length = async || in_turnstile(observer, semaphore.path()).await;
    queued(length, async move { acquiring.acquire_many(weight).await }).await
}

/// The weights of all permits that are held.
pub(crate) async fn held(semaphore: &Semaphore) -> Vec<u32> {
    let weight = |kind| match kind {
        Kind::Permit(weight) => weight,
        other => panic!("{other:?}"),
    };
    semaphore.permits().await.unwrap().permits.iter().map(|permit| weight(permit.kind)).collect()
}

/// Waits until the first in the turnstile watches the pool: its data and its children.
pub(crate) async fn until_it_waits_for_room(server: &Server, path: &str) {
    until_watched(server, &format!("{path}/permits")).await;
}

/// Waits until somebody watches this node.
pub(crate) async fn until_watched(server: &Server, path: &str) {
    eventually("its watch", async || {
        let watches = server.admin("wchp").await;
        watches.lines().any(|line| line == server.full(path))
    })
    .await;
}

#[tokio::test]
async fn a_permit_is_a_guard() {
    let (server, [session]) = sessions().await;
    let options = LockOptions::new().owner("billing").data("build 7");
    let semaphore = session.semaphore(PATH, 3).unwrap().with_options(options).unwrap();
    let (one, two) = (semaphore.acquire().await.unwrap(), semaphore.acquire_many(2).await.unwrap());
    assert_eq!((one.weight(), two.weight()), (1, 2));
    assert!(one.is_held() && two.is_held() && one.token() < two.token());
    assert_eq!((one.path(), one.node().as_str()), (PATH, "/pool/permits/permit-1-0000000000"));
    two.verify().await.unwrap();
    let applied = one.transaction().create("/done", "yes").commit().await.unwrap();
    assert_eq!(applied.len(), 1);

    let seen = semaphore.permits().await.unwrap();
    assert_eq!((seen.capacity, seen.permits.len()), (Some(3), 2));
    let oldest = &seen.permits[0];
    assert_eq!((oldest.kind, oldest.owner.as_deref()), (Kind::Permit(1), Some("billing")));
    assert_eq!((oldest.data.as_deref(), oldest.session), (Some("build 7"), Some(session.id())));
    assert_eq!((oldest.token, oldest.path.clone()), (Some(one.token()), one.node()));

    assert!(semaphore.try_acquire().await.unwrap().is_none());
    one.release().await.unwrap();
    let again = semaphore.try_acquire().await.unwrap().unwrap();
    assert!(again.token() > two.token());
    drop(two);
    again.release().await.unwrap();
    until_nothing_is_left(&server).await;
    assert_eq!(semaphore.permits().await.unwrap().capacity, Some(3), "it is kept");
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
async fn weights_are_granted_in_order_and_a_large_one_is_not_starved() {
    let (server, [ours, observer]) = sessions().await;
    let semaphore = ours.semaphore(PATH, 4).unwrap();
    let (one, two) = (semaphore.acquire_many(2).await.unwrap(), semaphore.acquire_many(1).await.unwrap());
    let large = enqueue(&observer, &semaphore, 4).await;
    let small = enqueue(&observer, &semaphore, 1).await;
    until_it_waits_for_room(&server, PATH).await;
    // The small one would fit, and does not overtake.
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    one.release().await.unwrap();
    assert!(!large.is_finished() && !small.is_finished());
    two.release().await.unwrap();
    let large = granted(large).await;
    assert!(!small.is_finished());
    assert_eq!(held(&semaphore).await, [4]);
    large.release().await.unwrap();
    granted(small).await.release().await.unwrap();
    assert_eq!(ours.requeued(), 0);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn another_capacity_is_refused_with_both_numbers() {
    let (server, [session]) = sessions().await;
    session.semaphore(PATH, 4).unwrap().acquire().await.unwrap().release().await.unwrap();
    let other = session.semaphore(PATH, 5).unwrap();
    let error = other.acquire().await.unwrap_err();
    assert_eq!(error, AcquireError::Capacity { path: PATH.into(), stated: 5, found: 4 });
    assert_eq!(
        error.to_string(),
        "the semaphore at /pool has a capacity of 4, but this process states 5; state the same capacity in all processes, or \
         change it with `set_capacity`"
    );
    assert_eq!(other.try_acquire().await.unwrap_err(), error);
    let slots = session.slots(PATH, 4).unwrap();
    let error = slots.acquire().await.unwrap_err();
    let other =
        |error: &AcquireError| matches!(error, AcquireError::OtherKind { found: PathKind::Semaphore, .. });
    assert!(other(&error), "{error}");
    let error = slots.set_count(4).await.unwrap_err();
    assert!(other(&error), "{error}");
    assert!(!error.is_retryable() && !error.is_session_over());
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn what_can_never_be_had_is_refused_at_the_call() {
    let server = own_server().await;
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    assert_eq!(session.semaphore(PATH, 0).unwrap_err(), InvalidLock::Nothing { path: PATH.into() });
    let error = session.semaphore("/zookeeper/pool", 1).unwrap_err();
    assert!(matches!(error, InvalidLock::Path { .. }), "{error}");
    let semaphore = session.semaphore(PATH, 4).unwrap();
    link.reset_counts();
    for weight in [0, 5] {
        let error = AcquireError::Weight { path: PATH.into(), weight, capacity: 4 };
        assert_eq!(semaphore.acquire_many(weight).await.unwrap_err(), error);
        assert_eq!(semaphore.try_acquire_many(weight).await.unwrap_err(), error);
        let timeout = semaphore.acquire_many_timeout(weight, Duration::from_secs(1)).await;
        assert_eq!(timeout.unwrap_err(), error);
    }
    assert!(semaphore.set_capacity(0).await.is_err());
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
    let stale = enqueue(&ours, &other, 1).await;
    until_it_waits_for_room(&server, PATH).await;
    semaphore.set_capacity(4).await.unwrap();
    assert_eq!((semaphore.capacity(), semaphore.clone().capacity(), other.capacity()), (4, 4, 2));
    assert_eq!(refused(stale).await, AcquireError::Capacity { path: PATH.into(), stated: 2, found: 4 });
    assert!(held_already.is_held());
    let more = semaphore.acquire_many(2).await.unwrap();
    // Those that are held stay, though they are more than the new capacity.
    semaphore.set_capacity(3).await.unwrap();
    assert!(held_already.is_held() && more.is_held());
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    // One that waits and states the new one is woken by it, although no permit comes or goes.
    let waiter = enqueue(&theirs, &semaphore, 1).await;
    until_it_waits_for_room(&server, PATH).await;
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
async fn an_operator_deletes_everything() {
    let (server, [ours, theirs]) = sessions().await;
    let (semaphore, other) = (ours.semaphore(PATH, 2).unwrap(), theirs.semaphore(PATH, 2).unwrap());
    let permits = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
    let waiting = enqueue(&theirs, &other, 1).await;
    until_it_waits_for_room(&server, PATH).await;
    let operator = operator(&server).await;
    // The turnstile first, so that nobody is admitted meanwhile.
    for directory in ["queue", "permits"] {
        let directory = format!("{PATH}/{directory}");
        for name in operator.list_children(&directory).await.unwrap() {
            // The one that waits is displaced, and queues again.
            let _gone = operator.delete(&format!("{directory}/{name}"), None).await;
        }
        let _in_use = operator.delete(&directory, None).await;
    }
    for permit in &permits {
        assert_eq!(within("the loss", permit.lost()).await, LostReason::NodeDeleted);
    }
    let next = granted(waiting).await;
    assert_eq!(theirs.requeued(), 1);
    next.verify().await.unwrap();
    assert_eq!(other.permits().await.unwrap().capacity, Some(2));
    drop(permits);
    next.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// The directory of permits may be gone between the look and the transaction, or have another version.
#[tokio::test]
async fn a_change_after_the_look_leads_to_another_look() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let operator = operator(&server).await;
    let semaphore = session.semaphore(PATH, 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for change in 0..3 {
        let look = link.hold_reply(RequestKind::MultiRead);
        let acquiring = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire().await }
        });
        within("the look", look.reached()).await;
        let permits = format!("{PATH}/permits");
        match change {
            0 => drop(operator.set_data(&permits, br#"{"permits":2}"#, None).await.unwrap()),
            1 => operator.delete(&permits, None).await.unwrap(),
            _ => drop(operator.set_data(&permits, br#"{"permits":1}"#, None).await.unwrap()),
        }
        look.release();
        let acquired = within("the end", acquiring).await.unwrap();
        match change {
            2 => assert_eq!(
                acquired.unwrap_err(),
                AcquireError::Capacity { path: PATH.into(), stated: 2, found: 1 }
            ),
            _ => acquired.unwrap().release().await.unwrap(),
        }
    }
    until_nothing_is_left(&server).await;
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
    assert_eq!(error, AcquireError::Mixed { directory: "/pool/permits".into() });
    operator.set_data("/pool/permits", b"10.0.0.1", None).await.unwrap();
    let unknown = AcquireError::UnknownData { directory: "/pool/permits".into() };
    assert_eq!(semaphore.acquire().await.unwrap_err(), unknown);
    assert_eq!(semaphore.set_capacity(3).await.unwrap_err(), unknown);
}

#[tokio::test]
async fn a_transaction_may_not_touch_permits() {
    let (server, [session]) = sessions().await;
    let permit = session.semaphore(PATH, 3).unwrap().acquire().await.unwrap();
    let node = permit.node();
    for transaction in [
        permit.transaction().delete(&node, None),
        permit.transaction().set("/pool/permits", "{}", None),
        permit.transaction().create_with("/pool/permits/permit-1-", "", NodeOptions::new().sequential()),
    ] {
        let error = transaction.commit().await.unwrap_err();
        assert!(matches!(error, TransactionError::Invalid { .. }), "{error}");
    }
    assert!(permit.is_held());
    operator(&server).await.set_data(&node, b"mine", None).await.unwrap();
    let lost = permit.transaction().create("/late", "").commit().await.unwrap_err();
    assert!(matches!(lost, TransactionError::Lost(_)), "{lost}");
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
    let impossible = semaphore.set_capacity(0).await.unwrap_err();
    assert!(matches!(impossible, AcquireError::Number { asked: 0, .. }), "{impossible}");
}
