//! The example `leader`, as processes: told to stop, it hands over at once.

use zklock_test_support as support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{example, server, session, until_nothing_is_left, until_queued, within};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use zklock_testcontainers::ZooKeeper;

/// The session timeout that the example has by default: so long would a crashed leader be waited for.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A process of the example, and what it says.
struct Service {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Service {
    fn start(server: &ZooKeeper) -> Self {
        let mut process = Command::new(example("leader"))
            .args([&server.connect_string(), "/lock/leader"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    async fn says(&mut self, beginning: &str) {
        let line = within(beginning, self.said.next_line()).await.unwrap().expect("a line");
        assert!(line.starts_with(beginning), "{line:?} instead of {beginning:?}");
    }

    fn terminate(&self) {
        let id = self.process.id().expect("it runs");
        let id = Pid::from_raw(id.try_into().unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
    }

    async fn stops(mut self) {
        self.says("stopped").await;
        assert!(within("the end", self.process.wait()).await.unwrap().success());
    }
}

#[tokio::test]
async fn hands_over_at_once_when_it_is_told_to_stop() {
    let server = server().await;
    let observer = session(&server).await.lock("/lock/leader").unwrap();
    let mut first = Service::start(&server);
    first.says("standing by").await;
    first.says("leading with token ").await;
    let mut second = Service::start(&server);
    second.says("standing by").await;
    until_queued(&observer, 2).await;
    let told = Instant::now();
    first.terminate();
    second.says("leading with token ").await;
    let handover = told.elapsed();
    println!("handed over in {handover:?}");
    assert!(handover < TIMEOUT / 2, "{handover:?}: no faster than after a crash");
    first.stops().await;

    // Told while it waits, it leaves the queue.
    let mut third = Service::start(&server);
    third.says("standing by").await;
    until_queued(&observer, 2).await;
    third.terminate();
    third.stops().await;
    until_queued(&observer, 1).await;
    second.terminate();
    second.stops().await;
    until_nothing_is_left(&server).await;
}
