//! One contender: a process that does with its lock what it is told, and says when.

use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use crate::args::Part;
use crate::clock::{Instant, WallClock};
use crate::kind::Kind;
use crate::lock::{Lock, Redis, Redisson, SetNxPx, SetnxExpire, SetnxGetset, Spring, Zklock};
use crate::store::Pen;
use crate::word::{Command, Record, Word};

/// How often a lock that can tell is asked whether it is held.
const LOOK: Duration = Duration::from_millis(5);

/// Does as it is told until the conductor has ended.
pub(crate) async fn run(part: Part) -> anyhow::Result<()> {
    // A stopped process cannot see for itself that the conductor has ended.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let redis = async || {
        let timeout = part.lock.response_timeout(part.ttl);
        let redis = Redis::connect(&part.server, &part.key, part.ttl, timeout).await;
        redis.context("cannot connect to Redis")
    };
    match part.lock {
        Kind::SetNxPx => play(SetNxPx::new(redis().await?), &part).await,
        Kind::SetnxExpire => play(SetnxExpire::new(redis().await?), &part).await,
        Kind::SetnxGetset => {
            play(SetnxGetset::new(redis().await?, WallClock { ahead: part.ahead }), &part).await
        }
        Kind::Spring => play(Spring::new(redis().await?), &part).await,
        Kind::Redisson => play(Redisson::new(redis().await?), &part).await,
        Kind::ZklockUnfenced | Kind::Zklock => {
            play(Zklock::connect(&part.server, &part.key, part.ttl).await?, &part).await
        }
    }
}

async fn play(lock: impl Lock, part: &Part) -> anyhow::Result<()> {
    let pen = Pen::open(&part.store, part.number).await?;
    let mut contender = Contender { lock, pen, token: None, last_held: None };
    let mut commands = commands();
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

struct Contender<L> {
    lock: L,
    pen: Pen,
    /// The token of the hold, if the lock has any.
    token: Option<i64>,
    /// When the lock last said that it is held; `None` while it is not held, or cannot tell.
    last_held: Option<Instant>,
}

impl<L: Lock> Contender<L> {
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
                let accepted = self.pen.write(self.token).await?;
                say(Word::Wrote { accepted })
            }
            Command::Release => {
                self.last_held = None;
                say(Word::Releasing)?;
                match self.lock.release().await {
                    Ok(()) => say(Word::Released),
                    Err(error) => say(Word::NotReleased { error: error.to_string() }),
                }
            }
            Command::Cycle(times) => self.cycle(times).await,
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

    async fn cycle(&mut self, times: u32) -> anyhow::Result<()> {
        let mut took = Vec::new();
        for _ in 0..times {
            let begun = Instant::now();
            self.lock.acquire().await?;
            self.lock.release().await?;
            took.push(Instant::now().0 - begun.0);
        }
        say(Word::Cycled { took })
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

/// What the conductor says, on a thread of its own, which ends the process as soon as the conductor has ended, whatever
/// keeps the rest of it busy.
fn commands() -> UnboundedReceiver<Command> {
    let (heard, commands) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(command) => drop(heard.send(command)),
                Err(error) => eprintln!("no command: {line}: {error}"),
            }
        }
        std::process::exit(3);
    });
    commands
}

fn say(word: Word) -> anyhow::Result<()> {
    let record = Record { at: Instant::now(), word };
    let line = serde_json::to_string(&record)? + "\n";
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).context("the conductor is gone")
}
