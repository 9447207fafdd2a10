//! Helpers that the tests of the program share.

pub(crate) mod authority;
pub(crate) mod looker;
pub(crate) mod program;
pub(crate) mod terminal;
pub(crate) mod witness;

use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use zklock::{Contender, Session};

use zklock_test_support::{eventually, within};

/// The program, for these servers, and with nothing else in its environment.
pub(crate) fn zklock(servers: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_zklock"));
    let path = std::env::var_os("PATH").expect("a path");
    program
        .env_clear()
        .env("PATH", path)
        .env("ZKLOCK_SERVERS", servers)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    program
}

/// `zklock run OPTIONS PATH -- sh -c SCRIPT`.
pub(crate) fn run(servers: &str, options: &[&str], path: &str, script: &str) -> Command {
    let mut program = zklock(servers);
    program.arg("run").args(options).args([path, "--", "sh", "-c", script]);
    program
}

/// Runs the program to its end.
pub(crate) async fn output(mut program: Command) -> Output {
    within("the program's end", program.output()).await.expect("the program starts")
}

/// Waits until the program has ended.
pub(crate) async fn ended(child: &mut Child) -> ExitStatus {
    within("the program's end", child.wait()).await.expect("a status")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends a signal to a program that was started here and has not ended.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(pid(child), signal).expect("it runs");
}

pub(crate) fn pid(child: &Child) -> Pid {
    let id = child.id().expect("it runs");
    Pid::from_raw(i32::try_from(id).expect("a process id")).expect("a process id")
}

/// The children of a process that runs, with those that have ended and were not waited for.
pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid())).expect("it runs");
    let lists =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let ids = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    ids.map(|id| Pid::from_raw(id.parse().expect("a process id")).expect("a process id")).collect()
}

/// The child of a process whose command line begins with this name.
pub(crate) async fn child_of(parent: Pid, name: &str) -> Pid {
    let mut found = None;
    eventually("a child process", async || {
        found = children_of(parent).into_iter().find(|child| {
            let line = std::fs::read_to_string(format!("/proc/{}/cmdline", child.as_raw_pid()));
            line.is_ok_and(|line| line.starts_with(name))
        });
        found.is_some()
    })
    .await;
    found.expect("a process id")
}

/// The queue of a lock now.
pub(crate) async fn queue(session: &Session, path: &str) -> Vec<Contender> {
    zklock_test_support::queue(&session.lock(path).expect("a path")).await
}

/// Waits until the queue has so many contenders.
pub(crate) async fn until_queued(session: &Session, path: &str, contenders: usize) {
    zklock_test_support::until_queued(&session.lock(path).expect("a path"), contenders).await;
}

/// Waits until the file has so many lines.
pub(crate) async fn until_lines(file: &Path, lines: usize) {
    eventually("the file's lines", async || {
        std::fs::read_to_string(file).is_ok_and(|text| text.lines().count() >= lines)
    })
    .await;
}

/// Seconds from `earlier` to `later`; negative if it is the other way round.
pub(crate) fn seconds(earlier: Instant, later: Instant) -> f64 {
    match later.checked_duration_since(earlier) {
        Some(ahead) => ahead.as_secs_f64(),
        None => -(earlier - later).as_secs_f64(),
    }
}

/// Prints one row of the table of gaps.
pub(crate) fn report(scenario: &str, gone: Instant, next: Instant) {
    println!("gap: {scenario}: {:+.3} s", seconds(gone, next));
}

/// A bound for something that takes no time but on a busy machine. It is too short for a session to expire.
pub(crate) const SHORTLY: Duration = Duration::from_secs(8);
