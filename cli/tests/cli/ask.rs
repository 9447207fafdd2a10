//! `zklock ask`, and what `zklock run` does when it is asked.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{Child, Command};
use zklock::ask::Request;
use zklock::{LockOptions, Session};
use zklock_test_support::{eventually, operator, own_server, server, session, until_nothing_is_left, within};

use crate::support::looker::{answers, zklock as look};
use crate::support::{Running, at, ended, finished, line, lines, run, run_on, signal, with_session, zklock};

const PATH: &str = "/lock/orders";
const ASK: &str = "/lock/orders/ask";

/// It says when it runs, and ends with 7 on SIGTERM.
const POLITE: &str = r#"trap "exit 7" TERM; echo up; sleep 1000 & wait"#;

/// A command that has said that it runs.
async fn up(mut program: Command) -> Running {
    let mut running = Running::start(&mut program);
    assert_eq!(running.prints().await, "up");
    running
}

/// `zklock ask` with these arguments, which has asked.
async fn asking(servers: &str, arguments: &[&str]) -> Child {
    let mut program = zklock(servers);
    program.args(["ask", "--owner", "ops\u{1b}", "--reason", "a new version"]).args(arguments);
    program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_told_and_keeps_its_lock_unless_it_obeys() {
    let (server, servers) = at(server().await);
    let mut first = up(run(&servers, &["--owner", "alpha"], PATH, POLITE)).await;
    let ask = ["ask", "--owner", "ops\u{1b}", "-r", "a new\nversion", "-w", "3s", PATH];
    let over = look(&servers, &ask).await;
    over.is(1, "", "asked alpha to let go of /lock/orders within 3s; it came 20");
    assert!(over.stderr.contains("/lock/orders is still held after 3s"), "{}", over.stderr);
    let told = first.tells().await;
    assert!(told.starts_with(r"zklock: ops\u{1b} asks for /lock/orders by 20"), "{told}");
    assert!(told.ends_with(r": a new\nversion"), "{told}");
    // It runs on, and ends by itself.
    signal(&first.child, Signal::TERM);
    assert_eq!(first.ended().await, Some(7));

    // Even with --restart, CMD is not run again.
    let obeys = ["--owner", "beta", "--on-ask", "term", "--restart"];
    let mut second = up(run(&servers, &obeys, PATH, POLITE)).await;
    let mut waiter = run(&servers, &[], PATH, "echo next").stdout(Stdio::piped()).spawn().unwrap();
    let asked = asking(&servers, &["--within", "5m", PATH]).await;
    let told = second.tells().await;
    assert!(told.ends_with(": a new version; zklock sends SIGTERM to CMD"), "{told}");
    assert_eq!(second.ended().await, Some(7));
    finished(asked).await.is(0, "", "/lock/orders: those who were asked have let go");
    assert_eq!(line(&mut lines(&mut waiter.stdout)).await, "next");
    assert_eq!(ended(&mut waiter).await.code(), Some(0));
    until_nothing_is_left(&server).await;
}

/// With SIGKILL its ask goes when its session expires, and with a signal at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_asker_that_is_ended_leaves_nothing() {
    let (server, servers, session) = with_session(own_server().await).await;
    let options = LockOptions::new().owner("alpha");
    let guard = session.lock(PATH).unwrap().with_options(options).unwrap().acquire().await.unwrap();
    let mut asks = guard.asks();
    let operator = operator(&server).await;
    for by in [Signal::INT, Signal::KILL] {
        let mut asked =
            asking(&servers, &["--within", "5m", "--session-timeout", "4s", "--tick", "1s", PATH]).await;
        let ask = within("an ask", asks.next()).await.unwrap();
        assert_eq!((&*ask.who, &*ask.why), ("ops\u{1b}", "a new version"));
        if by == Signal::INT {
            let second = look(&servers, &["ask", "-r", "me too", "-w", "5m", PATH]).await;
            second.is(75, "", r"ops\u{1b} asks at /lock/orders already, until 20");
        }
        signal(&asked, by);
        let code = ended(&mut asked).await.code();
        assert_eq!(code, (by == Signal::INT).then_some(130));
        eventually("no ask", async || operator.check_stat(ASK).await.unwrap().is_none()).await;
    }
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_and_the_holder_of_a_slot_are_asked() {
    let (server, servers) = at(server().await);
    let session: Session = session(&server).await;
    answers(
        &servers,
        &[
            ("ask -r why -w 1s /nowhere", 66, "", "/nowhere does not exist"),
            ("ask -r why -w soon /nowhere", 64, "", "--within"),
        ],
    )
    .await;
    let mut lead = zklock(&servers);
    lead.args(["lead", "--value", "one", "--on-ask", "term", "/feed", "--", "sh", "-c", POLITE]);
    let mut leads = up(lead).await;
    let asked = asking(&servers, &["--within", "5m", "/feed"]).await;
    assert_eq!(leads.ended().await, Some(7));
    finished(asked).await.is(0, "", "those who were asked have let go");

    let _low = session.slots("/workers", 2).unwrap().acquire().await.unwrap();
    let mut high = up(run_on(&servers, &["--slot", "/workers/2", "--on-ask", "term"], POLITE)).await;
    let none = look(&servers, &["ask", "-r", "why", "-w", "1s", "--sequence", "9", "/workers"]).await;
    none.is(1, "", "/workers has no holder with the sequence 9, so nobody was asked");
    let over = look(&servers, &["ask", "-r", "why", "-w", "10ms", "--slot", "0", "/workers"]).await;
    over.is(1, "", "`zklock release --force --slot 0 /workers`");
    let asked = asking(&servers, &["--within", "5m", "--slot", "1", "/workers"]).await;
    assert_eq!(high.ended().await, Some(7));
    finished(asked).await.is(0, "", "those who were asked have let go");
    // One that does not listen sends nothing for it.
    let mut deaf = up(run(&servers, &["--on-ask", "ignore"], PATH, POLITE)).await;
    look(&servers, &["ask", "-r", "why", "-w", "2s", PATH]).await.is(1, "", "is still held after 2s");
    signal(&deaf.child, Signal::TERM);
    assert_eq!(deaf.ended().await, Some(7));
    assert_eq!(within("the end", deaf.told.next_line()).await.unwrap(), None);
}

/// An ask comes behind a SIGHUP that the command does not heed, and the lock is lost behind an ask that it does not heed.
#[tokio::test(flavor = "multi_thread")]
async fn an_ask_is_no_signal_to_zklock() {
    let (server, servers, session) = with_session(server().await).await;
    const STUBBORN: &str = r#"trap "echo hup" HUP; trap "exit 7" TERM; echo up; while :; do sleep 0.1; done"#;
    let mut first = up(run(&servers, &["--on-ask", "term"], PATH, STUBBORN)).await;
    signal(&first.child, Signal::HUP);
    assert_eq!(first.prints().await, "hup");
    let asked = asking(&servers, &["--within", "5m", PATH]).await;
    assert_eq!(first.ended().await, Some(7));
    finished(asked).await.is(0, "", "those who were asked have let go");

    const DEAF: &str = r#"trap "echo term" TERM; echo up; while :; do sleep 0.1; done"#;
    let obeys = ["--on-ask", "term", "--on-lost", "kill", "--restart"];
    let mut second = up(run(&servers, &obeys, PATH, DEAF)).await;
    let asked = asking(&servers, &["--within", "5m", PATH]).await;
    assert_eq!(second.prints().await, "term");
    let node = session.lock(PATH).unwrap().contenders().await.unwrap()[0].path.clone();
    operator(&server).await.delete(&node, None).await.unwrap();
    assert_eq!(second.prints().await, "up", "it runs again");
    finished(asked).await.is(0, "", "those who were asked have let go");
    signal(&second.child, Signal::KILL);
    second.ended().await;
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
    signal(&child, Signal::TERM);
    ended(&mut child).await;
}
