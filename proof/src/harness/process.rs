//! A client process: this program again, with another part to play.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::speech::to_line;

/// The process. It is killed when this is dropped, stopped or not.
pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
}

pub(crate) struct Voice(Lines<BufReader<ChildStdout>>);

impl Process {
    /// Starts this program with a subcommand of clients, which plays `part`, and with what is added to its environment.
    pub(crate) fn start(
        client: &str,
        part: &impl Serialize,
        environment: Vec<(&str, OsString)>,
    ) -> anyhow::Result<(Self, Voice)> {
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut child = Command::new(program)
            .arg(client)
            .arg(serde_json::to_string(part)?)
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            // Ctrl-C is for the first process, which ends the others.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start a {client}"))?;
        let orders = child.stdin.take().context("no pipe")?;
        let voice = child.stdout.take().context("no pipe")?;
        Ok((Self { child, orders }, Voice(BufReader::new(voice).lines())))
    }

    /// Gives it an order. A stopped process obeys once it is continued.
    pub(crate) async fn tell(&mut self, order: &impl Serialize) -> anyhow::Result<()> {
        self.orders.write_all(to_line(order)?.as_bytes()).await.context("a client ended by itself")
    }

    /// Stops it, and returns once the kernel says that it is stopped.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        let pid = self.pid()?;
        kill_process(pid, Signal::STOP)?;
        // Leaves it to be waited for, should it have ended.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = move || Ok(waitid(WaitId::Pid(pid), options)?.is_some_and(|status| status.stopped()));
        let is_stopped: rustix::io::Result<bool> = tokio::task::spawn_blocking(waited).await?;
        ensure!(is_stopped?, "a client that was to be stopped has ended");
        Ok(())
    }

    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        Ok(kill_process(self.pid()?, Signal::CONT)?)
    }

    /// Kills it, and returns once it is dead.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot kill a client")
    }

    pub(crate) async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().context("a client ended by itself")?;
        Pid::from_raw(id.try_into()?).context("no process id")
    }
}

impl Voice {
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let Some(line) = self.0.next_line().await? else { return Ok(None) };
        serde_json::from_str(&line).with_context(|| format!("a client said: {line}")).map(Some)
    }
}

pub(crate) fn part<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}
