//! `zklock run --max-hold`: a command that may not run for longer.

use std::process::Stdio;
use std::time::{Duration, Instant};

use zklock_test_support::{server, until_nothing_is_left, within};

use crate::support::witness::Witness;
use crate::support::{at, finished, line, lines, output, run, signal, zklock};

const PATH: &str = "/lock/orders";
const LIMITED: [&str; 4] = ["--max-hold", "2s", "--kill-after", "300ms"];

/// A command that ignores SIGTERM, and a process of it that has left its group. One that ends on SIGTERM has the same exit code.
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_are_gone_before_the_next_command_begins() {
    let (server, servers) = at(server().await);
    let stubborn = r#"trap "" TERM; setsid sleep 1000 & sleep 1000"#;
    for script in [stubborn, "sleep 1000"] {
        let mut witness = Witness::new();
        let began = Instant::now();
        let mut holder = run(&servers, &LIMITED, PATH, &witness.of(script));
        let holder = holder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        witness.began().await;
        let next = output(run(&servers, &[], PATH, "echo next")).await;
        assert!(witness.is_gone(), "a process outlived the lock");
        assert_eq!((next.code, &*next.stdout), (0, "next\n"), "{next:?}");
        // It ends before the limit, and not long before.
        assert!(began.elapsed() > Duration::from_millis(1400), "{:?}", began.elapsed());
        let holder = finished(holder).await;
        holder.is(124, "", "zklock: /lock/orders may be held for --max-hold 2s only; zklock ends CMD");
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_restart_it_queues_again_and_one_that_ends_in_time_is_left_alone() {
    let (_server, servers) = at(server().await);
    let ran = output(run(&servers, &LIMITED, PATH, "exit 3")).await;
    ran.is_silent(3, "");
    let options = [&LIMITED[..], &["--restart"]].concat();
    let mut again = run(&servers, &options, PATH, "echo up; exec sleep 1000");
    let mut again = again.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = lines(&mut again.stdout);
    assert_eq!((line(&mut printed).await, line(&mut printed).await), ("up".into(), "up".into()));
    signal(&again, rustix::process::Signal::TERM);
    let ended = within("the end", again.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(143), "{ended:?}");
    // Slots and the lead have it as well.
    let mut leads = zklock(&servers);
    leads.args(["lead", "--value", "me"]).args(LIMITED).args(["/feed", "--", "sleep", "1000"]);
    output(leads).await.is(124, "", "may be held for --max-hold 2s only");
    let mut slot = zklock(&servers);
    slot.args(["run", "--slot", "/workers/2"]).args(LIMITED).args(["--", "sleep", "1000"]);
    output(slot).await.is(124, "", "slot 0 of /workers may be held for --max-hold 2s only");
}
