//! Locks by key: the tasks of one process hand a lock to each other.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use support::{
    Server, Steps, enqueue, eventually, granted, linked_session, patient, queue, server, session,
    until_nothing_is_left, until_queued, within,
};
use zklock::{
    AcquireError, FenceGate, FencingToken, Guard, Lock, Locks, LocksOptions, LostReason, QueryError,
    ReleaseError, Session, guard::TransactionError,
};
use zklock_testcontainers::{Link, RequestKind};

pub(crate) const ROOT: &str = "/lock/orders";

pub(crate) const KEY: &str = "42";

/// Long enough for the test, so that no heartbeat comes between.
const LONG: Duration = Duration::from_secs(40);

/// A task in line, which has been polled once.
pub(crate) fn in_line(locks: &Locks) -> Steps<impl Future<Output = Result<Guard, AcquireError>> + use<>> {
    let locks = locks.clone();
    let mut task = Steps::new(async move { locks.acquire(KEY).await });
    assert!(task.poll().is_pending());
    task
}

pub(crate) async fn turn_of(task: Steps<impl Future<Output = Result<Guard, AcquireError>>>) -> Guard {
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

/// As [`locks`], and the lock of the key as another process sees it.
pub(crate) async fn contended(options: LocksOptions) -> (Server, Session, Locks, Lock) {
    let (server, here, locks) = locks(options).await;
    let lock = session(&server).await.lock(&locks.path(KEY)).unwrap();
    (server, here, locks, lock)
}

pub(crate) async fn linked_locks(options: LocksOptions) -> (Server, Link, Session, Locks) {
    let (server, link, session) = linked_session(LONG).await;
    let locks = session.locks(ROOT).unwrap().with_options(options).unwrap();
    (server, link, session, locks)
}

/// How many requests acquire, release or watch.
fn work(link: &Link) -> u64 {
    use RequestKind::{Create, Delete, GetChildren, GetData, Multi, SetData};
    [Create, Delete, GetChildren, GetData, Multi, SetData].map(|kind| link.requests_of(kind)).iter().sum()
}

#[tokio::test]
async fn the_lock_passes_from_task_to_task_in_order_without_a_request() {
    let (server, link, session, locks) = linked_locks(turns(1_000)).await;
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
    assert!(next.is_held() && !guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(within("the news", lost).await, LostReason::Released);
    let stopped = within("the end of what it protects", run.finished()).await.unwrap_err();
    assert_eq!(stopped.reason, LostReason::Released);
    assert_eq!(guard.verify().await.unwrap_err().reason, LostReason::Released);
    assert_eq!(guard.sequencer().unwrap_err().reason, LostReason::Released);
    let written = guard.transaction().check("/", None).commit().await;
    assert!(matches!(written, Err(TransactionError::Lost(lost)) if lost.reason == LostReason::Released));
    assert!(matches!(guard.release_all().await, Err(ReleaseError::Lost(_))));
    drop(guard);
    assert!(next.is_held(), "the end of an old turn touches nothing");
    next.verify().await.unwrap();
    next.release().await.unwrap();
}

/// A contender elsewhere waits for as many turns as the budget allows, and one more.
#[tokio::test]
async fn the_budget_bounds_the_wait_of_others() {
    let (server, _here, locks, lock) = contended(turns(2)).await;
    let mut guard = locks.acquire(KEY).await.unwrap();
    let remote = enqueue(&lock).await;
    let mut tasks = (0..5).map(|_| in_line(&locks)).collect::<Vec<_>>().into_iter();
    for turn in 1..=2 {
        guard.release().await.unwrap();
        guard = turn_of(tasks.next().unwrap()).await;
        assert_eq!(guard.token().turn(), turn);
        assert!(!remote.is_finished());
    }
    let old = guard.token();
    guard.release().await.unwrap();
    let remote = granted(remote).await;
    assert!(remote.token() > old);
    until_queued(&lock, 2).await;
    let remote_token = remote.token();
    remote.release().await.unwrap();
    for turn in 0..=2 {
        guard = turn_of(tasks.next().unwrap()).await;
        assert_eq!(guard.token().turn(), turn);
        assert!(guard.token() > remote_token);
        guard.release().await.unwrap();
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn no_budget_means_no_passing() {
    let least = LocksOptions::new().lease(Duration::from_secs(3600));
    for options in [turns(0), LocksOptions::new().time(Duration::ZERO), least] {
        let (_server, session, locks) = locks(options).await;
        let mut guard = locks.acquire(KEY).await.unwrap();
        for task in [in_line(&locks), in_line(&locks)] {
            let last = guard.token();
            guard.release().await.unwrap();
            guard = turn_of(task).await;
            assert!(guard.token().zxid() > last.zxid());
            assert_eq!(guard.token().turn(), 0);
            assert_eq!(queue(&session.lock(&locks.path(KEY)).unwrap()).await.len(), 1);
        }
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_task_that_gives_up_costs_the_others_no_place() {
    let (server, _here, locks, lock) = contended(turns(10)).await;
    let holder = lock.acquire().await.unwrap();
    let (first, second) = (in_line(&locks), in_line(&locks));
    until_queued(&lock, 2).await;
    let place = queue(&lock).await[1].number;
    let behind = enqueue(&lock).await;
    drop(first);
    assert_eq!(queue(&lock).await[1].number, place);
    holder.release().await.unwrap();
    let guard = turn_of(second).await;
    assert!(!behind.is_finished());
    // Offered, and not taken.
    let (third, fourth) = (in_line(&locks), in_line(&locks));
    guard.release().await.unwrap();
    third.woken().await;
    drop(third);
    let guard = turn_of(fourth).await;
    assert_eq!(guard.token().turn(), 1, "nobody had the turn that was not taken");
    let (fifth, last) = (in_line(&locks), guard);
    drop(fifth);
    last.release().await.unwrap();
    drop(granted(behind).await);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn without_a_task_in_line_the_process_leaves_the_queue() {
    let (server, _here, locks, lock) = contended(turns(10)).await;
    let holder = lock.acquire().await.unwrap();
    let tasks = [in_line(&locks), in_line(&locks)];
    until_queued(&lock, 2).await;
    drop(tasks);
    until_queued(&lock, 1).await;
    eventually("the key is not in use", async || locks.is_empty()).await;
    let again = in_line(&locks);
    until_queued(&lock, 2).await;
    holder.release().await.unwrap();
    // Offered, and dropped with nobody behind: the process gives the lock back.
    again.woken().await;
    drop(again);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn try_lock_waits_for_nobody() {
    let (server, link, _here, locks) = linked_locks(turns(10)).await;
    let elsewhere = session(&server).await;
    let lock = elsewhere.lock(&locks.path(KEY)).unwrap();
    let guard = locks.try_acquire(KEY).await.unwrap().expect("a free lock");
    support::until_watched(&server, 1, 0).await;
    link.reset_counts();
    assert!(locks.try_acquire(KEY).await.unwrap().is_none());
    assert!(locks.acquire_timeout(KEY, Duration::from_millis(50)).await.unwrap().is_none());
    assert_eq!(work(&link), 0, "a task of this process holds the lock");
    let waits = in_line(&locks);
    guard.release().await.unwrap();
    assert!(locks.try_acquire(KEY).await.unwrap().is_none(), "it is offered to another task");
    drop(turn_of(waits).await);
    until_queued(&lock, 0).await;
    let remote = lock.acquire().await.unwrap();
    eventually("the key is free here", async || locks.is_empty()).await;
    assert!(locks.try_acquire(KEY).await.unwrap().is_none());
    // One that comes during a try waits for its outcome, and then for the lock.
    let mut trial = Steps::new(locks.try_acquire(KEY));
    assert!(trial.poll().is_pending());
    let waits = in_line(&locks);
    drop(trial);
    remote.release().await.unwrap();
    drop(turn_of(waits).await);
    until_nothing_is_left(&server).await;
}

/// What rests on the node must not outlive the turn in which it was made.
#[tokio::test]
async fn a_claim_or_an_open_transaction_is_not_passed_on() {
    let (_server, link, session, locks) = linked_locks(turns(10)).await;
    let guard = locks.acquire(KEY).await.unwrap();
    let (next, third) = (in_line(&locks), in_line(&locks));
    let claim = guard.sequencer().unwrap();
    session.verify_sequencer(&claim).await.unwrap();
    let last = guard.token();
    guard.release().await.unwrap();
    let guard = turn_of(next).await;
    assert!(guard.token().zxid() > last.zxid());
    let outdated = QueryError::Outdated { sequencer: claim.clone() };
    assert_eq!(session.verify_sequencer(&claim).await, Err(outdated));
    // The answer comes, so the transaction is not open any more.
    guard.transaction().create("/proof", "").commit().await.unwrap();
    // This one is dropped while it is on its way.
    let held = link.hold_request(RequestKind::Multi);
    let mut open = Steps::new(guard.transaction().set("/proof", "late", None).commit());
    assert!(open.poll().is_pending());
    within("the request", held.reached()).await;
    drop(open);
    let last = guard.token();
    let release = tokio::spawn(guard.release());
    held.release();
    within("the release", release).await.unwrap().unwrap();
    let guard = turn_of(third).await;
    assert!(guard.token().zxid() > last.zxid());
    // A transaction that was answered does not keep the lock.
    guard.transaction().set("/proof", "done", None).commit().await.unwrap();
    let (last, next) = (guard.token(), in_line(&locks));
    guard.release().await.unwrap();
    let guard = turn_of(next).await;
    assert_eq!((guard.token().zxid(), guard.token().turn()), (last.zxid(), 1));
    // A claim in a later turn names it.
    let claim = guard.sequencer().unwrap();
    assert_eq!(claim.token(), guard.token());
    session.verify_sequencer(&claim.to_string().parse().unwrap()).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_shared_guard_passes_with_its_last_share() {
    let (server, _here, locks) = locks(turns(10)).await;
    let guard = locks.acquire(KEY).await.unwrap();
    let share = guard.another();
    assert_eq!(share.token(), guard.token());
    let mut next = in_line(&locks);
    guard.release().await.unwrap();
    assert!(next.poll().is_pending() && share.is_held());
    drop(share.another());
    assert!(next.poll().is_pending() && share.is_held());
    drop(share);
    assert_eq!(turn_of(next).await.token().turn(), 1);
    until_nothing_is_left(&server).await;
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
    assert!(matches!(long, AcquireError::KeyTooLong { length: 4097, .. }), "{long}");
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
    let lock = both.clone();
    drop(one);
    let guard = within("both", all.finished()).await.unwrap();
    let waits = tokio::spawn({
        let locks = locks.clone();
        async move { locks.acquire("9").await }
    });
    assert!(lock.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    drop(within("one of them", waits).await.unwrap().unwrap());
    until_nothing_is_left(&server).await;
}
