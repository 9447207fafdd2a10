//! A holder in a process of its own: this test program again, spoken with in lines.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::contest::{TIMEOUT, session};
use crate::support::{eventually, within};

/// Makes a test act as the holder: the servers, a blank, the lock's path.
const PART: &str = "ZKLOCK_STRICT_HOLDER";

/// What the holder says, as opposed to what the test runner prints.
const MARK: &str = "holder: ";

/// The holder's process. It is killed when this is dropped, stopped or not.
pub(crate) struct Holder {
    child: Child,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Runs `test` of this program as the holder.
    pub(crate) fn start(test: &str, servers: &str, path: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([test, "--exact", "--nocapture"])
            .env(PART, format!("{servers} {path}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a process");
        let commands = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, commands, lines }
    }

    /// The next thing it says.
    pub(crate) async fn says(&mut self) -> String {
        within("the holder's word", async {
            loop {
                let line = self.lines.next_line().await.expect("a pipe").expect("the holder ended");
                // The test runner may have begun the line.
                if let Some((_, said)) = line.split_once(MARK) {
                    return said.to_owned();
                }
            }
        })
        .await
    }

    /// Has it do something. A stopped process does it first thing when it continues.
    pub(crate) async fn command(&mut self, command: &str) {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.expect("a pipe");
    }

    /// Stops it, and returns once the kernel says that it is stopped.
    pub(crate) async fn stop(&self) {
        kill_process(self.pid(), Signal::STOP).expect("a process to stop");
        let status = format!("/proc/{}/status", self.pid().as_raw_nonzero());
        eventually("the process to stop", async || {
            std::fs::read_to_string(&status).expect("a process").contains("State:\tT")
        })
        .await;
    }

    /// Lets it continue.
    pub(crate) fn resume(&self) {
        kill_process(self.pid(), Signal::CONT).expect("a process to continue");
    }

    fn pid(&self) -> Pid {
        let id = self.child.id().expect("the holder ended");
        Pid::from_raw(id.try_into().expect("a process id")).expect("a process id")
    }
}

/// Whether this process is the holder's; plays its part, if so.
pub(crate) async fn is_played() -> bool {
    let Ok(part) = std::env::var(PART) else { return false };
    let (servers, path) = part.split_once(' ').expect("servers and a path");
    play(servers, path).await;
    true
}

/// Acquires the lock, then does as it is told until nobody is there to tell.
async fn play(servers: &str, path: &str) {
    let session = session(servers.to_owned(), TIMEOUT).await;
    let guard = session.lock(path).unwrap().acquire().await.unwrap();
    let token = guard.token().to_string();
    say(&token);
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(command) = commands.next_line().await.expect("a pipe") {
        match command.as_str() {
            "check" => say(&guard.check().map_or_else(|lost| lost.reason.to_string(), |()| HELD.to_owned())),
            "write" => {
                let written =
                    guard.transaction().set(format!("{path}-store"), token.as_str(), None).commit().await;
                say(&written.map_or_else(|refused| refused.to_string(), |_| WRITTEN.to_owned()));
            }
            other => panic!("nobody taught the holder to {other:?}"),
        }
    }
}

/// The holder's answer to `check` while its guard is valid; otherwise it says why it was lost.
pub(crate) const HELD: &str = "held";

/// Its answer to `write` if its token is in the store.
pub(crate) const WRITTEN: &str = "written";

fn say(word: &str) {
    println!("{MARK}{word}");
}
