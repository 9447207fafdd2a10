//! The longest time for which a guard is valid.

use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{
    enqueue, granted, operator, patient, server, session, sessions, until_nothing_is_left, until_watched,
    within,
};
use zklock::{InvalidLock, LockOptions, LocksOptions, LostReason, ReleaseError};

use crate::family::FAMILY;

const PATH: &str = "/lock/orders";
const LONGEST: Duration = Duration::from_secs(1);

fn limited() -> LockOptions {
    LockOptions::new().max_hold(LONGEST)
}

/// Its caller keeps the guard and never polls again. Another guard of the same hold, and one that is forgotten, change nothing.
#[tokio::test]
async fn each_member_is_given_up_though_nobody_polls() {
    let (server, [holding, waiting]) = sessions().await;
    let each = FAMILY.iter().map(async |member| {
        let path = format!("/limited/{}", member.name);
        let began = Instant::now();
        let handle = member.handle_with(&holding, &path, limited());
        let held = within(member.name, handle.acquire()).await.unwrap();
        std::mem::forget(held.another());
        let rival = within(member.name, member.rival(&waiting, &path).acquire()).await.unwrap();
        assert!(began.elapsed() >= LONGEST, "{}: after {:?}", member.name, began.elapsed());
        assert!(!held.is_held(), "{}: two hold it", member.name);
        assert_eq!(held.lost().await, LostReason::MaxHold, "{}", member.name);
        let released = held.release().await.unwrap_err();
        assert!(matches!(released, ReleaseError::Lost(lost) if lost.reason == LostReason::MaxHold));
        assert!(rival.is_held(), "{}: the late release touched it", member.name);
        rival.release().await.unwrap();
        // One that is released in time leaves nothing behind, and the next one has all of its time.
        let held = within(member.name, handle.acquire()).await.unwrap();
        held.release().await.unwrap();
    });
    join_all(each).await;
    let operator = operator(&server).await;
    assert!(operator.check_stat("/limited/election/leader").await.unwrap().is_none());
    until_nothing_is_left(&server).await;
}

/// An operator writes to its node, so the guard is lost, and the node stands. The holder keeps the guard.
#[tokio::test]
async fn one_that_was_lost_before_is_given_up_as_well() {
    let (server, [holding, waiting]) = sessions().await;
    let operator = operator(&server).await;
    let limited = LockOptions::new().max_hold(LONGEST * 3);
    let began = Instant::now();
    let guard = holding.lock(PATH).unwrap().with_options(limited).unwrap().acquire().await.unwrap();
    until_watched(&server, 1, 0).await;
    operator.set_data(&guard.node(), b"", None).await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    granted(enqueue(&waiting.lock(PATH).unwrap()).await).await.release().await.unwrap();
    assert!(began.elapsed() >= LONGEST * 3, "after {:?}", began.elapsed());
    drop(guard);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_stop_margin_lies_before_it_and_waiters_observe_their_delay() {
    const MARGIN: Duration = Duration::from_millis(600);
    const DELAY: Duration = Duration::from_secs(2);
    let (_server, [holding, waiting]) = sessions().await;
    let options = limited().stop_margin(MARGIN);
    let guard = holding.lock(PATH).unwrap().with_options(options).unwrap().acquire().await.unwrap();
    assert!(guard.remaining() <= LONGEST);
    let delayed = LockOptions::new().takeover_delay(DELAY);
    let waiter = enqueue(&waiting.lock(PATH).unwrap().with_options(delayed).unwrap()).await;
    match within("the warning", guard.lost()).await {
        LostReason::MaxHoldEnds { left } => assert!(left <= MARGIN && guard.is_held(), "{left:?}"),
        reason => panic!("{reason:?}"),
    }
    let error = guard.run(std::future::pending::<()>()).await.unwrap_err();
    assert!(error.to_string().contains("stop now the work"), "{error}");
    while guard.is_held() {
        tokio::task::yield_now().await;
    }
    let lost = Instant::now();
    assert_eq!(guard.check().unwrap_err().reason, LostReason::MaxHold);
    let next = granted(waiter).await;
    assert!(lost.elapsed() >= DELAY - Duration::from_millis(100), "{:?}", lost.elapsed());
    next.release().await.unwrap();
}

/// A task to which the lock is passed has all of the time.
#[tokio::test]
async fn each_turn_of_a_hold_has_its_own_limit() {
    let server = server().await;
    // Long enough for a hold to be passed on: two heartbeats.
    let longest = Duration::from_millis(3200);
    let session = patient(server.connect_string(), Duration::from_secs(6)).connect().await.unwrap();
    let options = LocksOptions::new().lock(LockOptions::new().max_hold(longest));
    let locks = session.locks("/lock").unwrap().with_options(options).unwrap();
    let first = locks.acquire("orders").await.unwrap();
    let next = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("orders").await }
    });
    let used = Duration::from_millis(400);
    support::eventually("some of the time", async || first.remaining() < longest - used).await;
    let began = Instant::now();
    first.release().await.unwrap();
    let second = within("the turn", next).await.unwrap().unwrap();
    assert_eq!(second.token().turn(), 1, "it was passed on");
    assert_eq!(within("the loss", second.lost()).await, LostReason::MaxHold);
    assert!(began.elapsed() >= longest, "{:?}", began.elapsed());
    // The next one acquires the lock anew, while the lost guard is kept.
    within("the lock", locks.acquire("orders")).await.unwrap().release().await.unwrap();
}

/// However late the task is polled, and however short the time is, it has the turn that it was offered, as with a plain lock.
#[tokio::test]
async fn a_turn_begins_when_its_task_takes_it() {
    const SHORT: Duration = Duration::from_millis(50);
    let server = server().await;
    let (operator, timeout) = (operator(&server).await, Duration::from_secs(40));
    let session = patient(server.connect_string(), timeout).connect().await.unwrap();
    let locks = |longest| {
        let options = LocksOptions::new().lock(LockOptions::new().max_hold(longest));
        session.locks("/lock").unwrap().with_options(options.time(timeout)).unwrap()
    };
    let late_locks = locks(SHORT);
    let mut late = std::pin::pin!(late_locks.acquire("late"));
    assert!(futures::poll!(&mut late).is_pending());
    let queue = session.lock("/lock/late").unwrap();
    support::until_queued(&queue, 1).await;
    let clock = session.lock(PATH).unwrap().with_options(LockOptions::new().max_hold(SHORT * 4)).unwrap();
    assert_eq!(within("the time", clock.acquire().await.unwrap().lost()).await, LostReason::MaxHold);
    let offered = queue.holder().await.unwrap().expect("it is offered still").token.unwrap();
    let guard = within("the turn", late).await.unwrap();
    assert_eq!(guard.token(), offered, "the offer was given up");
    assert_eq!(within("the loss", guard.lost()).await, LostReason::MaxHold);
    // Three tasks and the shortest time of all: three nodes come and go.
    let locks = locks(Duration::from_nanos(1));
    let each = ["one", "two", "three"].map(async |_| locks.acquire("short").await.unwrap().lost().await);
    assert_eq!(within("the turns", join_all(each)).await, [LostReason::MaxHold; 3]);
    until_nothing_is_left(&server).await;
    assert_eq!(operator.check_stat("/lock/short").await.unwrap().expect("the directory").cversion, 6);
}

/// Its contender waits in the turnstile for longer than a permit may be held.
#[tokio::test]
async fn a_wait_for_room_does_not_count() {
    let (_server, [holding, waiting]) = sessions().await;
    let held = holding.semaphore("/convert", 1).unwrap().acquire().await.unwrap();
    let semaphore = waiting.semaphore("/convert", 1).unwrap().with_options(limited()).unwrap();
    let waiter = tokio::spawn(async move { semaphore.acquire().await });
    support::until_queued(&holding.lock("/convert/queue").unwrap(), 1).await;
    let clock = holding.lock(PATH).unwrap().with_options(LockOptions::new().max_hold(LONGEST * 2)).unwrap();
    let clock = clock.acquire().await.unwrap();
    assert_eq!(within("the time", clock.lost()).await, LostReason::MaxHold);
    held.release().await.unwrap();
    let permit = granted(waiter).await;
    assert!(permit.is_held() && waiting.requeued() == 0, "it has kept its place");
    assert_eq!(within("the loss", permit.lost()).await, LostReason::MaxHold);
}

#[tokio::test]
async fn a_limit_within_the_stop_margin_is_refused() {
    let server = server().await;
    let lock = session(&server).await.lock(PATH).unwrap();
    for stop_margin in [Duration::ZERO, LONGEST] {
        let options = |max_hold| LockOptions::new().stop_margin(stop_margin).max_hold(max_hold);
        let (path, max_hold) = (PATH.to_owned(), stop_margin);
        let error = lock.clone().with_options(options(max_hold)).unwrap_err();
        assert_eq!(error, InvalidLock::MaxHold { path, max_hold, stop_margin });
        lock.clone().with_options(options(max_hold + Duration::from_millis(1))).unwrap();
    }
}

/// The announcement takes longer than the candidate may lead.
#[tokio::test]
async fn a_candidate_that_is_never_in_time_pauses() {
    let server = server().await;
    let session = session(&server).await;
    let options = LockOptions::new().max_hold(Duration::from_nanos(1));
    let election = session.election("/election").unwrap().with_options(options).unwrap();
    assert!(election.campaign_timeout("it", 3 * LONGEST).await.unwrap().is_none());
    assert!((2..60).contains(&session.requeued()), "{}", session.requeued());
}

/// Less is left of the limit than the longest stop margin, by which a lease that is nearly over is a risk. A holder who waits for
/// the loss with a stop margin has the limit told beforehand.
#[tokio::test]
async fn a_limit_that_comes_near_is_no_risk() {
    let (_server, [session]) = sessions().await;
    assert!(LONGEST < session.longest_stop_margin());
    let options = limited().stop_margin(LONGEST / 2);
    let guard = session.lock(PATH).unwrap().with_options(options).unwrap().acquire().await.unwrap();
    within("safety", guard.safe()).await.unwrap();
    assert!(matches!(within("the margin", guard.lost()).await, LostReason::MaxHoldEnds { .. }));
    within("safety", guard.safe()).await.unwrap();
    assert!(guard.is_held() && guard.remaining() <= LONGEST);
    assert_eq!(within("the end", guard.at_risk()).await, Duration::ZERO);
    assert_eq!(guard.check().unwrap_err().reason, LostReason::MaxHold);
}
