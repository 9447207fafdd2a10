//! The exit codes of the table in `--help`. The commands' own files test more of each, and the others: 64 in `usage`, 70 and 76
//! in `loss`, 126 and 127 in `run`.

use std::time::Duration;

use rustix::process::Signal;
use zklock_testcontainers::Link;

use crate::support::{
    NOBODY, Ran, Running, answers, lock_of, of_unknown_tick, output, run, with_session, zklock,
};
use zklock_test_support::{eventually, server};

const PATH: &str = "/lock/codes";

#[tokio::test]
async fn help_and_version_succeed_and_help_has_the_table() {
    zklock(NOBODY, "--version").await.is_silent(0, concat!("zklock ", env!("CARGO_PKG_VERSION"), "\n"));
    let Ran { code, stdout: help, stderr, .. } = zklock(NOBODY, "--help").await;
    assert_eq!((code, &*stderr), (0, ""));
    for row in ["zklock run --restart /lock/feed -- ./feed", "CMD's own  own", "128+N      signal"] {
        assert!(help.contains(row), "no {row} in {help}");
    }
}

/// The attempt ends after half a session timeout.
#[tokio::test]
async fn a_server_that_falls_silent_after_the_connection_is_69() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    let held = link.hold_reply(zklock_testcontainers::RequestKind::Multi);
    let options = ["--timeout", "0", "--session-timeout", "12s"];
    let vanish = async {
        held.reached().await;
        link.black_hole();
    };
    let program = run(&server.at(link.address()), &options, PATH, "echo in");
    let (silent, ()) = tokio::join!(output(program), vanish);
    silent.is(69, "", "did not confirm the state of");
}

/// zklock says which option bounded the attempt, and how to examine the same servers.
#[tokio::test]
async fn unreachable_says_how_long_it_may_take_and_what_to_do() {
    // --timeout bounds connecting, too.
    for option in ["--connect-timeout", "--timeout"] {
        let Ran { code, stderr: message, took, .. } =
            zklock(NOBODY, &["run", option, "5s", PATH, "--", "true"]).await;
        assert_eq!(code, 69, "{message}");
        assert!(took < Duration::from_secs(12), "{message}: {took:?}");
        let doctor = format!("zklock: to find out what is wrong, run `zklock doctor -s {NOBODY}`\n");
        assert!(message.ends_with(&doctor), "{message}");
        let said = format!("established a session ({option} is 5s): {NOBODY}: Connection refused");
        assert!(message.contains(&said), "{message}");
    }
    let asking = [
        "ls",
        "show --exit-code -q /lock",
        "leader /feed",
        "verify 7:a:1:/lock",
        "release --force --yes /lock",
    ];
    let lines = asking.map(|command| format!("{command} --connect-timeout 300ms"));
    answers(NOBODY, &lines.each_ref().map(|line| (line.as_str(), 69, "", " established a session ("))).await;
}

/// A script can tell a 75 of zklock from a 75 of its command.
#[tokio::test]
async fn a_conflict_exit_code_replaces_75() {
    let (_server, servers, session) = with_session(server().await).await;
    let guard = lock_of(&session, PATH, "e\u{1b}[31mvil").acquire().await.unwrap();
    let options = ["--timeout", "0", "--conflict-exit-code", "0"];
    output(run(&servers, &options, PATH, "exit 75")).await.is(0, "", r"held by e\u{1b}[31mvil, who came ");
    guard.release().await.unwrap();
    // CMD's own 75 stays. If a loss does not end CMD, any --kill-after fits.
    let options = ["-E", "9", "--kill-after", "2.9s", "--on-lost", "ignore-and-warn"];
    output(run(&servers, &options, PATH, "exit 75")).await.says(75, "");
}

#[tokio::test]
async fn a_signal_before_the_connection_is_128_and_the_signal() {
    let mut connecting = Running::start(run(NOBODY, &[], PATH, "exit 0"));
    let status = format!("/proc/{}/status", connecting.pid().as_raw_pid());
    eventually("a handler of SIGTERM", async || {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (Signal::TERM.as_raw() - 1) & 1 == 1
    })
    .await;
    connecting.signal(Signal::TERM);
    connecting.ends_with(143).await;
}

/// They hold no lock, so they need no lease.
#[tokio::test]
async fn a_tick_that_nobody_knows_keeps_nobody_from_looking() {
    let server = of_unknown_tick().await;
    let servers = server.connect_string();
    let options = ["--session-timeout", "20s", "--tick", "2s", "--restart"];
    let mut holder = Running::start(run(&servers, &options, PATH, "echo; cat"));
    holder.prints().await;
    output(run(&servers, &["-t", "0"], PATH, "true")).await.is(64, "", "--tick");
    for option in [&[][..], &["--session-timeout", "10s"]] {
        for (command, code) in [
            (&["show", "--json", PATH][..], 0),
            (&["ls"], 0),
            (&["leader", "/feed"], 1),
            (&["verify", "7:a:1:/lock"], 1),
            (&["resize", "/workers", "3"], 66),
            (&["ask", "-r", "deploy", "-w", "10ms", PATH], 1),
            (&["release", "--force", "--yes", PATH], 0),
        ] {
            zklock(&servers, &[option, command].concat()).await.says(code, "");
        }
        // The lock was taken from it, and it has it again.
        holder.prints().await;
    }
}
