//! Waiters that wait for a delay when their predecessor vanished. Who has no watch on it yet does not, so each test waits
//! for the watches first.

use zklock_test_support as support;

use std::time::{Duration, Instant};

use support::{
    Server, Steps, acquire, enqueue, enqueue_seen_by, eventually, granted, linked, linked_session,
    names_transactions, operator, queue, refused, server, session, sessions, until_nothing_is_left,
    until_queued, until_watched, within,
};
use zklock::{AcquireError, Lock, LockOptions, Session, SessionState};
use zklock_testcontainers::RequestKind;

const DELAY: Duration = Duration::from_secs(1);

/// Longer than any test takes: whoever waits for it is found out.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn delayed(session: &Session, delay: Duration) -> Lock {
    session.lock("/lock/orders").unwrap().with_options(LockOptions::new().takeover_delay(delay)).unwrap()
}

/// A delay that a release spares the waiter, and how long a handover takes with it at least. Servers before 3.9 do not tell a
/// release from a holder that vanished, so there the waiter waits.
async fn spared(server: &Server) -> (Duration, Duration) {
    if names_transactions(server).await { (FOR_EVER, Duration::ZERO) } else { (DELAY, DELAY) }
}

#[tokio::test]
async fn a_free_lock_is_taken_at_once() {
    let (_server, [session]) = sessions().await;
    let lock = delayed(&session, FOR_EVER);
    for _ in 0..3 {
        within("acquire", lock.acquire()).await.unwrap().release().await.unwrap();
        within("acquire", lock.try_acquire()).await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_waiter_that_goes_delays_nobody_behind_it() {
    let (server, [first, second, third]) = sessions().await;
    let (delay, least) = spared(&server).await;
    let guard = delayed(&first, delay).acquire().await.unwrap();
    let impatient = enqueue(&delayed(&second, delay)).await;
    let lock = delayed(&third, delay);
    let waiter = enqueue(&lock).await;
    until_watched(&server, 1, 2).await;
    impatient.abort();
    until_queued(&lock, 2).await;
    // It looked again, and waits for the holder now.
    until_watched(&server, 1, 1).await;
    assert!(guard.is_held() && !waiter.is_finished());
    let started = Instant::now();
    guard.release().await.unwrap();
    let next = granted(waiter).await;
    assert!(started.elapsed() >= least);
    next.release().await.unwrap();
}

#[tokio::test]
async fn giving_up_during_the_delay_passes_the_delay_on() {
    let (server, [first, second, third]) = sessions().await;
    let _vanished = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let observer = delayed(&third, DELAY);
    let impatient = enqueue(&delayed(&second, FOR_EVER)).await;
    let patient = enqueue(&observer).await;
    until_watched(&server, 1, 2).await;
    first.close().await.unwrap();
    until_queued(&observer, 2).await;
    let started = Instant::now();
    impatient.abort();
    let next = granted(patient).await;
    assert!(started.elapsed() >= DELAY);
    next.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_deadline_ends_the_delay() {
    let (server, [first, second]) = sessions().await;
    let _vanished = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let lock = delayed(&second, FOR_EVER);
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_timeout(Duration::from_secs(5)).await }
    });
    until_watched(&server, 1, 1).await;
    first.close().await.unwrap();
    assert!(within("the deadline", waiting).await.unwrap().unwrap().is_none());
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_contender_that_an_operator_deleted_meanwhile_is_not_granted() {
    let (server, [first, second]) = sessions().await;
    let _vanished = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let lock = delayed(&second, Duration::from_secs(5));
    let waiter = enqueue(&lock).await;
    until_watched(&server, 1, 1).await;
    let (operator, node) = (operator(&server).await, queue(&lock).await[1].path.clone());
    first.close().await.unwrap();
    operator.delete(&node, None).await.unwrap();
    assert_eq!(refused(waiter).await, AcquireError::NodeDeleted { path: "/lock/orders".into() });
}

#[tokio::test]
async fn a_waiter_that_an_operator_deleted_is_not_granted_by_a_release_either() {
    let (server, [first, second, third]) = sessions().await;
    let guard = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let lock = delayed(&second, DELAY);
    let evicted = enqueue(&lock).await;
    let waiter = enqueue(&delayed(&third, DELAY)).await;
    until_watched(&server, 1, 2).await;
    let node = queue(&lock).await[1].path.clone();
    operator(&server).await.delete(&node, None).await.unwrap();
    // The one behind has looked again, and both watch the holder: its release is told to both.
    until_watched(&server, 1, 2).await;
    guard.release().await.unwrap();
    assert_eq!(refused(evicted).await, AcquireError::NodeDeleted { path: "/lock/orders".into() });
    granted(waiter).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_sessions_end_ends_the_delay() {
    let (server, [first]) = sessions().await;
    let (link, second) = linked(&server, Duration::from_secs(6)).await;
    let _vanished = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let observer = session(&server).await.lock("/lock/orders").unwrap();
    let waiter = acquire(&delayed(&second, FOR_EVER));
    until_watched(&server, 1, 1).await;
    first.close().await.unwrap();
    until_queued(&observer, 1).await;
    // Its place is lost while it waits for the delay, and a new one is taken without waiting for that.
    link.black_hole();
    until_queued(&observer, 0).await;
    link.restore();
    until_queued(&observer, 1).await;
    assert_eq!(second.requeued(), 1);
    assert!(!waiter.is_finished(), "it waits for the delay again");
    waiter.abort();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_waiter_that_queues_again_is_delayed_though_it_finds_nobody() {
    let (server, link, session) = linked_session(Duration::from_secs(6)).await;
    let observer = support::session(&server).await.lock("/lock/orders").unwrap();
    let lock = delayed(&session, DELAY);
    let _lost = lock.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&observer, &lock).await;
    // Both of the same session, which ends with the holder's work in flight.
    eventually("both watches", async || link.requests_of(RequestKind::GetData) >= 2).await;
    link.black_hole();
    until_queued(&observer, 0).await;
    let started = Instant::now();
    link.restore();
    drop(granted(waiter).await);
    assert!(started.elapsed() >= DELAY);
}

#[tokio::test]
async fn a_waiter_that_was_out_of_touch_until_its_session_ended_is_delayed() {
    let (server, [first]) = sessions().await;
    let (link, second) = linked(&server, Duration::from_secs(6)).await;
    let observer = session(&server).await.lock("/lock/orders").unwrap();
    let _vanished = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue_seen_by(&observer, &delayed(&second, DELAY)).await;
    until_watched(&server, 1, 1).await;
    link.black_hole();
    until_queued(&observer, 1).await;
    first.close().await.unwrap();
    let started = Instant::now();
    link.restore();
    drop(granted(waiter).await);
    assert!(started.elapsed() >= DELAY);
}

#[tokio::test]
async fn a_contender_whose_first_look_was_lost_is_delayed() {
    let (server, [first]) = sessions().await;
    let (link, second) = linked(&server, Duration::from_secs(20)).await;
    let observer = session(&server).await.lock("/lock/orders").unwrap();
    let _vanished = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    // A contender that does not know the directory yet enters by a create and a look at the directory.
    let lost = link.lose_reply(RequestKind::Exists);
    link.refuse();
    let waiter = acquire(&delayed(&second, DELAY));
    within("the lost look", lost.happened()).await;
    until_queued(&observer, 2).await;
    first.close().await.unwrap();
    until_queued(&observer, 1).await;
    let started = Instant::now();
    link.accept();
    drop(granted(waiter).await);
    assert!(started.elapsed() >= DELAY);
    assert_eq!(second.requeued(), 0);
}

/// A contender that comes without a connection is entered by the session's background task, which also takes in the reply.
#[tokio::test]
async fn a_contender_whose_first_look_waited_for_it_while_the_connection_was_lost_is_delayed() {
    let (server, [first]) = sessions().await;
    let (link, second) = linked(&server, Duration::from_secs(40)).await;
    let observer = session(&server).await.lock("/lock/orders").unwrap();
    let _vanished = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let until = async |state| eventually("the connection's state", async || second.state() == state).await;
    let lock = delayed(&second, DELAY);
    link.refuse();
    link.cut();
    until(SessionState::Disconnected).await;
    let mut acquiring = Steps::new(lock.acquire());
    assert!(acquiring.poll().is_pending());
    link.accept();
    acquiring.woken().await;
    until_queued(&observer, 2).await;
    link.refuse();
    link.cut();
    until(SessionState::Disconnected).await;
    first.close().await.unwrap();
    until_queued(&observer, 1).await;
    link.accept();
    until(SessionState::Connected).await;
    let started = Instant::now();
    drop(within("the grant", acquiring.finished()).await.unwrap());
    assert!(started.elapsed() >= DELAY);
    assert_eq!(second.requeued(), 0);
}

#[tokio::test]
async fn a_holder_that_drops_a_lost_guard_has_vanished() {
    let (server, link, first) = linked_session(Duration::from_secs(10)).await;
    let second = session(&server).await;
    // Told early, so that the link is there again before ZooKeeper expires the session.
    let options = LockOptions::new().stop_margin(Duration::from_millis(2_500));
    let guard = first.lock("/lock/orders").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let waiter = enqueue(&delayed(&second, DELAY)).await;
    until_watched(&server, 1, 1).await;
    link.black_hole();
    within("the loss", guard.lost()).await;
    link.restore();
    eventually("the end", async || !guard.is_held()).await;
    let started = Instant::now();
    drop(guard);
    drop(granted(waiter).await);
    assert!(started.elapsed() >= DELAY);
    let mut events = first.events();
    assert_eq!(events.next().await.map(|event| event.generation), Some(0), "its session lives");
}

/// A new connection is confirmed before the holder has looked at its node there. If it breaks in between, the holder goes by
/// what was confirmed before it lost the connection on which its node was seen.
#[tokio::test]
async fn an_operators_deletion_while_the_holder_is_away_leaves_no_overlap() {
    let server = server().await;
    // A busy machine may come too late for the scenario: then the guard is lost before the holder is back.
    for _ in 0..10 {
        if holder_comes_back_after_a_deletion(&server).await {
            return;
        }
    }
    panic!("the lease ended before the holder was back, ten times");
}

/// False if the holder came back too late.
async fn holder_comes_back_after_a_deletion(server: &Server) -> bool {
    const TIMEOUT: Duration = Duration::from_secs(4);
    let (link, holding) = linked(server, TIMEOUT).await;
    let waiting = session(server).await;
    let guard = holding.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let observer = waiting.lock("/lock/orders").unwrap();
    let waiter = enqueue_seen_by(&observer, &delayed(&waiting, TIMEOUT)).await;
    until_watched(server, 1, 1).await;
    link.refuse();
    link.cut();
    let away = Instant::now();
    operator(server).await.delete(&guard.node(), None).await.unwrap();
    eventually("most of the lease's time", async || away.elapsed() > TIMEOUT.mul_f64(0.7)).await;
    let look = link.lose_reply(RequestKind::GetData);
    let mut in_time = guard.is_held();
    link.accept();
    if in_time {
        // If its session is over by now, it does not look any more.
        in_time = tokio::time::timeout(TIMEOUT, look.happened()).await.is_ok();
    }
    link.refuse();
    let next = granted(waiter).await;
    assert!(!guard.is_held(), "two guards at once, for {:?}", guard.remaining());
    next.release().await.unwrap();
    in_time
}
