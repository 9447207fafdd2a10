//! One contender: acquires in all the ways there are, writes under the lock, releases or drops, and loses.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context, ensure};
use fastrand::Rng;
use futures::future::try_join_all;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::asker;
use super::contest::Contest;
use super::held::Held;
use super::orders::Orders;
use super::patience::Patience;
use crate::harness::Instant;
use crate::harness::register::{Answer, Desk, Request, What};
use crate::torture::history::MAX_HOLD;
use crate::torture::mode::{Extras, Rules, rules};
use crate::torture::part::Part;
use crate::torture::record::{Entry, Event, How, LOST_BY_THEN, Leaving, Seen, Who};
use crate::torture::wish::{Claim, Terms, log, value};

/// How often a holder looks at its guard.
const LOOK: Duration = Duration::from_millis(1);
/// How often it says what it has seen, for when it is killed.
const SAY: Duration = Duration::from_millis(100);

/// The longest hold, unless its holder is told to stay.
const LONGEST: Duration = Duration::from_secs(8);

/// One contender in so many asks the holders to let go, and one holder in so many listens.
const ASKS: u32 = 4;
const LISTENS: u32 = 2;

/// A leader proclaims another value in one of so many rounds of its work.
const PROCLAIMS: u32 = 4;

pub(super) struct Contender {
    who: Who,
    rng: Rng,
    /// For limits and asks, so that what else it does is the same with and without them.
    terms: Rng,
    contest: Contest,
    orders: Orders,
    rules: &'static Rules,
    registers: Vec<String>,
    /// One for each lock.
    desks: Vec<Desk>,
    /// What it has read, of which lock, and not tried to follow by a write yet.
    read: Vec<(usize, u64)>,
}

/// When a task stops polling a call, and for how long.
struct Dawdle {
    /// How often the call has asked to be polled by then.
    awaits: u32,
    lasts: Duration,
}

/// Polls a call until it has asked to be polled so often. Returns its output if it has ended by then.
async fn polled<F: Future>(mut call: Pin<&mut F>, mut awaits: u32) -> Option<F::Output> {
    poll_fn(|cx| match awaits.checked_sub(1) {
        Some(left) => {
            awaits = left;
            call.as_mut().poll(cx).map(Some)
        }
        None => Poll::Ready(None),
    })
    .await
}

impl Contender {
    pub(super) async fn new(who: Who, part: &Part, contest: Contest, orders: Orders) -> anyhow::Result<Self> {
        let rng = Rng::with_seed(part.seed.wrapping_add(u64::from(who.task)));
        let terms = Rng::with_seed(part.seed.wrapping_sub(u64::from(who.task)));
        let (rules, registers) = (rules(part.setup.mode), part.setup.registers.clone());
        let desks = desks(&registers).await?;
        Ok(Self { who, rng, terms, contest, orders, rules, registers, desks, read: Vec::new() })
    }

    /// Contends again and again, until it is told to finish and has then been granted as often as the mode asks for.
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let mut last_turns = self.rules.last_turns;
        loop {
            let is_last = self.orders.is_to_finish();
            let completed = self.turn(is_last).await?;
            if is_last && completed {
                last_turns -= 1;
                if last_turns == 0 {
                    return self.who.says(Event::Finished);
                }
            }
            sleep(Duration::from_millis(self.rng.u64(0..150))).await;
        }
    }

    /// One acquisition and what comes of it; true if what it asked for was held and released.
    async fn turn(&mut self, is_last: bool) -> anyhow::Result<bool> {
        let (how, patience) = if is_last { (How::Wait, None) } else { self.manner() };
        let wish = (self.rules.wish)(&mut self.rng);
        if !is_last && self.terms.u32(..ASKS) == 0 {
            asker::ask_holders(self.who, self.contest.clone(), self.terms.fork(), wish.clone());
        }
        // The other client knows none.
        let limit = wish.limit(self.who.client, &mut self.terms);
        let limit = limit.filter(|_| !(self.rules.is_foreign)(self.who.client));
        let terms = Terms { delay: self.orders.delay(), limit };
        let (delayed, longest) = (!terms.delay.is_zero(), terms.limit.map(|limit| limit.as_millis() as u64));
        self.who.says(Event::Asks { wish: wish.clone(), how, patience, delayed, limit: longest })?;
        let limit = patience.map(Duration::from_millis);
        let dawdles = if is_last { None } else { self.dawdles() };
        let contest = self.contest.clone();
        let acquired = self.attend(dawdles, async {
            let acquire = |patience| contest.acquire(self.who, &wish, terms, patience);
            match (how, limit) {
                (How::Try, _) => acquire(Patience::None).await,
                (How::Cancel, Some(limit)) => {
                    let acquired = timeout(limit, acquire(Patience::Endless)).await;
                    acquired.unwrap_or(Err(Leaving::Cancelled))
                }
                (How::Wait | How::Timeout | How::Cancel, limit) => {
                    acquire(limit.map_or(Patience::Endless, Patience::Within)).await
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
        if let Some((_, reason)) = watch.look(&held) {
            // It was not valid at any time since this instant, so it counts as no guard.
            let why = Leaving::Failed(format!("{LOST_BY_THEN}: {reason}"));
            self.who.says_at(at, Event::LeftWithout { why })?;
            return Ok(false);
        }
        let (session, token, nodes, seen) = (held.session, held.token(), held.nodes(), watch.seen);
        let claims = held.claim.map_or_else(|| wish.claims(), |claim| vec![claim]);
        self.who.says_at(at, Event::Granted { session, token, claims: claims.clone(), nodes, seen })?;
        let overstay = terms.limit.filter(|_| !is_last && wish.overstays(&mut self.terms));
        let overstay = overstay.map(|limit| limit + Duration::from_millis(self.terms.u64(300..1_500)));
        self.hold(held, &claims, watch, is_last, overstay).await
    }

    /// Polls a call, except while the task dawdles, or calls are to be neglected. Also says when the call ended.
    async fn attend<T>(
        &self,
        dawdles: Option<Dawdle>,
        calling: impl Future<Output = T>,
    ) -> anyhow::Result<(T, Instant)> {
        let (mut calling, mut orders) = (pin!(calling), self.orders.clone());
        let mut neglected = None;
        if let Some(Dawdle { awaits, lasts }) = dawdles {
            if let Some(ended) = polled(calling.as_mut(), awaits).await {
                return Ok((ended, Instant::now()));
            }
            neglected = Some(self.contest.requeued());
            sleep(lasts).await;
        }
        let ended = loop {
            tokio::select! {
                // Polled first: one that was never polled has nothing to be neglected.
                biased;
                ended = &mut calling => break (ended, Instant::now()),
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
        Ok(ended)
    }

    /// Whether it dawdles over its next call: for less or more than an offer lasts inside a process, or for more than half a
    /// session timeout.
    fn dawdles(&mut self) -> Option<Dawdle> {
        let lasts = match self.rng.u32(..48) {
            0..3 => 20..1_000,
            3 => 2_500..5_000,
            _ => return None,
        };
        let (awaits, lasts) = (self.rng.u32(1..8), Duration::from_millis(self.rng.u64(lasts)));
        Some(Dawdle { awaits, lasts })
    }

    fn manner(&mut self) -> (How, Option<u64>) {
        let more = self.rules.patience.as_millis() as u64;
        match self.rng.u32(..100) {
            0..60 => (How::Wait, None),
            60..75 => (How::Timeout, Some(more + self.rng.u64(300..5_000))),
            75..90 => (How::Cancel, Some(more + self.rng.u64(1..2_000))),
            _ => (How::Try, None),
        }
    }

    async fn hold(
        &mut self,
        mut held: Held,
        claims: &[Claim],
        mut watch: Watch,
        is_last: bool,
        overstay: Option<Duration>,
    ) -> anyhow::Result<bool> {
        let who = self.who;
        let extras = if is_last { Extras::default() } else { (self.rules.extras)(&mut self.rng) };
        let mut shares: Vec<_> = (0..extras.shares).filter_map(|_| held.share()).collect();
        if !shares.is_empty() {
            who.says(Event::Shares { number: shares.len() })?;
        }
        let claim = if extras.claims { held.sequencer() } else { None };
        if claim.is_some() {
            who.says(Event::Claims)?;
        }
        let heeds = self.terms.bool();
        let mut asks = if !is_last && self.terms.u32(..LISTENS) == 0 { held.asks() } else { None };
        // Two holders of the other client may write at the same time.
        let guarded = if (self.rules.is_foreign)(who.client) { &[] } else { claims };
        let lost = {
            let usual = if is_last { Duration::from_millis(5) } else { self.length() };
            let (length, enough) = (overstay.unwrap_or(usual), Notify::new());
            let mut work = pin!(async {
                if extras.enters {
                    self.enter(&held, claims, Duration::MAX).await?;
                }
                self.work(&held, guarded, length, &enough).await
            });
            let mut losing = pin!(watch.lost(&held, who));
            loop {
                tokio::select! {
                    // Lost first: a process that is continued after a stop finds both ready.
                    biased;
                    lost = &mut losing => break Some(lost?),
                    done = &mut work => { done?; break None }
                    Some(ask) = asker::next(&mut asks), if asks.is_some() => {
                        who.says(Event::Hears { ask: ask.why, heeds })?;
                        if heeds {
                            enough.notify_one();
                        }
                    }
                }
            }
        };
        let mut lost = lost.or_else(|| watch.look(&held));
        if lost.is_none() && !shares.is_empty() {
            shares.push(held);
            held = self.release_all_but_one(shares.split_off(0)).await?;
            lost = watch.look(&held);
        }
        let seen = watch.seen;
        if let Some((at, reason)) = lost {
            // A guard that is kept after its limit keeps nobody from the lock.
            let keeps = reason == MAX_HOLD;
            who.says_at(at, Event::Lost { seen, reason })?;
            shares.push(held);
            self.lose(shares, keeps).await?;
            return Ok(false);
        }
        if !is_last && self.rng.u32(..5) == 0 {
            who.says(Event::Drops { seen })?;
            drop(held);
            return Ok(true);
        }
        if extras.leaves_open {
            let moment = Duration::from_micros(if self.rng.bool() { 0 } else { self.rng.u64(0..3_000) });
            self.enter(&held, claims, moment).await?;
        }
        who.says(Event::Releases { seen })?;
        let dawdles = if is_last { None } else { self.dawdles() };
        let (released, _) = self.attend(dawdles, held.release()).await?;
        let confirmed = released.is_ok();
        who.says(Event::Released { unconfirmed: released.err().unwrap_or_default() })?;
        if let Some(claim) = claim.filter(|_| confirmed)
            && self.contest.is_current(&claim).await
        {
            who.says(Event::Outlived)?;
        }
        Ok(confirmed)
    }

    /// What a holder does that has lost its lock, with all guards of its hold.
    async fn lose(&mut self, mut guards: Vec<Held>, keeps: bool) -> anyhow::Result<()> {
        // It may have been cut short in the middle of a request.
        self.desks = desks(&self.registers).await?;
        if keeps {
            sleep(Duration::from_millis(self.terms.u64(500..1_500))).await;
        }
        if let Some(held) = guards.last() {
            self.write_late(held).await?;
        }
        if keeps {
            self.who.says(Event::LetsGo)?;
        }
        ensure!(guards.iter().all(|guard| guard.check().is_err()), "{} has lost one of its shares", self.who);
        self.rng.shuffle(&mut guards);
        for guard in guards {
            if self.rng.bool() {
                // While its session lives, nobody acquires before it has wound down.
                sleep(Duration::from_millis(self.rng.u64(0..300))).await;
            }
            drop(guard);
        }
        Ok(())
    }

    /// Releases or drops all guards of a hold but one, in any order. The hold goes on with that one.
    async fn release_all_but_one(&mut self, mut guards: Vec<Held>) -> anyhow::Result<Held> {
        self.rng.shuffle(&mut guards);
        let last = guards.pop().context("a hold has a guard")?;
        for guard in guards {
            if self.rng.bool() {
                // If the hold is lost meanwhile, the last guard says so as well.
                let _released = guard.release().await;
            } else {
                drop(guard);
            }
            sleep(Duration::from_millis(self.rng.u64(0..5))).await;
        }
        Ok(last)
    }

    /// Makes an entry in the lock's log, if the recipe has such, and says what came of that if it hears of it within the limit.
    /// If not, the transaction stays under way.
    async fn enter(&self, held: &Held, claims: &[Claim], limit: Duration) -> anyhow::Result<()> {
        let (Some(claim), Some(token)) = (claims.first(), held.token()) else { return Ok(()) };
        let entry = Entry { who: self.who, token };
        let Some(entering) = held.enter(format!("{}/{}", log(claim.lock), entry.name())) else {
            return Ok(());
        };
        self.who.says(Event::Enters)?;
        match timeout(limit, entering).await {
            Ok(Some(done)) => self.who.says(Event::Entered { done }),
            _ => Ok(()),
        }
    }

    /// Writes as a holder does that was stopped between the look at its guard and the write. Only the register can refuse it.
    async fn write_late(&mut self, held: &Held) -> anyhow::Result<()> {
        let read = std::mem::take(&mut self.read);
        if held.token().is_some() {
            for (lock, read) in read {
                self.write(held, lock, read).await?;
            }
        }
        Ok(())
    }

    /// Announces another value, if it leads an election.
    async fn proclaim(&mut self, held: &Held) -> anyhow::Result<()> {
        let value = value(&mut self.rng);
        let Some(leadership) = held.leadership() else { return Ok(()) };
        self.who.says(Event::Proclaims { value: value.clone() })?;
        match leadership.proclaim(value).await {
            Err(why) if held.check().is_ok() => self.who.says(Event::Unannounced { why: why.to_string() }),
            _ => Ok(()),
        }
    }

    async fn read(&mut self, held: &Held, Claim { lock, shared }: Claim) -> anyhow::Result<Answer> {
        self.ask(held, lock, if shared { What::Look } else { What::Read }).await
    }

    async fn write(&mut self, held: &Held, lock: usize, read: u64) -> anyhow::Result<Answer> {
        self.ask(held, lock, What::Write { read, value: read + 1 }).await
    }

    async fn ask(&mut self, held: &Held, lock: usize, what: What) -> anyhow::Result<Answer> {
        let request = Request { who: self.who, token: held.token(), what };
        self.desks.get_mut(lock).context("no such lock")?.ask(request).await
    }

    /// Mostly short, sometimes long.
    fn length(&mut self) -> Duration {
        let length = Duration::from_millis(match self.rng.u32(..100) {
            0..75 => self.rng.u64(1..40),
            75..95 => self.rng.u64(40..400),
            95..99 => self.rng.u64(400..2_000),
            _ => self.rng.u64(2_000..8_000),
        });
        LONGEST.min(length * (self.rules.stretch)(self.who.client))
    }

    /// Reads, sleeps, asks its guard, writes what it holds alone; again and again until its time is over, or enough, and once at least.
    async fn work(
        &mut self,
        held: &Held,
        claims: &[Claim],
        length: Duration,
        enough: &Notify,
    ) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + length;
        let mut over = false;
        self.read.clear();
        while !over {
            for claim in claims {
                let Some(read) = self.read(held, *claim).await? else { return Ok(()) };
                if !claim.shared {
                    self.read.push((claim.lock, read));
                }
            }
            let pause = sleep(Duration::from_millis(self.rng.u64(1..30)));
            let mut orders = self.orders.clone();
            tokio::select! {
                biased;
                () = orders.stay(end) => over = true,
                () = enough.notified() => over = true,
                () = pause => {}
            }
            if self.rng.u32(..PROCLAIMS) == 0 {
                self.proclaim(held).await?;
            }
            // Directly before the write, as every holder should.
            if held.check().is_err() {
                return Ok(());
            }
            while let Some((lock, read)) = self.read.pop() {
                if self.write(held, lock, read).await?.is_none() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A desk at each register.
async fn desks(registers: &[String]) -> anyhow::Result<Vec<Desk>> {
    try_join_all(registers.iter().map(|register| Desk::connect(register))).await
}

/// What a holder sees of its guard.
struct Watch {
    seen: Seen,
}

impl Watch {
    /// One look; if it says "lost", the instant behind it and why.
    fn look(&mut self, held: &Held) -> Option<(Instant, String)> {
        let before = Instant::now();
        if let Err(reason) = held.check() {
            return Some((Instant::now(), reason));
        }
        // What remains counts from a later instant than this, so the promise is at least that.
        let promised = held.remaining().map(|remaining| before + remaining);
        self.seen = Seen { valid: before, promised: self.seen.promised.max(promised) };
        None
    }

    async fn lost(&mut self, held: &Held, who: Who) -> anyhow::Result<(Instant, String)> {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut said = self.seen.valid;
        loop {
            looks.tick().await;
            if let Some(lost) = self.look(held) {
                return Ok(lost);
            }
            if self.seen.valid.since(said) >= SAY {
                said = self.seen.valid;
                who.says(Event::Holds { seen: self.seen })?;
            }
        }
    }
}
