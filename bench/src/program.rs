//! A peer as a program of its own, which is told what to do, a line at a time: see `tests/peers/Peer.java`.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::peers::SESSION_TIMEOUT;

pub(crate) struct Program {
    name: &'static str,
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

pub(crate) struct Lap {
    pub(crate) client: usize,
    /// When it ended, since the beginning of all of them.
    pub(crate) ended: Duration,
    pub(crate) took: Duration,
}

impl Program {
    /// Starts it, and returns once it is connected. Its clients take the servers in turn.
    pub(crate) async fn start(
        name: &'static str,
        mut command: Command,
        servers: &[String],
        path: &str,
        what: &str,
    ) -> anyhow::Result<Self> {
        command.args([&servers.join(","), path, what]);
        command.env("PEER_TIMEOUT_MS", SESSION_TIMEOUT.as_millis().to_string());
        let mut process = command
            .spawn()
            .with_context(|| format!("cannot start {name}; run `scripts/have-peers.sh all`"))?;
        let input = process.stdin.take().context("a pipe")?;
        let output = BufReader::new(process.stdout.take().context("a pipe")?).lines();
        let mut program = Self { name, process, input, output };
        program.hears("session").await?;
        Ok(program)
    }

    /// Says a line to it, and returns what it answers, without the word by which the answer begins.
    pub(crate) async fn asks(&mut self, line: &str, word: &str) -> anyhow::Result<String> {
        self.input.write_all(format!("{line}\n").as_bytes()).await.with_context(|| self.name)?;
        self.hears(word).await
    }

    /// The rest of the next line, which begins with this word.
    pub(crate) async fn hears(&mut self, word: &str) -> anyhow::Result<String> {
        let (_, line) = self.next().await?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => bail!("{} said {line:?} instead of {word:?}", self.name),
        }
    }

    /// The next line, and when it came.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(Instant, String)> {
        let line = self.output.next_line().await?;
        Ok((Instant::now(), line.with_context(|| format!("{} has ended", self.name))?))
    }

    /// So many clients acquire and release, each so often, or until this time is over.
    pub(crate) async fn laps(
        &mut self,
        clients: u32,
        cycles: u32,
        time: Duration,
    ) -> anyhow::Result<Vec<Lap>> {
        let line = self.asks(&format!("laps {clients} {cycles} {}", time.as_millis()), "laps").await?;
        let mut laps = Vec::new();
        for (client, cycles) in line.split('|').enumerate() {
            for cycle in cycles.split_whitespace() {
                let (ended, took) = cycle.split_once('/').with_context(|| format!("no cycle: {cycle:?}"))?;
                let [ended, took] = [ended.parse()?, took.parse()?].map(Duration::from_micros);
                laps.push(Lap { client, ended, took });
            }
        }
        Ok(laps)
    }

    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().await.with_context(|| self.name)
    }
}
