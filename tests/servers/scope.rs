//! `Session::with`: however a program ends, its lock is free soon. Each program is this test binary, started once more.

use std::error::Error;
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{sessions, until_nothing_is_left, until_queued, within};
use tokio::process::Command;
use zklock::{ConnectError, LockOptions, Session};

const PATH: &str = "/lock/orders";

const SERVERS: &str = "ZKLOCK_SCOPE_SERVERS";

const END: &str = "ZKLOCK_SCOPE_END";

/// How long the lock may stay held once the program has ended, on a busy machine too.
const SOON: Duration = Duration::from_secs(5);

/// What the others start.
#[tokio::test]
async fn program() -> Result<(), Box<dyn Error>> {
    let (Ok(servers), Ok(end)) = (std::env::var(SERVERS), std::env::var(END)) else { return Ok(()) };
    // A close waits for a release for a tenth of it.
    Session::builder(servers)
        .session_timeout(Duration::from_secs(40))
        .with(async |session| {
            let lock = session.lock(PATH)?;
            let guard = lock.acquire().await?;
            until_queued(&lock, 2).await;
            match &*end {
                "returns" => drop(guard.release().await),
                "drops" => drop(guard),
                "fails" => {
                    "no number".parse::<u32>()?;
                }
                "panics" => panic!("this is what it does"),
                // No drop of it runs.
                "forgets" => std::mem::forget(guard),
                _ => {
                    tokio::spawn(async move { guard.run(std::future::pending::<()>()).await });
                }
            }
            Ok(())
        })
        .await
}

#[tokio::test]
async fn however_a_program_ends_the_next_contender_has_the_lock_soon() {
    let (server, [waiting]) = sessions().await;
    let lock = waiting.lock(PATH).unwrap();
    // A waiter observes its delay behind a holder that has not released.
    let delayed = LockOptions::new().takeover_delay(Duration::from_secs(600));
    let delayed = lock.with_options(delayed).unwrap();
    for (end, succeeds, releases) in [
        ("returns", true, true),
        ("drops", true, true),
        ("fails", false, true),
        ("panics", false, true),
        ("forgets", true, false),
        ("spawns", true, false),
    ] {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "scope::program"]).env(SERVERS, server.connect_string()).env(END, end);
        let program = program.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).status();
        let next = async {
            until_queued(&lock, 1).await;
            let guard = if releases { delayed.acquire() } else { lock.acquire() }.await.unwrap();
            (guard, Instant::now())
        };
        let ends = async { (program.await.unwrap(), Instant::now()) };
        let ((status, ended), (guard, granted)) = within(end, async { tokio::join!(ends, next) }).await;
        assert_eq!(status.success(), succeeds, "{end}");
        assert!(granted < ended + SOON, "{end}: {:?}", granted - ended);
        guard.release().await.unwrap();
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_scope_without_a_session_fails_with_the_error_of_connecting() {
    // It may be a task, too.
    let scope = tokio::spawn(Session::with("no server", async |_| Err::<(), _>(ConnectError::NoRuntime)));
    let scope = within("the end", scope).await.unwrap();
    assert!(matches!(scope, Err(ConnectError::Servers { .. })), "{scope:?}");
}
