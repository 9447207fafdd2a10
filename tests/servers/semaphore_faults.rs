//! Semaphores under faults: lost replies, callers that go or do not poll, sessions that end, and operators.

use std::task::Poll;
use std::time::Duration;

use support::{
    Server, Steps, Waiter, eventually, granted, hide, linked, linked_session, make, operator, patient,
    server, session, sessions, until_nothing_is_left, within,
};
use zklock::{LostReason, Permit, Semaphore, Session};
use zklock_testcontainers::{Link, RequestKind};

use super::semaphore::{enqueue, held, until_it_waits_for_room, until_watched};

const PATH: &str = "/pool";

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

/// Acquires, and stops before the transaction that admits: the reply to the look is held back until `next` has prepared
/// what that transaction meets.
async fn about_to_be_admitted<T>(
    link: &Link,
    semaphore: &Semaphore,
    next: impl FnOnce() -> T,
) -> (Waiter<Permit>, T) {
    let look = link.hold_reply(RequestKind::MultiRead);
    let semaphore = semaphore.clone();
    let acquiring = tokio::spawn(async move { semaphore.acquire().await });
    within("the look", look.reached()).await;
    let prepared = next();
    look.release();
    (acquiring, prepared)
}

/// Without its permit it queues again. If it cannot tell whose a permit is that was written to, or that its session may not
/// read, the session goes: the permit would take its weight for as long as the session lives.
#[tokio::test]
async fn an_admission_whose_permit_is_touched_while_it_is_unanswered() {
    let server = server().await;
    let (other, operator) = (session(&server).await, operator(&server).await);
    for touch in ["deleted", "written", "hidden"] {
        let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
        let path = format!("/pools/{touch}");
        let semaphore = used(&unlucky, &path).await;
        let id = unlucky.id();
        let (acquiring, reply) =
            about_to_be_admitted(&link, &semaphore, || link.hold_reply(RequestKind::Multi)).await;
        within("the admission", reply.reached()).await;
        let node = format!("{path}/permits/permit-1-0000000001");
        match touch {
            "deleted" => operator.delete(&node, None).await.unwrap(),
            "written" => drop(operator.set_data(&node, b"mine", None).await.unwrap()),
            _ => hide(&operator, &node).await,
        }
        link.cut();
        drop(reply);
        let permit = granted(acquiring).await;
        assert_eq!(unlucky.id() == id, touch == "deleted", "{touch}");
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
    let (server, link, unlucky) = linked_session(Duration::from_secs(20)).await;
    let semaphore = unlucky.semaphore(PATH, 2).unwrap();
    let hidden = semaphore.acquire().await.unwrap();
    hide(&operator(&server).await, &hidden.node()).await;
    let (acquiring, lost) =
        about_to_be_admitted(&link, &semaphore, || link.lose_reply(RequestKind::Multi)).await;
    let permit = granted(acquiring).await;
    assert!(lost.has_happened() && permit.is_held());
    assert_eq!(unlucky.requeued(), 0);
}

/// An acquisition has asked, and reads the answer only after this process has changed the capacity.
#[tokio::test]
async fn an_answer_from_before_a_change_refuses_nobody() {
    let (_server, [session]) = sessions().await;
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

/// It looks at the grant and after its wait, and not before its turn.
#[tokio::test]
async fn room_that_comes_while_the_connection_is_lost_is_found() {
    let (server, [session]) = sessions().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let permit = session.semaphore(PATH, 1).unwrap().acquire().await.unwrap();
    let waiter = unlucky.semaphore(PATH, 1).unwrap();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    until_it_waits_for_room(&server, PATH).await;
    link.refuse();
    link.cut();
    permit.release().await.unwrap();
    link.accept();
    granted(waiting).await.release().await.unwrap();
}

#[tokio::test]
async fn those_behind_one_that_waits_for_room_do_not_look_before_their_turn() {
    let (server, link, ours) = linked_session(Duration::from_secs(60)).await;
    let (semaphore, observer) = (ours.semaphore(PATH, 2).unwrap(), session(&server).await);
    let mut held = semaphore.acquire_many(2).await.unwrap();
    link.reset_counts();
    let mut waiters = Vec::new();
    for _ in 0..3 {
        waiters.push(enqueue(&observer, &semaphore, 2).await);
        until_it_waits_for_room(&server, PATH).await;
    }
    let looks = link.requests_of(RequestKind::MultiRead);
    for waiter in waiters {
        until_it_waits_for_room(&server, PATH).await;
        held.release().await.unwrap();
        held = granted(waiter).await;
    }
    assert_eq!((looks, link.requests_of(RequestKind::MultiRead)), (1, 6));
    held.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// The new pool has the version of the old one, so the transaction takes effect, and writes the former capacity.
#[tokio::test]
async fn a_permit_of_a_pool_that_was_made_again_is_given_back() {
    let (server, link, session) = linked_session(Duration::from_secs(60)).await;
    let (semaphore, operator) = (used(&session, PATH).await, operator(&server).await);
    let look = link.hold_reply(RequestKind::MultiRead);
    let acquiring = semaphore.clone();
    let acquiring = tokio::spawn(async move { acquiring.acquire().await });
    within("the look", look.reached()).await;
    operator.delete("/pool/permits", None).await.unwrap();
    make(&operator, "/pool/permits").await;
    operator.set_data("/pool/permits", br#"{"permits":1}"#, Some(0)).await.unwrap();
    look.release();
    let permit = granted(acquiring).await;
    assert_eq!(session.requeued(), 1);
    assert_eq!(permit.node(), "/pool/permits/permit-1-0000000001");
    assert_eq!(semaphore.permits().await.unwrap().capacity, Some(2));
    eventually("the end of the other permit", async || held(&semaphore).await == [1]).await;
    permit.release().await.unwrap();
    until_nothing_is_left(&server).await;
}
