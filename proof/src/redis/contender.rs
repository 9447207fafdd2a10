//! One contender: a thread with a runtime of its own, in which everything of its client runs.
//!
//! Blocking the thread is to that client what a stop is to a process: no code of it runs, the kernel keeps its connections, and
//! all clocks go on.

use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use zklock::FencingToken;

use super::holds::Hold;
use super::kind::Kind;
use super::lock::{Lock, Redis, Redisson, SetNxPx, SetnxExpire, SetnxGetset, Spring, Zklock};
use super::proxy::Way;
use super::stage::{Holds, Stage, TTL};
use crate::harness::Instant;
use crate::harness::register::{self, Desk, Request};

/// How often a lock that can tell is asked whether it is held.
const LOOK: Duration = Duration::from_millis(5);

/// How long a contender may take for what needs no waiting; far more than it does take, even on a busy machine.
const PROMPT: Duration = Duration::from_secs(30);

/// What a contender is to do next. It does one thing after the other, and answers each.
#[derive(Debug)]
pub(super) enum Order {
    Acquire,
    /// Ask what the lock tells without being asked over the network.
    Check,
    /// Ask the servers whether it is held.
    Inquire,
    /// Write to the register, whatever the lock says by now.
    Write,
    Release,
    /// Do nothing until the sender is dropped.
    Stop(std::sync::mpsc::Receiver<()>),
}

#[derive(Debug)]
pub(super) enum Answer {
    Ready,
    /// `None` if the acquisition failed.
    Acquired(Option<Instant>),
    /// `None` if the lock tells nothing.
    Held(Option<bool>),
    Wrote,
    /// Whether that succeeded.
    Released(bool),
    Stopped(Instant),
}

/// A contender, as the conductor has it. Dropped, it ends.
pub(super) struct Contender {
    number: usize,
    orders: mpsc::UnboundedSender<Order>,
    answers: mpsc::UnboundedReceiver<Answer>,
    pub(super) way: Way,
}

impl Contender {
    /// Returns once it is connected.
    pub(super) async fn enter(stage: &Stage, number: usize) -> anyhow::Result<Self> {
        let way = Way::lay(&stage.servers, stage.kind, number).await?;
        let (orders, ordered) = mpsc::unbounded_channel();
        let (said, answers) = mpsc::unbounded_channel();
        let part = Part {
            number,
            kind: stage.kind,
            server: way.address(),
            key: stage.key.clone(),
            register: stage.register.address().to_owned(),
            holds: stage.holds.clone(),
            orders: ordered,
            answers: said,
        };
        std::thread::spawn(move || {
            if let Err(error) = part.run() {
                eprintln!("contender {number}: {error:#}");
            }
        });
        let mut contender = Self { number, orders, answers, way };
        match contender.answer().await? {
            Answer::Ready => Ok(contender),
            other => bail!("contender {number} begins with {other:?}"),
        }
    }

    /// Tells it what to do next. A stopped one does so first thing when it continues.
    pub(super) fn tell(&self, order: Order) -> anyhow::Result<()> {
        self.orders.send(order).ok().with_context(|| format!("contender {} has ended early", self.number))
    }

    /// Its next answer, which must come at once.
    pub(super) async fn answer(&mut self) -> anyhow::Result<Answer> {
        let number = self.number;
        let answer = timeout(PROMPT, self.answers.recv()).await;
        let answer = answer.with_context(|| format!("contender {number} does not answer"))?;
        answer.with_context(|| format!("contender {number} has ended early"))
    }

    /// Waits until its acquisition returns, so long. `None` if it has not; else when it did, if it succeeded.
    pub(super) async fn acquired(&mut self, bound: Duration) -> anyhow::Result<Option<Option<Instant>>> {
        match timeout(bound, self.answers.recv()).await {
            Ok(Some(Answer::Acquired(at))) => Ok(Some(at)),
            Ok(other) => bail!("contender {} acquires, and answers {other:?}", self.number),
            Err(_) => Ok(None),
        }
    }

    /// The answer to its check, or its inquiry: `None` if the lock cannot tell.
    pub(super) async fn held(&mut self) -> anyhow::Result<Option<bool>> {
        match self.answer().await? {
            Answer::Held(held) => Ok(held),
            other => bail!("contender {} looks, and answers {other:?}", self.number),
        }
    }

    /// Asks the lock, and writes unless it says that it is lost: as a careful user does. Whether it said so.
    pub(super) async fn check_and_write(&mut self) -> anyhow::Result<bool> {
        self.tell(Order::Check)?;
        let lost = self.held().await? == Some(false);
        if !lost {
            self.tell(Order::Write)?;
            self.answer().await?;
        }
        Ok(lost)
    }

    /// Releases; whether that succeeded.
    pub(super) async fn release(&mut self) -> anyhow::Result<bool> {
        self.tell(Order::Release)?;
        Ok(matches!(self.answer().await?, Answer::Released(true)))
    }

    /// Stops it until the sender is dropped.
    pub(super) async fn stop(&mut self) -> anyhow::Result<(Instant, std::sync::mpsc::Sender<()>)> {
        let (resume, stopped) = std::sync::mpsc::channel();
        self.tell(Order::Stop(stopped))?;
        match self.answer().await? {
            Answer::Stopped(at) => Ok((at, resume)),
            other => bail!("contender {} is to stop, and answers {other:?}", self.number),
        }
    }
}

/// What the thread is given.
struct Part {
    number: usize,
    kind: Kind,
    server: String,
    key: String,
    register: String,
    holds: Holds,
    orders: mpsc::UnboundedReceiver<Order>,
    answers: mpsc::UnboundedSender<Answer>,
}

impl Part {
    fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (kind, server, key) = (self.kind, self.server.clone(), self.key.clone());
            let redis = Redis::connect(&server, &key, TTL, kind.response_timeout(TTL));
            match kind {
                Kind::SetNxPx => self.play(SetNxPx::new(redis.await?)).await,
                Kind::SetnxExpire => self.play(SetnxExpire::new(redis.await?)).await,
                Kind::SetnxGetset => self.play(SetnxGetset::new(redis.await?)).await,
                Kind::Spring => self.play(Spring::new(redis.await?)).await,
                Kind::Redisson => self.play(Redisson::new(redis.await?)).await,
                Kind::ZklockUnfenced | Kind::Zklock => {
                    let lock = Zklock::connect(&server, &key, TTL).await?;
                    self.play(lock).await
                }
            }
        })
    }

    /// Does as it is told until the conductor drops it.
    async fn play(mut self, lock: impl Lock) -> anyhow::Result<()> {
        let desk = Desk::connect(&self.register).await?;
        let (holds, number, fenced) = (self.holds.clone(), self.number, self.kind.is_fenced());
        let mut holder = Holder { lock, desk, holds, number, fenced, token: None, believed: None };
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        self.answers.send(Answer::Ready)?;
        loop {
            tokio::select! {
                // A lock that was lost is noted before anything else is done.
                biased;
                _ = looks.tick(), if holder.believed.is_some() => drop(holder.look()),
                order = self.orders.recv() => match order {
                    Some(Order::Stop(resumed)) => {
                        let at = holder.end(Instant::now());
                        self.answers.send(Answer::Stopped(at))?;
                        // This blocks the thread. It ends with an error, because nothing is ever sent.
                        let _ = resumed.recv();
                        holder.begin();
                    }
                    Some(order) => self.answers.send(holder.perform(order).await?)?,
                    None => return Ok(()),
                },
            }
        }
    }
}

struct Holder<L> {
    lock: L,
    desk: Desk,
    holds: Holds,
    number: usize,
    /// Whether its token goes with its writes.
    fenced: bool,
    token: Option<FencingToken>,
    /// Since when it believes that it holds the lock, and when the lock last said so, or could not tell.
    believed: Option<(Instant, Instant)>,
}

impl<L: Lock> Holder<L> {
    async fn perform(&mut self, order: Order) -> anyhow::Result<Answer> {
        Ok(match order {
            Order::Acquire => match self.lock.acquire().await {
                Ok(token) => {
                    let granted = Instant::now();
                    self.token = token.filter(|_| self.fenced);
                    let hold = Hold { contender: self.number, granted, spans: Vec::new() };
                    self.holds.lock().unwrap_or_else(PoisonError::into_inner).push(hold);
                    self.begin();
                    Answer::Acquired(Some(granted))
                }
                Err(_) => Answer::Acquired(None),
            },
            Order::Check => Answer::Held(self.look()),
            Order::Inquire => Answer::Held(self.lock.inquire().await.unwrap_or(None)),
            Order::Write => {
                // Without a look at what is there: it is judged by when it came, not by what it replaced.
                let write = Request::Write { who: self.number, token: self.token, read: 0, value: 0 };
                let _: register::Answer = self.desk.ask(write).await?;
                Answer::Wrote
            }
            Order::Release => {
                self.end(Instant::now());
                Answer::Released(self.lock.release().await.is_ok())
            }
            Order::Stop(_) => bail!("a stop is no order to the holder"),
        })
    }

    /// From here on it believes that it holds the lock, unless the lock says otherwise.
    fn begin(&mut self) {
        let now = Instant::now();
        self.believed = Some((now, now)).filter(|_| self.lock.check() != Some(false));
    }

    /// Asks the lock. If the lock says that it is lost, it was until it last said otherwise.
    fn look(&mut self) -> Option<bool> {
        let now = Instant::now();
        let held = self.lock.check();
        match (held, &mut self.believed) {
            (Some(false), Some((_, last))) => {
                let last = *last;
                self.end(last);
            }
            (_, Some((_, last))) => *last = now,
            (_, None) => {}
        }
        held
    }

    /// It believes so no longer.
    fn end(&mut self, at: Instant) -> Instant {
        if let Some((since, _)) = self.believed.take() {
            let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
            let own = holds.iter_mut().rfind(|hold| hold.contender == self.number);
            own.into_iter().for_each(|hold| hold.spans.push((since, at)));
        }
        at
    }
}
