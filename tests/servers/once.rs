//! Slots run once: who runs them, who is told that they are done, and what becomes of the records.

use std::io;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use support::{linked_session, make, operator, server, session, sessions, until_nothing_is_left, within};
use zklock::{
    AcquireError, InvalidLock, LockOptions, LostReason, Once, Session,
    once::{Claim, NameProblem, OnceOptions, Ran, Record, RecordError, RecordState, Run, RunEnd, RunError},
};
use zookeeper_client::{Acls, CreateMode};

pub(crate) const PATH: &str = "/lock/report";
pub(crate) const NAME: &str = "2026-11-22";
pub(crate) const NODE: &str = "/lock/report.once/2026-11-22";

fn retrying(session: &Session) -> Once {
    session.once(PATH).unwrap().with_options(OnceOptions::new().retry(true)).unwrap()
}

fn keeping(session: &Session, records: u16) -> Once {
    session.once(PATH).unwrap().with_options(OnceOptions::new().keep(records)).unwrap()
}

async fn claim(once: &Once, name: &str) -> Claim {
    within("the claim", once.claim(name)).await.unwrap()
}

pub(crate) async fn begun(once: &Once, name: &str) -> Run {
    match claim(once, name).await {
        Claim::Run(run) => run,
        Claim::Recorded(record) => panic!("{record:?}"),
    }
}

async fn done(once: &Once, name: &str) -> Record {
    match claim(once, name).await {
        Claim::Recorded(record) => record,
        Claim::Run(run) => panic!("{run:?}"),
    }
}

/// The runs that have records, the one that began last first.
async fn names(once: &Once) -> Vec<String> {
    once.records().await.unwrap().into_iter().map(|record| record.name).collect()
}

#[tokio::test]
async fn of_three_sessions_at_once_one_runs_it() {
    let server = server().await;
    let ran = Mutex::new(0);
    let contend = async |owner: &str| {
        let session = session(&server).await;
        let options = OnceOptions::new().lock(LockOptions::new().owner(owner));
        let once = session.once(PATH).unwrap().with_options(options).unwrap();
        match claim(&once, NAME).await {
            Claim::Run(run) => {
                *ran.lock().unwrap() += 1;
                run.complete().await.unwrap();
                None
            }
            Claim::Recorded(record) => Some(record),
        }
    };
    let claims = tokio::join!(contend("a"), contend("b"), contend("c"));
    let told = [claims.0, claims.1, claims.2].into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(*ran.lock().unwrap(), 1);
    let [record, other] = &told[..] else { panic!("{told:?}") };
    assert_eq!(record, other);
    assert_eq!((record.name.as_str(), record.path.as_str()), (NAME, NODE));
    assert_eq!((record.state, record.attempt), (RecordState::Succeeded, 1));
    assert!(["a", "b", "c"].contains(&record.owner.as_str()));
    assert!(record.ended >= Some(record.begun));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_one_that_waits_is_told_by_the_end_of_the_run() {
    let (_server, [one, other]) = sessions().await;
    let (once, late) = (one.once(PATH).unwrap(), other.once(PATH).unwrap());
    let run = begun(&once, NAME).await;
    assert_eq!((run.name(), run.attempt()), (NAME, 1));
    let waiter = tokio::spawn(async move { late.claim_timeout(NAME, support::BOUND).await });
    support::until_queued(once.lock(), 2).await;
    let token = run.guard().token();
    let guard = run.record(RunEnd::Succeeded).await.unwrap();
    assert!(guard.is_held() && !waiter.is_finished());
    guard.release().await.unwrap();
    let claim = within("the claim", waiter).await.unwrap().unwrap().expect("it was in time");
    let Claim::Recorded(record) = claim else { panic!("{claim:?}") };
    assert_eq!((record.state, record.token), (RecordState::Succeeded, token));
}

#[tokio::test]
async fn a_failed_run_is_repeated_only_if_asked_for() {
    let (_server, [session]) = sessions().await;
    let (once, again) = (session.once(PATH).unwrap(), retrying(&session));
    begun(&once, NAME).await.fail().await.unwrap();
    let failed = done(&once, NAME).await;
    assert_eq!((failed.state, failed.attempt), (RecordState::Failed, 1));
    let second = begun(&again, NAME).await;
    assert_eq!(second.attempt(), 2);
    second.complete().await.unwrap();
    for once in [once, again] {
        let record = done(&once, NAME).await;
        assert_eq!((record.state, record.attempt), (RecordState::Succeeded, 2));
        assert!(record.begun >= failed.ended.unwrap(), "the begin is that of the last run");
    }
}

#[tokio::test]
async fn a_run_whose_holder_vanished_is_repeated_only_if_asked_for() {
    let (_server, [session, other]) = sessions().await;
    let vanished = begun(&session.once(PATH).unwrap(), NAME).await;
    let token = vanished.guard().token();
    session.close().await.unwrap();
    let record = done(&other.once(PATH).unwrap(), NAME).await;
    assert_eq!((record.state, record.token, record.ended), (RecordState::Begun, token, None));
    let second = begun(&retrying(&other), NAME).await;
    assert_eq!(second.attempt(), 2);
    assert!(second.guard().token() > token);
    // The former holder hears of it when it wants to write, and writes nothing.
    let error = vanished.complete().await.unwrap_err();
    assert!(matches!(&error, RecordError::Lost { path, .. } if path == NODE), "{error}");
    second.complete().await.unwrap();
    for once in [other.once(PATH).unwrap(), retrying(&other)] {
        let record = done(&once, NAME).await;
        assert_eq!((record.state, record.attempt), (RecordState::Succeeded, 2));
    }
}

#[tokio::test]
async fn a_turn_that_is_dropped_releases_the_lock_and_has_no_end() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    drop(begun(&once, NAME).await);
    assert_eq!(done(&once, NAME).await.state, RecordState::Begun);
    let guard = begun(&once, "2026-11-23").await.into_guard();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert_eq!(done(&once, "2026-11-23").await.state, RecordState::Begun);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn work_runs_in_its_turn_and_its_end_is_recorded() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    // Spawned, so that the future must be `Send`.
    let run = tokio::spawn({
        let once = once.clone();
        async move { once.run(NAME, async |run| Ok::<_, io::Error>(run.name().len())).await }
    });
    let ran = within("the run", run).await.unwrap().unwrap();
    assert_eq!(ran, Ran::Now(NAME.len()));
    let before = once.run(NAME, async |_| -> io::Result<usize> { panic!("it has run") }).await.unwrap();
    assert!(matches!(before, Ran::Before(record) if record.state == RecordState::Succeeded));
    // The error of the work need not be an `Error`.
    let failed =
        once.run("2026-11-23", async |_| Err::<(), _>(anyhow::anyhow!("no paper"))).await.unwrap_err();
    assert!(matches!(&failed, RunError::Work(error) if error.to_string() == failed.to_string()));
    assert_eq!(done(&once, "2026-11-23").await.state, RecordState::Failed);
    let operator = operator(&server).await;
    let lost = within(
        "the loss",
        once.run("2026-11-24", async |run| {
            operator.delete(&run.guard().node(), None).await.unwrap();
            std::future::pending::<io::Result<()>>().await
        }),
    );
    let lost = lost.await;
    assert!(matches!(&lost, Err(RunError::Lost(lost)) if lost.reason == LostReason::NodeDeleted), "{lost:?}");
    assert_eq!(done(&once, "2026-11-24").await.state, RecordState::Begun);
    until_nothing_is_left(&server).await;
}

/// Not by the clock of this machine, which a test of the program skews.
#[tokio::test]
async fn a_period_is_that_of_the_servers_clock() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    let clock = async |name: &str| {
        let stat = operator.create(name, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await;
        UNIX_EPOCH + Duration::from_millis(stat.unwrap().0.ctime.try_into().unwrap())
    };
    let before = clock("/before").await;
    // The directory of the records, its parent and the lock's directory do not exist yet.
    let name = within("the name", once.period_name(Duration::from_secs(1))).await.unwrap();
    let between = clock("/between").await;
    let next = once.period_name(Duration::from_secs(1)).await.unwrap();
    let second = Duration::from_secs(1);
    // What the name says is not later than the clock was, and not a second earlier.
    let begin = std::time::SystemTime::from(name.parse::<jiff::Timestamp>().unwrap());
    assert!(begin <= between && begin + second > before - second, "{name} at {before:?}");
    assert!(next >= name, "names sort by age");
    let now = once.now().await.unwrap();
    assert!(between <= now && now <= clock("/after").await, "{now:?}");
    begun(&once, &name).await.complete().await.unwrap();
    assert_eq!(names(&once).await, [name.as_str()]);
    let day = once.period_name(Duration::from_secs(86_400)).await.unwrap();
    let later = once.period_name(second).await.unwrap();
    assert!(day.ends_with("T00:00:00Z") && day <= later, "{day}");
    let long = once.period_name(Duration::from_secs(u64::MAX / 2)).await.unwrap();
    assert_eq!(long, "1970-01-01T00:00:00Z");
    for period in [Duration::ZERO, Duration::from_millis(1_500)] {
        let error = once.period_name(period).await.unwrap_err();
        assert!(matches!(error, AcquireError::InvalidName { problem: NameProblem::Period, .. }), "{error}");
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_oldest_records_are_dropped_and_their_runs_cannot_be_claimed() {
    let (server, [session]) = sessions().await;
    let once = keeping(&session, 2);
    for name in ["d1", "d2", "d3", "d4"] {
        begun(&once, name).await.complete().await.unwrap();
    }
    assert_eq!(names(&once).await, ["d4", "d3"]);
    for name in ["d1", "d2"] {
        let error = within("the error", once.claim(name)).await.unwrap_err();
        let [first, last, name] = [name; 3].map(str::to_owned);
        assert_eq!(error, AcquireError::Forgotten { path: PATH.to_owned(), name, first, last });
        assert!(!error.is_retryable());
    }
    // Those with a record are told by it. Those that certainly have not run do so, late ones too.
    assert_eq!(done(&once, "d3").await.state, RecordState::Succeeded);
    for (name, kept) in [("d25", ["d25", "d4"]), ("a", ["a", "d25"]), ("e", ["e", "a"])] {
        begun(&once, name).await.complete().await.unwrap();
        assert_eq!(names(&once).await, kept);
    }
    for name in ["d3", "d4", "d25"] {
        let error = within("the error", once.claim(name)).await.unwrap_err();
        assert!(matches!(error, AcquireError::Forgotten { .. }), "{name}: {error}");
    }
    until_nothing_is_left(&server).await;
}

/// The leader's clock was decades ahead for a while, and more runs ran by it than records are kept.
#[tokio::test]
async fn runs_of_the_future_keep_no_present_run_from_running() {
    let (server, [session]) = sessions().await;
    let once = keeping(&session, 3);
    for name in
        (1..=5).map(|day| format!("2099-01-{day:02}")).chain((1..=9).map(|day| format!("2026-11-{day:02}")))
    {
        begun(&once, &name).await.complete().await.unwrap();
        assert!(names(&once).await.len() <= 3, "the number of records is bounded");
    }
    assert_eq!(names(&once).await, ["2026-11-09", "2026-11-08", "2026-11-07"]);
    // Each of them has run. None runs again, whether its record was dropped or not.
    assert_eq!(done(&once, "2026-11-07").await.state, RecordState::Succeeded);
    for name in ["2026-11-01", "2026-11-06", "2099-01-01", "2099-01-05"] {
        let error = within("the error", once.claim(name)).await.unwrap_err();
        assert!(matches!(error, AcquireError::Forgotten { .. }), "{name}: {error}");
    }
    begun(&once, "2099-01-06").await.complete().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_smaller_number_of_records_is_reached_by_the_next_claims() {
    const MANY: usize = 130;
    let server = server().await;
    let session = session(&server).await;
    let many = keeping(&session, 1_000);
    for number in 0..MANY {
        begun(&many, &format!("s{number:03}")).await.complete().await.unwrap();
    }
    make(&operator(&server).await, "/lock/report.once/s000/child").await;
    make(&operator(&server).await, "/lock/report.once/strange").await;
    let few = keeping(&session, 3);
    for name in ["t1", "t2", "t3"] {
        begun(&few, name).await.complete().await.unwrap();
    }
    // A node that cannot be deleted stays, and one that is no record is not ours to delete.
    assert_eq!(names(&few).await, ["t3", "t2", "t1", "s000"]);
    let operator = operator(&server).await;
    assert!(operator.check_stat("/lock/report.once/strange").await.unwrap().is_some());
    let error = few.claim("strange").await.unwrap_err();
    assert_eq!(error, AcquireError::NotARecord { path: "/lock/report.once/strange".into() });
}

#[tokio::test]
async fn what_cannot_be_a_name_is_refused_before_anything_is_sent() {
    let (_server, link, session) = linked_session(Duration::from_secs(20)).await;
    let once = session.once(PATH).unwrap();
    link.reset_counts();
    for (name, problem) in [
        ("", NameProblem::Empty),
        ("a/b", NameProblem::Character('/')),
        ("..", NameProblem::Dots),
        ("lock-0000000000", NameProblem::Contender),
    ] {
        let error = once.claim(name).await.unwrap_err();
        assert_eq!(error, AcquireError::InvalidName { name: name.into(), problem });
    }
    assert_eq!(link.requests_of(zklock_testcontainers::RequestKind::Multi), 0);
    for keep in [0, 1_001] {
        let error =
            session.once(PATH).and_then(|it| it.with_options(OnceOptions::new().keep(keep))).unwrap_err();
        assert_eq!(error, InvalidLock::Keep { path: PATH.into(), keep, most: 1000 });
    }
    assert!(matches!(session.once("lock").unwrap_err(), _));
    assert_eq!(once.records().await.unwrap(), []);
}
