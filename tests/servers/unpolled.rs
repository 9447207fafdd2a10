//! Futures that are kept and not polled: they hold nothing for longer than half a session timeout.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use support::{
    BOUND, Steps, enqueue_seen_by, eventually, granted, linked_session, patient, queue, server, session,
    until_nothing_is_left, within,
};
use zklock::{
    AcquireError, Election, Lock, Locks, MultiLock, Once, ReleaseError, RwLock, Semaphore, Session,
    SessionState, Slots,
    once::{Claim, RecordState, Run, RunEnd},
};

use super::family::Held;
use super::public;

/// Half of it is how long work may ask to be polled.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Others let go what a future waits for before it has asked to be polled more often: each heartbeat wakes one that waits for
/// room.
const FEW: usize = 8;

const NAME: &str = "2026-11-22";
const KEY: &str = "a";

type Ended = Result<Option<Held>, String>;

fn ended<T: Into<Held>, E: Debug>(acquired: Result<Option<T>, E>) -> Ended {
    let held = acquired.map_err(|error| format!("{error:?}"))?;
    Ok(held.map(Into::into))
}

fn held<T: Into<Held>, E: Debug>(acquired: Result<T, E>) -> Ended {
    ended(acquired.map(Some))
}

fn done<E: Debug>(released: Result<(), E>) -> Ended {
    ended(released.map(|()| None::<Held>))
}

/// Its run, unless others have run it.
fn run_now(claim: Claim) -> Option<Held> {
    matches!(claim, Claim::Run(_)).then(|| claim.into())
}

async fn a_run(once: Once) -> Result<Run, AcquireError> {
    match once.claim(NAME).await? {
        Claim::Run(run) => Ok(run),
        Claim::Recorded(record) => panic!("nobody has run it: {record:?}"),
    }
}

/// How a future ends that is polled on after others have had the lock.
#[derive(Clone, Copy)]
enum Late {
    /// It is granted what it asked for.
    Granted,
    /// The same, or it ends without: it waits for nobody.
    GrantedOrNot,
    /// It holds nothing. Its record is written.
    Done,
    /// It holds nothing, and may not know whether the release was confirmed.
    Released,
}

/// Begins a call in this session at this path, once what it needs is there.
type Begin = fn(Session, String) -> LocalBoxFuture<'static, Steps<LocalBoxFuture<'static, Ended>>>;

/// Takes all that a call may hold, in another session.
type Rival = fn(Session, String) -> LocalBoxFuture<'static, Held>;

/// A call of what the function makes for the session and the path. What it needs is acquired before, polled as usual.
macro_rules! begin {
    ($handle:ident, |$it:ident| $(let $needed:ident = $prepare:expr;)? $call:expr) => {
        |session, path| async move {
            let $it = $handle(&session, &path);
            $(let $needed = $prepare.await.unwrap();)?
            Steps::new(async move { $call }.boxed_local())
        }
        .boxed_local()
    };
}

macro_rules! rival {
    (|$session:ident, $path:ident| $taken:expr) => {
        |$session, $path| async move { Held::from($taken) }.boxed_local()
    };
}

fn lock(session: &Session, path: &str) -> Lock {
    session.lock(path).unwrap()
}

fn rw(session: &Session, path: &str) -> RwLock {
    session.rw_lock(path).unwrap()
}

fn several(session: &Session, path: &str) -> MultiLock {
    session.lock_all([format!("{path}/a"), format!("{path}/b")]).unwrap()
}

fn keys(session: &Session, path: &str) -> Locks {
    session.locks(path).unwrap()
}

fn election(session: &Session, path: &str) -> Election {
    session.election(path).unwrap()
}

fn once(session: &Session, path: &str) -> Once {
    session.once(path).unwrap()
}

fn semaphore(session: &Session, path: &str) -> Semaphore {
    session.semaphore(path, 2).unwrap()
}

fn slots(session: &Session, path: &str) -> Slots {
    session.slots(path, 1).unwrap()
}

const LOCK: Rival = rival!(|session, path| lock(&session, &path).acquire().await.unwrap());
const LEADER: Rival = rival!(|session, path| election(&session, &path).campaign("").await.unwrap());
const KEYED: Rival = rival!(|session, path| keys(&session, &path).acquire(KEY).await.unwrap());
const ALL: Rival = rival!(|session, path| several(&session, &path).acquire().await.unwrap());
const PERMITS: Rival = rival!(|session, path| semaphore(&session, &path).acquire_many(2).await.unwrap());
const ONLY_SLOT: Rival = rival!(|session, path| slots(&session, &path).acquire().await.unwrap());
/// It begins the run, and leaves it without an end.
const BEGUN: Rival = rival!(|session, path| once(&session, &path).claim(NAME).await.unwrap());

/// Begins no run, and finds this one done.
const RAN: Rival = rival!(|session, path| {
    let once = once(&session, &path);
    let Claim::Recorded(record) = once.claim(NAME).await.unwrap() else { panic!("it has run") };
    assert_ne!(record.state, RecordState::Begun, "its end was to be written");
    once.lock().acquire().await.unwrap()
});

/// One row of the table.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    /// What takes the same.
    rival: Rival,
    begin: Begin,
    /// Whether it may have to wait for others.
    may_wait: bool,
    late: Late,
}

/// A call that waits for its turn.
const fn waits(name: &'static str, rival: Rival, begin: Begin) -> Call {
    Call { name, rival, begin, may_wait: true, late: Late::Granted }
}

/// A call that waits for nobody.
const fn tries(name: &'static str, rival: Rival, begin: Begin) -> Call {
    Call { name, rival, begin, may_wait: false, late: Late::GrantedOrNot }
}

/// A call that releases what was acquired before it.
const fn releases(name: &'static str, rival: Rival, begin: Begin) -> Call {
    Call { name, rival, begin, may_wait: false, late: Late::Released }
}

/// A call that waits for its turn, and writes its end.
const fn runs(name: &'static str, rival: Rival, begin: Begin) -> Call {
    Call { name, rival, begin, may_wait: true, late: Late::Done }
}

/// A call that finds an end written, or writes that of the run it was given.
const fn ends(name: &'static str, rival: Rival, begin: Begin) -> Call {
    Call { name, rival, begin, may_wait: false, late: Late::Done }
}

/// Each public call that may hold a lock while it is not polled. A call that borrows a guard holds nothing by itself.
const CALLS: &[Call] = &[
    waits("Lock::acquire", LOCK, begin!(lock, |it| held(it.acquire().await))),
    waits("Lock::acquire_timeout", LOCK, begin!(lock, |it| ended(it.acquire_timeout(BOUND).await))),
    tries("Lock::try_acquire", LOCK, begin!(lock, |it| ended(it.try_acquire().await))),
    releases(
        "Guard::release",
        LOCK,
        begin!(lock, |it| let guard = it.acquire(); done(guard.release().await)),
    ),
    releases(
        "Guard::release_all",
        LOCK,
        begin!(lock, |it| let guard = it.acquire(); done(guard.release_all().await)),
    ),
    waits("RwLock::read", LOCK, begin!(rw, |it| held(it.read().await))),
    waits("RwLock::read_timeout", LOCK, begin!(rw, |it| ended(it.read_timeout(BOUND).await))),
    tries("RwLock::try_read", LOCK, begin!(rw, |it| ended(it.try_read().await))),
    waits("RwLock::write", LOCK, begin!(rw, |it| held(it.write().await))),
    waits("RwLock::write_timeout", LOCK, begin!(rw, |it| ended(it.write_timeout(BOUND).await))),
    tries("RwLock::try_write", LOCK, begin!(rw, |it| ended(it.try_write().await))),
    waits("MultiLock::acquire", ALL, begin!(several, |it| held(it.acquire().await))),
    waits("MultiLock::acquire_timeout", ALL, begin!(several, |it| ended(it.acquire_timeout(BOUND).await))),
    tries("MultiLock::try_acquire", ALL, begin!(several, |it| ended(it.try_acquire().await))),
    waits("Locks::acquire", KEYED, begin!(keys, |it| held(it.acquire(KEY).await))),
    waits("Locks::acquire_timeout", KEYED, begin!(keys, |it| ended(it.acquire_timeout(KEY, BOUND).await))),
    tries("Locks::try_acquire", KEYED, begin!(keys, |it| ended(it.try_acquire(KEY).await))),
    waits("Locks::lock_all", ALL, begin!(keys, |it| held(it.lock_all(["a", "b"]).unwrap().acquire().await))),
    waits("Election::campaign", LEADER, begin!(election, |it| held(it.campaign("").await))),
    waits(
        "Election::campaign_timeout",
        LEADER,
        begin!(election, |it| ended(it.campaign_timeout("", BOUND).await)),
    ),
    tries("Election::try_campaign", LEADER, begin!(election, |it| ended(it.try_campaign("").await))),
    releases(
        "Leadership::resign",
        LEADER,
        begin!(election, |it| let leads = it.campaign(""); done(leads.resign().await)),
    ),
    waits("Once::claim", LOCK, begin!(once, |it| held(it.claim(NAME).await))),
    waits("Once::claim_timeout", LOCK, begin!(once, |it| ended(it.claim_timeout(NAME, BOUND).await))),
    tries("Once::try_claim", LOCK, begin!(once, |it| ended(it.try_claim(NAME).await))),
    ends("Once::claim-run-by-others", BEGUN, begin!(once, |it| ended(it.claim(NAME).await.map(run_now)))),
    runs(
        "Once::run",
        LOCK,
        begin!(once, |it| done(it.run(NAME, async |_| Ok::<_, String>(())).await.map(drop))),
    ),
    ends("Run::complete", RAN, begin!(once, |it| let run = a_run(it); done(run.complete().await))),
    ends("Run::fail", RAN, begin!(once, |it| let run = a_run(it); done(run.fail().await))),
    ends(
        "Run::record",
        RAN,
        begin!(once, |it| let run = a_run(it); held(run.record(RunEnd::Succeeded).await)),
    ),
    waits("Semaphore::acquire", PERMITS, begin!(semaphore, |it| held(it.acquire().await))),
    waits("Semaphore::acquire_many", PERMITS, begin!(semaphore, |it| held(it.acquire_many(2).await))),
    waits(
        "Semaphore::acquire_timeout",
        PERMITS,
        begin!(semaphore, |it| ended(it.acquire_timeout(BOUND).await)),
    ),
    waits(
        "Semaphore::acquire_many_timeout",
        PERMITS,
        begin!(semaphore, |it| ended(it.acquire_many_timeout(2, BOUND).await)),
    ),
    tries("Semaphore::try_acquire", PERMITS, begin!(semaphore, |it| ended(it.try_acquire().await))),
    tries(
        "Semaphore::try_acquire_many",
        PERMITS,
        begin!(semaphore, |it| ended(it.try_acquire_many(2).await)),
    ),
    waits("Slots::acquire", ONLY_SLOT, begin!(slots, |it| held(it.acquire().await))),
    waits("Slots::acquire-preferring", ONLY_SLOT, begin!(slots, |it| held(it.preferring(0).acquire().await))),
    waits("Slots::acquire_timeout", ONLY_SLOT, begin!(slots, |it| ended(it.acquire_timeout(BOUND).await))),
    tries("Slots::try_acquire", ONLY_SLOT, begin!(slots, |it| ended(it.try_acquire().await))),
    tries(
        "Slots::try_acquire-preferring",
        ONLY_SLOT,
        begin!(slots, |it| ended(it.preferring(0).try_acquire().await)),
    ),
];

/// Of these, what is no future, but makes something that has one.
const NO_FUTURES: &[&str] = &["Locks::lock_all"];

/// The public futures that hold nothing by themselves: they ask, or borrow a guard.
const HOLD_NOTHING: &[&str] = &[
    "Asking::answer",
    "Asks::next",
    "Election::candidates",
    "Election::leader",
    "Guard::at_risk",
    "Guard::asked",
    "Guard::lost",
    "Guard::run",
    "Guard::safe",
    "Guard::verify",
    "Leadership::proclaim",
    "Lock::contenders",
    "Lock::foreign_contenders",
    "Lock::holder",
    "Observer::next",
    "Once::now",
    "Once::period_name",
    "Once::records",
    "RwLock::contenders",
    "RwLock::foreign_contenders",
    "Semaphore::permits",
    "Semaphore::set_capacity",
    "Session::ask",
    "Session::child_count",
    "Session::close",
    "Session::connect",
    "Session::identities",
    "Session::locks_below",
    "Session::locks_below_up_to",
    "Session::verify_sequencer",
    "SessionBuilder::connect",
    "SessionEvents::next",
    "Slots::set_count",
    "Slots::slots",
    "Transaction::commit",
];

#[test]
fn each_public_future_is_in_the_table_or_holds_nothing() {
    let in_table = CALLS.iter().map(|call| call.name).filter(|name| !NO_FUTURES.contains(name));
    // The rest of a name says in which situation the call is made.
    let named = in_table.map(|name| name.split('-').next().unwrap());
    let all = named.chain(HOLD_NOTHING.iter().copied()).map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(public::futures(), all);
}

/// Polls a call until it has asked to be polled for the `awaits`th time, and keeps it. Others get what it may hold within a
/// session timeout, which is half of one more than they need. Returns how often it asked, which is less if it was done before.
async fn keep(
    Call { name, rival, begin, late, .. }: Call,
    behind: bool,
    awaits: usize,
    lazy: &Session,
    other: &Session,
) -> Result<usize, String> {
    let path = format!("/kept/{name}-{behind}-{awaits}");
    let mut before = None;
    if behind {
        before = Some(rival(other.clone(), path.clone()).await);
    }
    let mut gone = before.map(|before| async || drop(before));
    let mut kept = begin(lazy.clone(), path.clone()).await;
    for polls in 0..awaits {
        if let Poll::Ready(ended) = kept.poll() {
            return match ended.map(|held| held.is_none_or(|held| held.is_held())) {
                Ok(true) => Ok(polls),
                // On a busy machine it may have had no answer in time.
                Err(_) if matches!(late, Late::GrantedOrNot) => Ok(polls),
                wrong => Err(format!("it ends with {wrong:?}")),
            };
        }
        gone = gone.filter(|_| polls < FEW);
        kept.woken_by(&mut gone).await;
    }
    drop(gone);
    let taken = tokio::time::timeout(TIMEOUT, rival(other.clone(), path)).await;
    let taken = taken.map_err(|_| "it holds what others wait for")?;
    let polled = kept.poll();
    if !taken.is_held() {
        return Err("the others have lost what they hold".to_owned());
    }
    if let Poll::Ready(Ok(Some(held))) = &polled
        && held.is_held()
    {
        return Err("two hold it".to_owned());
    }
    drop(taken);
    let ended = match polled {
        Poll::Ready(ended) => ended,
        Poll::Pending => within(name, kept.finished()).await,
    };
    let is_held = ended.map(|held| held.is_some_and(|held| held.is_held()));
    match (late, is_held) {
        (Late::Granted, Ok(true)) | (Late::GrantedOrNot, _) => Ok(awaits),
        (Late::Done, Ok(false)) | (Late::Released, Ok(false) | Err(_)) => Ok(awaits),
        (Late::Granted | Late::Done | Late::Released, is_held) => {
            Err(format!("polled late, it ends with {is_held:?}"))
        }
    }
}

/// Each call of the table is polled until each of its awaits, and then kept, all at the same time.
#[tokio::test]
async fn holds_nothing_for_long_at_any_await() {
    let server = server().await;
    let builder = patient(server.connect_string(), TIMEOUT);
    let (lazy, other) = (builder.connect().await.unwrap(), session(&server).await);
    let id = lazy.id();
    let guard = lazy.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let calls = CALLS.iter().flat_map(|call| {
        let behind = [Some(false), call.may_wait.then_some(true)];
        behind.into_iter().flatten().map(move |behind| (*call, behind))
    });
    let kept = calls.map(async |(call, behind)| {
        let all = match keep(call, behind, usize::MAX, &lazy, &other).await {
            Ok(all) => all,
            Err(problem) => return Some(format!("{}: {problem}", call.name)),
        };
        let kept = join_all((1..=all).map(|awaits| keep(call, behind, awaits, &lazy, &other))).await;
        let problem = |(awaits, kept): (usize, Result<usize, String>)| {
            Some(format!("await {} of {all}: {}", awaits + 1, kept.err()?))
        };
        let problems = kept.into_iter().enumerate().filter_map(problem).collect::<Vec<_>>();
        let well = all > 0 && problems.is_empty();
        (!well).then(|| format!("{}, behind others: {behind}: {problems:?}", call.name))
    });
    let problems = join_all(kept).await.into_iter().flatten().collect::<Vec<_>>();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(guard.is_held() && lazy.id() == id, "the session lives");
    assert!(lazy.requeued() > 0);
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn that_is_polled_keeps_its_place_however_long_it_waits() {
    let server = server().await;
    let builder = patient(server.connect_string(), TIMEOUT);
    let (polled, other) = (builder.connect().await.unwrap(), session(&server).await);
    let (theirs, ours) = (polled.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = ours.acquire().await.unwrap();
    let mut waiter = enqueue_seen_by(&ours, &theirs).await;
    let place = queue(&ours).await[1].path.clone();
    // Longer than an acquisition may be due.
    assert!(tokio::time::timeout(TIMEOUT, &mut waiter).await.is_err());
    assert_eq!(queue(&ours).await[1].path, place);
    guard.release().await.unwrap();
    assert_eq!(granted(waiter).await.node(), place);
    assert_eq!(polled.requeued(), 0);
}

#[tokio::test]
async fn a_release_goes_on() {
    let (server, link, lazy) = linked_session(Duration::from_secs(8)).await;
    let other = session(&server).await;
    let (theirs, ours) = (lazy.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = theirs.acquire().await.unwrap();
    let waiter = enqueue_seen_by(&ours, &ours).await;
    link.refuse();
    link.cut();
    eventually("the loss of the connection", async || lazy.state() != SessionState::Connected).await;
    // It begins without a connection, and nobody polls it once there is one.
    let mut release = Steps::new(guard.release());
    assert!(release.poll().is_pending());
    link.accept();
    granted(waiter).await.release().await.unwrap();
    let error = within("the answer", release.finished()).await.unwrap_err();
    assert!(matches!(error, ReleaseError::Unconfirmed { .. }), "{error}");
    assert_eq!(lazy.requeued(), 0, "the session lives");
}
