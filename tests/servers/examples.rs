//! The examples, as processes that run to their ends.

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Server, example, server, until_nothing_is_left, within};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

fn command(name: &str, server: &Server) -> Command {
    let mut command = Command::new(example(name));
    command.arg(server.connect_string()).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A leader that runs.
struct Started {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Started {
    fn new(server: &Server) -> Self {
        let mut process = command("leader", server).stdout(Stdio::piped()).spawn().expect("a process");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { process, lines }
    }

    async fn says(&mut self, words: &str) {
        within(words, async { while !self.lines.next_line().await.unwrap().unwrap().contains(words) {} })
            .await;
    }
}

/// The lines that it has printed.
fn printed(output: Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn quickstart_works_under_the_lock() {
    let server = server().await;
    let output = within("the end", command("quickstart", &server).output()).await.expect("a process");
    until_nothing_is_left(&server).await;
    assert_eq!(printed(output).last().unwrap(), "inside");
}

#[tokio::test]
async fn a_leader_that_is_told_to_stop_leaves_to_the_next_one_at_once() {
    let server = server().await;
    let mut leader = Started::new(&server);
    leader.says("leads, token").await;
    for _ in 0..2 {
        let mut next = Started::new(&server);
        next.says("waits").await;
        let pid = Pid::from_raw(leader.process.id().expect("it runs") as i32).expect("not 0");
        kill_process(pid, Signal::TERM).unwrap();
        let began = Instant::now();
        next.says("leads, token").await;
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "{:?}: as long as a session timeout",
            began.elapsed()
        );
        let status = within("the end", leader.process.wait()).await.unwrap();
        assert!(status.success(), "{status}");
        leader = next;
    }
}

#[tokio::test]
async fn each_step_of_a_migration_is_taken_once_though_two_migrate() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("schema.txt");
    let migrate = || {
        let mut command = command("migrate", &server);
        command.arg("/lock/migration").arg(&database);
        async move { printed(command.output().await.expect("a process")) }
    };
    let (one, other) = within("both ends", async { tokio::join!(migrate(), migrate()) }).await;
    until_nothing_is_left(&server).await;
    assert_eq!(one.len() + other.len(), 3, "{one:?}, {other:?}");
    assert_eq!(std::fs::read_to_string(database).unwrap().lines().count(), 3);
}
