//! `zklock run` in unusual surroundings: the streams, the signal mask, `/proc`, the way it was started.

use std::io::PipeWriter;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::witness::Witness;
use crate::support::{
    child_of, children_of, ended, line, lines, output, pid, run, signal, until_queued, until_stopped,
    with_session,
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
    let mut waiter = by("env", &arguments, &servers).spawn().unwrap();
    until_queued(&session, "/lock/blocked", 2).await;
    signal(&waiter, Signal::TERM);
    assert_eq!(ended(&mut waiter).await.code(), Some(143));
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// The signal to end comes before `zklock` has seen the command stop.
#[tokio::test]
async fn a_command_that_was_stopped_right_before_hears_of_its_end() {
    let server = server().await;
    for _ in 0..8 {
        let mut child = run(&server.connect_string(), &[], "/lock/stop", "exec sleep 1000").spawn().unwrap();
        let warden = child_of(pid(&child), "zklock-warden").await;
        let command = child_of(warden, "sleep").await;
        kill_process(command, Signal::STOP).unwrap();
        signal(&child, Signal::TERM);
        assert_eq!(ended(&mut child).await.code(), Some(143));
    }
}

/// The input and output of a command that echoes lines.
struct Echo {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Echo {
    fn of(child: &mut Child) -> Self {
        Self { input: child.stdin.take().expect("a pipe"), output: lines(&mut child.stdout) }
    }

    /// Waits until the command answers.
    async fn answers(&mut self, round: u64) {
        self.input.write_all(format!("{round}\n").as_bytes()).await.expect("it reads");
        let line = within(&format!("its answer {round}"), self.output.next_line()).await.expect("it writes");
        assert_eq!(line, Some(round.to_string()));
    }
}

/// The time between the two signals varies, so that the SIGCONT finds every step of the stop.
#[tokio::test]
async fn whoever_stops_it_and_continues_it_leaves_it_running() {
    let server = server().await;
    let mut program = run(&server.connect_string(), &[], "/lock/pairs", "exec cat");
    let mut child = program.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut echo = Echo::of(&mut child);
    for round in 0..600 {
        echo.answers(round).await;
        signal(&child, Signal::TSTP);
        std::thread::sleep(Duration::from_micros(5 * round));
        signal(&child, Signal::CONT);
    }
    // zklock also stops for its command, without a signal of its own.
    let command = child_of(child_of(pid(&child), "zklock-warden").await, "cat").await;
    for round in 0..240 {
        echo.answers(round).await;
        kill_process(command, Signal::TSTP).unwrap();
        std::thread::sleep(Duration::from_micros(5 * round));
        signal(&child, Signal::CONT);
    }
    // Each time that nobody continues it, it is stopped.
    for round in 0..30 {
        echo.answers(round).await;
        signal(&child, Signal::TSTP);
        until_stopped(pid(&child)).await;
        signal(&child, Signal::CONT);
    }
    drop(echo);
    assert!(ended(&mut child).await.success());
}

/// Both get the SIGTSTP. Nobody could continue the outer one, so it continues both at once.
#[tokio::test]
async fn one_within_another_goes_on_if_nobody_could_continue_them() {
    let server = server().await;
    let script = format!("{ZKLOCK} run /lock/inner -- cat; exit");
    let arguments = [ZKLOCK, "run", "/lock/outer", "--", "sh", "-c", &script];
    let mut program = by("setsid", &arguments, &server.connect_string());
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut echo = Echo::of(&mut child);
    for round in 0..30 {
        echo.answers(round).await;
        signal(&child, Signal::TSTP);
    }
    drop(echo);
    assert!(ended(&mut child).await.success());
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
    let mut child = by("unshare", &namespace, &server.connect_string()).spawn().unwrap();
    witness.began().await;
    witness.gone().await;
    assert_eq!(ended(&mut child).await.code(), Some(70));
}

#[tokio::test]
async fn without_proc_it_does_not_even_wait() {
    // Without `/proc`, and with that of another pid namespace.
    let (_server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock/none").unwrap().acquire().await.unwrap();
    for (namespace, prelude) in [("--mount", "mount -t tmpfs none /proc"), ("--pid", "true")] {
        let script = format!("{prelude} && exec {ZKLOCK} run /lock/none -- true");
        let arguments = ["--map-root-user", "--fork", namespace, "sh", "-c", &script];
        let output = output(by("unshare", &arguments, &servers)).await;
        output.is(70, "", "/children of this pid namespace");
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
    let output = output(by(loader, &arguments, &server.connect_string())).await;
    assert_eq!(output.code, 70, "{output:?}");
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
    let mut program = by("unshare", &[&namespace[..], &command].concat(), &servers);
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let init = child_of(pid(&child), ZKLOCK).await;
    until_queued(&session, "/lock/init", 2).await;

    // It waits for the lock.
    an_orphan_is_reaped(init).await;
    guard.release().await.unwrap();
    assert_eq!(line(&mut lines(&mut child.stdout)).await, "up");
    // It runs the command. One orphan goes on, and keeps it from nothing.
    let orphan = an_orphan(init, "tee").await;
    an_orphan_is_reaped(init).await;

    // It waits for the command's processes, and not for an orphan of others.
    let next = tokio::spawn(async move { lock.acquire().await });
    until_queued(&session, "/lock/init", 2).await;
    enter(init, "kill -TERM 1", Stdio::null()).await;
    let next = within("the next grant", next).await.unwrap().unwrap();
    assert!(witness.is_gone(), "a process of the command outlives the lock");
    assert_eq!(ended(&mut child).await.code(), Some(5));
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
