//! The exit codes of the table in `--help`. The commands' own files test more of each, and the others: 70 and 76 in `loss`, 126
//! and 127 in `run`.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use zklock::Session;
use zklock_testcontainers::Link;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::looker::contend_as_kazoo;
use crate::support::{ended, ends, output, run, signal, zklock};
use zklock_test_support::{Server, operator, own_server, server};

const PATH: &str = "/lock/codes";

/// A command of the program. Unless the arguments name servers, no server listens at its address.
fn command(arguments: &[&str]) -> tokio::process::Command {
    let mut program = zklock("127.0.0.1:1");
    program.args(arguments);
    program
}

#[tokio::test]
async fn help_and_version_succeed_and_help_has_the_table() {
    for arguments in [&["--help"][..], &["--version"], &["help", "run"], &["run", "--help"]] {
        let output = output(command(arguments)).await;
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
    }
    let help = output(command(&["--help"])).await.stdout;
    for row in ["CMD's own", "0 ", "1 ", "64 ", "69 ", "70 ", "75 ", "76 ", "77 ", "126 ", "127 ", "128+N "] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(row)), "no row {row:?} in {help}");
    }
    assert!(help.contains("zklock run --restart /lock/feed -- ./feed"), "no examples in {help}");
}

#[tokio::test]
async fn usage_is_64() {
    let long = "x".repeat(257);
    let server = server().await;
    let servers = server.connect_string();
    for arguments in [
        &[][..],
        &["dance"],
        &["run", PATH],
        &["run", PATH, "true"],
        &["run", "--timeout", "soon", PATH, "--", "true"],
        &["run", "--on-lost", "weep", PATH, "--", "true"],
        &["run", "--quiet", "--verbose", PATH, "--", "true"],
        &["run", "--servers", &servers, "no/slash", "--", "true"],
        &["run", "--servers", &servers, "--owner", &long, PATH, "--", "true"],
        &["run", "--servers", ",", PATH, "--", "true"],
        &["run", "--servers", &servers, "--session-timeout", "1ms", PATH, "--", "true"],
        &["run", "--servers", &servers, "--session-timeout", "3d", PATH, "--", "true"],
        &["run", "--servers", &servers, "--kill-after", "5s", PATH, "--", "true"],
        &["run", "--servers", &servers, "--session-timeout", "400ms", "--tick", "100ms", PATH, "--", "true"],
        &["run", "--servers", &servers, "--acl", "creator", PATH, "--", "true"],
    ] {
        let (code, message) = ends(command(arguments)).await;
        assert_eq!(code, Some(64), "{arguments:?}: {message}");
        assert!(!message.is_empty(), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_kill_after_that_does_not_fit_is_refused_before_anybody_waits() {
    let server = server().await;
    let session = Session::connect(server.connect_string()).await.unwrap();
    let _guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    let program = run(&server.connect_string(), &["--kill-after", "2.9s"], PATH, "exit 0");
    let (code, message) = ends(program).await;
    assert_eq!(code, Some(64));
    // 10 s, less a lag of 0.08 s, a margin of 0.9 s, two and a half heartbeats of 2.48 s, and 0.25 s to be killed in.
    assert!(
        message.contains("--kill-after 2.9s does not fit") && message.contains("can be given 2.57s"),
        "{message}"
    );
    // If a loss does not end CMD, any --kill-after fits.
    let options = ["--kill-after", "2.9s", "--on-lost", "ignore-and-warn", "--timeout", "0"];
    assert_eq!(ends(run(&server.connect_string(), &options, PATH, "exit 0")).await.0, Some(75));
}

#[tokio::test]
async fn unreachable_is_69() {
    let began = Instant::now();
    let (code, message) = ends(command(&["run", "--connect-timeout", "1s", PATH, "--", "true"])).await;
    assert_eq!(code, Some(69), "{message}");
    assert!(message.ends_with("zklock: `zklock doctor` asks each server what is wrong\n"), "{message}");
    // --timeout bounds connecting, too.
    let (code, message) = ends(command(&["run", "--timeout", "1s", PATH, "--", "true"])).await;
    assert_eq!(code, Some(69), "{message}");
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());

    // If the server falls silent after the connection, the attempt ends after half a session timeout.
    let server = own_server().await;
    let link = Link::start(server.address()).await.unwrap();
    let held = link.hold_reply(zklock_testcontainers::RequestKind::Multi);
    let options = ["--timeout", "0", "--session-timeout", "12s"];
    let vanish = async {
        held.reached().await;
        link.black_hole();
    };
    let ((code, message), ()) =
        tokio::join!(ends(run(&server.at(link.address()), &options, PATH, "echo in")), vanish);
    assert_eq!(code, Some(69), "{message}");
    assert!(message.contains("did not answer within 6s"), "{message}");
    // The server is paused.
    server.own().pause().await.unwrap();
    let options = ["--timeout", "0", "--connect-timeout", "1s"];
    let (code, message) = ends(run(&server.connect_string(), &options, PATH, "echo in")).await;
    assert_eq!(code, Some(69), "{message}");
    assert!(message.contains(" of --connect-timeout 1s;"), "{message}");
}

/// zklock says how long it tried, and which option set the bound.
#[tokio::test]
async fn unreachable_says_how_long_was_tried() {
    for option in ["--connect-timeout", "--timeout"] {
        let began = Instant::now();
        let (code, message) = ends(command(&["run", option, "5s", PATH, "--", "true"])).await;
        assert_eq!(code, Some(69), "{message}");
        let (_, tried) = message.split_once("; zklock tried for ").expect(&message);
        let (tried, bound) = tried.split_once(" of ").expect(&message);
        assert!(bound.starts_with(&format!("{option} 5s;")), "{message}");
        // The last second was for asking why. A closed port refuses that at once.
        let seconds = match tried.strip_suffix("ms") {
            Some(milliseconds) => milliseconds.parse::<f64>().expect(&message) / 1000.0,
            None => tried.strip_suffix('s').expect(&message).parse().expect(&message),
        };
        assert!(seconds >= 3.5 && seconds < began.elapsed().as_secs_f64(), "{message}");
        assert!(message.contains("Connection refused"), "{message}");
    }
    let (code, message) = ends(command(&["ls", "--connect-timeout", "1s"])).await;
    assert_eq!(code, Some(69), "{message}");
    assert!(message.contains("; zklock tried for "), "{message}");
}

/// A script can tell a 75 of zklock from a 75 of its command.
#[tokio::test]
async fn a_conflict_exit_code_replaces_75() {
    let server = server().await;
    let servers = server.connect_string();
    let session = Session::connect(servers.clone()).await.unwrap();
    let guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    for (timeout, code) in [("0", "9"), ("6s", "200"), ("0", "0")] {
        let options = ["--timeout", timeout, "--conflict-exit-code", code];
        let (status, message) = ends(run(&servers, &options, PATH, "exit 75")).await;
        assert_eq!(status.map(|status| status.to_string()).as_deref(), Some(code), "{message}");
        assert!(message.contains(PATH), "{message}");
    }
    // The short option is that of flock.
    assert_eq!(ends(run(&servers, &["-t", "0", "-E", "9"], PATH, "exit 75")).await.0, Some(9));
    guard.release().await.unwrap();
    // CMD's own 75 stays, and so do the other codes.
    assert_eq!(ends(run(&servers, &["-E", "9"], PATH, "exit 75")).await.0, Some(75));
    assert_eq!(ends(run("127.0.0.1:1", &["-t", "1s", "-E", "9"], PATH, "exit 75")).await.0, Some(69));
    // A contender of another client is a conflict, too.
    let stranger = operator(&server).await;
    contend_as_kazoo(&stranger, PATH).await;
    assert_eq!(ends(run(&servers, &["-t", "0", "-E", "9"], PATH, "exit 75")).await.0, Some(9));
    assert_eq!(ends(run(&servers, &["-E", "256"], PATH, "exit 75")).await.0, Some(64));
}

/// cron mails every line.
#[tokio::test]
async fn a_quiet_try_says_nothing_of_a_lock_that_is_taken() {
    let server = server().await;
    let servers = server.connect_string();
    let session = Session::connect(servers.clone()).await.unwrap();
    let guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    for timeout in ["0", "6s"] {
        let output = output(run(&servers, &["-q", "-t", timeout], PATH, "echo in")).await;
        assert_eq!(output.code, 75);
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    }
    guard.release().await.unwrap();
    // Errors are printed.
    let (code, message) = ends(run("127.0.0.1:1", &["-q", "-t", "1s"], PATH, "exit 0")).await;
    assert_eq!(code, Some(69));
    assert!(message.starts_with("zklock: no server of ") && message.lines().count() == 1, "{message}");
    let stranger = operator(&server).await;
    let node = contend_as_kazoo(&stranger, PATH).await;
    let (code, message) = ends(run(&servers, &["-q", "-t", "0"], PATH, "exit 0")).await;
    assert_eq!(code, Some(75));
    assert!(message.contains(&node), "{message}");
}

#[tokio::test]
async fn not_authorized_is_77() {
    let server = server().await;
    private(&server, "/private").await;
    let (code, message) = ends(run(&server.connect_string(), &[], "/private/lock", "exit 0")).await;
    assert_eq!(code, Some(77), "{message}");
    // The credentials let it in, and its own ACL lets in nobody else.
    let mut program = run(&server.connect_string(), &["--acl", "creator"], "/private/lock", "exit 3");
    program.env("ZKLOCK_DIGEST", "owner:secret");
    let (code, message) = ends(program).await;
    assert_eq!(code, Some(3), "{message}");
}

/// A node that only `owner:secret` may touch.
async fn private(server: &Server, path: &str) {
    let client = Client::connector()
        .with_auth("digest", b"owner:secret")
        .connect(&server.connect_string())
        .await
        .unwrap();
    client.create(path, &[], &CreateMode::Persistent.with_acls(Acls::creator_all())).await.unwrap();
}

#[tokio::test]
async fn a_signal_before_the_connection_is_128_and_the_signal() {
    let mut connecting = command(&["run", PATH, "--", "true"]).spawn().unwrap();
    connected_in_vain(&connecting).await;
    signal(&connecting, Signal::TERM);
    assert_eq!(ended(&mut connecting).await.code(), Some(143));
}

/// Waits until the process handles signals.
async fn connected_in_vain(child: &tokio::process::Child) {
    let status = format!("/proc/{}/status", child.id().unwrap());
    zklock_test_support::eventually("a handler of SIGTERM", async || {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (Signal::TERM.as_raw() - 1) & 1 == 1
    })
    .await;
}
