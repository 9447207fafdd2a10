//! Locks by key: the tasks of one process hand a lock to each other.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use support::{
    Server, Steps, eventually, linked_session, patient, queue, server, until_nothing_is_left, until_queued,
    within,
};
use zklock::{
    FenceGate, FencingToken, Guard, KeyError, LockOptions, Locks, LocksOptions, LostReason, ReleaseError,
    Session, guard::TransactionError,
};
use zklock_testcontainers::{Link, RequestKind};

const ROOT: &str = "/lock/orders";

pub(crate) const KEY: &str = "42";

/// Long enough for the test, so that no heartbeat comes between.
const LONG: Duration = Duration::from_secs(40);

/// A task in line, which has been polled once.
pub(crate) fn in_line(locks: &Locks) -> Steps<impl Future<Output = Result<Guard, KeyError>> + use<>> {
    let locks = locks.clone();
    let mut task = Steps::new(async move { locks.acquire(KEY).await });
    assert!(task.poll().is_pending());
    task
}

pub(crate) async fn turn_of(task: Steps<impl Future<Output = Result<Guard, KeyError>>>) -> Guard {
    within("the turn", task.finished()).await.expect("a guard")
}

/// A budget of so many turns, and of time and lease without bounds.
pub(crate) fn turns(turns: u32) -> LocksOptions {
    LocksOptions::new().turns(turns).time(Duration::MAX)
}

pub(crate) async fn locks(options: LocksOptions) -> (Server, Session, Locks) {
    let server = server().await;
    // A hold is passed on while half of a lease is left.
    let session = patient(server.connect_string(), LONG).connect().await.unwrap();
    let locks = session.locks(ROOT).unwrap().with_options(options).unwrap();
    (server, session, locks)
}

/// How many requests acquire, release or watch.
fn work(link: &Link) -> u64 {
    use RequestKind::{Create, Delete, GetChildren, GetData, Multi, SetData};
    [Create, Delete, GetChildren, GetData, Multi, SetData].map(|kind| link.requests_of(kind)).iter().sum()
}

#[tokio::test]
async fn the_lock_passes_from_task_to_task_in_order_without_a_request() {
    let (server, link, session) = linked_session(LONG).await;
    let locks = session.locks(ROOT).unwrap().with_options(turns(1_000)).unwrap();
    let lock = session.lock(&locks.path(KEY)).unwrap();
    let first = within("the first", locks.acquire(KEY)).await.unwrap();
    // Its own watch stands.
    support::until_watched(&server, 1, 0).await;
    let tasks = (0..100).map(|_| in_line(&locks)).collect::<Vec<_>>();
    assert_eq!(queue(&lock).await.len(), 1, "one contender for all");
    assert_eq!(locks.len(), 1);
    link.reset_counts();
    let (mut guard, mut gate, mut seen) = (first, FenceGate::new(), Vec::new());
    for task in tasks {
        gate.admit(guard.token()).unwrap();
        seen.push(guard.token());
        let node = guard.node();
        guard.release().await.unwrap();
        guard = turn_of(task).await;
        assert_eq!(guard.node(), node);
    }
    assert_eq!(work(&link), 0);
    let zxid = guard.token().zxid();
    assert_eq!(seen, (0..100).map(|turn| FencingToken::of_turn(zxid, turn)).collect::<Vec<_>>());
    gate.admit(guard.token()).unwrap();
    gate.admit(seen[99]).unwrap_err();
    guard.verify().await.unwrap();
    guard.release().await.unwrap();
    until_queued(&lock, 0).await;
    eventually("no key is in use", async || locks.is_empty()).await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_guard_ends_when_it_is_passed_on() {
    let (_server, _session, locks) = locks(turns(10)).await;
    let guard = Arc::new(locks.acquire(KEY).await.unwrap());
    let next = in_line(&locks);
    let (lost, mut run) = (guard.lost(), Steps::new(guard.run(std::future::pending::<()>())));
    assert!(run.poll().is_pending());
    guard.release_all().await.unwrap();
    let next = turn_of(next).await;
    assert!(next.is_held() && !guard.is_held() && guard.remaining().is_zero());
    for reason in [
        within("the news", lost).await,
        within("the end of what it protects", run.finished()).await.unwrap_err().reason,
        guard.verify().await.unwrap_err().reason,
        guard.sequencer().unwrap_err().reason,
    ] {
        assert_eq!(reason, LostReason::Released);
    }
    let written = guard.transaction().check("/", None).commit().await;
    assert!(matches!(written, Err(TransactionError::Lost(lost)) if lost.reason == LostReason::Released));
    assert!(matches!(guard.release_all().await, Err(ReleaseError::Lost(_))));
    drop(guard);
    next.verify().await.expect("the end of an old turn touches nothing");
}

#[tokio::test]
async fn any_text_is_a_key() {
    let (_server, session, locks) = locks(turns(10)).await;
    let keys =
        ["", ".", "..", "a/b", "a%2Fb", "lock-0000000000", "4006381333931", "x.once", "\u{1f512}", "\n"];
    let guards = futures::future::try_join_all(keys.iter().map(|key| locks.acquire(key))).await.unwrap();
    assert_eq!(locks.len(), keys.len());
    for (key, guard) in keys.iter().zip(&guards) {
        assert_eq!(guard.path(), locks.path(key));
        assert!(guard.is_held() && guard.node().starts_with(&locks.path(key)));
    }
    // The root is a lock of its own, and its keys are no contenders there.
    assert!(session.lock(ROOT).unwrap().try_acquire().await.unwrap().is_some());
    let long = locks.acquire(&"k".repeat(4097)).await.unwrap_err();
    assert!(matches!(long, KeyError::TooLong { length: 4097, .. }), "{long}");
    let found = session.locks_below("/lock").await.unwrap().locks;
    assert_eq!(found.len(), keys.len());
    for guard in guards {
        guard.release().await.unwrap();
    }
    eventually("no key is in use", async || locks.is_empty()).await;
}

#[tokio::test]
async fn several_keys_at_once_have_nodes_of_their_own() {
    let (server, _session, locks) = locks(turns(10)).await;
    let both = locks.lock_all(["7", "9"]).unwrap();
    assert_eq!(both.paths().collect::<Vec<_>>(), [locks.path("7"), locks.path("9")]);
    let one = locks.acquire("7").await.unwrap();
    let mut all = Steps::new(both.acquire());
    assert!(all.poll().is_pending());
    drop(one);
    let guard = within("both", all.finished()).await.unwrap();
    assert!(locks.try_acquire("9").await.unwrap().is_none() && both.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    drop(within("one of them", locks.acquire("9")).await.unwrap());
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
