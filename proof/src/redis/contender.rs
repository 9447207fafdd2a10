//! One contender: a thread with a runtime of its own, in which everything of its client runs.
//!
//! Blocking the thread is to that client what a stop is to a process: no code of it runs, the kernel keeps its connections, and
//! all clocks go on.

use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use tokio::runtime::{self, Handle};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use zklock::FencingToken;
use zklock_contest::record::Who;
use zklock_contest::register::{Call, Store, What};
use zklock_proof::redis_lock::Lock;

use super::holds::Hold;
use super::proxy::Way;
use super::stage::{Holds, Stage, TTL};
use crate::harness::{Instant, now};

/// How often a lock that can tell is asked whether it is held.
const LOOK: Duration = Duration::from_millis(5);

/// How long a contender may take for what needs no waiting; far more than it does take, even on a busy machine.
const PROMPT: Duration = Duration::from_secs(30);

/// A contender, as the conductor has it. Dropped, it ends.
pub(super) struct Contender<L> {
    pub(super) way: Way,
    holder: Arc<Mutex<Holder<L>>>,
    runtime: Handle,
    /// The thread runs what it is told until this is dropped.
    _end: oneshot::Sender<()>,
}

impl<L: Lock> Contender<L> {
    pub(super) async fn enter(stage: &Stage, who: Who) -> anyhow::Result<Self> {
        let way = Way::lay(&stage.servers, stage.kind, who.client.into()).await?;
        let thread = runtime::Builder::new_current_thread().enable_all().build()?;
        let (runtime, (end, ended)) = (thread.handle().clone(), oneshot::channel());
        std::thread::spawn(move || thread.block_on(ended));
        let (server, key, register) = (way.address(), stage.key.clone(), stage.register.clone());
        let (holds, fenced) = (stage.holds.clone(), stage.kind.is_fenced());
        let entered = runtime.spawn(async move {
            let lock = L::connect(&server, &key, TTL).await?;
            let holder = Holder { lock, register, holds, who, fenced, token: None, believed: None };
            let holder = Arc::new(Mutex::new(holder));
            tokio::spawn(watch(holder.clone()));
            anyhow::Ok(holder)
        });
        Ok(Self { way, holder: prompt(entered).await??, runtime, _end: end })
    }

    /// Tells it what to do next. It does one thing after the other, and a stopped one does so first thing when it continues.
    pub(super) fn tell<T: Send + 'static>(
        &self,
        order: for<'a> fn(&'a mut Holder<L>) -> BoxFuture<'a, T>,
    ) -> JoinHandle<T> {
        let holder = self.holder.clone();
        self.runtime.spawn(async move { order(&mut *holder.lock().await).await })
    }

    /// Stops it until the sender is dropped.
    pub(super) async fn stop(&self) -> anyhow::Result<(Instant, mpsc::Sender<()>)> {
        let (resume, resumed) = mpsc::channel();
        let (said, stopped) = oneshot::channel();
        let holder = self.holder.clone();
        self.runtime.spawn(async move {
            let mut holder = holder.lock().await;
            let _ = said.send(holder.end(now()));
            // This blocks the thread. It ends with an error, because nothing is ever sent.
            let _ = resumed.recv();
            holder.begin();
        });
        Ok((prompt(stopped).await?, resume))
    }
}

/// What must come at once.
pub(super) async fn prompt<T, E>(answer: impl Future<Output = Result<T, E>>) -> anyhow::Result<T> {
    let answer = timeout(PROMPT, answer).await.context("a contender does not answer")?;
    answer.ok().context("a contender has ended early")
}

/// Looks whether a lock that was acquired is held, as long as the thread runs.
async fn watch<L: Lock>(holder: Arc<Mutex<Holder<L>>>) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        looks.tick().await;
        holder.lock().await.look();
    }
}

/// What the contender has, on its thread.
pub(super) struct Holder<L> {
    lock: L,
    register: Arc<std::sync::Mutex<Store>>,
    holds: Holds,
    who: Who,
    /// Whether its token goes with its writes.
    fenced: bool,
    token: Option<FencingToken>,
    /// Since when it believes that it holds the lock, and when the lock last said so, or could not tell.
    believed: Option<(Instant, Instant)>,
}

impl<L: Lock> Holder<L> {
    /// When that was granted; `None` if it failed.
    pub(super) async fn acquire(&mut self) -> Option<Instant> {
        let token = self.lock.acquire().await.ok()?;
        let granted = now();
        self.token = token.filter(|_| self.fenced);
        let hold = Hold { contender: self.who, granted, spans: Vec::new() };
        self.holds.lock().unwrap_or_else(PoisonError::into_inner).push(hold);
        self.begin();
        Some(granted)
    }

    /// Asks the servers whether it is held; `None` if the lock cannot tell.
    pub(super) async fn inquire(&mut self) -> Option<bool> {
        self.lock.inquire().await.unwrap_or(None)
    }

    /// Writes to the register, whatever the lock says by now.
    pub(super) fn write(&mut self) {
        // Without a look at what is there: it is judged by when it came, not by what it replaced.
        let what = What::Write { read: 0, value: 0 };
        let mut register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        register.take(Call { who: self.who, token: self.token, what }, now());
    }

    /// Asks the lock, and writes unless it says that it is lost: as a careful user does. Whether it said so.
    pub(super) fn check_and_write(&mut self) -> bool {
        let lost = self.look() == Some(false);
        if !lost {
            self.write();
        }
        lost
    }

    pub(super) async fn release(&mut self) -> bool {
        self.end(now());
        self.lock.release().await.is_ok()
    }

    /// From here on it believes that it holds the lock, unless the lock says otherwise.
    fn begin(&mut self) {
        let now = now();
        self.believed = Some((now, now)).filter(|_| self.lock.check() != Some(false));
    }

    /// Asks what the lock tells without being asked over the network; `None` if it tells nothing. If it says that it is lost, it
    /// was until it last said otherwise.
    pub(super) fn look(&mut self) -> Option<bool> {
        let now = now();
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
            let own = holds.iter_mut().rfind(|hold| hold.contender == self.who);
            own.into_iter().for_each(|hold| hold.spans.push((since, at)));
        }
        at
    }
}
