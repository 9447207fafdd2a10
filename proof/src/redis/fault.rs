//! What is done to the locks: two contenders, each in a process of its own, and one fault.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use tokio::time::{sleep, timeout};
use uuid::Uuid;
use zklock::FenceGate;
use zklock_testcontainers::RequestKind;

use super::outcome::{Outcome, Told};
use crate::peers::{Contestant, Program, Service};
use crate::servers::{Rivals, Servers};

/// The TTL of the Redis locks and the session timeout of zklock.
pub(super) const TTL: Duration = Duration::from_secs(2);

/// A contender that has not got the lock by then never will: far more than a TTL and what clocks differ by.
const BOUND: Duration = Duration::from_secs(12);

/// How long both of two holders work on at the same time, if they believe that they hold the lock.
const WORK: Duration = Duration::from_millis(500);

/// How long a reply from Redis takes, so that it can be held back once its request is seen to be carried out; and how often to look.
/// Redisson waits for a fifth of a second.
const SLOW: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(3);

/// How often a run is repeated that a busy machine has spoiled.
const ATTEMPTS: usize = 5;

/// What happens. The table's rows have these headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// the winning request's reply is later than the TTL
    LateReply,
    /// the holder is stopped past the TTL, between check and write
    Stopped,
}

impl Fault {
    /// Plays it until a run shows something. The store compares the tokens of a lock that is fenced.
    pub(super) async fn outcome(
        self,
        contestant: Contestant,
        fenced: bool,
        servers: &Servers,
    ) -> anyhow::Result<Outcome> {
        for _ in 0..ATTEMPTS {
            let contest = Contest::begin(contestant, fenced, servers).await?;
            let played = match self {
                Self::LateReply => contest.late_reply().await,
                Self::Stopped => contest.stopped().await,
            };
            if let Some(outcome) = played.with_context(|| format!("{contestant:?}: {self:?}"))? {
                return Ok(outcome);
            }
        }
        bail!("the machine is too busy: what takes milliseconds took longer than the TTL")
    }
}

struct Contest<'a> {
    servers: &'a Servers,
    contestant: Contestant,
    path: String,
    rivals: Rivals,
    /// What the lock protects, if that compares tokens.
    gate: Option<FenceGate>,
    outcome: Outcome,
}

/// `None` if the machine was too busy for the run to show what it is about.
type Played = anyhow::Result<Option<Outcome>>;

impl<'a> Contest<'a> {
    async fn begin(contestant: Contestant, fenced: bool, servers: &'a Servers) -> anyhow::Result<Self> {
        let path = format!("/redis/{}", Uuid::new_v4());
        let rivals = Rivals::start(contestant, servers, 0, &path, TTL).await?;
        let gate = fenced.then(FenceGate::new);
        Ok(Self { servers, contestant, path, rivals, gate, outcome: Outcome::default() })
    }

    /// The server does what the first one asks for, and its reply takes longer than the TTL. Meanwhile the second one acquires
    /// the lock.
    ///
    /// Where an acquisition has two steps, the late reply is the second one's: the TTL counts from there. If the first one's reply
    /// were late, no client would hold the lock for so long, and the key would have no end yet.
    async fn late_reply(mut self) -> Played {
        let Some(granted) = self.acquire_unheard().await? else { return Ok(None) };
        if !self.succeed(granted).await? {
            return Ok(Some(self.outcome));
        }
        self.check_and_write().await?;
        self.rivals.link.set_round_trip(Duration::ZERO);
        self.rivals.link.restore();
        match ended(&mut self.rivals.first, TTL).await? {
            Some(Some(since)) => {
                let lost = is_lost(&mut self.rivals.first).await?;
                if !lost {
                    self.rivals.first.tell("write").await?;
                    self.late_write().await?;
                }
                return self.work_on(since, lost).await;
            }
            Some(None) => self.outcome.told = Some(Told::AcquireFails),
            None => {
                self.outcome.told = Some(Told::Waits);
                release(&mut self.rivals.second).await?;
                // Its turn has come, by a hold of its own.
                if ended(&mut self.rivals.first, BOUND).await?.flatten().is_none() {
                    self.outcome.recovery = f64::INFINITY;
                }
            }
        }
        Ok(Some(self.outcome))
    }

    /// The first one asks its lock, is stopped before it writes, and continues once the second one holds the lock: it writes
    /// what it was about to write, and works on.
    async fn stopped(mut self) -> Played {
        self.rivals.first.asks("acquire", "waiting").await?;
        // A free lock: if that fails, a client was not served in time.
        let granted = ended(&mut self.rivals.first, BOUND).await?.flatten().is_some();
        if !granted || is_lost(&mut self.rivals.first).await? {
            return Ok(None);
        }
        self.rivals.first.process.stop().await?;
        if !self.succeed(Instant::now()).await? {
            return Ok(Some(self.outcome));
        }
        if !self.check_and_write().await? {
            // It lost the lock before it wrote, so nothing shows that a late write is late.
            return Ok(None);
        }
        // The write was decided upon by the check before the stop. This check only shows what the lock says by now.
        self.rivals.first.tell("check").await?;
        self.rivals.first.tell("write").await?;
        let since = Instant::now();
        self.rivals.first.process.resume()?;
        let lost = self.rivals.first.hears("").await? == LOST;
        self.late_write().await?;
        if lost {
            self.outcome.told = Some(Told::Check);
        } else if self.rivals.first.asks("inquire", "").await? == LOST {
            self.outcome.told = Some(Told::IfItAsks);
        }
        self.work_on(since, lost).await
    }

    /// Has the first one acquire the lock, and holds back the reply to the request that takes it. Returns when the request was carried
    /// out; `None` if the reply has passed.
    async fn acquire_unheard(&mut self) -> anyhow::Result<Option<Instant>> {
        let held = (self.contestant.service() == Service::ZooKeeper)
            .then(|| self.rivals.link.hold_reply(RequestKind::Create));
        if held.is_none() {
            self.rivals.link.set_round_trip(2 * SLOW);
        }
        self.rivals.first.asks("acquire", "waiting").await?;
        let taken = async {
            match &held {
                Some(held) => held.reached().await,
                None => {
                    while !self.is_taken().await? {
                        sleep(LOOK).await;
                    }
                }
            }
            anyhow::Ok(())
        };
        timeout(BOUND, taken).await.context("nobody takes a free lock")??;
        // From here on nothing passes: a ZooKeeper client that hears nothing on one connection makes another, on which it would
        // learn what was held back. A Redis client waits for the reply.
        self.rivals.link.black_hole();
        let granted = Instant::now();
        Ok(timeout(SLOW, self.rivals.first.next()).await.is_err().then_some(granted))
    }

    /// Whether Redis has given the lock away, with all that belongs to it.
    async fn is_taken(&self) -> anyhow::Result<bool> {
        const NO_KEY: i64 = -2;
        const NO_END: i64 = -1;
        let left: i64 = self.servers.ask_redis(redis::cmd("PTTL").arg(&self.path)).await?;
        // The second step sets the end.
        Ok(left != NO_KEY && (left != NO_END || self.contestant != Contestant::SetnxExpire))
    }

    /// Has the second one acquire the lock after the fault. Whether it could.
    async fn succeed(&mut self, fault: Instant) -> anyhow::Result<bool> {
        self.rivals.second.asks("acquire", "waiting").await?;
        let next = ended(&mut self.rivals.second, BOUND).await?.flatten();
        self.outcome.recovery = next.map_or(f64::INFINITY, |next| next.duration_since(fault).as_secs_f64());
        Ok(next.is_some())
    }

    /// The second one asks its lock, and writes unless it says that it is lost: as a careful user does. Whether it wrote.
    async fn check_and_write(&mut self) -> anyhow::Result<bool> {
        if is_lost(&mut self.rivals.second).await? {
            return Ok(false);
        }
        let token = self.rivals.second.asks("write", "writes").await?;
        if let Some(gate) = &mut self.gate {
            gate.admit(token.parse()?)?;
        }
        Ok(true)
    }

    /// A write of the first one's arrives at the store, where the second one has written.
    async fn late_write(&mut self) -> anyhow::Result<()> {
        let token = self.rivals.first.hears("writes").await?;
        let admitted = match &mut self.gate {
            Some(gate) => gate.admit(token.parse()?).is_ok(),
            None => true,
        };
        *(if admitted { &mut self.outcome.late_writes } else { &mut self.outcome.refused }) += 1;
        Ok(())
    }

    /// The first one works on, since then, if it has not been told that the lock is lost, and releases it.
    async fn work_on(mut self, since: Instant, lost: bool) -> Played {
        if !lost {
            // Each of them believes that it has the lock to itself.
            if is_lost(&mut self.rivals.second).await? {
                return Ok(None);
            }
            sleep(WORK).await;
            self.outcome.together = since.elapsed().as_secs_f64();
        }
        let by_release =
            if release(&mut self.rivals.first).await? { Told::Nothing } else { Told::ReleaseFails };
        self.outcome.told.get_or_insert(by_release);
        Ok(Some(self.outcome))
    }
}

const LOST: &str = "lost";

/// Whether the lock tells its holder that it is lost.
async fn is_lost(program: &mut Program) -> anyhow::Result<bool> {
    Ok(program.asks("check", "").await? == LOST)
}

/// Whether that succeeds.
async fn release(program: &mut Program) -> anyhow::Result<bool> {
    Ok(program.asks("release", "").await? == "released")
}

/// How an acquisition ends within this time: when it was granted, or that it has failed. `None` if it has not ended.
async fn ended(program: &mut Program, limit: Duration) -> anyhow::Result<Option<Option<Instant>>> {
    let Ok(said) = timeout(limit, program.next()).await else { return Ok(None) };
    let (at, line) = said?;
    Ok(Some((line == "acquired").then_some(at)))
}
