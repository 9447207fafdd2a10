//! A lock in a program of its own, which is told what to do, a line at a time: see `tests/peers/Peer.java`.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::time::timeout;

use super::contestant::Contestant;
use super::contract::TIMEOUT_VARIABLE;
use crate::harness::{Process, Voice};

/// How long an answer may take: longer than laps do.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Program {
    name: String,
    pub(crate) process: Process,
    voice: Voice,
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
        contestant: Contestant,
        servers: &[String],
        path: &str,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let name = contestant.name();
        let mut command = contestant.program(&servers.join(","), path)?;
        command.env(TIMEOUT_VARIABLE, timeout.as_millis().to_string());
        let started = Process::start(command);
        let (process, voice) =
            started.with_context(|| format!("cannot start {name}; run `scripts/have-peers.sh all`"))?;
        let mut program = Self { name, process, voice };
        program.hears("session").await?;
        Ok(program)
    }

    /// Says a line to it.
    pub(crate) async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        self.process.ear.tell(&format!("{line}\n")).await.with_context(|| self.name.clone())
    }

    /// Says a line to it, and returns what it answers, without the word by which the answer begins.
    pub(crate) async fn asks(&mut self, line: &str, word: &str) -> anyhow::Result<String> {
        self.tell(line).await?;
        self.hears(word).await
    }

    /// The rest of the next line, which begins with this word.
    pub(crate) async fn hears(&mut self, word: &str) -> anyhow::Result<String> {
        let said = timeout(PATIENCE, self.next()).await;
        let (_, line) = said.with_context(|| format!("{} does not answer", self.name))??;
        let rest = line.strip_prefix(word);
        Ok(rest
            .with_context(|| format!("{} said {line:?} instead of {word:?}", self.name))?
            .trim()
            .to_owned())
    }

    /// The next line, and when it came.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(Instant, String)> {
        let line = self.voice.line().await?;
        Ok((Instant::now(), line.with_context(|| format!("{} has ended", self.name))?))
    }

    /// So many clients acquire and release until this time is over.
    pub(crate) async fn laps(&mut self, clients: u32, time: Duration) -> anyhow::Result<Vec<Lap>> {
        let line = self.asks(&format!("laps {clients} {}", time.as_millis()), "laps").await?;
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
}
