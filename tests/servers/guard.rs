//! Guards: their bounds, and where they may be dropped.

use std::sync::Arc;
use std::time::Duration;

use support::{
    Server, linked_session, orders, patient, server, session, sessions, until_nothing_is_left, within,
};
use tokio::sync::oneshot;
use zklock::{Guard, LockOptions, LostReason, ReleaseError, Session};

/// Each public future is `Send`: see `shutdown`.
#[tokio::test]
async fn everything_is_send_sync_and_static() {
    fn is_shareable<T: Send + Sync + Unpin + 'static>(_: &T) {}
    fn is_shared<T: Send + Sync + 'static>(_: T) {}
    let (_server, [session]) = sessions().await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    is_shareable(&session);
    is_shareable(&lock);
    is_shareable(&guard);
    is_shared(guard.lost());
    is_shared(guard.asked());
}

#[tokio::test]
async fn a_drop_while_panicking() {
    let (_server, [lock]) = orders().await;
    let guard = lock.acquire().await.unwrap();
    let panicked = tokio::spawn(async move {
        let _guard = guard;
        panic!("as the test wants it");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    within("the next", lock.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn lost_tells_other_tasks_of_the_release() {
    let (_server, [lock]) = orders().await;
    let guard = lock.acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    guard.release().await.unwrap();
    assert_eq!(within("the end", lost).await.unwrap(), LostReason::Released);
    let guard = lock.acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    drop(guard);
    assert_eq!(within("the end", lost).await.unwrap(), LostReason::Released);
}

#[tokio::test]
async fn run_gives_back_what_its_future_does() {
    let (_server, [session]) = sessions().await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.run(async { "done" }).await, Ok("done"));
    session.close().await.unwrap();
    let error = guard.run(async { unreachable!("not polled once the guard is lost") }).await;
    assert_eq!(error.map(|never: ()| never).unwrap_err().reason, LostReason::SessionClosed);
}

#[tokio::test]
async fn a_running_future_is_dropped_at_once() {
    let (server, [session]) = sessions().await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let node = guard.node();
    let (dropped, still_running) = tokio::sync::oneshot::channel::<()>();
    let (running, started) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(async move {
        let work = async move {
            let _dropped = dropped;
            running.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        guard.run(work).await
    });
    within("the work", started).await.unwrap();
    support::operator(&server).await.delete(&node, None).await.unwrap();
    assert_eq!(within("the loss", run).await.unwrap().unwrap_err().reason, LostReason::NodeDeleted);
    assert!(within("the drop", still_running).await.is_err());
}

#[test]
fn a_guard_is_lost_though_its_runtime_does_not_run() {
    let background = tokio::runtime::Runtime::new().unwrap();
    let server = background.block_on(server());
    let other = background.block_on(session(&server));
    let foreground = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guard = foreground.block_on(async {
        let session = brief(&server, Duration::from_secs(1)).await;
        session.lock("/lock/orders").unwrap().acquire().await.unwrap()
    });
    // Nothing runs in the foreground from here on, so nobody hears of the session's end.
    let next =
        background.block_on(within("the next", other.lock("/lock/orders").unwrap().acquire())).unwrap();
    assert!(!guard.is_held(), "two guards at once");
    assert_eq!(guard.check().unwrap_err().reason, LostReason::Unconfirmed);
    assert_eq!(guard.remaining(), std::time::Duration::ZERO);
    assert!(next.is_held() && next.token() > guard.token());
}

/// A session on a runtime of one thread, which a task can block.
async fn brief(server: &Server, timeout: Duration) -> Session {
    patient(server.connect_string(), timeout).connect().await.expect("a session")
}

/// Runs a future in a task, and wakes it by one that blocks the runtime's only thread for so long before. Tasks that are woken
/// are polled before timers fire. The guard, why its future was dropped, and whether that was polled once more.
async fn run_blocked(guard: Guard, length: Duration) -> (Guard, LostReason, bool) {
    let (wake, woken) = oneshot::channel();
    let running = tokio::spawn(async move {
        let mut polled = false;
        let run = guard.run(async {
            woken.await.unwrap();
            polled = true;
        });
        let reason = run.await.expect_err("a lost guard").reason;
        (guard, reason, polled)
    });
    tokio::spawn(async move {
        std::thread::sleep(length);
        wake.send(()).unwrap();
    });
    within("the loss", running).await.unwrap()
}

/// The timer that tells of the lease's end has not fired then, so only the clock says so.
#[tokio::test]
async fn run_does_not_poll_its_future_once_a_blocked_thread_has_outlasted_the_lease() {
    let server = server().await;
    let session = brief(&server, Duration::from_secs(2)).await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let (_guard, reason, polled) = run_blocked(guard, session.timeout()).await;
    assert_eq!((reason, polled), (LostReason::Unconfirmed, false));
}

#[tokio::test]
async fn a_future_that_blocks_past_the_lease_was_not_finished_in_time() {
    let server = server().await;
    let session = brief(&server, Duration::from_secs(2)).await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let run = guard.run(async { std::thread::sleep(session.timeout()) });
    assert_eq!(run.await.unwrap_err().reason, LostReason::Unconfirmed);
}

#[tokio::test]
async fn run_does_not_poll_its_future_once_a_blocked_thread_has_outlasted_all_but_the_stop_margin() {
    let server = server().await;
    let session = brief(&server, Duration::from_secs(10)).await;
    let margin = session.longest_stop_margin();
    let lock =
        session.lock("/lock/orders").unwrap().with_options(LockOptions::new().stop_margin(margin)).unwrap();
    let guard = lock.acquire().await.unwrap();
    let length = guard.remaining().saturating_sub(margin / 2);
    let (guard, reason, polled) = run_blocked(guard, length).await;
    assert!(matches!(reason, LostReason::Ending { left } if left <= margin / 2), "{reason:?}");
    assert!(!polled);
    assert!(guard.is_held(), "there is time to wind down");
}

#[tokio::test]
async fn a_token_of_cancellation_follows_the_guard() {
    let (_server, link, session) = linked_session(Duration::from_secs(2)).await;
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let released = guard.cancellation_token();
    assert!(!released.is_cancelled());
    guard.release().await.unwrap();
    within("the release", released.cancelled()).await;
    let guard = lock.acquire().await.unwrap();
    let lost = guard.cancellation_token();
    link.black_hole();
    within("the loss", lost.cancelled()).await;
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_guard_that_tasks_share_is_released_for_all_of_them() {
    let server = server().await;
    let lock = session(&server).await.lock("/lock/orders").unwrap();
    let guard = Arc::new(lock.acquire().await.unwrap());
    let other = guard.clone();
    guard.release_all().await.unwrap();
    assert_eq!(other.check().unwrap_err().reason, LostReason::Released);
    assert!(matches!(other.release_all().await, Err(ReleaseError::Lost(_))));
    // It is free.
    lock.try_acquire().await.unwrap().expect("a free lock").release().await.unwrap();
    drop((guard, other));
    until_nothing_is_left(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_releases_at_once_blame_nobody() {
    let server = server().await;
    let lock = session(&server).await.lock("/lock/orders").unwrap();
    for _ in 0..50 {
        let guard = Arc::new(lock.acquire().await.unwrap());
        let release = |guard: Arc<Guard>| tokio::spawn(async move { guard.release_all().await });
        let (one, other) = (release(guard.clone()), release(guard.clone()));
        let outcomes = [one.await.unwrap(), other.await.unwrap()];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        assert_eq!(guard.check().unwrap_err().reason, LostReason::Released);
    }
}
