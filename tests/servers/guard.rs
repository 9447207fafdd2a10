//! Guards: their bounds, and where they may be dropped.

use std::sync::Arc;
use std::time::Duration;

use support::{Server, orders, patient, server, session, sessions, within};
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
    let (lost, token) = (tokio::spawn(guard.lost()), guard.cancellation_token());
    assert!(!token.is_cancelled());
    guard.release().await.unwrap();
    assert_eq!(within("the end", lost).await.unwrap(), LostReason::Released);
    within("the end", token.cancelled()).await;
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

/// A session on a runtime of one thread, which a task can block.
async fn brief(server: &Server, timeout: Duration) -> Session {
    patient(server.connect_string(), timeout).connect().await.expect("a session")
}

#[tokio::test]
async fn a_future_that_blocks_past_the_lease_was_not_finished_in_time() {
    let server = server().await;
    let session = brief(&server, Duration::from_secs(2)).await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let run = guard.run(async { std::thread::sleep(session.timeout()) });
    assert_eq!(run.await.unwrap_err().reason, LostReason::Unconfirmed);
}

/// A task is woken by one that has blocked the runtime's only thread. Tasks that are woken are polled before timers fire, so only the
/// clock says that the end is near.
#[tokio::test]
async fn run_does_not_poll_its_future_once_a_blocked_thread_has_outlasted_all_but_the_stop_margin() {
    let server = server().await;
    let session = brief(&server, Duration::from_secs(10)).await;
    let margin = session.longest_stop_margin();
    let lock =
        session.lock("/lock/orders").unwrap().with_options(LockOptions::new().stop_margin(margin)).unwrap();
    let guard = Arc::new(lock.acquire().await.unwrap());
    let (wake, woken) = oneshot::channel::<()>();
    let running = tokio::spawn({
        let guard = guard.clone();
        async move {
            let mut polled = false;
            let run = guard.run(async {
                woken.await.unwrap();
                polled = true;
            });
            (run.await.expect_err("a lost guard").reason, polled)
        }
    });
    let length = guard.remaining().saturating_sub(margin / 2);
    tokio::spawn(async move {
        std::thread::sleep(length);
        wake.send(()).unwrap();
    });
    let (reason, polled) = within("the loss", running).await.unwrap();
    assert!(matches!(reason, LostReason::Ending { left } if left <= margin / 2), "{reason:?}");
    assert!(!polled && guard.is_held(), "there is time to wind down");
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
        let blamed = |it: &&Result<_, _>| matches!(it, Err(ReleaseError::Lost(_)));
        let counts = (outcomes.iter().flatten().count(), outcomes.iter().filter(blamed).count());
        assert_eq!(counts, (1, 1), "{outcomes:?}");
        assert_eq!(guard.check().unwrap_err().reason, LostReason::Released);
    }
}
