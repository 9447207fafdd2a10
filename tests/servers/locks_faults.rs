//! Locks by key under faults: tasks that are not polled, holds that are lost, sessions and runtimes that end.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use support::{
    Steps, enqueue, eventually, granted, linked_session, make_foreign, operator, own_server, patient, queue,
    refused, session, until_nothing_is_left, until_queued, within,
};
use zklock::{AcquireError, Guard, LockOptions, Locks, LocksOptions, LostReason, ReleaseError};
use zklock_testcontainers::RequestKind;

use super::locks::{KEY, ROOT, contended, in_line, linked_locks, locks, turn_of, turns};

#[tokio::test]
async fn a_task_that_is_not_polled_is_passed_over_and_keeps_its_place() {
    let (server, here, locks) = locks(turns(3)).await;
    let guard = locks.acquire(KEY).await.unwrap();
    let [mut unpolled, second, third] = [(); 3].map(|()| in_line(&locks));
    guard.release().await.unwrap();
    let guard = turn_of(second).await;
    // It comes back, and is the first in line.
    assert!(unpolled.poll().is_pending());
    guard.release().await.unwrap();
    let guard = turn_of(unpolled).await;
    assert_eq!(guard.token().turn(), 2);
    guard.release().await.unwrap();
    drop(turn_of(third).await);
    // If nobody is polled, the lock goes to another process.
    let locks = here.locks(ROOT).unwrap().with_options(LocksOptions::new()).unwrap();
    let elsewhere = session(&server).await;
    let lock = elsewhere.lock(&locks.path(KEY)).unwrap();
    until_queued(&lock, 0).await;
    let holder = lock.acquire().await.unwrap();
    let unpolled = in_line(&locks);
    until_queued(&lock, 2).await;
    let remote = enqueue(&lock).await;
    holder.release().await.unwrap();
    let remote = granted(remote).await;
    remote.release().await.unwrap();
    drop(turn_of(unpolled).await);
    until_nothing_is_left(&server).await;
}

/// A waker is foreign code. The last one of its kind may be dropped by the line, and may come back to the line then.
#[tokio::test]
async fn a_waker_may_give_another_wait_up_when_it_is_dropped() {
    struct Waits(Mutex<Option<Box<dyn Send>>>);
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().take();
        }
    }
    let (server, _here, locks) = locks(turns(10)).await;
    let guard = locks.acquire(KEY).await.unwrap();
    for is_dropped in [true, false] {
        let waker = Waker::from(Arc::new(Waits(Mutex::new(Some(Box::new(in_line(&locks)))))));
        let mut task = Box::pin(locks.acquire(KEY));
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        if is_dropped {
            drop(task);
        } else {
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// A `select!` whose other branch works for 300 ms at each message polls the wait in between only.
async fn beside_messages(locks: &Locks) -> Guard {
    let mut waits = std::pin::pin!(locks.acquire(KEY));
    loop {
        tokio::select! {
            biased;
            guard = &mut waits => return guard.expect("a guard"),
            () = std::future::ready(()) => tokio::time::sleep(Duration::from_millis(300)).await,
        }
    }
}

#[tokio::test]
async fn a_task_that_is_always_polled_late_gets_an_uncontended_key() {
    let (server, _here, locks) = locks(LocksOptions::new()).await;
    // The key exists from now on, so a grant is soon there.
    locks.acquire(KEY).await.unwrap().release().await.unwrap();
    let guard = within("its turn", beside_messages(&locks)).await;
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// A task that leaves hands on what it was offered only within the budget's time.
#[tokio::test]
async fn tasks_that_leave_one_after_the_other_do_not_keep_the_lock() {
    let (server, _here, locks, lock) = contended(turns(10).time(Duration::ZERO)).await;
    let holder = lock.acquire().await.unwrap();
    let mut tasks = (0..20).map(|_| in_line(&locks)).collect::<Vec<_>>();
    until_queued(&lock, 2).await;
    let remote = enqueue(&lock).await;
    holder.release().await.unwrap();
    // Each leaves shortly before it would be passed over.
    let patience = Instant::now();
    while !remote.is_finished() && !tasks.is_empty() {
        tokio::time::sleep(Duration::from_millis(90)).await;
        drop(tasks.remove(0));
    }
    assert!(!tasks.is_empty(), "{:?}", patience.elapsed());
    drop(tasks);
    granted(remote).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_try_that_is_not_polled_blocks_nobody() {
    let (server, _here, locks) = locks(turns(10)).await;
    let mut trial = Steps::new(locks.try_acquire(KEY));
    assert!(trial.poll().is_pending());
    let guard = within("the lock", locks.acquire(KEY)).await.unwrap();
    guard.release().await.unwrap();
    drop(trial);
    until_nothing_is_left(&server).await;
}

/// A holder that was told of the end of its lease keeps that end. The next task has a lease of its own.
#[tokio::test]
async fn a_hold_that_is_about_to_end_is_not_passed_on() {
    let (_server, link, session) = linked_session(Duration::from_secs(12)).await;
    let margin = Duration::from_millis(3_300);
    let options = turns(10).lock(LockOptions::new().stop_margin(margin));
    let locks = session.locks(ROOT).unwrap().with_options(options).unwrap();
    let guard = locks.acquire(KEY).await.unwrap();
    let other = session.lock("/lock/bills").unwrap().acquire().await.unwrap();
    let next = in_line(&locks);
    let held = link.hold_reply(RequestKind::Multi);
    let reason = within("the loss", guard.lost()).await;
    assert!(matches!(reason, LostReason::Ending { .. }), "{reason:?}");
    held.release();
    // Each extends the lease.
    eventually("a longer lease", async || other.verify().await.is_ok() && other.remaining() > 2 * margin)
        .await;
    let last = guard.token();
    guard.release().await.unwrap();
    let next = turn_of(next).await;
    assert!(next.remaining() > margin, "{:?}", next.remaining());
    assert!(next.token().zxid() > last.zxid());
    next.run(async {}).await.unwrap();
}

#[tokio::test]
async fn all_shares_are_lost_together() {
    let (server, session, locks) = locks(turns(10)).await;
    let guard = locks.acquire(KEY).await.unwrap();
    let shares = [guard.another(), guard.another()];
    let next = in_line(&locks);
    let losses = shares.each_ref().map(Guard::lost);
    operator(&server).await.delete(&guard.node(), None).await.unwrap();
    for lost in losses {
        assert_eq!(within("the news", lost).await, LostReason::NodeDeleted);
    }
    assert!(!guard.is_held() && shares.iter().all(|share| !share.is_held()));
    // The node is gone, so the next task holds by another one.
    let next = turn_of(next).await;
    assert!(next.token().zxid() > guard.token().zxid());
    drop((guard, shares));
    next.verify().await.unwrap();
    assert_eq!(queue(&session.lock(&locks.path(KEY)).unwrap()).await.len(), 1);
}

#[tokio::test]
async fn the_end_of_the_zookeeper_session_takes_the_lock_and_spares_the_line() {
    let server = own_server().await;
    let session = patient(server.connect_string(), support::BOUND).connect().await.unwrap();
    let locks = session.locks(ROOT).unwrap().with_options(turns(10)).unwrap();
    let guard = locks.acquire(KEY).await.unwrap();
    let (first, second) = (in_line(&locks), in_line(&locks));
    let id = session.id();
    server.own().close_session(id).await.unwrap();
    let reason = within("the news", guard.lost()).await;
    assert!(matches!(reason, LostReason::SessionExpired | LostReason::SessionClosed), "{reason:?}");
    let next = turn_of(first).await;
    assert_ne!(session.id(), id);
    assert!(next.token() > guard.token());
    assert!(matches!(guard.release().await, Err(ReleaseError::Lost(_))));
    next.release().await.unwrap();
    drop(turn_of(second).await);
    // While it waits for another process.
    let elsewhere = support::session(&server).await;
    let lock = elsewhere.lock(&locks.path(KEY)).unwrap();
    until_queued(&lock, 0).await;
    let remote = lock.acquire().await.unwrap();
    let waits = in_line(&locks);
    until_queued(&lock, 2).await;
    let id = session.id();
    server.own().close_session(id).await.unwrap();
    eventually("another node", async || queue(&lock).await.get(1).is_some_and(|it| it.session != Some(id)))
        .await;
    remote.release().await.unwrap();
    drop(turn_of(waits).await);
}

#[tokio::test]
async fn everybody_in_line_hears_of_a_failure() {
    let (server, session, locks) = locks(turns(10)).await;
    let path = locks.path(KEY);
    make_foreign(&server, &format!("{path}/_c_00000000-0000-0000-0000-000000000000-lock-0000000000")).await;
    let operator = operator(&server).await;
    let mode =
        zookeeper_client::CreateMode::EphemeralSequential.with_acls(zookeeper_client::Acls::anyone_all());
    operator.create(&format!("{path}/_c_0123456789abcdef-lock-"), b"", &mode).await.unwrap();
    for task in [in_line(&locks), in_line(&locks), in_line(&locks)] {
        let error = within("the failure", task.finished()).await.unwrap_err();
        assert!(matches!(error, AcquireError::ForeignContender { .. }), "{error}");
    }
    assert!(matches!(locks.try_acquire(KEY).await, Err(AcquireError::ForeignContender { .. })));
    assert!(locks.acquire("another key").await.unwrap().is_held());
    let guard = locks.acquire("a third key").await.unwrap();
    let waits = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("a third key").await }
    });
    eventually("two keys are in use", async || locks.len() <= 2).await;
    session.close().await.unwrap();
    let error = refused(waits).await;
    assert!(matches!(error, AcquireError::SessionClosed { .. }), "{error}");
    assert!(!guard.is_held());
    let late = within("the answer", locks.acquire(KEY)).await.unwrap_err();
    assert!(matches!(late, AcquireError::SessionClosed { .. }));
}

/// The line is no request's business: thousands of tasks wait on one node, and a broken connection costs them nothing.
#[tokio::test]
async fn thousands_wait_through_a_broken_connection() {
    let (server, link, _here, locks) = linked_locks(turns(u32::MAX)).await;
    let guard = locks.acquire(KEY).await.unwrap();
    let tasks = (0..5_000).map(|_| {
        let locks = locks.clone();
        tokio::spawn(async move {
            let guard = locks.acquire(KEY).await.unwrap();
            guard.check().unwrap();
            guard.token()
        })
    });
    let tasks = tasks.collect::<Vec<_>>();
    link.cut();
    eventually("the next connection", async || link.connections() == 1).await;
    guard.verify().await.unwrap();
    guard.release().await.unwrap();
    let mut last = None;
    for task in tasks {
        let token = within("a turn", task).await.unwrap();
        assert!(Some(token) > last);
        last = Some(token);
    }
    until_nothing_is_left(&server).await;
}
