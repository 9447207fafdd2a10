//! `zklock ask`, and what `zklock run` does when it is asked.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::support::{
    Running, at, delete_holder, ended, kill, line, lines, lock_of, pid, program_of, run, run_on,
    with_session, zklock,
};
use rustix::process::Signal;
use tokio::process::Command;
use zklock::ask::Request;
use zklock_test_support::{eventually, operator, own_server, server, until_nothing_is_left, within};

const PATH: &str = "/lock/orders";
const ASK: &str = "/lock/orders/ask";

/// It says when it runs, and ends with 7 on SIGTERM.
const POLITE: &str = r#"trap "exit 7" TERM; echo up; sleep 1000 & wait"#;

/// A command that has said that it runs.
async fn up(program: Command) -> Running {
    let mut running = Running::start(program);
    assert_eq!(running.prints().await, "up");
    running
}

/// `zklock ask` with these arguments, which has asked.
fn asking(servers: &str, arguments: &[&str]) -> Running {
    let ask = ["ask", "--owner", "ops\u{1b}", "--reason", "a new version"];
    Running::start(program_of(servers, &[&ask, arguments].concat()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_told_and_keeps_its_lock_unless_it_obeys() {
    let (server, servers) = at(server().await);
    let mut first = up(run(&servers, &["--owner", "alpha"], PATH, POLITE)).await;
    let ask = ["ask", "--owner", "ops\u{1b}", "-r", "a new\nversion", "-w", "3s", PATH];
    let over = zklock(&servers, &ask).await;
    over.is(1, "", "asked alpha to let go of /lock/orders within 3s; it came 20");
    assert!(over.stderr.contains("/lock/orders is still held after 3s"), "{}", over.stderr);
    let told = first.tells().await;
    assert!(told.starts_with(r"zklock: ops\u{1b} asks for /lock/orders by 20"), "{told}");
    assert!(told.ends_with(r": a new\nversion"), "{told}");
    // It runs on, and ends by itself.
    first.signal(Signal::TERM);
    first.ends_with(7).await;

    // Even with --restart, CMD is not run again.
    let obeys = ["--owner", "beta", "--on-ask", "term", "--restart"];
    let mut second = up(run(&servers, &obeys, PATH, POLITE)).await;
    let mut waiter = Running::start(run(&servers, &[], PATH, "echo next"));
    let asked = asking(&servers, &["--within", "5m", PATH]);
    let told = second.tells().await;
    assert!(told.ends_with(": a new version; zklock sends SIGTERM to CMD"), "{told}");
    second.ends_with(7).await;
    asked.finished().await.is(0, "", "/lock/orders: those who were asked have let go");
    assert_eq!(waiter.prints().await, "next");
    waiter.ends_with(0).await;
    until_nothing_is_left(&server).await;
}

/// With SIGKILL its ask goes when its session expires, and with a signal at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_asker_that_is_ended_leaves_nothing() {
    let (server, servers, session) = with_session(own_server().await).await;
    let guard = lock_of(&session, PATH, "alpha").acquire().await.unwrap();
    let mut asks = guard.asks();
    let operator = operator(&server).await;
    for by in [Signal::INT, Signal::KILL] {
        let brief = ["--within", "5m", "--session-timeout", "4s", "--tick", "1s", PATH];
        let mut asked = asking(&servers, &brief);
        let ask = within("an ask", asks.next()).await.unwrap();
        assert_eq!((&*ask.who, &*ask.why), ("ops\u{1b}", "a new version"));
        if by == Signal::INT {
            let second = zklock(&servers, &["ask", "-r", "me too", "-w", "5m", PATH]).await;
            second.is(75, "", r"ops\u{1b} asks at /lock/orders already, until 20");
        }
        asked.signal(by);
        assert_eq!(asked.ended().await, (by == Signal::INT).then_some(130));
        eventually("no ask", async || operator.check_stat(ASK).await.unwrap().is_none()).await;
    }
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_and_the_holder_of_a_slot_are_asked() {
    let (_server, servers, session) = with_session(server().await).await;
    zklock(&servers, "ask -r why -w 1s /nowhere").await.is(66, "", "/nowhere does not exist");
    zklock(&servers, "ask -r why -w soon /nowhere").await.is(64, "", "--within");
    let lead = ["lead", "--value", "one", "--on-ask", "term", "/feed", "--", "sh", "-c", POLITE];
    let mut leads = up(program_of(&servers, &lead)).await;
    let asked = asking(&servers, &["--within", "5m", "/feed"]);
    leads.ends_with(7).await;
    asked.finished().await.is(0, "", "those who were asked have let go");

    let _low = session.slots("/workers", 2).unwrap().acquire().await.unwrap();
    let mut high = up(run_on(&servers, &["--slot", "/workers/2", "--on-ask", "term"], POLITE)).await;
    let none = "/workers has no holder with the sequence 9, so nobody was asked";
    zklock(&servers, "ask -r why -w 1s --sequence 9 /workers").await.is(1, "", none);
    let last_resort = "`zklock release --force --slot 0 /workers`";
    zklock(&servers, "ask -r why -w 10ms --slot 0 /workers").await.is(1, "", last_resort);
    let asked = asking(&servers, &["--within", "5m", "--slot", "1", "/workers"]);
    high.ends_with(7).await;
    asked.finished().await.is(0, "", "those who were asked have let go");
    // One that does not listen sends nothing for it.
    let deaf = up(run(&servers, &["--on-ask", "ignore"], PATH, POLITE)).await;
    zklock(&servers, &["ask", "-r", "why", "-w", "2s", PATH]).await.is(1, "", "is still held after 2s");
    deaf.signal(Signal::TERM);
    deaf.finished().await.is_silent(7, "");
}

/// An ask comes behind a SIGHUP that the command does not heed, and the lock is lost behind an ask that it does not heed.
#[tokio::test(flavor = "multi_thread")]
async fn an_ask_is_no_signal_to_zklock() {
    let (server, servers) = at(server().await);
    const STUBBORN: &str = r#"trap "echo hup" HUP; trap "exit 7" TERM; echo up; while :; do sleep 0.1; done"#;
    let mut first = up(run(&servers, &["--on-ask", "term"], PATH, STUBBORN)).await;
    first.signal(Signal::HUP);
    assert_eq!(first.prints().await, "hup");
    let asked = asking(&servers, &["--within", "5m", PATH]);
    first.ends_with(7).await;
    asked.finished().await.is(0, "", "those who were asked have let go");

    const DEAF: &str = r#"trap "echo term" TERM; echo up; while :; do sleep 0.1; done"#;
    let obeys = ["--on-ask", "term", "--on-lost", "kill", "--restart"];
    let mut second = up(run(&servers, &obeys, PATH, DEAF)).await;
    let asked = asking(&servers, &["--within", "5m", PATH]);
    assert_eq!(second.prints().await, "term");
    delete_holder(&server, PATH).await;
    assert_eq!(second.prints().await, "up", "it runs again");
    asked.finished().await.is(0, "", "those who were asked have let go");
}

/// Standard error is a small pipe that nobody reads, and the ask fills it.
#[tokio::test(flavor = "multi_thread")]
async fn an_ask_that_cannot_be_printed_costs_nothing() {
    let (_server, servers, session) = with_session(server().await).await;
    const COUNTS: &str = "echo up; while sleep 1; do echo on; done";
    let (mut unread, mut full) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&full, 4096).unwrap();
    full.write_all(&[b'.'; 4096]).unwrap();
    let mut program = run(&servers, &["--session-timeout", "2s", "--tick", "100ms"], PATH, COUNTS);
    let mut child = program.stdout(Stdio::piped()).stderr(full).spawn().unwrap();
    drop(program);
    let mut printed = lines(&mut child.stdout);
    assert_eq!(line(&mut printed).await, "up");
    let why = Request::new("w".repeat(200), Duration::from_secs(60));
    let asking = session.ask(PATH, why).await.unwrap().unwrap();
    // Three leases.
    for _ in 0..7 {
        assert_eq!(line(&mut printed).await, "on");
    }
    let mut told = [0; 4096 + 200];
    unread.read_exact(&mut told).unwrap();
    assert!(std::str::from_utf8(&told).unwrap().contains(" asks for /lock/orders by "));
    drop((asking, unread));
    kill(pid(&child), Signal::TERM);
    ended(&mut child).await;
}
