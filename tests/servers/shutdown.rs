//! A runtime that shuts down under everything: no panic gets out of zklock, and the lock is free after a session timeout.

use zklock_test_support as support;

use std::panic;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use support::{Steps, enqueue, patient, server, session, until_nothing_is_left, until_watched, within};
use tokio::runtime::{Builder, Runtime};
use zklock::{LockOptions, Session};
use zklock_testcontainers::ZooKeeper;

static PANICS: AtomicUsize = AtomicUsize::new(0);

const TIMEOUT: Duration = Duration::from_secs(6);

/// Everything there is, in all stages, on a runtime that is dropped in the middle of it. `other` is a session of a runtime
/// that goes on.
fn shut_down(runtime: Runtime, server: &ZooKeeper, other: &Session) {
    let remains = runtime.block_on(async {
        let connect = || patient(server.connect_string(), TIMEOUT).connect();
        let session = connect().await.unwrap();

        // A waiter that lets its takeover delay pass.
        let vanishing = connect().await.unwrap();
        let _vanished = vanishing.lock("/lock/delayed").unwrap().acquire().await.unwrap();
        let delayed = LockOptions::new().takeover_delay(Duration::from_secs(3600));
        let delayed = enqueue(&session.lock_with("/lock/delayed", delayed).unwrap()).await;
        until_watched(server, 1, 1).await;
        vanishing.close().await.unwrap();

        // A holder, a task that works under its guard, and waiters: of this runtime's session and of another's.
        let (orders, bills) = (session.lock("/lock/orders").unwrap(), session.lock("/lock/bills").unwrap());
        let guard = orders.acquire().await.unwrap();
        let own = bills.acquire().await.unwrap();
        tokio::spawn(async move { own.run(std::future::pending::<()>()).await });
        tokio::spawn(guard.lost());
        let waiter = enqueue(&orders).await;
        let elsewhere = enqueue(&other.lock("/lock/orders").unwrap()).await;
        let events = session.events();
        tokio::spawn(async move { pin!(events).for_each(|_| async {}).await });

        // Futures that were polled once, or never.
        let forgotten = orders.clone();
        tokio::spawn(async move {
            let _unpolled = forgotten.acquire();
            let mut polled = Steps::new(forgotten.acquire());
            assert!(polled.poll().is_pending());
            std::future::pending::<()>().await;
        });
        let closing = connect().await.unwrap();
        let mut close = Steps::new(async move { closing.close().await });
        assert!(close.poll().is_pending());
        let last = session.lock("/lock/last").unwrap().acquire().await.unwrap();
        let mut release = Steps::new(last.release());
        assert!(release.poll().is_pending());
        (session, orders, guard, close, release, [delayed, waiter, elsewhere])
    });
    drop(runtime);
    let (session, orders, guard, close, release, waiters) = remains;
    assert!(!guard.is_held());
    assert!(Steps::new(orders.acquire()).poll().is_ready(), "nothing can be waited for");
    assert!(Steps::new(session.close()).poll().is_ready());
    for waiter in waiters {
        let ended = waiter.now_or_never().expect("its runtime is gone");
        assert!(!ended.is_err_and(|error| error.is_panic()));
    }
    drop((close, release, guard, orders, session));
}

#[test]
fn no_panic_gets_out_and_the_locks_are_free_after_a_session_timeout() {
    let goes_on = Runtime::new().unwrap();
    let server = goes_on.block_on(server());
    let other = goes_on.block_on(session(&server));
    panic::set_hook(Box::new(|panicked| {
        eprintln!("{panicked}");
        // zookeeper-client's watcher does when its client's task is gone; zklock catches that.
        if !panicked.location().is_some_and(|it| it.file().contains("zookeeper-client")) {
            PANICS.fetch_add(1, Ordering::SeqCst);
        }
    }));
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        shut_down(builder.enable_all().build().unwrap(), &server, &other);
        goes_on.block_on(async {
            for path in ["/lock/orders", "/lock/bills", "/lock/delayed", "/lock/last"] {
                let lock = other.lock(path).unwrap();
                within(path, lock.acquire()).await.unwrap().release().await.unwrap();
            }
            until_nothing_is_left(&server).await;
        });
    }
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}
