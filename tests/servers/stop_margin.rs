//! Holders that are told before their lease ends, so that they can wind down.

use std::time::Duration;

use support::{enqueue, granted, linked_session, own_server, server, session, until_nothing_is_left, within};
use zklock::{InvalidLock, LockOptions, LostReason, Session, guard::Applied};
use zklock_testcontainers::{Link, RequestKind, ZooKeeper};

/// With ticks of 100 ms: a lag of 80 ms, a margin of 1,080 ms, heartbeats of 2,980 ms.
const TIMEOUT: Duration = Duration::from_secs(12);

/// All that the lease's length allows: 12 s less lag, margin, and two and a half heartbeats.
const LONGEST: Duration = Duration::from_nanos(3_390_020_606);

/// What runs is dropped in time.
#[tokio::test]
async fn a_holder_that_winds_down_can_still_write_and_release() {
    let (server, link, holding) = linked_session(TIMEOUT).await;
    let options = LockOptions::new().stop_margin(LONGEST);
    let guard = holding.lock("/lock/orders").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let waiter = enqueue(&session(&server).await.lock("/lock/orders").unwrap()).await;
    // The client drops a connection on which it hears nothing. If this were the first heartbeat, it would do so just after the
    // holder is told of the end.
    let before = link.requests_of(RequestKind::Multi);
    support::eventually("a heartbeat", async || link.requests_of(RequestKind::Multi) > before).await;
    let reply = link.hold_reply(RequestKind::Multi);
    let lost = within("the loss", guard.run(std::future::pending::<()>())).await.unwrap_err();
    assert!(matches!(lost.reason, LostReason::Ending { left } if left <= LONGEST) && guard.is_held());
    let said = lost.to_string();
    assert!(said.contains(" ends in ") && !said.contains("is lost"), "{said}");
    reply.release();
    let written = within("the write", guard.transaction().create("/last-words", "").commit()).await;
    assert_eq!(written, Ok(vec![Applied::Created { path: "/last-words".into() }]));
    guard.verify().await.unwrap();
    within("release", guard.release()).await.unwrap();
    granted(waiter).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_margins_that_the_documentation_names_and_no_longer_ones() {
    let server = server().await;
    for (timeout, margin) in [(10, 2_200), (24, 6_000)] {
        let timeout = Duration::from_secs(timeout);
        let session =
            Session::builder(server.connect_string()).session_timeout(timeout).connect().await.unwrap();
        let with = |margin| {
            session.lock("/lock").and_then(|it| it.with_options(LockOptions::new().stop_margin(margin)))
        };
        with(Duration::from_millis(margin)).unwrap();
        let longest = session.longest_stop_margin();
        with(longest).unwrap();
        let stop_margin = longest + Duration::from_nanos(1);
        let refused = InvalidLock::StopMargin { path: "/lock".into(), stop_margin, longest, timeout };
        assert_eq!(with(stop_margin).unwrap_err(), refused);
    }
}

/// The server that takes over grants a shorter session timeout than the one before, and so a shorter lease.
#[tokio::test]
async fn a_margin_is_cut_to_what_the_next_session_allows() {
    const WORK: u64 = 4;
    let granted = Duration::from_secs(4);
    let generous = own_server().await;
    let short = ZooKeeper::builder().tick_time(support::TICK).max_session_timeout(granted);
    let short = short.start().await.unwrap();
    let link = Link::start(generous.connect_string()).await.unwrap();
    let session = Session::connect(link.address()).await.unwrap();
    let lock = session
        .lock("/lock/orders")
        .unwrap()
        .with_options(LockOptions::new().stop_margin(Duration::from_secs(2)))
        .unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    link.redirect(short.connect_string());
    link.cut();
    support::eventually("the next session", async || session.timeout() == granted).await;
    // With the whole margin it would be told before each heartbeat; a busy machine may be so late, too.
    for _ in 0..5 {
        let guard = within("acquire", lock.acquire()).await.unwrap();
        let before = link.requests_of(RequestKind::Multi);
        let work = support::eventually("the heartbeats", async || {
            link.requests_of(RequestKind::Multi) >= before + WORK
        });
        if guard.run(work).await.is_ok() {
            return;
        }
    }
    panic!("told to wind down, five times");
}
