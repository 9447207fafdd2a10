//! `zklock run --max-hold`: a command that may not run for longer.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use zklock_test_support::{server, until_nothing_is_left};

use crate::support::witness::Witness;
use crate::support::{Running, at, output, run, zklock};

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
        let holder = Running::start(run(&servers, &LIMITED, PATH, &witness.of(script)));
        witness.began().await;
        let next = output(run(&servers, &[], PATH, "echo next")).await;
        assert!(witness.is_gone(), "a process outlived the lock");
        assert_eq!((next.code, &*next.stdout), (0, "next\n"), "{next:?}");
        // It ends before the limit, and not long before.
        assert!(began.elapsed() > Duration::from_millis(1400), "{:?}", began.elapsed());
        let said = "zklock: /lock/orders may be held for --max-hold 2s only; zklock ends CMD";
        holder.finished().await.is(124, "", said);
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_restart_it_queues_again_and_one_that_ends_in_time_is_left_alone() {
    let (_server, servers) = at(server().await);
    output(run(&servers, &LIMITED, PATH, "exit 3")).await.is_silent(3, "");
    let options = [&LIMITED[..], &["--restart"]].concat();
    let mut again = Running::start(run(&servers, &options, PATH, "echo up; exec sleep 1000"));
    assert_eq!([again.prints().await, again.prints().await], ["up", "up"]);
    again.signal(Signal::TERM);
    again.ends_with(143).await;
    // Slots and the lead have it as well.
    let lead = "lead --value me --max-hold 2s --kill-after 300ms /feed -- sleep 1000";
    zklock(&servers, lead).await.is(124, "", "may be held for --max-hold 2s only");
    let slot = "run --slot /workers/2 --max-hold 2s --kill-after 300ms -- sleep 1000";
    zklock(&servers, slot).await.is(124, "", "slot 0 of /workers may be held for --max-hold 2s only");
}
