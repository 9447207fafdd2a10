//! Commands that wait for themselves: for a zklock around them, and for a former session of their own process.

use rustix::process::Signal;
use zklock_testcontainers::Link;

use crate::support::{Running, at, kill, output, program_of, queue, run, run_on, until_queued, with_session};
use zklock_test_support::{eventually, own_server, server, until_watched};

const PATH: &str = "/lock/orders";
const AROUND: &str =
    "; this is a zklock around this command, and it usually waits until this command has ended";
const EXPIRED: &str =
    "the ZooKeeper session of this contender has expired; zklock joins the queue again, at the end";
/// A session that expires soon.
const BRIEF: [&str; 4] = ["--session-timeout", "2s", "--tick", "100ms"];

/// A script that runs the program.
fn nested(arguments: &str) -> String {
    format!("'{}' {arguments}", env!("CARGO_BIN_EXE_zklock"))
}

#[tokio::test]
async fn a_command_that_waits_for_a_zklock_around_it_says_so() {
    let (_server, servers) = at(server().await);
    for (outer, inner) in [
        ("run /lock/a", "run -t 0 /lock/a -- true".to_owned()),
        ("run /lock/a", "run -t 0 --shared /lock/a -- true".to_owned()),
        ("run --shared /lock/a", "run -t 0 /lock/a -- true".to_owned()),
        ("run /lock/a", "run -t 0 --lock /lock/b --lock /lock/a -- true".to_owned()),
        ("run --lock /lock/a --lock /lock/b", "run -t 0 --once one /lock/b -- true".to_owned()),
        ("run /lock/a", format!("run /lock/b -- {}", nested("run -t 0 /lock/a -- true"))),
        ("lead --value one /feed", "lead -t 0 --value two /feed -- true".to_owned()),
        ("run --permits /convert/3:2", "run -t 0 --permits /convert/3:2 -- true".to_owned()),
        ("run --slot /workers/1", "run -t 0 --slot /workers/1 -- true".to_owned()),
    ] {
        let mut program = program_of(&servers, outer);
        program.args(["--", "sh", "-c", &nested(&inner)]);
        output(program).await.is(75, "", AROUND);
    }
}

#[tokio::test]
async fn a_command_that_others_keep_waiting_does_not_blame_a_zklock_around_it() {
    let (_server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock/b").unwrap().acquire().await.unwrap();
    let _permit = session.semaphore("/convert", 3).unwrap().acquire().await.unwrap();
    for (outer, inner) in [
        (["/lock/a"].as_slice(), "run -t 0 /lock/b -- true"),
        // One of three is free, and another one may be, but for the other holder.
        (&["--permits", "/convert/3"], "run -t 0 --permits /convert/3:2 -- true"),
    ] {
        let ran = output(run_on(&servers, outer, &nested(inner))).await;
        ran.is(75, "", "held");
        assert!(!ran.stderr.contains(AROUND), "{ran:?}");
    }
}

#[tokio::test]
async fn the_tokens_around_a_command_are_in_its_environment() {
    let (_server, servers) = at(server().await);
    let inner = nested(r#"run /lock/b -- sh -c 'echo "$ZKLOCK_TOKEN"; echo "$ZKLOCK_TOKENS"'"#);
    let ran = output(run(&servers, &[], "/lock/a", &format!("echo \"$ZKLOCK_TOKEN\"; {inner}"))).await;
    let [outer, own, first, second] = ran.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    let sessions = [(first, outer), (second, own)].map(|(line, token)| line.strip_prefix(token));
    assert!(sessions.iter().all(|session| session.is_some_and(|it| it.starts_with(":"))), "{ran:?}");
}

/// Each ensemble counts its tokens from 0.
#[tokio::test]
async fn a_holder_with_the_token_of_a_zklock_in_another_ensemble_is_not_around_the_command() {
    let (_server, servers, session) = with_session(server().await).await;
    let guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    let around = async |tokens: String| {
        let mut program = run(&servers, &["-t", "0"], PATH, "exit 0");
        program.env("ZKLOCK_TOKENS", tokens);
        let ran = output(program).await;
        ran.is(75, "", "held by");
        ran.stderr.contains(AROUND)
    };
    let token = guard.token();
    let id = session.id();
    assert!(around(format!("7:1\n{token}:{id:x}")).await);
    assert!(!around(format!("{token}\n{token}:{:x}", id + 1)).await);
}

#[tokio::test]
async fn a_waiter_whose_session_expires_says_that_its_place_is_gone() {
    let (server, _, session) = with_session(server().await).await;
    let guard = session.lock(PATH).unwrap().acquire().await.unwrap();
    let link = Link::start(server.address()).await.unwrap();
    let mut waiter = Running::start(run(&server.at(link.address()), &BRIEF, PATH, "exit 3"));
    assert!(waiter.tells().await.contains("waiting for /lock/orders, held by "));
    until_queued(&session, PATH, 2).await;
    link.black_hole();
    until_queued(&session, PATH, 1).await;
    link.restore();
    // The outage is the cause, and the end of the session follows from it. A busy machine may tell the outage itself, too.
    let process = waiter.pid();
    let mut of_the_place = async || {
        loop {
            let told = waiter.tells().await;
            if told.contains("joins the queue again") {
                return told;
            }
        }
    };
    let told = of_the_place().await;
    assert!(told.starts_with("zklock: no server has answered this contender for "), "{told}");
    assert!(
        told.ends_with(" or more, so it has lost its place; zklock joins the queue again, at the end"),
        "{told}"
    );
    // It knows its place, and the servers are there.
    until_watched(&server, 1, 1).await;
    kill(process, Signal::STOP);
    until_queued(&session, PATH, 1).await;
    kill(process, Signal::CONT);
    assert_eq!(of_the_place().await, format!("zklock: {EXPIRED}"));
    until_queued(&session, PATH, 2).await;
    guard.release().await.unwrap();
    waiter.ends_with(3).await;
}

/// The servers come back with the sessions that they knew, and each has its whole timeout from then on. If the process
/// needs longer than that to connect, there is no former session any more, and the servers stop once more.
#[tokio::test]
async fn a_command_that_is_started_again_knows_the_former_session_of_its_process() {
    let server = own_server().await;
    let options = ["--restart", "--verbose", "--session-timeout", "6s", "--tick", "100ms"];
    let mut daemon = Running::start(run(&server.connect_string(), &options, PATH, "exec sleep 1000"));
    let mut until = async |texts: &[&str]| {
        loop {
            let line = daemon.tells().await;
            if let Some(which) = texts.iter().position(|text| line.contains(text)) {
                return which;
            }
        }
    };
    let acquired = "acquired /lock/orders";
    until(&[acquired]).await;
    let mut outages = 0;
    loop {
        server.own().kill().await.unwrap();
        until(&["gives it up"]).await;
        server.own().restart().await.unwrap();
        if until(&["; this is this process's former session", acquired]).await == 0 {
            break;
        }
        outages += 1;
        assert!(outages < 5, "the process was never back within a session timeout");
    }
    until(&[acquired]).await;
    let session = zklock_test_support::session(&server).await;
    eventually("one contender", async || queue(&session, PATH).await.len() == 1).await;
}
