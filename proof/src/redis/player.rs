//! A contender's process, as the conductor has it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::time::timeout;

use crate::harness::{Instant, Process, Voice};
use crate::redis::history::{Entry, Fact, History};
use crate::redis::part::Part;
use crate::redis::word::{Command, Record, Word};

/// How long a contender may take for what needs no waiting; far more than it does take, even on a busy machine.
const PROMPT: Duration = Duration::from_secs(30);

/// The process, and what it has said and met with.
pub(crate) struct Player {
    number: usize,
    process: Process,
    voice: Voice,
    history: Arc<Mutex<History>>,
}

impl Player {
    /// Starts a contender, and returns once it is connected.
    pub(crate) async fn start(part: &Part, history: Arc<Mutex<History>>) -> anyhow::Result<Self> {
        let (process, voice) = Process::start("redis-contender", part, Vec::new())?;
        let mut player = Self { number: part.number, process, voice, history };
        player.prompt(|word| matches!(word, Word::Ready)).await?;
        Ok(player)
    }

    /// Tells it what to do next. A stopped process does so first thing when it continues.
    pub(crate) async fn tell(&mut self, command: Command) -> anyhow::Result<()> {
        self.process.tell(&command).await
    }

    /// Waits for a word like this, and passes over others; `None` if there is none within `bound`.
    pub(crate) async fn hear(
        &mut self,
        bound: Duration,
        is_it: impl Fn(&Word) -> bool,
    ) -> anyhow::Result<Option<Record>> {
        let listen = async {
            loop {
                let record = self.record().await?;
                if is_it(&record.word) {
                    return anyhow::Ok(record);
                }
            }
        };
        timeout(bound, listen).await.ok().transpose()
    }

    /// As [`hear`](Self::hear), for what must come at once.
    pub(crate) async fn prompt(&mut self, is_it: impl Fn(&Word) -> bool) -> anyhow::Result<Record> {
        let number = self.number;
        self.hear(PROMPT, is_it).await?.with_context(|| format!("contender {number} does not answer"))
    }

    /// Stops it; returns once the kernel says that it is stopped.
    pub(crate) async fn stop(&self) -> anyhow::Result<Instant> {
        self.process.stop().await?;
        Ok(self.note(Fact::Stopped))
    }

    /// Lets it continue.
    pub(crate) fn resume(&self) -> anyhow::Result<Instant> {
        // Before it can do anything.
        let at = self.note(Fact::Continued);
        self.process.resume()?;
        Ok(at)
    }

    /// Notes a fact about it, now.
    fn note(&self, fact: Fact) -> Instant {
        let at = Instant::now();
        self.note_at(at, fact);
        at
    }

    pub(crate) fn note_at(&self, at: Instant, fact: Fact) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.push(Entry { contender: self.number, at, fact });
    }

    /// The next thing it says, which is also noted.
    async fn record(&mut self) -> anyhow::Result<Record> {
        let record: Record = self.voice.next().await?.context("a contender has ended early")?;
        self.note_at(record.at, Fact::Said(record.word.clone()));
        Ok(record)
    }
}
