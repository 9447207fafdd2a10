//! The blocking interface, by threads that are no tasks.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use support::{Server, own_server, patient, server, until_nothing_is_left};
use tokio::task::spawn_blocking;
use zklock::blocking::{Session, wait};
use zklock::{AcquireError, LockOptions, LostReason, ReleaseError};

const TIMEOUT: Duration = Duration::from_secs(2);

fn connect(server: &Server) -> Session {
    patient(server.connect_string(), TIMEOUT).connect_blocking().expect("a session")
}

/// Runs this in a thread that is none of the runtime's.
async fn apart<T: Send + 'static>(
    server: Server,
    what: impl FnOnce(&Server) -> T + Send + 'static,
) -> (Server, T) {
    spawn_blocking(move || {
        let output = what(&server);
        (server, output)
    })
    .await
    .expect("no panic")
}

#[tokio::test]
async fn a_caller_that_computes_for_several_session_timeouts_keeps_what_it_holds() {
    let (server, ()) = apart(server().await, |server| {
        let holding = connect(server);
        let waiting = connect(server);
        let guard = holding.lock("/lock/orders").unwrap().acquire().unwrap();
        let id = holding.id();
        let began = Instant::now();
        let mut sum = 0u64;
        while began.elapsed() < 3 * TIMEOUT {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        guard.check().unwrap();
        assert_eq!(holding.id(), id);
        let lock = waiting.lock("/lock/orders").unwrap();
        assert!(lock.try_acquire().unwrap().is_none());
        wait(guard.verify()).unwrap();
        let token = guard.token();
        guard.release().unwrap();
        assert!(lock.acquire().unwrap().token() > token);
    })
    .await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn each_member_is_held_and_released() {
    let (server, ()) = apart(server().await, |server| {
        let session = connect(server);
        let soon = Duration::from_millis(50);
        let lock = session.lock("/one").unwrap();
        let guard = lock.acquire().unwrap();
        assert!(lock.acquire_timeout(soon).unwrap().is_none());
        // What is dropped is released when the drop returns.
        drop(guard);
        drop(lock.try_acquire().unwrap().expect("it is free"));

        let both =
            session.rw_lock("/both").unwrap().with_options(LockOptions::new().owner("reader")).unwrap();
        let readers = [both.read().unwrap(), both.read().unwrap()];
        assert!(both.try_write().unwrap().is_none());
        drop(readers);
        both.write().unwrap().release().unwrap();

        let several = session.lock_all(["/a", "/b"]).unwrap();
        assert_eq!(several.acquire().unwrap().paths().collect::<Vec<_>>(), ["/a", "/b"]);
        let keys = session.locks("/keys").unwrap();
        keys.acquire("7").unwrap().release().unwrap();

        let election = session.election("/service").unwrap();
        let leadership = election.campaign("here").unwrap();
        assert_eq!(wait(election.leader()).unwrap().expect("a leader").value, "here");
        wait(leadership.proclaim("there")).unwrap();
        leadership.release().unwrap();
        assert!(wait(election.leader()).unwrap().is_none());

        let pool = session.semaphore("/pool", 3).unwrap();
        let permits = [pool.acquire_many(2).unwrap(), pool.acquire().unwrap()];
        assert!(pool.try_acquire().unwrap().is_none());
        drop(permits);
        assert_eq!(session.slots("/slots", 2).unwrap().acquire().unwrap().index(), 0);

        session.close().unwrap();
        assert!(matches!(lock.acquire(), Err(AcquireError::SessionClosed { .. })));
    })
    .await;
    until_nothing_is_left(&server).await;
}

/// In a task that is not polled meanwhile, tokio stops what has gone on for long. And a wait may be inside another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_and_a_future_may_wait_for_as_long_as_they_like() {
    let server = server().await;
    let session = connect(&server);
    let outer = session.lock("/outer").unwrap();
    let inner = session.lock("/inner").unwrap();
    for _ in 0..100 {
        let guard = outer.acquire().unwrap();
        let ran = wait(guard.run(async {
            drop(inner.acquire().unwrap());
        }));
        ran.unwrap();
    }
    drop((outer, inner, session));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_loss_is_told_in_a_thread_of_its_own_and_a_drop_is_bounded() {
    let (server, (remaining, took)) = apart(own_server().await, |server| {
        let session = connect(server);
        let lost = |name: &str| {
            let (telling, told) = mpsc::channel();
            let guard = session.lock(name).unwrap().acquire().unwrap();
            // It may block, and drop what it has: the session's thread goes on.
            let kept = session.clone();
            guard.on_lost(move |reason| {
                drop(kept);
                telling.send(reason).unwrap();
            });
            (guard, told)
        };
        let (released, nothing) = lost("/released");
        released.release().unwrap();
        assert!(nothing.recv().is_err(), "a release is no loss");
        // What the function owns is dropped though nobody calls it, and that may wait.
        let (owning, (owned, _)) = (session.lock("/owning").unwrap().acquire().unwrap(), lost("/owned"));
        owning.on_lost(move |_| drop(owned));
        owning.release().unwrap();
        drop(session.lock("/owned").unwrap().acquire().unwrap());

        let ((guard, told), (dropped, _)) = (lost("/lost"), lost("/dropped"));
        wait(server.own().pause()).unwrap();
        let began = Instant::now();
        let remaining = dropped.remaining();
        drop(dropped);
        let took = began.elapsed();
        assert_eq!(told.recv().unwrap(), LostReason::Unconfirmed);
        assert!(matches!(guard.release(), Err(ReleaseError::Lost(_))));
        (remaining, took)
    })
    .await;
    assert!(took < remaining + Duration::from_secs(1), "{took:?}");
    server.own().unpause().await.unwrap();
}
