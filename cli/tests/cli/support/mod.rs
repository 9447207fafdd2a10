//! Helpers that the tests of the program share.

pub(crate) mod authority;
pub(crate) mod terminal;
pub(crate) mod witness;

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc;
use zklock::{Lock, LockOptions, Session, inspect::Contender};
use zklock_test_support::{Server, eventually, monitored, operator, within};
use zklock_testcontainers::ZooKeeper;
use zookeeper_client::{Acl, Acls, Client, CreateMode};

/// An address on which no server listens. No program gets this port by chance.
pub(crate) const NOBODY: &str = "127.0.0.1:1";

/// Credentials in the form of ZKLOCK_DIGEST.
pub(crate) const DIGEST: &str = "operator:secret";

/// What kazoo's lock names its nodes, without the number.
pub(crate) const KAZOO: &str = "1ef3b5a40e4f4cd59a397a9d3a6b7f10__lock__";

/// A bound for something that takes no time but on a busy machine. It is too short for a session to expire.
pub(crate) const SHORTLY: Duration = Duration::from_secs(8);

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

pub(crate) fn owner(text: &str) -> LockOptions {
    LockOptions::new().owner(text)
}

/// A lock whose contenders have this owner.
pub(crate) fn lock_of(session: &Session, path: &str, text: &str) -> Lock {
    session.lock(path).expect("a path").with_options(owner(text)).expect("options")
}

/// The arguments of a command line: each for itself, or in one text with single blanks between them.
pub(crate) trait Words {
    fn words(&self) -> Vec<&str>;
}

impl Words for str {
    fn words(&self) -> Vec<&str> {
        self.split(' ').collect()
    }
}

impl Words for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Words for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Words for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

/// The program, for these servers, and with nothing else in its environment.
pub(crate) fn program(servers: &str) -> Command {
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

/// The same, with these arguments.
pub(crate) fn program_of(servers: &str, arguments: &(impl Words + ?Sized)) -> Command {
    let mut program = program(servers);
    program.args(arguments.words());
    program
}

/// Runs the program on these servers to its end, without a terminal.
pub(crate) async fn zklock(servers: &str, arguments: &(impl Words + ?Sized)) -> Ran {
    output(program_of(servers, arguments)).await
}

/// As [`zklock`], with credentials.
pub(crate) async fn zklock_as(servers: &str, digest: &str, arguments: &(impl Words + ?Sized)) -> Ran {
    let mut program = program_of(servers, arguments);
    program.env("ZKLOCK_DIGEST", digest);
    output(program).await
}

/// `zklock run OPTIONS PATH -- sh -c SCRIPT`.
pub(crate) fn run(servers: &str, options: &[&str], path: &str, script: &str) -> Command {
    run_on(servers, &[options, &[path]].concat(), script)
}

/// `zklock run OPTIONS -- sh -c SCRIPT`. The options name what it runs on.
pub(crate) fn run_on(servers: &str, options: &[&str], script: &str) -> Command {
    let mut program = program(servers);
    program.arg("run").args(options).args(["--", "sh", "-c", script]);
    program
}

/// Runs these command lines, whose arguments stand between single blanks. Asserts how each ends, what it prints, and what it
/// says among others.
pub(crate) async fn answers(servers: &str, lines: &[(&str, i32, &str, &str)]) {
    for (line, code, stdout, said) in lines {
        println!("zklock {line}");
        zklock(servers, *line).await.is(*code, stdout, said);
    }
}

/// Runs these command lines, which are refused with 64, and asserts what the program says of each.
pub(crate) async fn are_refused(servers: &str, refused: &[(&str, &str)]) {
    let refused = refused.iter().map(|(line, said)| (*line, 64, "", *said)).collect::<Vec<_>>();
    answers(servers, &refused).await;
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

    /// Asserts that it ended with this code, and said this among others.
    #[track_caller]
    pub(crate) fn says(self, code: i32, said: &str) -> Self {
        assert!(self.code == code && self.stderr.contains(said), "{code}, {said:?}: {self:?}");
        self
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

    /// Asserts that `zklock doctor --json` ended with this code and has these findings. Returns its report.
    #[track_caller]
    pub(crate) fn finds(&self, code: i32, expected: &[&str]) -> Value {
        let report = self.report();
        assert_eq!((self.code, &codes(&report)[..]), (code, expected), "{self:?}");
        report
    }

    /// The JSON that it printed, whatever its exit code is.
    #[track_caller]
    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs the program to its end.
pub(crate) async fn output(mut program: Command) -> Ran {
    let started = Instant::now();
    let output = within("the program's end", program.output()).await.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("no signal");
    Ran { code, stdout: text(output.stdout), stderr: text(output.stderr), took: started.elapsed() }
}

/// A program that runs, what it prints, and what it says.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) printed: Lines<BufReader<ChildStdout>>,
    pub(crate) told: mpsc::UnboundedReceiver<String>,
}

impl Running {
    pub(crate) fn start(mut program: Command) -> Self {
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().expect("the program starts");
        let printed = lines(&mut child.stdout);
        let mut said = lines(&mut child.stderr);
        let (teller, told) = mpsc::unbounded_channel();
        // Its messages are read also if the test does not ask for them: a program whose reader is slow waits.
        tokio::spawn(async move {
            while let Some(line) = said.next_line().await.expect("UTF-8") {
                let _unheard = teller.send(line);
            }
        });
        Self { child, printed, told }
    }

    pub(crate) async fn prints(&mut self) -> String {
        line(&mut self.printed).await
    }

    pub(crate) async fn tells(&mut self) -> String {
        within("a line", self.told.recv()).await.expect("it goes on")
    }

    pub(crate) fn pid(&self) -> Pid {
        pid(&self.child)
    }

    /// Sends it a signal. It has not ended.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// The warden of its command.
    pub(crate) async fn warden(&self) -> Pid {
        child_of(self.pid(), "zklock-warden").await
    }

    /// Writes this to its standard input.
    pub(crate) async fn reads(&mut self, text: &str) {
        self.child.stdin.as_mut().expect("a pipe").write_all(text.as_bytes()).await.expect("it reads");
    }

    /// Ends its standard input.
    pub(crate) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Ends its standard input, and waits until it has ended. Returns its code, if no signal has ended it.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        ended(&mut self.child).await.code()
    }

    /// As [`ended`](Self::ended), with this code.
    pub(crate) async fn ends_with(&mut self, code: i32) {
        assert_eq!(self.ended().await, Some(code));
    }

    /// As [`ended`](Self::ended), and reads the rest of what it has printed and said.
    pub(crate) async fn finished(mut self) -> Ran {
        let started = Instant::now();
        self.end_input();
        let mut stdout = String::new();
        let mut stderr = String::new();
        let texts = async {
            self.printed.get_mut().read_to_string(&mut stdout).await.expect("UTF-8");
            while let Some(line) = self.told.recv().await {
                stderr += &format!("{line}\n");
            }
        };
        within("the program's end", texts).await;
        let code = self.ended().await.expect("no signal");
        Ran { code, stdout, stderr, took: started.elapsed() }
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

/// Waits until the program has ended.
pub(crate) async fn ended(child: &mut Child) -> ExitStatus {
    within("the program's end", child.wait()).await.expect("a status")
}

pub(crate) fn pid(child: &Child) -> Pid {
    let id = child.id().expect("it runs");
    Pid::from_raw(i32::try_from(id).expect("a process id")).expect("a process id")
}

/// Sends a signal to a process that has not ended.
pub(crate) fn kill(process: Pid, signal: Signal) {
    kill_process(process, signal).expect("it runs");
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

/// A plain client with credentials.
pub(crate) async fn authorized(server: &Server) -> Client {
    let connector = Client::connector().with_auth("digest", DIGEST.as_bytes());
    connector.connect(&server.connect_string()).await.expect("a client")
}

/// Joins a lock's queue as kazoo does. Returns the path of the node.
pub(crate) async fn contend_as_kazoo(client: &Client, path: &str) -> String {
    contend_as(client, path, KAZOO).await
}

/// Joins a lock's queue as a client does that names its nodes so. Returns the path of the node.
pub(crate) async fn contend_as(client: &Client, path: &str, name: &str) -> String {
    let prefix = format!("{path}/{name}");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = client.create(&prefix, b"", &options).await.expect("a node");
    format!("{prefix}{sequence}")
}

/// The findings of `zklock doctor --json`, the worst first. It leaves out servers that forget writes: they depend on the version
/// that the tests run on.
pub(crate) fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    let codes = findings.iter().map(|finding| finding["code"].as_str().expect("a code"));
    codes.filter(|code| *code != "forgets-writes").collect()
}

/// Sets a node's ACL.
pub(crate) async fn set_acl(client: &Client, path: &str, acls: &[Acl]) {
    client.set_acl(path, acls, None).await.expect("the ACL is set");
}

/// Asserts that the JSON has these members, and more at most in its objects.
#[track_caller]
pub(crate) fn has(json: &Value, expected: Value) {
    fn is_in(expected: &Value, json: &Value) -> bool {
        match (expected, json) {
            (Value::Object(some), Value::Object(all)) => {
                some.iter().all(|(name, value)| all.get(name).is_some_and(|json| is_in(value, json)))
            }
            (Value::Array(expected), Value::Array(items)) => {
                expected.len() == items.len()
                    && expected.iter().zip(items).all(|(one, item)| is_in(one, item))
            }
            _ => expected == json,
        }
    }
    assert!(is_in(&expected, json), "{expected:#} is not in {json:#}");
}

/// The rows of a printed table, with the cells of the header first. Two blanks stand between two cells.
pub(crate) fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

/// A server that does not say its tick. No tick fits its limits of session timeouts with which a session of 10 s has a lease.
pub(crate) async fn of_unknown_tick() -> ZooKeeper {
    let server =
        ZooKeeper::builder().tick_time(Duration::from_secs(2)).property("4lw.commands.whitelist", "srvr");
    server.min_session_timeout(Duration::from_secs(20)).start().await.expect("a ZooKeeper server")
}

/// How many sessions the servers keep.
pub(crate) async fn count_sessions(server: &Server) -> u64 {
    monitored(server, "zk_global_sessions").await
}
