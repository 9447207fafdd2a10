//! `zklock run` in unusual surroundings: the streams, the signal mask, `/proc`, the way it was started.

use std::io::PipeWriter;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Command;

use crate::support::witness::Witness;
use crate::support::{
    Running, child_of, children_of, ended, kill, output, run, until_queued, until_stopped, with_session,
};
use zklock_test_support::{eventually, server, until_nothing_is_left, within};

const ZKLOCK: &str = env!("CARGO_BIN_EXE_zklock");

/// A program that runs `zklock`.
fn by(program: &str, arguments: &[&str], servers: &str) -> Command {
    let mut program = Command::new(program);
    program.args(arguments).env("ZKLOCK_SERVERS", servers).stdin(Stdio::null()).kill_on_drop(true);
    program
}

#[tokio::test]
async fn nobody_need_hear_what_it_says() {
    let server = server().await;
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut program = run(&server.connect_string(), &["--verbose"], "/lock/deaf", "exit 4");
    let mut child = program.env("RUST_LOG", "trace").stderr(full).spawn().unwrap();
    assert_eq!(ended(&mut child).await.code(), Some(4));
}

#[tokio::test]
async fn a_signal_that_was_blocked_ends_the_wait_for_all_that() {
    let (server, servers, session) = with_session(server().await).await;
    let guard = session.lock("/lock/blocked").unwrap().acquire().await.unwrap();
    let arguments = ["--block-signal=TERM", ZKLOCK, "run", "/lock/blocked", "--", "true"];
    let mut waiter = Running::start(by("env", &arguments, &servers));
    until_queued(&session, "/lock/blocked", 2).await;
    waiter.signal(Signal::TERM);
    waiter.ends_with(143).await;
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// The signal to end comes before `zklock` has seen the command stop.
#[tokio::test]
async fn a_command_that_was_stopped_right_before_hears_of_its_end() {
    let server = server().await;
    for _ in 0..8 {
        let mut running = Running::start(run(&server.connect_string(), &[], "/lock/stop", "exec sleep 1000"));
        kill(child_of(running.warden().await, "sleep").await, Signal::STOP);
        running.signal(Signal::TERM);
        running.ends_with(143).await;
    }
}

/// Waits until a command that echoes lines answers.
async fn until_it_answers(echo: &mut Running, round: u64) {
    echo.reads(&format!("{round}\n")).await;
    assert_eq!(echo.prints().await, round.to_string());
}

/// The time between the two signals varies, so that the SIGCONT finds every step of the stop.
#[tokio::test]
async fn whoever_stops_it_and_continues_it_leaves_it_running() {
    let server = server().await;
    let mut program = run(&server.connect_string(), &[], "/lock/pairs", "exec cat");
    program.process_group(0);
    let mut echo = Running::start(program);
    for round in 0..600 {
        until_it_answers(&mut echo, round).await;
        echo.signal(Signal::TSTP);
        std::thread::sleep(Duration::from_micros(5 * round));
        echo.signal(Signal::CONT);
    }
    // zklock also stops for its command, without a signal of its own.
    let command = child_of(echo.warden().await, "cat").await;
    for round in 0..240 {
        until_it_answers(&mut echo, round).await;
        kill(command, Signal::TSTP);
        std::thread::sleep(Duration::from_micros(5 * round));
        echo.signal(Signal::CONT);
    }
    // Each time that nobody continues it, it is stopped.
    for round in 0..30 {
        until_it_answers(&mut echo, round).await;
        echo.signal(Signal::TSTP);
        until_stopped(echo.pid()).await;
        echo.signal(Signal::CONT);
    }
    echo.ends_with(0).await;
}

/// Both get the SIGTSTP. Nobody could continue the outer one, so it continues both at once.
#[tokio::test]
async fn one_within_another_goes_on_if_nobody_could_continue_them() {
    let server = server().await;
    let script = format!("{ZKLOCK} run /lock/inner -- cat; exit");
    let arguments = [ZKLOCK, "run", "/lock/outer", "--", "sh", "-c", &script];
    let mut echo = Running::start(by("setsid", &arguments, &server.connect_string()));
    for round in 0..30 {
        until_it_answers(&mut echo, round).await;
        echo.signal(Signal::TSTP);
    }
    echo.ends_with(0).await;
}

#[tokio::test]
async fn the_command_starts_with_nothing_blocked() {
    let server = server().await;
    let command = ["grep", "SigBlk", "/proc/self/status"];
    let arguments = [&["--block-signal", ZKLOCK, "run", "/lock/mask", "--"][..], &command].concat();
    let output = output(by("env", &arguments, &server.connect_string())).await;
    assert_eq!(output.stdout, "SigBlk:\t0000000000000000\n", "{output:?}");
}

/// The command hides `/proc` from its warden and its holder, starts a child that leaves its process group, and kills the
/// warden.
#[tokio::test]
async fn what_is_mounted_over_proc_hides_nobody() {
    let server = server().await;
    let mut witness = Witness::new();
    let up = witness.directory().join("up");
    let script = witness.of(&format!(
        "setsid sh -c ': > {0}; exec sleep 1000' & until [ -e {0} ]; do sleep 0.01; done; \
         mount -t tmpfs none /proc && kill -KILL $PPID",
        up.display()
    ));
    let namespace = ["--map-root-user", "--mount", ZKLOCK, "run", "/lock/hidden", "--", "sh", "-c", &script];
    let mut running = Running::start(by("unshare", &namespace, &server.connect_string()));
    witness.began().await;
    witness.gone().await;
    running.ends_with(70).await;
}

#[tokio::test]
async fn without_proc_it_does_not_even_wait() {
    // Without `/proc`, and with that of another pid namespace.
    let (_server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock/none").unwrap().acquire().await.unwrap();
    for (namespace, prelude) in [("--mount", "mount -t tmpfs none /proc"), ("--pid", "true")] {
        let script = format!("{prelude} && exec {ZKLOCK} run /lock/none -- true");
        let arguments = ["--map-root-user", "--fork", namespace, "sh", "-c", &script];
        output(by("unshare", &arguments, &servers)).await.is(70, "", "/children of this pid namespace");
    }
}

/// `/proc/self/exe` is the loader then. Started as the warden, the loader would run the command itself.
#[tokio::test]
async fn a_loader_that_runs_it_does_not_run_the_command_without_a_warden() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut files = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let loader = files.find(|file| file.contains("/ld-")).expect("this test has a loader, too");
    let touch = ["/usr/bin/touch", ran.to_str().unwrap()];
    let arguments = [&[ZKLOCK, "run", "/lock/loaded", "--"][..], &touch].concat();
    output(by(loader, &arguments, &server.connect_string())).await.says(70, "");
    assert!(!ran.exists());
}

/// The first process of a pid namespace, as in a container. Others come in, as `docker exec` does, and leave orphans to it.
#[tokio::test(flavor = "multi_thread")]
async fn as_the_first_process_it_reaps_what_others_leave() {
    let (_server, servers, session) = with_session(server().await).await;
    let lock = session.lock("/lock/init").unwrap();
    let guard = lock.acquire().await.unwrap();
    let witness = Witness::new();
    // The command leaves a process behind that has left its process group, and ends at a signal.
    let script = witness.of("setsid sleep 1000 & trap 'exit 5' TERM; echo up; while :; do read line; done");
    let namespace = ["--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let command = [ZKLOCK, "run", "/lock/init", "--", "sh", "-c", &script];
    let mut outside = Running::start(by("unshare", &[&namespace[..], &command].concat(), &servers));
    let init = child_of(outside.pid(), ZKLOCK).await;
    until_queued(&session, "/lock/init", 2).await;

    // It waits for the lock.
    an_orphan_is_reaped(init).await;
    guard.release().await.unwrap();
    assert_eq!(outside.prints().await, "up");
    // It runs the command. One orphan goes on, and keeps it from nothing.
    let orphan = an_orphan(init, "tee").await;
    an_orphan_is_reaped(init).await;

    // It waits for the command's processes, and not for an orphan of others.
    let next = tokio::spawn(async move { lock.acquire().await });
    until_queued(&session, "/lock/init", 2).await;
    enter(init, "kill -TERM 1", Stdio::null()).await;
    let next = within("the next grant", next).await.unwrap().unwrap();
    assert!(witness.is_gone(), "a process of the command outlives the lock");
    outside.ends_with(5).await;
    drop(orphan);
    next.release().await.unwrap();
}

/// Runs a script in the namespaces of this process.
async fn enter(init: Pid, script: &str, input: impl Into<Stdio>) {
    let target = init.as_raw_pid().to_string();
    let namespaces = ["--target", &target, "--user", "--pid", "--mount", "--preserve-credentials"];
    let mut program = by("nsenter", &[&namespaces[..], &["sh", "-c", script]].concat(), "");
    let status = program.stdin(input).status();
    drop(program);
    assert!(within("nsenter", status).await.unwrap().success(), "{script}");
}

/// A child of the first process that others have left to it. It runs until this pipe is closed.
async fn an_orphan(init: Pid, name: &str) -> (Pid, PipeWriter) {
    let (theirs, ours) = std::io::pipe().unwrap();
    // A shell gives the jobs in its background no input of its own.
    enter(init, &format!("exec 3<&0; ({name} <&3 >/dev/null &)"), theirs).await;
    (child_of(init, name).await, ours)
}

async fn an_orphan_is_reaped(init: Pid) {
    let (orphan, pipe) = an_orphan(init, "cat").await;
    drop(pipe);
    eventually("the orphan's end", async || !children_of(init).contains(&orphan)).await;
}
