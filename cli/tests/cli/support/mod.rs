//! Helpers that the tests of the program share.

pub(crate) mod authority;
pub(crate) mod looker;
pub(crate) mod terminal;
pub(crate) mod witness;

use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use zklock::{Lock, LockOptions, Session, inspect::Contender};

use zklock_test_support::{Server, eventually, operator, within};

/// A test's place, and its connect string.
pub(crate) fn at(server: Server) -> (Server, String) {
    let servers = server.connect_string();
    (server, servers)
}

/// A test's place, its connect string, and a session there.
pub(crate) async fn with_session(server: Server) -> (Server, String, Session) {
    let session = zklock_test_support::session(&server).await;
    let (server, servers) = at(server);
    (server, servers, session)
}

/// A lock whose contenders have this owner.
pub(crate) fn lock_of(session: &Session, path: &str, owner: &str) -> Lock {
    let options = LockOptions::new().owner(owner);
    session.lock(path).expect("a path").with_options(options).expect("options")
}

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
    run_on(servers, &[options, &[path]].concat(), script)
}

/// `zklock run OPTIONS -- sh -c SCRIPT`. The options name what it runs on.
pub(crate) fn run_on(servers: &str, options: &[&str], script: &str) -> Command {
    let mut program = zklock(servers);
    program.arg("run").args(options).args(["--", "sh", "-c", script]);
    program
}

/// How the program ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Ran {
    /// Asserts that it ended with this code, printed this result, and said this among others.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, stdout: &str, said: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (code, stdout), "{self:?}");
        assert!(self.stderr.contains(said), "{said:?}: {self:?}");
    }

    /// Asserts that it ended with this code, printed this result, and said nothing.
    #[track_caller]
    pub(crate) fn is_silent(&self, code: i32, stdout: &str) {
        assert_eq!((self.code, &*self.stdout, &*self.stderr), (code, stdout, ""), "{self:?}");
    }

    /// The JSON that it printed. The run must have succeeded.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        self.report()
    }

    /// The JSON that it printed, whatever its exit code is.
    #[track_caller]
    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn of(output: Output, took: Duration) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("no signal");
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr), took }
    }
}

/// Runs the program to its end.
pub(crate) async fn output(mut program: Command) -> Ran {
    let started = Instant::now();
    let output = within("the program's end", program.output()).await.expect("the program starts");
    Ran::of(output, started.elapsed())
}

/// Waits until the program has ended, and reads what it has printed.
pub(crate) async fn finished(child: Child) -> Ran {
    let started = Instant::now();
    let output = within("the program's end", child.wait_with_output()).await.expect("a status");
    Ran::of(output, started.elapsed())
}

/// A program that runs, what it prints, and what it says.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) printed: Lines<BufReader<ChildStdout>>,
    pub(crate) told: Lines<BufReader<ChildStderr>>,
}

impl Running {
    pub(crate) fn start(program: &mut Command) -> Self {
        let mut child =
            program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (printed, told) = (lines(&mut child.stdout), lines(&mut child.stderr));
        Self { child, printed, told }
    }

    pub(crate) async fn prints(&mut self) -> String {
        line(&mut self.printed).await
    }

    pub(crate) async fn tells(&mut self) -> String {
        line(&mut self.told).await
    }

    pub(crate) async fn ended(&mut self) -> Option<i32> {
        ended(&mut self.child).await.code()
    }
}

/// What a program writes to a pipe.
pub(crate) fn lines<T: AsyncRead>(pipe: &mut Option<T>) -> Lines<BufReader<T>> {
    BufReader::new(pipe.take().expect("a pipe")).lines()
}

/// Waits for the next line.
pub(crate) async fn line(lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>) -> String {
    within("a line", lines.next_line()).await.expect("text").expect("it goes on")
}

/// Shells that read a number, sleep, and write the next number, each so often under the locks that its options name. No
/// number is lost.
pub(crate) async fn lose_no_count(servers: &str, each: usize, shells: &[&[&str]]) {
    let directory = tempfile::tempdir().expect("a directory");
    let counter = directory.path().join("counter");
    std::fs::write(&counter, "0\n").expect("a file");
    let script = format!("n=$(cat '{0}'); sleep 0.01; echo $((n + 1)) > '{0}'", counter.display());
    let shell = async |options| {
        for _ in 0..each {
            let ran = output(run_on(servers, options, &script)).await;
            assert_eq!(ran.code, 0, "{ran:?}");
        }
    };
    join_all(shells.iter().map(|options| shell(*options))).await;
    let counted = std::fs::read_to_string(&counter).expect("a number");
    assert_eq!(counted, format!("{}\n", shells.len() * each));
}

/// Waits until the program has ended.
pub(crate) async fn ended(child: &mut Child) -> ExitStatus {
    within("the program's end", child.wait()).await.expect("a status")
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

/// Waits until the process is stopped.
pub(crate) async fn until_stopped(process: Pid) {
    eventually("it stopped", async || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid()));
        status.expect("it is there").contains("State:\tT")
    })
    .await;
}

/// The queue of a lock now.
pub(crate) async fn queue(session: &Session, path: &str) -> Vec<Contender> {
    zklock_test_support::queue(&session.lock(path).expect("a path")).await
}

/// Deletes the holder's node, as an operator may do.
pub(crate) async fn delete_holder(server: &Server, path: &str) {
    let session = zklock_test_support::session(server).await;
    let node = queue(&session, path).await.remove(0).path;
    operator(server).await.delete(&node, None).await.expect("the node was there");
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

/// A bound for something that takes no time but on a busy machine. It is too short for a session to expire.
pub(crate) const SHORTLY: Duration = Duration::from_secs(8);
