//! Futures that are kept and not polled: they hold nothing for longer than half a session timeout.

use zklock_test_support as support;

use std::fmt::Debug;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use support::{
    BOUND, Steps, enqueue_seen_by, eventually, granted, linked, patient, queue, server, session,
    until_nothing_is_left, within,
};
use zklock::{Claim, Guard, Leadership, RecordState, ReleaseError, RunEnd, Session, SessionState, Turn};

/// Half of it is how long work may ask to be polled.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Others let go what a future waits for before it has asked to be polled more often: each heartbeat wakes one that waits for
/// room.
const FEW: usize = 8;

const SLOT: &str = "2026-11-22";
const KEY: &str = "a";

/// What a future has acquired.
trait Held: Send {
    fn is_held(&self) -> bool;
}

impl<K> Held for Guard<K> {
    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }
}

impl Held for Leadership {
    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }
}

impl Held for Turn {
    fn is_held(&self) -> bool {
        self.guard().is_held()
    }
}

type Ended = Result<Option<Box<dyn Held>>, String>;

fn ended<T: Held + 'static, E: Debug>(acquired: Result<Option<T>, E>) -> Ended {
    let held = acquired.map_err(|error| format!("{error:?}"))?;
    Ok(held.map(|held| Box::new(held) as Box<dyn Held>))
}

fn held<T: Held + 'static, E: Debug>(acquired: Result<T, E>) -> Ended {
    ended(acquired.map(Some))
}

fn done<E: Debug>(released: Result<(), E>) -> Ended {
    ended(released.map(|()| None::<Guard>))
}

/// Nobody but the claims of a case runs its slot, and they do not end it.
fn turn(claim: Claim) -> Turn {
    match claim {
        Claim::Turn(turn) => turn,
        Claim::Done(record) => panic!("nobody has run it: {record:?}"),
    }
}

fn turn_now(claim: Claim) -> Option<Turn> {
    match claim {
        Claim::Turn(turn) => Some(turn),
        Claim::Done(_) => None,
    }
}

async fn a_turn(session: &Session, path: &str) -> Turn {
    turn(session.once(path).unwrap().claim(SLOT).await.unwrap())
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
type Rival = fn(Session, String) -> LocalBoxFuture<'static, Box<dyn Held>>;

macro_rules! begin {
    (|$session:ident, $path:ident| $(let $needed:ident = $prepare:expr;)? $call:expr) => {
        |$session, $path| async move {
            $(let $needed = $prepare;)?
            Steps::new(async move { $call }.boxed_local())
        }
        .boxed_local()
    };
}

macro_rules! rival {
    (|$session:ident, $path:ident| $taken:expr) => {
        |$session, $path| async move { Box::new($taken) as Box<dyn Held> }.boxed_local()
    };
}

const LOCK: Rival = rival!(|session, path| session.lock(&path).unwrap().acquire().await.unwrap());
const LEADER: Rival = rival!(|session, path| session.election(&path).unwrap().campaign("").await.unwrap());
const KEYED: Rival = rival!(|session, path| session.locks(&path).unwrap().lock(KEY).await.unwrap());
const ALL: Rival = rival!(|session, path| several(&session, &path).acquire().await.unwrap());
const PERMITS: Rival =
    rival!(|session, path| session.semaphore(&path, 2).unwrap().acquire_many(2).await.unwrap());
const ONLY_SLOT: Rival = rival!(|session, path| session.slots(&path, 1).unwrap().claim().await.unwrap());
/// It runs the slot, and leaves that without an end.
const TURN: Rival = rival!(|session, path| a_turn(&session, &path).await);

fn several(session: &Session, path: &str) -> zklock::MultiLock {
    session.lock_all([format!("{path}/a"), format!("{path}/b")]).unwrap()
}

/// Runs no slot, and finds this one done.
const RAN: Rival = rival!(|session, path| {
    let once = session.once(&path).unwrap();
    let Claim::Done(record) = once.claim(SLOT).await.unwrap() else { panic!("it has run") };
    assert_ne!(record.state, RecordState::Begun, "its end was to be written");
    once.lock().acquire().await.unwrap()
});

/// Each public call that may hold a lock while it is not polled, what takes the same, whether the call may have to wait for
/// others, and how it ends if it is polled too late. A call that borrows a guard holds nothing by itself.
const CALLS: &[Call] = &[
    ("acquire", begin!(|s, p| held(s.lock(&p).unwrap().acquire().await)), LOCK, true, Late::Granted),
    (
        "acquire-timeout",
        begin!(|s, p| ended(s.lock(&p).unwrap().acquire_timeout(BOUND).await)),
        LOCK,
        true,
        Late::Granted,
    ),
    (
        "try-acquire",
        begin!(|s, p| ended(s.lock(&p).unwrap().try_acquire().await)),
        LOCK,
        false,
        Late::GrantedOrNot,
    ),
    (
        "release",
        begin!(|s, p| let guard = s.lock(&p).unwrap().acquire().await.unwrap(); done(guard.release().await)),
        LOCK,
        false,
        Late::Released,
    ),
    (
        "release-shared",
        begin!(|s, p| let guard = s.lock(&p).unwrap().acquire().await.unwrap(); done(guard.release_shared().await)),
        LOCK,
        false,
        Late::Released,
    ),
    ("read", begin!(|s, p| held(s.rw_lock(&p).unwrap().read().await)), LOCK, true, Late::Granted),
    (
        "read-timeout",
        begin!(|s, p| ended(s.rw_lock(&p).unwrap().read_timeout(BOUND).await)),
        LOCK,
        true,
        Late::Granted,
    ),
    (
        "try-read",
        begin!(|s, p| ended(s.rw_lock(&p).unwrap().try_read().await)),
        LOCK,
        false,
        Late::GrantedOrNot,
    ),
    ("write", begin!(|s, p| held(s.rw_lock(&p).unwrap().write().await)), LOCK, true, Late::Granted),
    (
        "try-write",
        begin!(|s, p| ended(s.rw_lock(&p).unwrap().try_write().await)),
        LOCK,
        false,
        Late::GrantedOrNot,
    ),
    ("several", begin!(|s, p| held(several(&s, &p).acquire().await)), ALL, true, Late::Granted),
    (
        "several-timeout",
        begin!(|s, p| ended(several(&s, &p).acquire_timeout(BOUND).await)),
        ALL,
        true,
        Late::Granted,
    ),
    (
        "try-several",
        begin!(|s, p| ended(several(&s, &p).try_acquire().await)),
        ALL,
        false,
        Late::GrantedOrNot,
    ),
    ("lock-key", begin!(|s, p| held(s.locks(&p).unwrap().lock(KEY).await)), KEYED, true, Late::Granted),
    (
        "lock-key-timeout",
        begin!(|s, p| ended(s.locks(&p).unwrap().lock_timeout(KEY, BOUND).await)),
        KEYED,
        true,
        Late::Granted,
    ),
    (
        "try-lock-key",
        begin!(|s, p| ended(s.locks(&p).unwrap().try_lock(KEY).await)),
        KEYED,
        false,
        Late::GrantedOrNot,
    ),
    (
        "campaign",
        begin!(|s, p| held(s.election(&p).unwrap().campaign("").await)),
        LEADER,
        true,
        Late::Granted,
    ),
    (
        "campaign-timeout",
        begin!(|s, p| ended(s.election(&p).unwrap().campaign_timeout("", BOUND).await)),
        LEADER,
        true,
        Late::Granted,
    ),
    (
        "try-campaign",
        begin!(|s, p| ended(s.election(&p).unwrap().try_campaign("").await)),
        LEADER,
        false,
        Late::GrantedOrNot,
    ),
    (
        "resign",
        begin!(|s, p| let leads = s.election(&p).unwrap().campaign("").await.unwrap(); done(leads.resign().await)),
        LEADER,
        false,
        Late::Released,
    ),
    (
        "claim",
        begin!(|s, p| held(s.once(&p).unwrap().claim(SLOT).await.map(turn))),
        LOCK,
        true,
        Late::Granted,
    ),
    (
        "claim-timeout",
        begin!(|s, p| ended(s.once(&p).unwrap().claim_timeout(SLOT, BOUND).await.map(|it| it.map(turn)))),
        LOCK,
        true,
        Late::Granted,
    ),
    (
        "try-claim",
        begin!(|s, p| ended(s.once(&p).unwrap().try_claim(SLOT).await.map(|it| it.map(turn)))),
        LOCK,
        false,
        Late::GrantedOrNot,
    ),
    (
        "claim-run-by-others",
        begin!(|s, p| ended(s.once(&p).unwrap().claim(SLOT).await.map(turn_now))),
        TURN,
        false,
        Late::Done,
    ),
    (
        "run",
        begin!(|s, p| done(s.once(&p).unwrap().run(SLOT, async |_| Ok::<_, String>(())).await.map(drop))),
        LOCK,
        true,
        Late::Done,
    ),
    (
        "complete",
        begin!(|s, p| let turn = a_turn(&s, &p).await; done(turn.complete().await)),
        RAN,
        false,
        Late::Done,
    ),
    ("fail", begin!(|s, p| let turn = a_turn(&s, &p).await; done(turn.fail().await)), RAN, false, Late::Done),
    (
        "record",
        begin!(|s, p| let turn = a_turn(&s, &p).await; held(turn.record(RunEnd::Succeeded).await)),
        RAN,
        false,
        Late::Done,
    ),
    (
        "permit",
        begin!(|s, p| held(s.semaphore(&p, 2).unwrap().acquire_many(2).await)),
        PERMITS,
        true,
        Late::Granted,
    ),
    (
        "permit-timeout",
        begin!(|s, p| ended(s.semaphore(&p, 2).unwrap().acquire_timeout(BOUND).await)),
        PERMITS,
        true,
        Late::Granted,
    ),
    (
        "try-permit",
        begin!(|s, p| ended(s.semaphore(&p, 2).unwrap().try_acquire().await)),
        PERMITS,
        false,
        Late::GrantedOrNot,
    ),
    ("slot", begin!(|s, p| held(s.slots(&p, 1).unwrap().claim().await)), ONLY_SLOT, true, Late::Granted),
    (
        "slot-preferring",
        begin!(|s, p| held(s.slots(&p, 1).unwrap().claim_preferring(0).await)),
        ONLY_SLOT,
        true,
        Late::Granted,
    ),
    (
        "slot-timeout",
        begin!(|s, p| ended(s.slots(&p, 1).unwrap().claim_timeout(BOUND).await)),
        ONLY_SLOT,
        true,
        Late::Granted,
    ),
    (
        "try-slot",
        begin!(|s, p| ended(s.slots(&p, 1).unwrap().try_claim().await)),
        ONLY_SLOT,
        false,
        Late::GrantedOrNot,
    ),
];

type Call = (&'static str, Begin, Rival, bool, Late);

/// Polls a call until it has asked to be polled for the `awaits`th time, and keeps it. Others get what it may hold within a
/// session timeout, which is half of one more than they need. Returns how often it asked, which is less if it was done before.
async fn keep(
    (name, begin, rival, waits, late): Call,
    awaits: usize,
    lazy: &Session,
    other: &Session,
) -> Result<usize, String> {
    let path = format!("/kept/{name}-{waits}-{awaits}");
    let mut before = None;
    if waits {
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
    let calls = CALLS.iter().flat_map(|&(name, begin, rival, may_wait, late)| {
        [Some(false), may_wait.then_some(true)]
            .into_iter()
            .flatten()
            .map(move |waits| (name, begin, rival, waits, late))
    });
    let kept = calls.map(async |call| {
        let all = match keep(call, usize::MAX, &lazy, &other).await {
            Ok(all) => all,
            Err(problem) => return Some(format!("{}: {problem}", call.0)),
        };
        let kept = join_all((1..=all).map(|awaits| keep(call, awaits, &lazy, &other))).await;
        let problem = |(awaits, kept): (usize, Result<usize, String>)| {
            Some(format!("await {} of {all}: {}", awaits + 1, kept.err()?))
        };
        let problems = kept.into_iter().enumerate().filter_map(problem).collect::<Vec<_>>();
        let well = all > 0 && problems.is_empty();
        (!well).then(|| format!("{}, behind others: {}: {problems:?}", call.0, call.3))
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
    let server = server().await;
    let (link, lazy) = linked(&server, Duration::from_secs(8)).await;
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
