//! The servers are away: while a command waits for its lock, and when a command begins.

use rustix::process::Signal;
use tokio::process::Command;
use zklock_testcontainers::{Link, RequestKind, ZooKeeper};

use crate::support::{Running, output, program_of, run, run_on, until_queued, with_session, zklock};
use zklock_test_support::{own_server, server, within};

const PATH: &str = "/lock/away";

/// A command that has said that it waits for the lock.
async fn waiting(command: Command) -> Running {
    let mut waiter = Running::start(command);
    assert!(waiter.tells().await.contains("waiting for /lock/away, held by "));
    waiter
}

/// A lock that is held is 75. Here nobody knows whether it is.
#[tokio::test]
async fn a_wait_that_ends_while_no_server_answers_is_69() {
    let (server, servers, session) = with_session(own_server().await).await;
    let _guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    let _slot = session.slots("/workers", 1).unwrap().acquire().await.unwrap();
    let common = ["--session-timeout", "4s", "--timeout", "14s"];
    let with = |options: &[&'static str]| [&common[..], options].concat();
    let waiters = [
        run(&servers, &common, PATH, "echo in"),
        run(&servers, &with(&["--quiet"]), PATH, "echo in"),
        run_on(&servers, &with(&["--slot", "/workers/1"]), "echo in"),
    ];
    let [loud, quiet, mut slot] = waiters.map(Running::start);
    until_queued(&session, PATH, 3).await;
    // It has looked for room by then, and has a place.
    assert!(slot.tells().await.contains("waiting for a slot of /workers"));
    server.own().pause().await.unwrap();
    let (loud, quiet, slot) = tokio::join!(loud.finished(), quiet.finished(), slot.finished());
    for (ended, names, is_loud) in
        [(&loud, PATH, true), (&quiet, PATH, false), (&slot, "a slot of /workers", true)]
    {
        ended.is(69, "", &format!("{names} was not acquired within 14s: ZooKeeper has not answered for "));
        ended.is(69, "", " or more, so zklock does not know whether somebody holds it");
        ended.is(69, "", &format!("waiting for {names}: ZooKeeper has not answered for "));
        // The session is over because of the outage, and not the other way round.
        assert!(!ended.stderr.contains("has expired"), "{ended:?}");
        assert_eq!(ended.stderr.contains("no server has answered this contender for "), is_loud, "{ended:?}");
    }
    assert_eq!(quiet.stderr.lines().count(), 2, "{quiet:?}");
}

/// An outage that is over is told, too, and the command runs.
#[tokio::test]
async fn a_wait_goes_on_after_an_outage() {
    let (server, _servers, session) = with_session(server().await).await;
    let link = Link::start(server.address()).await.unwrap();
    let guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    let waiter = run(&server.at(link.address()), &["--session-timeout", "20s"], PATH, "exit 3");
    let mut waiter = waiting(waiter).await;
    link.refuse();
    link.cut();
    // A second silence is told as the first one was.
    for _ in 0..2 {
        let silent = "zklock: waiting for /lock/away: ZooKeeper has not answered for 2s or more; zklock goes on trying";
        assert_eq!(waiter.tells().await, silent);
        link.accept();
        assert_eq!(waiter.tells().await, "zklock: waiting for /lock/away: ZooKeeper answers again");
        link.refuse();
        link.cut();
    }
    link.accept();
    guard.release().await.unwrap();
    waiter.ends_with(3).await;
}

/// The last line does not say that zklock goes on trying, also not to a quiet user, who reads that, too.
#[tokio::test]
async fn a_restart_after_an_outage_is_told() {
    let server = server().await;
    for quiet in [&[][..], &["--quiet"]] {
        let link = Link::start(server.address()).await.unwrap();
        let options = [&["--restart", "--session-timeout", "4s"], quiet].concat();
        let daemon = run(&server.at(link.address()), &options, PATH, "echo up; exec sleep 1000");
        let mut daemon = Running::start(daemon);
        assert_eq!(daemon.prints().await, "up");
        link.refuse();
        link.cut();
        while !daemon.tells().await.ends_with("has not answered for 2s or more; zklock goes on trying") {}
        link.accept();
        assert_eq!(daemon.prints().await, "up");
        daemon.signal(Signal::TERM);
        let told = daemon.finished().await.stderr;
        let last = told.lines().last().unwrap_or_default();
        // If an answer comes before the grant, it is told, and a quiet user need not know more.
        let is_told = !quiet.is_empty() && last.ends_with("ZooKeeper answers again");
        assert!(is_told || last.contains("acquired /lock/away"), "{quiet:?}: {told:?}");
    }
}

/// The session moves to another server by itself, and that one says who holds the lock.
#[tokio::test]
async fn a_wait_whose_server_is_silent_at_its_end_asks_another_one() {
    let (server, _servers, session) = with_session(server().await).await;
    let first = Link::start(server.address()).await.unwrap();
    let other = Link::start(server.address()).await.unwrap();
    let _guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    other.refuse();
    let servers = server.at(format!("{},{}", first.address(), other.address()));
    let mut waiter = waiting(run(&servers, &["--timeout", "2s"], PATH, "")).await;
    let question = first.hold_reply(RequestKind::GetChildren);
    within("the last question", question.reached()).await;
    other.accept();
    first.refuse();
    first.cut();
    assert!(waiter.tells().await.contains("was not acquired within 2s, held by "));
    waiter.ends_with(75).await;
}

/// zklock may ask for 2 s who holds the lock, and a signal ends that.
#[tokio::test]
async fn a_signal_ends_the_last_question() {
    let (server, _servers, session) = with_session(server().await).await;
    let link = Link::start(server.address()).await.unwrap();
    let _guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    let mut waiter = waiting(run(&server.at(link.address()), &["--timeout", "2s"], PATH, "")).await;
    let question = link.hold_reply(RequestKind::GetChildren);
    within("the last question", question.reached()).await;
    waiter.signal(Signal::TERM);
    waiter.ends_with(143).await;
}

/// A program that waits for a change says so, too.
#[tokio::test]
async fn a_silence_is_told_by_commands_that_look() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    let mut watcher = Running::start(program_of(&server.at(link.address()), &["leader", "--watch", PATH]));
    assert!(watcher.tells().await.contains("nobody leads"));
    link.black_hole();
    let silent = "zklock: ZooKeeper has not answered for 2s or more; zklock goes on trying";
    assert_eq!(watcher.tells().await, silent);
    link.restore();
    link.cut();
    assert_eq!(watcher.tells().await, "zklock: ZooKeeper answers again");
}

#[tokio::test]
async fn silent_servers_are_named_once_before_the_attempt_ends() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    link.black_hole();
    let servers = server.at(link.address());
    let told = format!(
        "zklock: no server of {servers:?} has established a session for 2s or more; zklock goes on trying \
         (--connect-timeout is 4s)\n"
    );
    for command in [
        &["show", PATH][..],
        &["ls"],
        &["leader", PATH],
        &["doctor", PATH],
        &["ask", "-r", "deploy", "-w", "1s", PATH],
        &["release", "--force", "--yes", PATH],
        // A job that hangs without a word is worse than a mail.
        &["run", "--quiet", PATH, "--", "true"],
    ] {
        let ran = zklock(&servers, &[&["--connect-timeout", "4s"], command].concat()).await;
        assert!(ran.code == 69, "{ran:?}");
        assert_eq!(ran.stderr.matches(&told).count(), 1, "{ran:?}");
    }
}

/// The servers answer all else that its session asks, so they are not silent.
#[tokio::test]
async fn servers_that_hang_up_at_each_attempt_to_queue_are_told() {
    let server = ZooKeeper::builder().java_property("jute.maxbuffer", "256").start().await.unwrap();
    let owner = "o".repeat(256);
    for names in [&[PATH][..], &["--slot", "/workers/2"], &["--once", "today", PATH]] {
        let options = [&["--timeout", "3s", "--owner", &owner], names].concat();
        let ran = output(run_on(&server.connect_string(), &options, "echo in")).await;
        ran.is(69, "", " not acquired: the servers close the connection again and again before this");
        ran.is(69, "", "jute.maxbuffer; zklock goes on trying\n");
    }
}
