//! One contender: acquires in all the ways there are, writes under the lock, releases or drops, and loses.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until, timeout};

use super::asker;
use super::client::Client;
use super::held::Held;
use super::orders::Orders;
use super::place::{Part, Place};
use super::world::{Pace, World};
use crate::clock::Instant;
use crate::history::MAX_HOLD;
use crate::member::Member;
use crate::members::{Extras, Moment, Rules};
use crate::record::{Entry, Event, How, LOST_BEFORE, LOST_BY_THEN, Leaving, Seen, Who};
use crate::register::{Answer, Call, What};
use crate::request::{Claim, Patience, Terms, value};

/// How often a holder says what it has seen, for when it is killed: so often in a session timeout.
const SAYS: u32 = 40;

/// One contender in so many asks the holders to let go, and one holder in so many listens.
const ASKS: u32 = 4;
const LISTENS: u32 = 2;

/// A holder asks a quorum before one write in so many, and marks its hold by an ephemeral node in one hold in so many.
const VERIFIES: u32 = 6;
const MARKS: u32 = 30;

/// A leader proclaims another value in one of so many rounds of its work.
const PROCLAIMS: u32 = 4;

pub struct Contender<W> {
    who: Who,
    rng: Rng,
    /// For limits and asks, so that what else it does is the same with and without them.
    terms: Rng,
    place: Place<W>,
    client: Client<W>,
    orders: Orders,
    /// What it has read, of which lock, and not tried to follow by a write yet.
    read: Vec<(usize, u64)>,
}

/// When a task stops polling a call, and for how long.
struct Dawdle {
    /// How often the call has asked to be polled by then.
    awaits: u32,
    lasts: Duration,
}

struct Attended<T> {
    output: T,
    /// When its last poll began, and when it was over.
    polled: Instant,
    at: Instant,
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

impl<W: World> Contender<W> {
    /// The number tells its choices from those of others in this process.
    pub fn new(who: Who, place: Place<W>, client: Client<W>, orders: Orders, number: u64) -> Self {
        let seed = place.part.seed;
        let (rng, terms) = (seed.wrapping_add(number), seed.wrapping_sub(number));
        let (rng, terms) = (Rng::with_seed(rng), Rng::with_seed(terms));
        Self { who, rng, terms, place, client, orders, read: Vec::new() }
    }

    /// Contends again and again, until it is told to finish and has then been granted as often as the member asks for.
    pub async fn run(mut self) {
        let mut last_turns = self.rules().last_turns.min(self.pace().last_turns);
        loop {
            let is_last = self.orders.is_to_finish();
            let completed = self.turn(is_last).await;
            if is_last && completed {
                last_turns -= 1;
                if last_turns == 0 {
                    return self.say(Event::Finished);
                }
            }
            let think = self.pace().think;
            sleep(self.part_of(think)).await;
        }
    }

    fn pace(&self) -> Pace {
        self.place.part.pace
    }

    fn rules(&self) -> &'static Rules {
        self.place.part.rules()
    }

    fn say(&self, event: Event) {
        self.place.say(self.who, event);
    }

    fn part_of(&mut self, time: Duration) -> Duration {
        time.mul_f64(self.rng.f64())
    }

    /// One acquisition and what comes of it; true if what it asked for was held and released.
    pub async fn turn(&mut self, is_last: bool) -> bool {
        let (how, patience) = if is_last { (How::Wait, None) } else { self.manner() };
        let (world, timeout) = (&self.place.world, self.pace().timeout);
        let capacity = world.capacity(self.place.part.member);
        let moment = Moment { now: world.now(), timeout, capacity };
        let request = (self.rules().request)(&mut self.rng, moment);
        if !is_last && self.terms.u32(..ASKS) == 0 {
            let (place, client) = (self.place.clone(), self.client.clone());
            asker::ask_holders(self.who, place, client, self.terms.fork(), request.clone());
        }
        // The other client knows none.
        let limit = request.limit(self.who.client, timeout, &mut self.terms);
        let limit = limit.filter(|_| !self.place.part.is_foreign());
        let terms = Terms { delay: self.place.part.delay, limit };
        self.say(Event::Asks { request: request.clone(), how, patience, limit });
        let dawdles = if is_last { None } else { self.dawdles() };
        let client = self.client.clone();
        let acquired = self.attend(dawdles, async {
            let acquire = |patience| client.acquire(self.who, &request, terms, patience);
            match (how, patience) {
                (How::Try, _) => acquire(Patience::None).await,
                (How::Cancel, Some(limit)) => {
                    let acquired = tokio::time::timeout(limit, acquire(Patience::Endless)).await;
                    acquired.unwrap_or(Err(Leaving::Cancelled))
                }
                (How::Wait | How::Timeout | How::Cancel, limit) => {
                    acquire(limit.map_or(Patience::Endless, Patience::Within)).await
                }
            }
        });
        let Attended { output, polled, at } = acquired.await;
        let held = match output {
            Ok(held) => held,
            Err(why) => {
                let failed = matches!(why, Leaving::Failed(_));
                self.place.say_at(at, self.who, Event::LeftWithout { why });
                if failed {
                    // The next attempt at once would most likely fail the same way.
                    sleep(Duration::from_millis(100)).await;
                }
                return false;
            }
        };
        let mut watch = Watch { seen: Seen { valid: at, promised: None } };
        if let Some((lost, reason)) = watch.look(&self.place.world, &held) {
            // It was not valid at any time since this instant, so it counts as no guard.
            let when = if lost == polled { LOST_BEFORE } else { LOST_BY_THEN };
            let why = Leaving::Failed(format!("{when}: {reason}"));
            self.place.say_at(at, self.who, Event::LeftWithout { why });
            return false;
        }
        let (session, token, nodes, seen) = (held.session, held.token(), held.nodes(), watch.seen);
        let claims = held.claim().map_or_else(|| request.claims(), |claim| vec![claim]);
        self.place.say_at(
            at,
            self.who,
            Event::Granted { session, token, claims: claims.clone(), nodes, seen },
        );
        let overstay = terms.limit.filter(|_| !is_last && request.overstays(&mut self.terms));
        let overstay = overstay.map(|limit| limit + timeout.mul_f64(0.075 + 0.3 * self.terms.f64()));
        self.hold(held, &claims, watch, is_last, overstay).await
    }

    /// Polls a call, except while the task dawdles, or calls are to be neglected.
    async fn attend<T>(&self, dawdles: Option<Dawdle>, calling: impl Future<Output = T>) -> Attended<T> {
        let (mut calling, mut orders, world) = (pin!(calling), self.orders.clone(), &self.place.world);
        let mut calling = pin!(poll_fn(|cx| {
            let polled = world.now();
            calling.as_mut().poll(cx).map(|output| Attended { output, polled, at: world.now() })
        }));
        let mut neglected = None;
        if let Some(Dawdle { awaits, lasts }) = dawdles {
            if let Some(ended) = polled(calling.as_mut(), awaits).await {
                return ended;
            }
            self.say(Event::Neglects);
            neglected = Some(self.client.requeued());
            sleep(lasts).await;
        }
        let ended = loop {
            tokio::select! {
                // Polled first: one that was never polled has nothing to be neglected.
                biased;
                ended = &mut calling => break ended,
                until = orders.neglect() => {
                    self.say(Event::Neglects);
                    neglected.get_or_insert_with(|| self.client.requeued());
                    sleep_until(until).await;
                }
            }
        };
        if let Some(before) = neglected {
            // A session that was opened meanwhile counts from zero.
            let requeued = self.client.requeued().saturating_sub(before);
            self.say(Event::Neglected { requeued });
        }
        ended
    }

    /// Whether it dawdles over its next call: for less or more than an offer lasts inside a process, for more than half a session
    /// timeout, or for longer than zklock waits for two such calls.
    fn dawdles(&mut self) -> Option<Dawdle> {
        let Pace { dawdles, outlasts, timeout, .. } = self.pace();
        if self.rng.u32(..dawdles) != 0 {
            return None;
        }
        let (least, more) = match self.rng.u32(..16) {
            0 if outlasts => (6.0, 3.0),
            0..4 => (0.6, 0.7),
            _ => (0.005, 0.25),
        };
        let (awaits, lasts) = (self.rng.u32(1..8), timeout.mul_f64(least + more * self.rng.f64()));
        Some(Dawdle { awaits, lasts })
    }

    fn manner(&mut self) -> (How, Option<Duration>) {
        let Part { member, delay, .. } = *self.place.part;
        // Behind each holder of the other client it waits for a delay.
        let more = if member == Member::Queue { delay } else { Duration::ZERO };
        let timeout = self.pace().timeout;
        match self.rng.u32(..100) {
            0..60 => (How::Wait, None),
            60..75 => (How::Timeout, Some(more + timeout / 13 + self.part_of(timeout * 6 / 5))),
            75..90 => (How::Cancel, Some(more + self.part_of(timeout / 2))),
            _ => (How::Try, None),
        }
    }

    async fn hold(
        &mut self,
        held: Held,
        claims: &[Claim],
        mut watch: Watch,
        is_last: bool,
        overstay: Option<Duration>,
    ) -> bool {
        let (who, place) = (self.who, self.place.clone());
        let world = &place.world;
        let mut held = Arc::new(held);
        world.holds(who, &held);
        let extras = if is_last { Extras::default() } else { (self.rules().extras)(&mut self.rng) };
        let mut shares: Vec<_> = (0..extras.shares).filter_map(|_| held.share().map(Arc::new)).collect();
        if !shares.is_empty() {
            self.say(Event::Shares { number: shares.len() });
        }
        if !is_last && self.terms.u32(..MARKS) == 0 {
            self.mark(&held).await;
        }
        let claim = if extras.claims { held.sequencer() } else { None };
        if claim.is_some() {
            self.say(Event::Claims);
        }
        let heeds = self.terms.bool();
        let mut asks = if !is_last && self.terms.u32(..LISTENS) == 0 { held.asks() } else { None };
        // Two holders of the other client may write at the same time.
        let guarded = if place.part.is_foreign() { &[] } else { claims };
        let lost = {
            let usual = if is_last { self.pace().hold / 8 } else { self.length() };
            let (length, enough) = (overstay.unwrap_or(usual), Notify::new());
            let mut work = pin!(async {
                if extras.enters {
                    self.enter(&held, claims, Duration::MAX).await;
                }
                self.work(&held, guarded, length, &enough).await;
            });
            let mut losing = pin!(watch.lost(&held, &place, who));
            loop {
                tokio::select! {
                    // Lost first: a process that is continued after a stop finds both ready.
                    biased;
                    lost = &mut losing => break Some(lost),
                    () = &mut work => break None,
                    Some(ask) = asker::next(&mut asks), if asks.is_some() => {
                        place.say(who, Event::Hears { ask: ask.why, heeds });
                        if heeds {
                            enough.notify_one();
                        }
                    }
                }
            }
        };
        let mut lost = lost.or_else(|| watch.look(world, &held));
        if lost.is_none() && !shares.is_empty() {
            shares.push(held);
            held = self.release_all_but_one(shares.split_off(0)).await;
            lost = watch.look(world, &held);
        }
        let seen = watch.seen;
        if let Some((at, reason)) = lost {
            // A guard that is kept after its limit keeps nobody from the lock.
            let keeps = reason == MAX_HOLD;
            self.place.say_at(at, who, Event::Lost { seen, reason });
            shares.push(held);
            self.lose(shares, keeps).await;
            return false;
        }
        if !is_last && self.rng.u32(..5) == 0 {
            self.say(Event::Drops { seen });
            drop(held);
            return true;
        }
        if extras.leaves_open {
            let moment =
                if self.rng.bool() { Duration::ZERO } else { self.part_of(place.part.pace.timeout / 1_300) };
            self.enter(&held, claims, moment).await;
        }
        self.say(Event::Releases { seen });
        let dawdles = if is_last { None } else { self.dawdles() };
        let released = Arc::into_inner(held).expect("nobody else keeps a guard").release();
        let released = self.attend(dawdles, released).await.output;
        let confirmed = released.is_ok();
        self.say(Event::Released { unconfirmed: released.err().unwrap_or_default() });
        if let Some(claim) = claim.filter(|_| confirmed)
            && self.client.is_current(&claim).await
        {
            self.say(Event::Outlived);
        }
        confirmed
    }

    /// What a holder does that has lost its lock, with all guards of its hold.
    async fn lose(&mut self, mut guards: Vec<Arc<Held>>, keeps: bool) {
        let timeout = self.pace().timeout;
        if keeps {
            sleep(timeout.mul_f64(0.125 + 0.25 * self.terms.f64())).await;
        }
        if let Some(held) = guards.last() {
            self.write_late(held).await;
        }
        if keeps {
            self.say(Event::LetsGo);
        }
        assert!(guards.iter().all(|guard| guard.check().is_err()), "{} has lost one of its shares", self.who);
        self.rng.shuffle(&mut guards);
        for guard in guards {
            if self.rng.bool() {
                // While its session lives, nobody acquires before it has wound down.
                let pause = self.part_of(timeout / 13);
                sleep(pause).await;
            }
            drop(guard);
        }
    }

    /// Releases or drops all guards of a hold but one, in any order. The hold goes on with that one.
    async fn release_all_but_one(&mut self, mut guards: Vec<Arc<Held>>) -> Arc<Held> {
        self.rng.shuffle(&mut guards);
        let last = guards.pop().expect("a hold has a guard");
        self.place.world.holds(self.who, &last);
        for guard in guards {
            if self.rng.bool() {
                // If the hold is lost meanwhile, the last guard says so as well.
                let _released = Arc::into_inner(guard).expect("nobody else keeps a guard").release().await;
            } else {
                drop(guard);
            }
            let pause = self.part_of(self.pace().timeout / 800);
            sleep(pause).await;
        }
        last
    }

    /// Makes an entry in the lock's log, if the recipe has such, and says what came of that if it hears of it within the limit.
    /// If not, the transaction stays under way.
    async fn enter(&self, held: &Held, claims: &[Claim], limit: Duration) {
        let (Some(claim), Some(token)) = (claims.first(), held.token()) else { return };
        let entry = Entry { who: self.who, token };
        let log = self.place.part.member.log(claim.lock);
        let Some(entering) = held.enter(format!("{log}/{}", entry.name())) else { return };
        self.say(Event::Enters);
        if let Ok(Some(done)) = timeout(limit, entering).await {
            self.say(Event::Entered { done });
        }
    }

    /// Creates an ephemeral node under the lock, if the recipe can.
    async fn mark(&self, held: &Held) {
        if let Some(marking) = held.mark()
            && marking.await == Some(false)
            && held.check().is_ok()
        {
            self.say(Event::Unmarked);
        }
    }

    /// Writes as a holder does that was stopped between the look at its guard and the write. Only the register can refuse it.
    async fn write_late(&mut self, held: &Held) {
        let read = std::mem::take(&mut self.read);
        if held.token().is_some() {
            for (lock, read) in read {
                self.write(held, lock, read).await;
            }
        }
    }

    /// Announces another value, if it leads an election.
    async fn proclaim(&mut self, held: &Held) {
        let value = value(&mut self.rng);
        let Some(leadership) = held.leadership() else { return };
        self.say(Event::Proclaims { value: value.clone() });
        if let Err(why) = leadership.proclaim(value).await
            && held.check().is_ok()
        {
            self.say(Event::Unannounced { why: why.to_string() });
        }
    }

    async fn write(&self, held: &Held, lock: usize, read: u64) -> Answer {
        self.call(held, lock, What::Write { read, value: read + 1 }).await
    }

    async fn call(&self, held: &Held, lock: usize, what: What) -> Answer {
        let call = Call { who: self.who, token: held.token(), what };
        self.place.world.call(self.place.part.member, lock, call).await
    }

    fn length(&mut self) -> Duration {
        let Pace { hold, longest, .. } = self.pace();
        let times = match self.rng.u32(..100) {
            0..75 => 1.0,
            75..95 => 10.0,
            95..99 => 50.0,
            _ => 200.0,
        };
        let length = hold.mul_f64(times * self.rng.f64());
        longest.min(length * (self.rules().stretch)(self.who.client))
    }

    /// Reads, sleeps, asks its guard, writes what it holds alone; again and again until its time is over, or enough, and once at least.
    async fn work(&mut self, held: &Held, claims: &[Claim], length: Duration, enough: &Notify) {
        let end = tokio::time::Instant::now() + length;
        let mut over = false;
        self.read.clear();
        while !over {
            for Claim { lock, shared } in claims {
                let what = if *shared { What::Look } else { What::Read };
                let Some(read) = self.call(held, *lock, what).await else { return };
                if !shared {
                    self.read.push((*lock, read));
                }
            }
            let round = self.pace().round;
            let pause = sleep(self.part_of(round));
            let mut orders = self.orders.clone();
            tokio::select! {
                biased;
                () = orders.stay(end) => over = true,
                () = enough.notified() => over = true,
                () = pause => {}
            }
            if self.rng.u32(..PROCLAIMS) == 0 {
                self.proclaim(held).await;
            }
            // Directly before the write, as every holder should.
            let verifies = self.terms.u32(..VERIFIES) == 0;
            let checked = if verifies { held.verify().await } else { held.check() };
            if checked.is_err() {
                return;
            }
            while let Some((lock, read)) = self.read.pop() {
                if self.write(held, lock, read).await.is_none() {
                    return;
                }
            }
        }
    }
}

struct Watch {
    seen: Seen,
}

impl Watch {
    /// One look; if it says "lost", the instant behind it and why.
    fn look(&mut self, world: &impl World, held: &Held) -> Option<(Instant, String)> {
        let before = world.now();
        if let Err(reason) = held.check() {
            return Some((world.now(), reason));
        }
        // What remains counts from a later instant than this, so the promise is at least that.
        let promised = held.remaining().map(|remaining| before + remaining);
        self.seen = Seen { valid: before, promised: self.seen.promised.max(promised) };
        None
    }

    async fn lost<W: World>(&mut self, held: &Held, place: &Place<W>, who: Who) -> (Instant, String) {
        let Pace { look, timeout, .. } = place.part.pace;
        let (mut told, mut said) = (held.lost(), self.seen.valid);
        loop {
            tokio::select! {
                biased;
                reason = &mut told => return (place.world.now(), reason),
                () = sleep(look) => {}
            }
            if let Some(lost) = self.look(&place.world, held) {
                return lost;
            }
            if self.seen.valid.since(said) >= timeout / SAYS {
                said = self.seen.valid;
                place.say(who, Event::Holds { seen: self.seen });
            }
        }
    }
}
