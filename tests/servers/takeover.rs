//! Waiters that wait for a delay when their predecessor vanished. Who has no watch on it yet does not, so each test waits
//! for the watches first.

use std::time::{Duration, Instant};

use support::{
    Server, enqueue, enqueue_seen_by, eventually, granted, linked, linked_session, operator, server, session,
    until_watched, within,
};
use zklock::{Lock, LockOptions, Session};
use zklock_testcontainers::RequestKind;

fn delayed(session: &Session, delay: Duration) -> Lock {
    session.lock("/lock/orders").unwrap().with_options(LockOptions::new().takeover_delay(delay)).unwrap()
}

#[tokio::test]
async fn a_holder_that_drops_a_lost_guard_has_vanished() {
    const DELAY: Duration = Duration::from_secs(1);
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
