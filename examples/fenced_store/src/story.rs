//! The story: it starts two writers, stops the first one at the worst moment, and judges what the store has in the end.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use zklock::FencingToken;
use zklock_testcontainers::ZooKeeper;

use crate::store::Store;
use crate::writer::{SESSION_TIMEOUT, Word};

/// Tells the story. Returns true if the store refused the stopped writer, and has what the other one wrote.
pub(crate) async fn run(servers: Option<String>) -> anyhow::Result<bool> {
    let (servers, _ours) = match servers {
        Some(servers) => (servers, None),
        None => {
            println!("Starting a ZooKeeper server ..");
            let server = ZooKeeper::start().await.context("cannot start a server")?;
            (server.connect_string(), Some(server))
        }
    };
    let directory = tempfile::Builder::new().prefix("fenced-store-").tempdir()?;
    let file = directory.path().join("store.sqlite");
    let lock = format!("/zklock-demo/fenced-store-{}", uuid::Uuid::new_v4());
    let store = Store::open(&file, &lock).await?;
    let begun = Instant::now();
    let tell = |text: String| println!("{:5.1} s  {text}", begun.elapsed().as_secs_f64());

    println!(
        "Two processes write to one SQLite file under one lock; the session timeout is {SESSION_TIMEOUT:?}.\n"
    );
    let mut first = Writer::start(&servers, &lock, &file, "by the first")?;
    let stale = first.checked().await?;
    tell(format!("first   acquires the lock with token {stale}; it asks its guard: held"));
    first.signal(Signal::STOP)?;
    first.until_stopped().await?;
    tell("first   is stopped (SIGSTOP) before it writes".into());

    let mut second = Writer::start(&servers, &lock, &file, "by the second")?;
    tell("second  waits for the lock, until the first one's session expires ..".into());
    let token = second.checked().await?;
    tell(format!("second  acquires the lock with token {token}"));
    second.go_on().await?;
    let written = second.word().await?;
    tell(format!("second  writes: {}", verdict(written)));
    second.finish().await?;

    first.go_on().await?;
    first.signal(Signal::CONT)?;
    tell("first   is continued (SIGCONT) and goes on where it was: it writes".into());
    let refused = first.word().await?;
    tell(format!("first   writes: {}", verdict(refused)));
    let held = first.finish().await?;
    tell(format!("first   asks its guard again: {}", if held { "held" } else { "lost" }));

    let content = store.read().await?;
    println!("\nThe store holds what was written {}.", content.as_deref().unwrap_or("by nobody"));
    let passed = stale < token
        && written == Word::Wrote
        && refused == Word::Refused { highest: token }
        && !held
        && content.as_deref() == Some("by the second");
    println!("{}", if passed { "PASS: the stale write was refused" } else { "FAIL" });
    Ok(passed)
}

fn verdict(word: Word) -> String {
    match word {
        Word::Wrote => "accepted".into(),
        Word::Refused { highest } => format!("REFUSED by the store, which has seen token {highest}"),
        other => format!("{other:?}"),
    }
}

/// A writer's process. If it still runs when this value is dropped, it is killed.
struct Writer {
    child: Child,
    words: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    fn start(servers: &str, lock: &str, store: &Path, text: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program to start writers")?;
        let mut child = Command::new(program)
            .arg("writer")
            .args(["--servers", servers, "--lock", lock, "--text", text])
            .arg("--store")
            .arg(store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a writer")?;
        let stdout = child.stdout.take().context("a writer has no standard output")?;
        Ok(Self { child, words: BufReader::new(stdout).lines() })
    }

    /// Reads the writer's next word.
    async fn word(&mut self) -> anyhow::Result<Word> {
        let line = self.words.next_line().await?.context("a writer fell silent")?;
        serde_json::from_str(&line).with_context(|| format!("a writer said: {line}"))
    }

    /// Waits until the writer's guard has said that the lock is held. Returns the guard's token.
    async fn checked(&mut self) -> anyhow::Result<FencingToken> {
        match self.word().await? {
            Word::Checked { token } => Ok(token),
            other => bail!("a writer said {other:?} before it held the lock"),
        }
    }

    /// Tells the writer to write.
    async fn go_on(&mut self) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("a writer has no standard input")?;
        Ok(stdin.write_all(b"write\n").await?)
    }

    /// Waits for the writer's end. Returns whether its guard was still held after the write.
    async fn finish(mut self) -> anyhow::Result<bool> {
        let Word::Ended { held } = self.word().await? else { bail!("a writer did not end as it should") };
        let status = self.child.wait().await?;
        if status.success() { Ok(held) } else { bail!("a writer ended with {status}") }
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().context("a writer has ended early")?;
        Pid::from_raw(id.cast_signed()).context("no process id")
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(self.pid()?, signal)?)
    }

    async fn until_stopped(&self) -> anyhow::Result<()> {
        let pid = self.pid()?;
        let waited = tokio::task::spawn_blocking(move || waitpid(Some(pid), WaitOptions::UNTRACED)).await??;
        match waited {
            Some((_, status)) if status.stopped() => Ok(()),
            other => bail!("a writer that was to be stopped has ended: {other:?}"),
        }
    }
}
