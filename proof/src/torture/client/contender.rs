//! One contender: acquires in all the ways there are, writes under the lock, releases or drops, and loses.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};

use super::contest::{Contest, Hold};
use super::orders::Orders;
use crate::harness::Instant;
use crate::harness::register::{Answer, Desk, Request};
use crate::torture::part::Part;
use crate::torture::record::{Event, How, Leaving, Seen, Who};

/// How often a holder looks at its guard.
const LOOK: Duration = Duration::from_millis(1);
/// How often it says what it has seen, for when it is killed.
const SAY: Duration = Duration::from_millis(100);

pub(super) struct Contender {
    who: Who,
    rng: Rng,
    contest: Arc<dyn Contest>,
    orders: Orders,
    register: String,
    desk: Desk,
    /// What it has read and not tried to follow by a write yet.
    read: Option<u64>,
}

/// How a hold ended, but by the end of the process.
enum End {
    Done,
    Lost(Seen, Instant, String),
}

impl Contender {
    pub(super) async fn new(
        who: Who,
        part: &Part,
        contest: Arc<dyn Contest>,
        orders: Orders,
    ) -> anyhow::Result<Self> {
        let rng = Rng::with_seed(part.seed.wrapping_add(u64::from(who.task)));
        let (register, desk) = (part.setup.register.clone(), Desk::connect(&part.setup.register).await?);
        Ok(Self { who, rng, contest, orders, register, desk, read: None })
    }

    /// Contends again and again, until it is told to finish and has then been granted once more.
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        loop {
            let is_last = self.orders.is_to_finish();
            let completed = self.turn(is_last).await?;
            if is_last && completed {
                return self.who.says(Event::Finished);
            }
            sleep(Duration::from_millis(self.rng.u64(0..150))).await;
        }
    }

    /// One acquisition and what comes of it; true if the lock was held and released.
    async fn turn(&mut self, is_last: bool) -> anyhow::Result<bool> {
        let (how, patience) = if is_last { (How::Wait, None) } else { self.manner() };
        let delay = self.orders.delay();
        self.who.says(Event::Asks { how, patience, delayed: !delay.is_zero() })?;
        let limit = patience.map(Duration::from_millis);
        let contest = self.contest.clone();
        let acquired = self.attend(async {
            match (how, limit) {
                (How::Try, _) => contest.try_acquire(self.who).await,
                (How::Cancel, Some(limit)) => {
                    let acquired = tokio::time::timeout(limit, contest.acquire(self.who, delay, None)).await;
                    acquired.unwrap_or(Err(Leaving::Cancelled))
                }
                (How::Wait | How::Timeout | How::Cancel, limit) => {
                    contest.acquire(self.who, delay, limit).await
                }
            }
        });
        let (acquired, at) = acquired.await?;
        let held = match acquired {
            Ok(held) => held,
            Err(why) => {
                let failed = matches!(why, Leaving::Failed(_));
                self.who.says_at(at, Event::LeftWithout { why })?;
                if failed {
                    // The next attempt at once would most likely fail the same way.
                    sleep(Duration::from_millis(100)).await;
                }
                return Ok(false);
            }
        };
        let mut watch = Watch { seen: Seen { valid: at, promised: None } };
        if let Some((_, reason)) = watch.look(held.as_ref()) {
            // It was not valid at any time since this instant, so it counts as no guard.
            let why = Leaving::Failed(format!("granted, and lost by then: {reason}"));
            self.who.says_at(at, Event::LeftWithout { why })?;
            return Ok(false);
        }
        let (session, token, node, seen) = (held.session(), held.token(), held.node(), watch.seen);
        self.who.says_at(at, Event::Granted { session, token, node, seen })?;
        self.hold(held, watch, is_last).await
    }

    /// Polls an acquisition, but for the time in which it is to be neglected. Also says when it ended.
    async fn attend<T>(&self, acquiring: impl Future<Output = T>) -> anyhow::Result<(T, Instant)> {
        let (mut acquiring, mut orders) = (pin!(acquiring), self.orders.clone());
        let mut neglected = None;
        let acquired = loop {
            tokio::select! {
                // Polled first: one that was never polled has nothing to be neglected.
                biased;
                acquired = &mut acquiring => break (acquired, Instant::now()),
                until = orders.neglect() => {
                    neglected.get_or_insert_with(|| self.contest.requeued());
                    sleep_until(until).await;
                }
            }
        };
        if let Some(before) = neglected {
            // A session that was opened meanwhile counts from zero.
            let requeued = self.contest.requeued().saturating_sub(before);
            self.who.says(Event::Neglected { requeued })?;
        }
        Ok(acquired)
    }

    fn manner(&mut self) -> (How, Option<u64>) {
        match self.rng.u32(..100) {
            0..60 => (How::Wait, None),
            60..75 => (How::Timeout, Some(self.rng.u64(300..5_000))),
            75..90 => (How::Cancel, Some(self.rng.u64(1..2_000))),
            _ => (How::Try, None),
        }
    }

    async fn hold(&mut self, held: Box<dyn Hold>, mut watch: Watch, is_last: bool) -> anyhow::Result<bool> {
        let who = self.who;
        let end = {
            let length = if is_last { Duration::from_millis(5) } else { self.length() };
            let mut work = pin!(self.work(held.as_ref(), length));
            let mut lost = pin!(watch.lost(held.as_ref(), who));
            tokio::select! {
                // Lost first: a process that is continued after a stop finds both ready.
                biased;
                lost = &mut lost => lost?,
                done = &mut work => { done?; End::Done }
            }
        };
        let end = match end {
            End::Done => {
                watch.look(held.as_ref()).map_or(End::Done, |(at, why)| End::Lost(watch.seen, at, why))
            }
            lost @ End::Lost(..) => lost,
        };
        let Watch { seen } = watch;
        match end {
            End::Lost(seen, at, reason) => {
                who.says_at(at, Event::Lost { seen, reason })?;
                // It may have been cut short in the middle of a request.
                self.desk = Desk::connect(&self.register).await?;
                self.write_late(held.as_ref()).await?;
                if self.rng.bool() {
                    // While its session lives, nobody acquires before it has wound down.
                    sleep(Duration::from_millis(self.rng.u64(0..300))).await;
                }
                drop(held);
                Ok(false)
            }
            End::Done if is_last || self.rng.u32(..5) > 0 => {
                who.says(Event::Releases { seen })?;
                let released = held.release().await;
                let confirmed = released.is_ok();
                who.says(Event::Released { unconfirmed: released.err().unwrap_or_default() })?;
                Ok(confirmed)
            }
            End::Done => {
                who.says(Event::Drops { seen })?;
                drop(held);
                Ok(true)
            }
        }
    }

    /// Writes as a holder does that was stopped between the look at its guard and the write. Only the register can refuse it.
    async fn write_late(&mut self, held: &dyn Hold) -> anyhow::Result<()> {
        let (who, token) = (self.who, held.token());
        if let (Some(read), Some(_)) = (self.read.take(), token) {
            self.desk.ask(Request::Write { who, token, read, value: read + 1 }).await?;
        }
        Ok(())
    }

    /// Mostly short, sometimes long.
    fn length(&mut self) -> Duration {
        Duration::from_millis(match self.rng.u32(..100) {
            0..75 => self.rng.u64(1..40),
            75..95 => self.rng.u64(40..400),
            95..99 => self.rng.u64(400..2_000),
            _ => self.rng.u64(2_000..8_000),
        })
    }

    /// Reads, sleeps, asks its guard, writes; again and again until its time is over, and once at least.
    async fn work(&mut self, held: &dyn Hold, length: Duration) -> anyhow::Result<()> {
        let (who, token) = (self.who, held.token());
        let end = tokio::time::Instant::now() + length;
        let mut over = false;
        self.read = None;
        while !over {
            let Answer::Value(read) = self.desk.ask(Request::Read { who, token }).await? else {
                return Ok(());
            };
            self.read = Some(read);
            let pause = sleep(Duration::from_millis(self.rng.u64(1..30)));
            let mut orders = self.orders.clone();
            tokio::select! {
                biased;
                () = orders.stay(end) => over = true,
                () = pause => {}
            }
            // Directly before the write, as every holder should.
            if held.check().is_err() {
                return Ok(());
            }
            self.read = None;
            if self.desk.ask(Request::Write { who, token, read, value: read + 1 }).await? == Answer::Stale {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What a holder sees of its guard.
struct Watch {
    seen: Seen,
}

impl Watch {
    /// One look; if it says "lost", the instant behind it and why.
    fn look(&mut self, held: &dyn Hold) -> Option<(Instant, String)> {
        let before = Instant::now();
        if let Err(reason) = held.check() {
            return Some((Instant::now(), reason));
        }
        // What remains counts from a later instant than this, so the promise is at least that.
        let promised = held.remaining().map(|remaining| before + remaining);
        self.seen = Seen { valid: before, promised: self.seen.promised.max(promised) };
        None
    }

    async fn lost(&mut self, held: &dyn Hold, who: Who) -> anyhow::Result<End> {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut said = self.seen.valid;
        loop {
            looks.tick().await;
            if let Some((at, reason)) = self.look(held) {
                return Ok(End::Lost(self.seen, at, reason));
            }
            if self.seen.valid.since(said) >= SAY {
                said = self.seen.valid;
                who.says(Event::Holds { seen: self.seen })?;
            }
        }
    }
}
