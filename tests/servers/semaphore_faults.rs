//! Semaphores under faults: lost replies, callers that go or do not poll, sessions that end, and operators.

use zklock_test_support as support;

use std::task::Poll;
use std::time::{Duration, Instant};

use support::{
    Server, Steps, eventually, hide, linked, operator, own_server, patient, server, session,
    until_nothing_is_left, within,
};
use zklock::{AcquireError, LockOptions, LostReason, Permit, Semaphore, Session};
use zklock_testcontainers::{Link, RequestKind};

use super::semaphore::{
    Waiter, enqueue, granted, held, in_turnstile, until_it_waits_for_room, until_watched,
};

const PATH: &str = "/pool";

/// Half of it is how long an acquisition may be due.
const TIMEOUT: Duration = Duration::from_secs(6);

fn acquire(semaphore: &Semaphore) -> Waiter {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire().await })
}

/// The whole capacity of two is free, and nothing is left of anybody.
async fn all_is_free(server: &Server, other: &Session, path: &str) {
    let semaphore = other.semaphore(path, 2).unwrap();
    let permit = within("the whole capacity", semaphore.acquire_many(2)).await.unwrap();
    permit.release().await.unwrap();
    until_nothing_is_left(server).await;
}

/// A semaphore of this session that was used before, so that its nodes exist.
async fn used(session: &Session, path: &str) -> Semaphore {
    let semaphore = session.semaphore(path, 2).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    semaphore
}

/// Acquires, and stops before the transaction that admits: the reply to the look is held back.
async fn about_to_be_admitted(link: &Link, semaphore: &Semaphore, next: impl FnOnce()) -> Waiter {
    let look = link.hold_reply(RequestKind::MultiRead);
    let acquiring = acquire(semaphore);
    within("the look", look.reached()).await;
    next();
    look.release();
    acquiring
}

#[tokio::test]
async fn an_admission_whose_reply_was_lost_is_adopted() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let other = session(&server).await;
    let semaphore = used(&unlucky, PATH).await;
    let mut lost = None;
    let acquiring =
        about_to_be_admitted(&link, &semaphore, || lost = Some(link.lose_reply(RequestKind::Multi))).await;
    let permit = granted(acquiring).await;
    assert!(lost.unwrap().has_happened());
    assert_eq!((held(&semaphore).await, in_turnstile(&other, PATH).await), (vec![1], 0));
    permit.verify().await.unwrap();
    assert_eq!(permit.node(), "/pool/permits/permit-1-0000000001");
    // And that of the release.
    let lost = link.lose_reply(RequestKind::Multi);
    within("the release", permit.release()).await.unwrap();
    assert!(lost.has_happened());
    assert_eq!(unlucky.requeued(), 0);
    all_is_free(&server, &other, PATH).await;
}

#[tokio::test]
async fn an_admission_that_never_arrived_is_tried_again() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let other = session(&server).await;
    let semaphore = used(&unlucky, PATH).await;
    let mut request = None;
    let acquiring =
        about_to_be_admitted(&link, &semaphore, || request = Some(link.hold_request(RequestKind::Multi)))
            .await;
    let request = request.unwrap();
    within("the admission", request.reached()).await;
    link.cut();
    drop(request);
    let permit = granted(acquiring).await;
    assert_eq!((held(&semaphore).await, in_turnstile(&other, PATH).await), (vec![1], 0));
    assert_eq!(unlucky.requeued(), 0);
    permit.release().await.unwrap();
    all_is_free(&server, &other, PATH).await;
}

/// Neither the node in the turnstile is there, nor a permit.
#[tokio::test]
async fn an_admission_whose_permit_was_deleted_queues_again() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let (other, operator) = (session(&server).await, operator(&server).await);
    let semaphore = used(&unlucky, PATH).await;
    let mut reply = None;
    let acquiring =
        about_to_be_admitted(&link, &semaphore, || reply = Some(link.hold_reply(RequestKind::Multi))).await;
    let reply = reply.unwrap();
    within("the admission", reply.reached()).await;
    operator.delete("/pool/permits/permit-1-0000000001", None).await.unwrap();
    link.cut();
    drop(reply);
    granted(acquiring).await.release().await.unwrap();
    assert_eq!(unlucky.requeued(), 1);
    all_is_free(&server, &other, PATH).await;
}

/// Nobody can tell whose a permit is that was written to, or that its session may not read. It would take its weight for as
/// long as the session lives.
#[tokio::test]
async fn an_admission_that_its_session_cannot_find_goes_with_the_session() {
    let server = server().await;
    let (other, operator) = (session(&server).await, operator(&server).await);
    for written in [true, false] {
        let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
        let path = format!("/pools/{written}");
        let semaphore = used(&unlucky, &path).await;
        let (id, mut reply) = (unlucky.id(), None);
        let acquiring =
            about_to_be_admitted(&link, &semaphore, || reply = Some(link.hold_reply(RequestKind::Multi)))
                .await;
        let reply = reply.unwrap();
        within("the admission", reply.reached()).await;
        let node = format!("{path}/permits/permit-1-0000000001");
        if written {
            operator.set_data(&node, b"mine", None).await.unwrap();
        } else {
            hide(&operator, &node).await;
        }
        link.cut();
        drop(reply);
        let permit = granted(acquiring).await;
        assert_ne!(unlucky.id(), id, "the session was given up");
        assert_eq!(unlucky.requeued(), 1);
        eventually("the end of the old permit", async || held(&semaphore).await == [1]).await;
        permit.release().await.unwrap();
        all_is_free(&server, &other, &path).await;
        unlucky.close().await.unwrap();
    }
}

/// The permit of another acquisition of the same session is none that is looked for.
#[tokio::test]
async fn an_admission_is_adopted_though_another_permit_of_its_session_is_hidden() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let semaphore = unlucky.semaphore(PATH, 2).unwrap();
    let hidden = semaphore.acquire().await.unwrap();
    hide(&operator(&server).await, &hidden.node()).await;
    let mut lost = None;
    let acquiring =
        about_to_be_admitted(&link, &semaphore, || lost = Some(link.lose_reply(RequestKind::Multi))).await;
    let permit = granted(acquiring).await;
    assert!(lost.unwrap().has_happened() && permit.is_held());
    assert_eq!(unlucky.requeued(), 0);
}

/// The watches go with the connection, and what happens meanwhile is not missed.
#[tokio::test]
async fn one_that_waits_survives_the_loss_of_its_connection() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let other = session(&server).await;
    let (semaphore, theirs) = (used(&unlucky, PATH).await, other.semaphore(PATH, 2).unwrap());
    let all = theirs.acquire_many(2).await.unwrap();
    let waiter = enqueue(&other, &semaphore, 1).await;
    until_it_waits_for_room(&server, PATH).await;
    link.refuse();
    link.cut();
    all.release().await.unwrap();
    link.accept();
    granted(waiter).await.release().await.unwrap();
    assert_eq!(unlucky.requeued(), 0);
    all_is_free(&server, &other, PATH).await;
}

/// An acquisition has asked, and reads the answer only after this process has changed the capacity.
#[tokio::test]
async fn an_answer_from_before_a_change_refuses_nobody() {
    let server = server().await;
    let session = session(&server).await;
    let mut steps = 0;
    loop {
        let semaphore = used(&session, &format!("/pools/{steps}")).await;
        let mut acquiring = Steps::new(semaphore.acquire());
        let mut admitted = None;
        for _ in 0..steps {
            if let Poll::Ready(permit) = acquiring.poll() {
                admitted = Some(permit.unwrap());
                break;
            }
            acquiring.woken().await;
        }
        semaphore.set_capacity(3).await.unwrap();
        if let Some(permit) = admitted {
            permit.release().await.unwrap();
            break;
        }
        within("the permit", acquiring.finished()).await.unwrap().release().await.unwrap();
        steps += 1;
    }
    assert!(steps >= 3, "the turnstile, a look, the admission: {steps} steps");
}

#[tokio::test]
async fn dropped_with_a_reply_on_its_way_it_leaves_nothing() {
    let server = server().await;
    let other = session(&server).await;
    for (round, lost) in [(0, false), (1, true)] {
        let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
        let path = format!("/pools/{round}");
        let semaphore = used(&unlucky, &path).await;
        let mut reply = None;
        let acquiring =
            about_to_be_admitted(&link, &semaphore, || reply = Some(link.hold_reply(RequestKind::Multi)))
                .await;
        let reply = reply.unwrap();
        within("the admission", reply.reached()).await;
        acquiring.abort();
        assert!(acquiring.await.unwrap_err().is_cancelled());
        assert_eq!(held(&other.semaphore(&path, 2).unwrap()).await, [1], "it is admitted");
        if lost {
            link.cut();
        }
        reply.release();
        all_is_free(&server, &other, &path).await;
        unlucky.close().await.unwrap();
    }
}

#[tokio::test]
async fn one_that_waits_queues_again_in_the_next_session() {
    let server = own_server().await;
    let (ours, other) = (session(&server).await, session(&server).await);
    let (semaphore, theirs) = (used(&ours, PATH).await, other.semaphore(PATH, 2).unwrap());
    let all = theirs.acquire_many(2).await.unwrap();
    let first = enqueue(&other, &semaphore, 1).await;
    until_it_waits_for_room(&server, PATH).await;
    let second = enqueue(&other, &semaphore, 1).await;
    let id = ours.id();
    server.own().close_session(id).await.unwrap();
    eventually("both again", async || ours.id() != id && in_turnstile(&other, PATH).await == 2).await;
    assert_eq!(ours.requeued(), 2);
    all.release().await.unwrap();
    let permits = [granted(first).await, granted(second).await];
    assert!(permits.iter().all(Permit::is_held));
    drop(permits);
    all_is_free(&server, &other, PATH).await;
}

#[tokio::test]
async fn closing_the_session_ends_one_that_waits_and_loses_a_permit() {
    let server = server().await;
    let (ours, other) = (session(&server).await, session(&server).await);
    let semaphore = ours.semaphore(PATH, 2).unwrap();
    let permit = semaphore.acquire_many(2).await.unwrap();
    let waiter = enqueue(&other, &semaphore, 1).await;
    until_it_waits_for_room(&server, PATH).await;
    ours.close().await.unwrap();
    assert_eq!(permit.check().unwrap_err().reason, LostReason::SessionClosed);
    let error = within("the end", waiter).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::SessionClosed { .. }), "{error}");
    assert!(error.is_session_over());
    assert!(semaphore.set_capacity(3).await.unwrap_err().is_session_over());
    all_is_free(&server, &other, PATH).await;
}

#[tokio::test]
async fn one_that_waits_is_told_that_its_runtime_is_gone() {
    let server = server().await;
    let other = session(&server).await;
    let all = other.semaphore(PATH, 2).unwrap().acquire_many(2).await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let servers = server.connect_string();
    let theirs = runtime.spawn(async move { Session::connect(servers).await.unwrap() }).await.unwrap();
    // It is polled in this runtime, and its session lives in the other one.
    let waiter = enqueue(&other, &theirs.semaphore(PATH, 2).unwrap(), 1).await;
    until_it_waits_for_room(&server, PATH).await;
    runtime.shutdown_background();
    let error = within("the end", waiter).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::SessionClosed { .. }), "{error}");
    drop(all);
}

#[tokio::test]
async fn a_change_of_the_capacity_is_told_that_its_runtime_is_gone() {
    let server = server().await;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let servers = server.connect_string();
    let theirs = runtime.spawn(async move { Session::connect(servers).await.unwrap() }).await.unwrap();
    let semaphore = theirs.semaphore(PATH, 2).unwrap();
    let mut change = support::Steps::new(semaphore.set_capacity(3));
    assert!(change.poll().is_pending());
    runtime.shutdown_background();
    // The answer may have come before that.
    if let Err(error) = within("the end", change.finished()).await {
        assert!(error.is_session_over(), "{error}");
    }
}

#[tokio::test]
async fn an_operator_touches_the_node_in_the_turnstile() {
    let server = server().await;
    let (ours, other, operator) = (session(&server).await, session(&server).await, operator(&server).await);
    let (semaphore, theirs) = (used(&ours, PATH).await, other.semaphore(PATH, 2).unwrap());
    for deleted in [true, false] {
        let before = ours.requeued();
        let all = theirs.acquire_many(2).await.unwrap();
        let waiter = enqueue(&other, &semaphore, 1).await;
        until_it_waits_for_room(&server, PATH).await;
        let queue = operator.list_children("/pool/queue").await.unwrap();
        let node = format!("/pool/queue/{}", queue[0]);
        // As any holder, it learns of an earlier write only when it uses the node.
        until_watched(&server, &node).await;
        if deleted {
            operator.delete(&node, None).await.unwrap();
        } else {
            operator.set_data(&node, b"mine", None).await.unwrap();
        }
        eventually("another node", async || {
            let queue = operator.list_children("/pool/queue").await.unwrap();
            queue.len() == 1 && !node.ends_with(&queue[0])
        })
        .await;
        assert_eq!(ours.requeued(), before + 1);
        all.release().await.unwrap();
        granted(waiter).await.release().await.unwrap();
    }
    all_is_free(&server, &other, PATH).await;
}

#[tokio::test]
async fn with_a_takeover_delay_one_that_had_to_wait_waits_for_it() {
    const DELAY: Duration = Duration::from_secs(1);
    const NEVER: Duration = Duration::from_secs(3600);
    let server = server().await;
    let (ours, other) = (session(&server).await, session(&server).await);
    let after = |delay| {
        ours.semaphore(PATH, 2).unwrap().with_options(LockOptions::new().takeover_delay(delay)).unwrap()
    };
    let semaphore = after(DELAY);
    let at_once = within("nobody to wait for", after(NEVER).acquire_many(2)).await.unwrap();
    at_once.release().await.unwrap();
    let all = semaphore.acquire_many(2).await.unwrap();
    let (first, second) = (enqueue(&other, &semaphore, 1).await, enqueue(&other, &semaphore, 1).await);
    until_it_waits_for_room(&server, PATH).await;
    let released = Instant::now();
    all.release().await.unwrap();
    let first = granted(first).await;
    assert!(released.elapsed() >= DELAY, "{:?}", released.elapsed());
    let admitted = Instant::now();
    let second = granted(second).await;
    // It has waited in the turnstile, and cannot know for how long there was room.
    assert!(released.elapsed() >= DELAY * 2 - (admitted - released).saturating_sub(DELAY));
    first.release().await.unwrap();
    second.release().await.unwrap();
    let permit = semaphore.try_acquire().await.unwrap().expect("it finds room at its first look");
    drop(permit);
    all_is_free(&server, &other, PATH).await;
}

#[tokio::test]
async fn a_try_does_not_wait_while_zookeeper_is_away() {
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    let semaphore = used(&unlucky, PATH).await;
    link.black_hole();
    let error = within("the answer", semaphore.try_acquire()).await.unwrap_err();
    let unanswered = AcquireError::Unanswered { path: PATH.into(), waited: TIMEOUT / 2 };
    assert_eq!(error, unanswered);
    assert!(error.is_retryable());
    link.restore();
    within("the permit", semaphore.acquire()).await.unwrap().release().await.unwrap();
    eventually("no node", async || server.ephemerals().await == 0).await;
}

#[tokio::test]
async fn a_permit_is_lost_with_its_lease() {
    let server = server().await;
    let (link, unlucky) = linked(&server, TIMEOUT).await;
    let other = session(&server).await;
    let (semaphore, theirs) = (used(&unlucky, PATH).await, other.semaphore(PATH, 2).unwrap());
    let permit = semaphore.acquire_many(2).await.unwrap();
    let waiter = enqueue(&other, &theirs, 2).await;
    link.black_hole();
    let run = within("the end of run", permit.run(std::future::pending::<()>())).await;
    assert!(run.is_err());
    // Whoever is next is granted after that.
    let next = granted(waiter).await;
    assert!(!permit.is_held() && next.is_held());
}

/// Only its node in the turnstile counts, and that lasts as long as the session.
#[tokio::test]
async fn one_that_waits_keeps_its_place_though_its_lease_ends() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    // A wide margin: the lease ends long before the session.
    let builder = patient(server.at(link.address()), Duration::from_secs(20)).clock_drift(240_000);
    let (unlucky, other) = (builder.connect().await.unwrap(), session(&server).await);
    let (semaphore, theirs) = (used(&unlucky, PATH).await, other.semaphore(PATH, 2).unwrap());
    let marker = unlucky.lock("/marker").unwrap().acquire().await.unwrap();
    let all = theirs.acquire_many(2).await.unwrap();
    let waiter = enqueue(&other, &semaphore, 1).await;
    until_it_waits_for_room(&server, PATH).await;
    let place = other.lock("/pool/queue").unwrap().holder().await.unwrap().unwrap().path;
    link.refuse();
    link.cut();
    assert_eq!(within("the end of the lease", marker.lost()).await, LostReason::Unconfirmed);
    link.accept();
    until_it_waits_for_room(&server, PATH).await;
    assert_eq!(other.lock("/pool/queue").unwrap().holder().await.unwrap().unwrap().path, place);
    all.release().await.unwrap();
    let permit = granted(waiter).await;
    permit.verify().await.unwrap();
    assert_eq!(unlucky.requeued(), 0);
    permit.release().await.unwrap();
    drop(marker);
    all_is_free(&server, &other, PATH).await;
}
