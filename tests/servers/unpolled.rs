//! Futures that are kept and not polled: they hold nothing for longer than half a session timeout.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use support::{BOUND, Steps, patient, server, session, until_nothing_is_left, within};
use zklock::{
    Election, Lock, Locks, MultiLock, Once, RwLock, Semaphore, Session, Slots,
    once::{Claim, ClaimError, RecordState, Run, RunEnd},
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

async fn a_run(once: Once) -> Result<Run, ClaimError> {
    match once.claim(NAME).await? {
        Claim::Run(run) => Ok(run),
        Claim::Recorded(record) => panic!("nobody has run it: {record:?}"),
    }
}

/// What a call does, and so how it ends if it is polled on after others have had the lock.
#[derive(Clone, Copy)]
enum How {
    /// It waits for its turn, and is granted what it asked for.
    Waits,
    /// It waits for nobody, and is granted what it asked for, or not.
    Tries,
    /// It releases what was acquired before it, and may not know whether that was confirmed.
    Releases,
    /// It waits for its turn, and its record is written.
    Runs,
    /// It finds an end written, or writes that of the run it was given.
    Ends,
}

/// Begins a call in this session at this path, once what it needs is there.
type Begin = fn(Session, String) -> LocalBoxFuture<'static, Steps<LocalBoxFuture<'static, Ended>>>;

/// Takes all that a call may hold, in another session.
type Rival = fn(Session, String) -> LocalBoxFuture<'static, Held>;

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
    how: How,
    name: &'static str,
    /// What takes the same.
    rival: Rival,
    begin: Begin,
}

/// Makes the rows of the table: what a call does, its name, what takes the same, the function that makes its handle for a session and
/// a path, and the call. A call may need a guard: the guard is acquired before, polled as usual.
macro_rules! calls {
    ($($how:ident $name:literal $rival:ident $handle:ident |$it:ident|
        $(let $needed:ident = $prepare:expr;)? $call:expr;)*) => {
        &[$(Call { how: How::$how, name: $name, rival: $rival, begin: |session, path| {
            async move {
                let $it = $handle(&session, &path);
                $(let $needed = $prepare.await.unwrap();)?
                Steps::new(async move { $call }.boxed_local())
            }
            .boxed_local()
        }}),*]
    };
}

/// Each public call that may hold a lock while it is not polled. A call that borrows a guard holds nothing by itself.
const CALLS: &[Call] = calls! {
    Waits "Lock::acquire" LOCK lock |it| held(it.acquire().await);
    Waits "Lock::acquire_timeout" LOCK lock |it| ended(it.acquire_timeout(BOUND).await);
    Tries "Lock::try_acquire" LOCK lock |it| ended(it.try_acquire().await);
    Releases "Guard::release" LOCK lock |it| let guard = it.acquire(); done(guard.release().await);
    Releases "Guard::release_all" LOCK lock |it| let guard = it.acquire(); done(guard.release_all().await);
    Waits "RwLock::read" LOCK rw |it| held(it.read().await);
    Waits "RwLock::read_timeout" LOCK rw |it| ended(it.read_timeout(BOUND).await);
    Tries "RwLock::try_read" LOCK rw |it| ended(it.try_read().await);
    Waits "RwLock::write" LOCK rw |it| held(it.write().await);
    Waits "RwLock::write_timeout" LOCK rw |it| ended(it.write_timeout(BOUND).await);
    Tries "RwLock::try_write" LOCK rw |it| ended(it.try_write().await);
    Waits "MultiLock::acquire" ALL several |it| held(it.acquire().await);
    Waits "MultiLock::acquire_timeout" ALL several |it| ended(it.acquire_timeout(BOUND).await);
    Tries "MultiLock::try_acquire" ALL several |it| ended(it.try_acquire().await);
    Waits "Locks::acquire" KEYED keys |it| held(it.acquire(KEY).await);
    Waits "Locks::acquire_timeout" KEYED keys |it| ended(it.acquire_timeout(KEY, BOUND).await);
    Tries "Locks::try_acquire" KEYED keys |it| ended(it.try_acquire(KEY).await);
    Waits "Locks::lock_all" ALL keys |it| held(it.lock_all(["a", "b"]).unwrap().acquire().await);
    Waits "Election::campaign" LEADER election |it| held(it.campaign("").await);
    Waits "Election::campaign_timeout" LEADER election |it| ended(it.campaign_timeout("", BOUND).await);
    Tries "Election::try_campaign" LEADER election |it| ended(it.try_campaign("").await);
    Releases "Leadership::resign" LEADER election |it| let leads = it.campaign(""); done(leads.resign().await);
    Waits "Once::claim" LOCK once |it| held(it.claim(NAME).await);
    Waits "Once::claim_timeout" LOCK once |it| ended(it.claim_timeout(NAME, BOUND).await);
    Tries "Once::try_claim" LOCK once |it| ended(it.try_claim(NAME).await);
    Ends "Once::claim-run-by-others" BEGUN once |it| ended(it.claim(NAME).await.map(run_now));
    Runs "Once::run" LOCK once |it| done(it.run(NAME, async |_| Ok::<_, String>(())).await.map(drop));
    Ends "Run::complete" RAN once |it| let run = a_run(it); done(run.complete().await);
    Ends "Run::fail" RAN once |it| let run = a_run(it); done(run.fail().await);
    Ends "Run::record" RAN once |it| let run = a_run(it); held(run.record(RunEnd::Succeeded).await);
    Waits "Semaphore::acquire" PERMITS semaphore |it| held(it.acquire().await);
    Waits "Semaphore::acquire_many" PERMITS semaphore |it| held(it.acquire_many(2).await);
    Waits "Semaphore::acquire_timeout" PERMITS semaphore |it| ended(it.acquire_timeout(BOUND).await);
    Waits "Semaphore::acquire_many_timeout" PERMITS semaphore |it| ended(it.acquire_many_timeout(2, BOUND).await);
    Tries "Semaphore::try_acquire" PERMITS semaphore |it| ended(it.try_acquire().await);
    Tries "Semaphore::try_acquire_many" PERMITS semaphore |it| ended(it.try_acquire_many(2).await);
    Waits "Slots::acquire" ONLY_SLOT slots |it| held(it.acquire().await);
    Waits "Slots::acquire-preferring" ONLY_SLOT slots |it| held(it.preferring(0).acquire().await);
    Waits "Slots::acquire_timeout" ONLY_SLOT slots |it| ended(it.acquire_timeout(BOUND).await);
    Tries "Slots::try_acquire" ONLY_SLOT slots |it| ended(it.try_acquire().await);
    Tries "Slots::try_acquire-preferring" ONLY_SLOT slots |it| ended(it.preferring(0).try_acquire().await);
};

/// Of these, what is no future, but makes something that has one.
const NO_FUTURES: &[&str] = &["Locks::lock_all"];

/// The public futures that hold nothing by themselves: they ask, or borrow a guard.
const HOLD_NOTHING: &str = "
    Asking::answer Asks::next Election::candidates Election::leader Guard::at_risk Guard::asked Guard::lost
    Guard::run Guard::safe Guard::verify Leadership::proclaim Lock::contenders Lock::foreign_contenders
    Lock::holder Observer::next Once::now Once::period_name Once::records RwLock::contenders
    RwLock::foreign_contenders Semaphore::permits Semaphore::set_capacity Session::ask Session::child_count
    Session::close Session::connect Session::identities Session::locks_below Session::locks_below_up_to
    Session::verify_sequencer SessionBuilder::connect SessionEvents::next Slots::set_count Slots::slots
    Transaction::commit
";

#[test]
fn each_public_future_is_in_the_table_or_holds_nothing() {
    let in_table = CALLS.iter().map(|call| call.name).filter(|name| !NO_FUTURES.contains(name));
    // The rest of a name says in which situation the call is made.
    let named = in_table.map(|name| name.split('-').next().unwrap());
    let all = named.chain(HOLD_NOTHING.split_whitespace()).map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(public::futures(), all);
}

/// Polls a call until it has asked to be polled for the `awaits`th time, and keeps it. Others get what it may hold within a
/// session timeout, which is half of one more than they need. Returns how often it asked, which is less if it was done before.
async fn keep(
    Call { how, name, rival, begin }: Call,
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
                Err(_) if matches!(how, How::Tries) => Ok(polls),
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
    match (how, is_held) {
        (How::Waits, Ok(true)) | (How::Tries, _) => Ok(awaits),
        (How::Runs | How::Ends | How::Releases, Ok(false)) | (How::Releases, Err(_)) => Ok(awaits),
        (_, is_held) => Err(format!("polled late, it ends with {is_held:?}")),
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
        let may_wait = matches!(call.how, How::Waits | How::Runs);
        let behind = [Some(false), may_wait.then_some(true)];
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
