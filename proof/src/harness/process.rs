//! A process of ours that is told what to do, and says what comes of it, a line at a time.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

/// The process, with its group: whatever it has started that has not left the group. The group is killed when this is dropped, stopped or
/// not.
pub(crate) struct Process {
    child: Child,
    pub(crate) ear: Ear,
}

/// What hears its orders.
#[derive(Clone)]
pub(crate) struct Ear(Arc<Mutex<ChildStdin>>);

/// What it says.
pub(crate) struct Voice(Lines<BufReader<ChildStdout>>);

/// This program again, with a subcommand.
pub(crate) fn this_program(subcommand: &str) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let mut command = Command::new(program);
    command.arg(subcommand);
    Ok(command)
}

impl Process {
    pub(crate) fn start(mut command: Command) -> anyhow::Result<(Self, Voice)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C is for the first process, which ends the others.
        let mut child = command.process_group(0).spawn()?;
        let ear = Ear(Arc::new(Mutex::new(child.stdin.take().context("no pipe")?)));
        let voice = child.stdout.take().context("no pipe")?;
        Ok((Self { child, ear }, Voice::of(voice)))
    }

    /// Stops it, and returns once the kernel says that it is stopped.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let pid = self.pid()?;
        kill_process_group(pid, Signal::STOP)?;
        // Leaves it to be waited for, should it have ended.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = move || Ok(waitid(WaitId::Pid(pid), options)?.is_some_and(|status| status.stopped()));
        let is_stopped: rustix::io::Result<bool> = tokio::task::spawn_blocking(waited).await?;
        ensure!(is_stopped?, "a client that was to be stopped has ended");
        Ok(())
    }

    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        Ok(kill_process_group(self.pid()?, Signal::CONT)?)
    }

    /// Kills it, and returns once it is dead.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.kill_group();
        self.child.kill().await.context("cannot kill a client")
    }

    pub(crate) async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Does nothing if the process has ended, and was waited for.
    fn kill_group(&self) {
        let _gone = self.pid().map(|pid| kill_process_group(pid, Signal::KILL));
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().context("a client ended by itself")?;
        Pid::from_raw(id.try_into()?).context("no process id")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_group();
    }
}

impl Ear {
    /// Gives the process an order: a line, with its end. A stopped process obeys once it is continued.
    pub(crate) async fn tell(&self, line: &str) -> anyhow::Result<()> {
        self.0.lock().await.write_all(line.as_bytes()).await.context("a client ended by itself")
    }
}

impl Voice {
    pub(crate) fn of(output: ChildStdout) -> Self {
        Self(BufReader::new(output).lines())
    }

    /// The next line. Dropping the future loses nothing.
    pub(crate) async fn line(&mut self) -> anyhow::Result<Option<String>> {
        Ok(self.0.next_line().await?)
    }

    /// The same, of a process that speaks JSON.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let Some(line) = self.line().await? else { return Ok(None) };
        serde_json::from_str(&line).with_context(|| format!("a client said: {line}")).map(Some)
    }
}

pub(crate) fn part<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}
