//! One contender: a process that does with its lock what it is told, and says when.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{MissedTickBehavior, interval};
use zklock::FencingToken;

use crate::harness::register::{Answer, Desk, Request};
use crate::harness::{self, Instant};
use crate::redis::kind::Kind;
use crate::redis::lock::{Lock, Redis, Redisson, SetNxPx, SetnxExpire, SetnxGetset, Spring, Zklock};
use crate::redis::part::Part;
use crate::redis::word::{Command, Record, Word};

/// How often a lock that can tell is asked whether it is held.
const LOOK: Duration = Duration::from_millis(5);

/// Does as it is told until the conductor has ended.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    let redis = async || {
        let timeout = part.lock.response_timeout(part.ttl);
        let redis = Redis::connect(&part.server, &part.key, part.ttl, timeout).await;
        redis.context("cannot connect to Redis")
    };
    match part.lock {
        Kind::SetNxPx => play(SetNxPx::new(redis().await?), &part).await,
        Kind::SetnxExpire => play(SetnxExpire::new(redis().await?), &part).await,
        Kind::SetnxGetset => play(SetnxGetset::new(redis().await?), &part).await,
        Kind::Spring => play(Spring::new(redis().await?), &part).await,
        Kind::Redisson => play(Redisson::new(redis().await?), &part).await,
        Kind::ZklockUnfenced | Kind::Zklock => {
            play(Zklock::connect(&part.server, &part.key, part.ttl).await?, &part).await
        }
    }
}

async fn play(lock: impl Lock, part: &Part) -> anyhow::Result<()> {
    let mut commands = harness::orders()?;
    let desk = Desk::connect(&part.register).await?;
    let mut contender = Contender { lock, desk, part, token: None, last_held: None };
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    say(Word::Ready)?;
    loop {
        tokio::select! {
            // A lock that was lost is told of before anything else is done.
            biased;
            _ = looks.tick(), if contender.last_held.is_some() => contender.look()?,
            command = commands.recv() => match command {
                Some(command) => contender.perform(command).await?,
                None => return Ok(()),
            },
        }
    }
}

struct Contender<'a, L> {
    lock: L,
    desk: Desk,
    part: &'a Part,
    /// The token of the hold, if the lock has any.
    token: Option<FencingToken>,
    /// When the lock last said that it is held; `None` while it is not held, or cannot tell.
    last_held: Option<Instant>,
}

impl<L: Lock> Contender<'_, L> {
    async fn perform(&mut self, command: Command) -> anyhow::Result<()> {
        match command {
            Command::Acquire => self.acquire().await,
            Command::Check => {
                // A loss is told first.
                self.look()?;
                say(Word::Checked { held: self.lock.check() })
            }
            Command::Inquire => match self.lock.inquire().await {
                Ok(held) => say(Word::Inquired { held }),
                Err(_) => say(Word::Inquired { held: None }),
            },
            Command::Write => {
                // Without a look at what is there: it is judged by when it came, not by what it replaced. The register of a
                // lock that is not fenced sees no token.
                let token = self.token.filter(|_| self.part.lock.is_fenced());
                let write = Request::Write { who: self.part.number, token, read: 0, value: 0 };
                say(Word::Wrote { accepted: self.desk.ask(write).await? == Answer::Accepted })
            }
            Command::Release => {
                self.last_held = None;
                say(Word::Releasing)?;
                match self.lock.release().await {
                    Ok(()) => say(Word::Released),
                    Err(error) => say(Word::NotReleased { error: error.to_string() }),
                }
            }
        }
    }

    async fn acquire(&mut self) -> anyhow::Result<()> {
        say(Word::Acquiring)?;
        match self.lock.acquire().await {
            Ok(token) => {
                self.token = token;
                say(Word::Acquired { token })?;
                self.look_anew()
            }
            Err(error) => say(Word::Failed { error: error.to_string() }),
        }
    }

    /// Begins to follow what the lock tells of a new hold.
    fn look_anew(&mut self) -> anyhow::Result<()> {
        if self.lock.check().is_some() {
            self.last_held = Some(Instant::now());
            self.look()?;
        }
        Ok(())
    }

    /// Says so if the lock has told that it is lost.
    fn look(&mut self) -> anyhow::Result<()> {
        let Some(last_held) = self.last_held else { return Ok(()) };
        let now = Instant::now();
        if self.lock.check() == Some(true) {
            self.last_held = Some(now);
            return Ok(());
        }
        self.last_held = None;
        say(Word::Lost { last_held })
    }
}

fn say(word: Word) -> anyhow::Result<()> {
    harness::say(&Record { at: Instant::now(), word })
}
