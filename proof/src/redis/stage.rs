//! One run: the contenders, the register, and what happened.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use uuid::Uuid;

use crate::harness::Instant;
use crate::harness::register::Register;
use crate::redis::history::{Fact, Findings, History};
use crate::redis::kind::{Kind, Step};
use crate::redis::part::Part;
use crate::redis::player::Player;
use crate::redis::servers::Servers;
use crate::redis::wire::{Held, Wire};
use crate::redis::word::{Command, Record, Word};

/// The stage of one run.
pub(crate) struct Stage {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    pub(crate) servers: Arc<Servers>,
    /// The lock's key, or path: nobody else's.
    pub(crate) key: String,
    register: Register<usize>,
    history: Arc<Mutex<History>>,
}

/// The machine was too busy for this run to show what it is about.
#[derive(Debug, Error)]
#[error("the machine is too busy: what takes milliseconds took longer than the TTL")]
pub(crate) struct Spoiled;

/// Far more than a TTL and what clocks differ by.
pub(crate) fn bound(ttl: Duration) -> Duration {
    ttl * 5 + Duration::from_secs(2)
}

/// A contender on the stage, and its way to the servers.
pub(crate) struct Actor {
    player: Player,
    wire: Wire,
}

/// What came of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquisition {
    /// It returned then, and the lock is held.
    Done(Instant),
    /// It failed then.
    Failed(Instant),
    /// It has not returned.
    Waiting,
}

impl Acquisition {
    /// When the lock was acquired, if it was.
    pub(crate) fn done(self) -> Option<Instant> {
        match self {
            Self::Done(at) => Some(at),
            Self::Failed(_) | Self::Waiting => None,
        }
    }
}

impl Stage {
    pub(crate) async fn set(kind: Kind, ttl: Duration, servers: Arc<Servers>) -> anyhow::Result<Self> {
        let key = format!("/redis/{}", Uuid::new_v4());
        servers.make_directory(kind, &key).await?;
        let register = Register::open().await?;
        Ok(Self { kind, ttl, servers, key, register, history: Arc::default() })
    }

    /// A contender enters. Its number is for the records.
    pub(crate) async fn enter(&self, number: usize) -> anyhow::Result<Actor> {
        let wire = Wire::lay(self.kind, &self.servers.address(self.kind, number)).await?;
        let part = Part {
            lock: self.kind,
            server: wire.address(),
            key: self.key.clone(),
            ttl: self.ttl,
            register: self.register.address().to_owned(),
            number,
        };
        let player = Player::start(&part, self.history.clone()).await?;
        Ok(Actor { player, wire })
    }

    /// How long both of two holders work on at the same time, if they believe that they hold the lock.
    pub(crate) fn work(&self) -> Duration {
        self.ttl / 4
    }

    /// A contender that has not got the lock by then never will.
    pub(crate) fn bound(&self) -> Duration {
        bound(self.ttl)
    }

    /// What the run comes to.
    pub(crate) fn findings(&self) -> Findings {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.findings(&self.register.ledger().writes)
    }

    /// How many writes the register refused.
    pub(crate) fn refused(&self) -> u64 {
        self.register.ledger().refused_writes
    }

    /// Everything that happened, for people.
    pub(crate) fn account(&self) -> String {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = history.entries().to_vec();
        entries.sort_by_key(|entry| entry.at);
        let Some(first) = entries.first().map(|entry| entry.at) else { return String::new() };
        let line = |entry: &crate::redis::history::Entry| {
            format!(
                "  {:8.3} s  {}  {:?}\n",
                entry.at.since(first).as_secs_f64(),
                entry.contender,
                entry.fact
            )
        };
        entries.iter().map(line).collect()
    }
}

impl Actor {
    /// Begins to acquire the lock.
    pub(crate) async fn begin_to_acquire(&mut self) -> anyhow::Result<()> {
        self.player.tell(Command::Acquire).await?;
        self.player.prompt(|word| matches!(word, Word::Acquiring)).await?;
        Ok(())
    }

    /// Waits until its acquisition returns, so long.
    pub(crate) async fn acquired(&mut self, bound: Duration) -> anyhow::Result<Acquisition> {
        let ended = |word: &Word| matches!(word, Word::Acquired { .. } | Word::Failed { .. });
        Ok(match self.player.hear(bound, ended).await? {
            Some(Record { at, word: Word::Acquired { .. } }) => Acquisition::Done(at),
            Some(Record { at, .. }) => Acquisition::Failed(at),
            None => Acquisition::Waiting,
        })
    }

    /// Acquires a lock that is free. If that fails, a client was not served in time, and the run shows nothing.
    pub(crate) async fn acquire(&mut self) -> anyhow::Result<Instant> {
        self.begin_to_acquire().await?;
        let ended = |word: &Word| matches!(word, Word::Acquired { .. } | Word::Failed { .. });
        let Record { at, word } = self.player.prompt(ended).await?;
        if matches!(word, Word::Failed { .. }) { Err(Spoiled.into()) } else { Ok(at) }
    }

    /// Asks the lock, and writes unless it says that it is lost: as a careful user does. Whether it said so.
    pub(crate) async fn check_and_write(&mut self) -> anyhow::Result<bool> {
        let lost = self.check().await? == Some(false);
        if !lost {
            self.write().await?;
        }
        Ok(lost)
    }

    /// Asks the lock what it tells by itself.
    pub(crate) async fn check(&mut self) -> anyhow::Result<Option<bool>> {
        self.player.tell(Command::Check).await?;
        self.checked().await
    }

    /// Has it check, and then write whatever the answer, as soon as it can.
    pub(crate) async fn begin_to_check_and_write(&mut self) -> anyhow::Result<()> {
        self.player.tell(Command::Check).await?;
        self.player.tell(Command::Write).await
    }

    /// The answer to its check.
    pub(crate) async fn checked(&mut self) -> anyhow::Result<Option<bool>> {
        let record = self.player.prompt(|word| matches!(word, Word::Checked { .. })).await?;
        Ok(if let Word::Checked { held } = record.word { held } else { None })
    }

    /// Writes, whatever the lock says. Whether the register accepted it.
    pub(crate) async fn write(&mut self) -> anyhow::Result<bool> {
        self.player.tell(Command::Write).await?;
        self.wrote().await
    }

    /// Whether the register accepted its write.
    pub(crate) async fn wrote(&mut self) -> anyhow::Result<bool> {
        let record = self.player.prompt(|word| matches!(word, Word::Wrote { .. })).await?;
        Ok(matches!(record.word, Word::Wrote { accepted: true }))
    }

    /// Asks the servers whether it holds the lock, if they can be asked.
    pub(crate) async fn inquire(&mut self) -> anyhow::Result<Option<bool>> {
        self.player.tell(Command::Inquire).await?;
        let record = self.player.prompt(|word| matches!(word, Word::Inquired { .. })).await?;
        Ok(if let Word::Inquired { held } = record.word { held } else { None })
    }

    /// Begins to release; returns once nothing more is done under the lock.
    pub(crate) async fn begin_to_release(&mut self) -> anyhow::Result<Instant> {
        self.player.tell(Command::Release).await?;
        Ok(self.player.prompt(|word| matches!(word, Word::Releasing)).await?.at)
    }

    /// Waits for the end of its release; whether it succeeded.
    pub(crate) async fn released(&mut self) -> anyhow::Result<bool> {
        let ended = |word: &Word| matches!(word, Word::Released | Word::NotReleased { .. });
        Ok(self.player.prompt(ended).await?.word == Word::Released)
    }

    /// Releases; whether that succeeded.
    pub(crate) async fn release(&mut self) -> anyhow::Result<bool> {
        self.begin_to_release().await?;
        self.released().await
    }

    pub(crate) async fn stop(&self) -> anyhow::Result<Instant> {
        self.player.stop().await
    }

    pub(crate) fn resume(&self) -> anyhow::Result<Instant> {
        self.player.resume()
    }

    /// Its present hold was granted by the server then, and it did not know until it acquired the lock.
    pub(crate) fn note_grant(&self, at: Instant) {
        self.player.note_at(at, Fact::Granted);
    }

    /// Holds back the reply to the next request of a step, and all that comes after it.
    pub(crate) fn hold(&self, step: Step) -> anyhow::Result<Held> {
        self.wire.hold(step)
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }
}
