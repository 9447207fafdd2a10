//! Slots run once: who runs them, who is told that they are done, and what becomes of the records.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use support::{
    dropped_before, linked_session, make, operator, session, sessions, until_nothing_is_left, within,
};
use zklock::{
    LostReason, Once, Session,
    once::{
        Claim, ClaimError, InvalidOnce, NameProblem, OnceOptions, Ran, Record, RecordError, RecordState, Run,
        RunError,
    },
};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

const PATH: &str = "/lock/report";
const NAME: &str = "2026-11-22";
const DIRECTORY: &str = "/lock/report.once";
const NODE: &str = "/lock/report.once/2026-11-22";
const DAY: Duration = Duration::from_secs(86_400);

fn keeping(session: &Session, records: u16) -> Once {
    session.once(PATH).unwrap().with_options(OnceOptions::new().keep(records)).unwrap()
}

async fn claim(once: &Once, name: &str) -> Claim {
    within("the claim", once.claim(name)).await.unwrap()
}

async fn begun(once: &Once, name: &str) -> Run {
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
async fn work_runs_in_its_turn_and_its_end_is_recorded() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    // Spawned, so that the future must be `Send`.
    let run = tokio::spawn({
        let once = once.clone();
        async move { once.run(NAME, async |run| Ok::<_, io::Error>(run.name().len())).await }
    });
    assert_eq!(within("the run", run).await.unwrap().unwrap(), Ran::Now(NAME.len()));
    let before = once.run(NAME, async |_| -> io::Result<usize> { panic!("it has run") }).await.unwrap();
    assert!(matches!(before, Ran::Before(record) if record.state == RecordState::Succeeded));
    // The error of the work need not be an `Error`.
    let failed = once.run("failed", async |_| Err::<(), _>(anyhow::anyhow!("no paper"))).await.unwrap_err();
    assert!(matches!(&failed, RunError::Work(error) if error.to_string() == failed.to_string()));
    assert_eq!(done(&once, "failed").await.state, RecordState::Failed);
    let operator = operator(&server).await;
    let run = once.run("lost", async |run| {
        operator.delete(&run.guard().node(), None).await.unwrap();
        std::future::pending::<io::Result<()>>().await
    });
    let lost = within("the loss", run).await;
    assert!(matches!(&lost, Err(RunError::Lost(lost)) if lost.reason == LostReason::NodeDeleted), "{lost:?}");
    assert_eq!(done(&once, "lost").await.state, RecordState::Begun);
    until_nothing_is_left(&server).await;
}

/// Not by the clock of this machine, which a test of the program skews.
#[tokio::test]
async fn a_period_is_that_of_the_servers_clock() {
    const SECOND: Duration = Duration::from_secs(1);
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    let clock = async |name: &str| {
        let stat = operator.create(name, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await;
        UNIX_EPOCH + Duration::from_millis(stat.unwrap().0.ctime.try_into().unwrap())
    };
    let before = clock("/before").await;
    // The directory of the records, its parent and the lock's directory do not exist yet.
    let name = within("the name", once.period_name(SECOND)).await.unwrap();
    let between = clock("/between").await;
    // What the name says is not later than the clock was, and not a second earlier.
    let begin = std::time::SystemTime::from(name.parse::<jiff::Timestamp>().unwrap());
    assert!(begin <= between && begin + SECOND > before - SECOND, "{name} at {before:?}");
    let now = once.now().await.unwrap();
    assert!(between <= now && now <= clock("/after").await, "{now:?}");
    let error = once.period_name(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, ClaimError::InvalidName { problem: NameProblem::Period, .. }), "{error}");
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
        assert_eq!(error, ClaimError::Forgotten { path: PATH.to_owned(), name, first, last });
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
        assert!(matches!(error, ClaimError::Forgotten { .. }), "{name}: {error}");
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_smaller_number_of_records_is_reached_by_the_next_claims() {
    let (server, [session]) = sessions().await;
    let (many, few) = (keeping(&session, 1_000), keeping(&session, 3));
    for number in 0..130 {
        begun(&many, &format!("s{number:03}")).await.complete().await.unwrap();
    }
    let (operator, strange) = (operator(&server).await, format!("{DIRECTORY}/strange"));
    make(&operator, &format!("{DIRECTORY}/s000/child")).await;
    make(&operator, &strange).await;
    for name in ["t1", "t2", "t3"] {
        begun(&few, name).await.complete().await.unwrap();
    }
    // A node that cannot be deleted stays, and one that is no record is not ours to delete.
    assert_eq!(names(&few).await, ["t3", "t2", "t1", "s000"]);
    assert!(operator.check_stat(&strange).await.unwrap().is_some());
    assert_eq!(few.claim("strange").await.unwrap_err(), ClaimError::NotARecord { path: strange });
}

#[tokio::test]
async fn what_cannot_be_a_name_is_refused_before_anything_is_sent() {
    let (_server, link, session) = linked_session(Duration::from_secs(20)).await;
    let once = session.once(PATH).unwrap();
    link.reset_counts();
    let error = once.claim("a/b").await.unwrap_err();
    assert_eq!(error, ClaimError::InvalidName { name: "a/b".into(), problem: NameProblem::Character('/') });
    assert_eq!(link.requests_of(RequestKind::Multi), 0);
    for keep in [0, 1_001] {
        let error = once.clone().with_options(OnceOptions::new().keep(keep)).unwrap_err();
        assert_eq!(error, InvalidOnce::Keep { path: PATH.into(), keep, most: 1000 });
    }
    assert_eq!(once.records().await.unwrap(), []);
}

#[tokio::test]
async fn the_present_run_may_be_asked_for_again() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let once = session.once(PATH).unwrap();
    for kind in [RequestKind::CreateContainer, RequestKind::Create, RequestKind::Multi] {
        let _lost = link.lose_reply(kind);
        let name = within("the name", once.period_name(DAY)).await.unwrap();
        assert!(name.ends_with("T00:00:00Z"));
    }
    let left = operator(&server).await.list_children(DIRECTORY).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn an_operator_deletes_records_and_writes_to_them() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    for deletes in [true, false] {
        let running = begun(&once, NAME).await;
        if deletes {
            operator.delete(NODE, None).await.unwrap();
        } else {
            // Even if it is the same data.
            let (data, _) = operator.get_data(NODE).await.unwrap();
            operator.set_data(NODE, &data, None).await.unwrap();
        }
        let error = running.complete().await.unwrap_err();
        assert_eq!(error, RecordError::Changed { path: NODE.into() });
        if deletes {
            // That lets the run run again, and so does the deletion of the whole directory.
            begun(&once, NAME).await.complete().await.unwrap();
            operator.delete(NODE, None).await.unwrap();
            operator.delete(DIRECTORY, None).await.unwrap();
        }
    }
    for (changed, name) in [(NODE, NAME), (DIRECTORY, "2026-11-23")] {
        operator.set_data(changed, b"precious", None).await.unwrap();
        let error = within("the error", once.claim(name)).await.unwrap_err();
        assert_eq!(error, ClaimError::NotARecord { path: changed.into() });
    }
    assert_eq!(operator.get_data(DIRECTORY).await.unwrap().0, b"precious");
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn without_permission_to_keep_records() {
    let (server, [session]) = sessions().await;
    let once = session.once(PATH).unwrap();
    let operator = operator(&server).await;
    make(&operator, PATH).await;
    let reader = [Acl::new(Permission::READ | Permission::ADMIN, AuthId::anyone())];
    let refused = ClaimError::RecordNotAuthorized { path: DIRECTORY.into() };
    // Nobody may create the directory; then nobody may create records in it.
    operator.set_acl("/lock", &reader, None).await.unwrap();
    assert_eq!(within("the error", once.claim(NAME)).await.unwrap_err(), refused);
    assert_eq!(once.period_name(DAY).await.unwrap_err(), refused);
    until_nothing_is_left(&server).await;
    operator.set_acl("/lock", &Acls::anyone_all(), None).await.unwrap();
    make(&operator, DIRECTORY).await;
    operator.set_acl(DIRECTORY, &reader, None).await.unwrap();
    assert_eq!(within("the error", once.claim(NAME)).await.unwrap_err(), refused);
    until_nothing_is_left(&server).await;
    assert!(once.records().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_end_is_dropped_at_every_await() {
    let (server, [mut caller, other]) = sessions().await;
    let (mut steps, mut done) = (0, false);
    while !done {
        let path = format!("/lock/end-{steps}");
        let running = begun(&caller.once(&path).unwrap(), NAME).await;
        done = dropped_before(steps, running.complete(), async || ()).await;
        caller.close().await.unwrap();
        caller = session(&server).await;
        let record = self::done(&other.once(&path).unwrap(), NAME).await;
        // It was not polled at all, or it goes on.
        assert_eq!(record.state, if steps == 0 { RecordState::Begun } else { RecordState::Succeeded });
        until_nothing_is_left(&server).await;
        steps += 1;
    }
    assert!(steps > 2, "the record, the release: {steps} steps");
}

#[tokio::test]
async fn the_present_run_is_dropped_at_every_await() {
    let (server, [session]) = sessions().await;
    let operator = operator(&server).await;
    let (mut steps, mut done) = (0, false);
    while !done {
        let path = format!("/lock/name-{steps}");
        let once = session.once(&path).unwrap();
        done = dropped_before(steps, once.period_name(DAY), async || ()).await;
        // The next answer comes after everything that the dropped call has sent.
        once.period_name(DAY).await.unwrap();
        let left = operator.list_children(&format!("{path}.once")).await.unwrap();
        assert!(left.is_empty(), "{steps} steps: {left:?}");
        steps += 1;
    }
    assert!(steps > 3, "ask, create the directories, ask: {steps} steps");
    until_nothing_is_left(&server).await;
}
