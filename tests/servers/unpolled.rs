//! Futures that are kept and not polled: they hold nothing for longer than half a session timeout.

use std::fmt::Debug;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use support::{BOUND, Steps, patient, server, session, until_nothing_is_left, within};
use zklock::Session;
use zklock::once::{Claim, RecordState, RunEnd};

use super::family::{FAMILY, Held, Member};

/// Half of it is how long work may ask to be polled.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Others let go what a future waits for before it has asked to be polled more often: each heartbeat wakes one that waits for
/// room.
const FEW: usize = 8;

const NAME: &str = "2026-11-22";

type Ended = Result<Option<Held>, String>;

fn ended<E: Debug>(acquired: Result<Option<Held>, E>) -> Ended {
    acquired.map_err(|error| format!("{error:?}"))
}

fn done<E: Debug>(released: Result<(), E>) -> Ended {
    ended(released.map(|()| None))
}

/// A call that may hold a lock while it is not polled. A call that borrows a guard holds nothing by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Acquire,
    AcquireTimeout,
    TryAcquire,
    Release,
    /// Of a run that others begin while nobody polls the call. They leave it without an end.
    Claim,
    Run,
    Complete,
    Fail,
    Record,
}

const OF_EACH: [Call; 4] = [Call::Acquire, Call::AcquireTimeout, Call::TryAcquire, Call::Release];
const OF_ONCE: [Call; 5] = [Call::Claim, Call::Run, Call::Complete, Call::Fail, Call::Record];

impl Call {
    /// Begins it in this session at this path, once what it needs is there: a hold, or a run.
    async fn begin(self, member: Member, session: &Session, path: &str) -> Steps<BoxFuture<'static, Ended>> {
        let handle = member.handle(session, path);
        let once = session.once(path).unwrap();
        let run = async || match once.claim(NAME).await.unwrap() {
            Claim::Run(run) => run,
            Claim::Recorded(record) => panic!("nobody has run it: {record:?}"),
        };
        Steps::new(match self {
            Self::Acquire => async move { ended(handle.acquire().await.map(Some)) }.boxed(),
            Self::AcquireTimeout => async move { ended(handle.acquire_timeout(BOUND).await) }.boxed(),
            Self::TryAcquire => async move { ended(handle.try_acquire().await) }.boxed(),
            Self::Release => {
                let held = handle.acquire().await.unwrap();
                async move { done(held.release().await) }.boxed()
            }
            Self::Claim => async move {
                let claim = once.claim(NAME).await;
                ended(claim.map(|claim| matches!(claim, Claim::Run(_)).then(|| claim.into())))
            }
            .boxed(),
            Self::Run => {
                async move { done(once.run(NAME, async |_| Ok::<_, String>(())).await.map(drop)) }.boxed()
            }
            Self::Complete => {
                let run = run().await;
                async move { done(run.complete().await) }.boxed()
            }
            Self::Fail => {
                let run = run().await;
                async move { done(run.fail().await) }.boxed()
            }
            Self::Record => {
                let run = run().await;
                async move { ended(run.record(RunEnd::Succeeded).await.map(|guard| Some(guard.into()))) }
                    .boxed()
            }
        })
    }

    /// Takes all that the call may hold, in another session. It finds a run done whose end was to be written.
    async fn rival(self, member: Member, session: &Session, path: &str) -> Held {
        let once = session.once(path).unwrap();
        match self {
            Self::Acquire | Self::AcquireTimeout | Self::TryAcquire | Self::Release => {
                member.rival(session, path).acquire().await.unwrap()
            }
            Self::Claim => once.claim(NAME).await.unwrap().into(),
            Self::Run => once.lock().acquire().await.unwrap().into(),
            Self::Complete | Self::Fail | Self::Record => {
                let Claim::Recorded(record) = once.claim(NAME).await.unwrap() else { panic!("it has run") };
                assert_ne!(record.state, RecordState::Begun, "its end was to be written");
                once.lock().acquire().await.unwrap().into()
            }
        }
    }

    /// Whether it may end so if it is polled on after others have had the lock. A release may not know whether it was confirmed.
    fn may_end(self, is_held: &Result<bool, String>) -> bool {
        match self {
            Self::Acquire | Self::AcquireTimeout => *is_held == Ok(true),
            Self::TryAcquire => true,
            Self::Release => *is_held != Ok(true),
            Self::Claim | Self::Run | Self::Complete | Self::Fail | Self::Record => *is_held == Ok(false),
        }
    }
}

/// Polls a call until it has asked to be polled for the `awaits`th time, and keeps it. Others get what it may hold within a
/// session timeout, which is half of one more than they need. Returns how often it asked, which is less if it was done before.
async fn keep(
    (member, call): (Member, Call),
    behind: bool,
    awaits: usize,
    lazy: &Session,
    other: &Session,
) -> Result<usize, String> {
    let path = format!("/kept/{}-{call:?}-{behind}-{awaits}", member.name);
    let mut before = None;
    if behind {
        before = Some(call.rival(member, other, &path).await);
    }
    let mut gone = before.map(|before| async || drop(before));
    let mut kept = call.begin(member, lazy, &path).await;
    for polls in 0..awaits {
        if let Poll::Ready(ended) = kept.poll() {
            return match ended.map(|held| held.is_none_or(|held| held.is_held())) {
                Ok(true) => Ok(polls),
                // On a busy machine it may have had no answer in time.
                Err(_) if call == Call::TryAcquire => Ok(polls),
                wrong => Err(format!("it ends with {wrong:?}")),
            };
        }
        gone = gone.filter(|_| polls < FEW);
        kept.woken_by(&mut gone).await;
    }
    drop(gone);
    let taken = tokio::time::timeout(TIMEOUT, call.rival(member, other, &path)).await;
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
        Poll::Pending => within(member.name, kept.finished()).await,
    };
    let is_held = ended.map(|held| held.is_some_and(|held| held.is_held()));
    if call.may_end(&is_held) { Ok(awaits) } else { Err(format!("polled late, it ends with {is_held:?}")) }
}

/// Each call of each member is polled until each of its awaits, and then kept, all at the same time.
#[tokio::test]
async fn holds_nothing_for_long_at_any_await() {
    let server = server().await;
    let builder = patient(server.connect_string(), TIMEOUT);
    let (lazy, other) = (builder.connect().await.unwrap(), session(&server).await);
    let id = lazy.id();
    let guard = lazy.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let once = FAMILY.iter().find(|member| member.name == "once").unwrap();
    let of_each = FAMILY.iter().flat_map(|member| OF_EACH.map(|call| (*member, call)));
    let calls = of_each.chain(OF_ONCE.map(|call| (*once, call))).flat_map(|call| {
        let may_wait = matches!(call.1, Call::Acquire | Call::AcquireTimeout | Call::Run);
        let behind = [Some(false), may_wait.then_some(true)];
        behind.into_iter().flatten().map(move |behind| (call, behind))
    });
    let kept = calls.map(async |(call, behind)| {
        let name = format!("{} {:?}", call.0.name, call.1);
        let all = match keep(call, behind, usize::MAX, &lazy, &other).await {
            Ok(all) => all,
            Err(problem) => return Some(format!("{name}: {problem}")),
        };
        let kept = join_all((1..=all).map(|awaits| keep(call, behind, awaits, &lazy, &other))).await;
        let problem = |(awaits, kept): (usize, Result<usize, String>)| {
            Some(format!("await {} of {all}: {}", awaits + 1, kept.err()?))
        };
        let problems = kept.into_iter().enumerate().filter_map(problem).collect::<Vec<_>>();
        let well = all > 0 && problems.is_empty();
        (!well).then(|| format!("{name}, behind others: {behind}: {problems:?}"))
    });
    let problems = join_all(kept).await.into_iter().flatten().collect::<Vec<_>>();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(guard.is_held() && lazy.id() == id, "the session lives");
    assert!(lazy.requeued() > 0);
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}
