//! Bad input, and servers that cannot serve: a typed error each, which names what is wrong, and nothing left behind.

use std::time::{Duration, Instant};

use support::{example, own_server, server, sessions, within};
use zklock::{AcquireError, ConnectError, InvalidLock, LockOptions, Session};
use zklock_testcontainers::{Ensemble, Link};

#[tokio::test]
async fn options_that_are_too_long() {
    let (_server, [session]) = sessions().await;
    let lock = session.lock("/lock/orders").unwrap();
    let options = |owner, data| LockOptions::new().owner("x".repeat(owner)).data("x".repeat(data));
    for (options, wrong) in [(options(257, 0), "owner"), (options(0, 16 * 1024 + 1), "data")] {
        let error = lock.clone().with_options(options).unwrap_err();
        assert!(matches!(error, InvalidLock::TooLong { option, .. } if option == wrong), "{error:?}");
    }
    let longest = lock.with_options(options(256, 16 * 1024)).unwrap();
    longest.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_session_timeout_the_server_does_not_grant() {
    let server = own_server().await;
    let asked = Duration::from_secs(61);
    let error = Session::builder(server.connect_string()).session_timeout(asked).connect().await.unwrap_err();
    assert_eq!(error, ConnectError::TimeoutNotGranted { asked, granted: Duration::from_secs(60) });
    support::eventually("no session left", async || {
        support::monitored(&server, "zk_global_sessions").await == 0
    })
    .await;
}

#[tokio::test]
async fn somebody_listens_but_never_answers() {
    let server = own_server().await;
    let link = Link::start(server.address()).await.unwrap();
    link.black_hole();
    // The connect timeout is the session timeout unless told otherwise.
    let (timeout, started) = (Duration::from_millis(500), Instant::now());
    let builder = || Session::builder(server.at(link.address())).session_timeout(timeout);
    let error = within("the error", builder().connect()).await.unwrap_err();
    let ConnectError::Unreachable { timeout: asked, .. } = error else { panic!("{error}") };
    assert_eq!(asked, timeout * 4 / 5);
    assert!(started.elapsed() < timeout + Duration::from_secs(3), "{:?}", started.elapsed());
    // A longer connect timeout outlasts the silence.
    let connect = tokio::spawn(builder().connect_timeout(support::BOUND).connect());
    support::eventually("an attempt", async || link.connections() > 0).await;
    link.cut();
    link.restore();
    within("connect", connect).await.unwrap().unwrap();
}

#[test]
fn a_runtime_without_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(Session::connect("localhost:2181")).unwrap_err();
    assert!(
        matches!(&error, ConnectError::Panicked { cause } if cause.contains("timers are disabled")),
        "{error}"
    );
    let lock = runtime
        .block_on(async { Session::builder("localhost:2181").connect_lazy() })
        .unwrap()
        .lock("/lock")
        .unwrap();
    let refused = runtime.block_on(lock.acquire()).unwrap_err();
    assert_eq!(refused, AcquireError::SessionFailed { path: "/lock".into(), cause: Box::new(error) });
}

/// Its own process: the limit is the whole process's.
#[tokio::test]
async fn a_process_that_may_open_few_files() {
    let server = server().await;
    // Tokio's runtime has the files that it needs, and async-io's has not.
    let quickstart =
        format!("ulimit -n 11; exec {} {}", example("quickstart").display(), server.connect_string());
    let mut program = tokio::process::Command::new("sh");
    let output = within("the end", program.args(["-c", &quickstart]).output()).await.unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let error = told.lines().find(|line| line.starts_with("Error: "));
    assert!(error.is_some_and(|error| error.contains("Too many open files")), "{told}");
}

#[tokio::test]
async fn local_sessions_are_named_at_each_server() {
    let ensemble = Ensemble::builder(3).property("localSessionsEnabled", "true").start().await.unwrap();
    let leader = ensemble.leader().await.unwrap();
    for index in [leader, (leader + 1) % 3] {
        let session = Session::connect(ensemble.address(index)).await.unwrap();
        let error = within("the refusal", session.lock("/lock/orders").unwrap().acquire()).await.unwrap_err();
        assert!(matches!(error, AcquireError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("localSessionsUpgradingEnabled=true"), "{error}");
    }
}
