//! What must have happened by when, once no fault is left. Within the faults there is no such bound: each excuse would be a place for a
//! bug to hide.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zklock::{FencingToken, LostReason};
use zklock_contest::history::MAX_HOLD;
use zklock_contest::record::{Event, How, Leaving, Who};
use zklock_contest::request::{Claim, Request, conflict};

use crate::cluster::nanoseconds;
use crate::interventions;
use crate::part::{Part, SETTLING};

/// docs/guide/loss.md: when the ensemble is back, each process opens a new session within about 20 s.
const REOPENED: Duration = Duration::from_secs(20);

/// docs/guide/keys.md: a process passes a lock on for one second at most. It waits for up to two looks until a task takes its turn.
const TURNS: Duration = Duration::from_millis(1_200);

/// The clients outside a core.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    /// What these had goes with their sessions.
    pub(crate) gone: BTreeSet<u16>,
    /// These still reach a server that has a leader. They may be in everybody's way, rightly.
    pub(crate) reaching: BTreeSet<u16>,
}

impl Outside {
    pub(crate) fn has(&self, client: u16) -> bool {
        self.gone.contains(&client) || self.reaching.contains(&client)
    }
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    timeout: Duration,
    tick: Duration,
    delay: Duration,
}

impl Bounds {
    pub(crate) fn of(part: &Part) -> Self {
        Self { timeout: part.timeout, tick: part.tick, delay: part.delay.unwrap_or_default() }
    }

    /// A request and its answer, if a quorum has to agree. A way takes up to an eightieth of the timeout (`Plan::draw`), the answer takes six
    /// ways, and servers and schedulers add their moments.
    fn round(&self) -> Duration {
        self.timeout / 13 + self.tick / 5 + Duration::from_millis(100)
    }

    /// Nothing that happened within the faults matters any more: killed contenders have expired (docs/guide/timeouts.md: the session
    /// timeout plus one and a half ticks), by a new leader's reckoning; sessions have been opened, and late creates have been looked for.
    pub(crate) fn settling(&self) -> Duration {
        self.timeout * 2 + self.tick * 2 + REOPENED
    }

    /// docs/guide/loss.md: the next contender has the lock within milliseconds after a release, or right after a `max_hold`; with a takeover
    /// delay, after that. On the slowest ways that took 4.9 rounds, and eleven where ZooKeeper removed directories while they were made.
    pub(crate) fn handover(&self) -> Duration {
        self.round() * 12 + self.delay
    }

    /// docs/guide/loss.md: an operator's deletion costs the guard within a round trip, or within some 40 ms of its grant.
    pub(crate) fn loss(&self) -> Duration {
        self.round() + SETTLING
    }

    /// A scheduler stops a process for up to two timeouts. Then it takes an announcement back that its node has left, by a few requests.
    pub(crate) fn takes_back(&self) -> Duration {
        self.timeout * 3 + Duration::from_secs(2)
    }

    /// docs/DESIGN.md, Observers: an observer is behind by an event and a read.
    pub(crate) fn tale(&self) -> Duration {
        self.round() * 2
    }

    /// As that, if its connection breaks meanwhile.
    pub(crate) fn news(&self) -> Duration {
        self.timeout + self.tale()
    }
}

/// One that has asked for something and has not got it.
struct Waiter {
    request: Request,
    asked: u64,
    /// Whether it gives up soon.
    is_try: bool,
    /// Whether it has left its call unpolled.
    is_late: bool,
    /// The last instant at which somebody was in its way.
    blocked: u64,
    /// The last instant at which a holder was, if it does not poll its call.
    held_off: u64,
}

impl Waiter {
    /// Whether the other one may stand behind it.
    fn may_delay(&self, other: &Self) -> bool {
        self.is_for_a_pool() || conflict(&self.request.claims(), &other.request.claims())
    }

    fn is_for_a_pool(&self) -> bool {
        self.request.part_of_pool().is_some()
    }
}

/// One that seems to have waited in vain for a place in a pool. Whoever was before it may hear of its own place later.
struct Suspect {
    waiter: Waiter,
    left: u64,
    token: Option<FencingToken>,
    what: String,
}

impl Suspect {
    /// Whether one that has left just now, and was granted this token if it was granted one, was before it until then.
    fn is_cleared_by(&self, left: &Waiter, token: Option<FencingToken>) -> bool {
        let was_before = match (token, self.token) {
            (Some(token), Some(own)) => token < own,
            _ => left.asked < self.waiter.asked,
        };
        was_before && left.may_delay(&self.waiter)
    }
}

struct Holder {
    granted: u64,
    claims: Vec<Claim>,
    weight: u32,
    token: Option<FencingToken>,
    /// Since when it releases that.
    releases: Option<u64>,
    /// Whether it has left its release unpolled.
    is_late: bool,
}

/// What contenders and observers do, as far as the bounds need it.
#[derive(Default)]
pub(crate) struct Quiet {
    pub(crate) bounds: Bounds,
    /// From then on the bounds hold.
    settled: Option<u64>,
    waiting: BTreeMap<Who, Waiter>,
    holding: BTreeMap<Who, Holder>,
    suspects: Vec<Suspect>,
    /// Those that do not poll their calls, and since when.
    neglecting: BTreeMap<Who, u64>,
    /// Since when each observer observes, and of whom it was told last.
    observers: BTreeMap<Who, (u64, Option<FencingToken>)>,
    /// Until when clients may be without a connection, though nothing else is wrong.
    apart: BTreeMap<u16, u64>,
    /// When each node was granted first.
    turns: BTreeMap<(u16, i64), u64>,
    /// When an operator did something last.
    acted: u64,
    /// Who is outside the core, if there is one.
    outside: Option<Outside>,
    /// The clients that have said something since they were started.
    heard: BTreeSet<u16>,
}

impl Quiet {
    pub(crate) fn of(part: &Part) -> Self {
        Self { bounds: Bounds::of(part), ..Self::default() }
    }

    /// No fault is left, or all that are left are outside a core.
    pub(crate) fn begin(&mut self, now: u64, outside: Option<Outside>) -> u64 {
        self.outside = outside;
        *self.settled.insert(now + nanoseconds(self.bounds.settling()))
    }

    /// Whether this client is outside the core.
    pub(crate) fn is_outside(&self, client: u16) -> bool {
        self.outside.as_ref().is_some_and(|outside| outside.has(client))
    }

    /// For so long at most one waits that nobody keeps from it. In a core, a session that is opened at a server
    /// that answers no heartbeat leaves it after about two fifths of its timeout (docs/DESIGN.md), and no longer than that.
    fn handover(&self) -> Duration {
        self.bounds.handover() + self.outside.as_ref().map_or(Duration::ZERO, |_| self.bounds.timeout)
    }

    /// Whether this holder has left a call unpolled.
    pub(crate) fn is_late(&self, who: Who) -> bool {
        self.holding.get(&who).is_some_and(|holder| holder.is_late)
    }

    /// For so long zklock waits at most for one that does not poll (`Lock::acquire`: up to two session timeouts), and for as many as
    /// there are one after the other. It looks eight times in a session timeout.
    fn patience(&self) -> u64 {
        let one = self.bounds.timeout * 5 / 2 + self.handover();
        nanoseconds(one) * self.neglecting.len() as u64
    }

    /// An operator changes what a pool has. Until now that was as before.
    pub(crate) fn resizes(&mut self, now: u64) {
        self.note_blocked(now);
        self.acts(now);
    }

    /// An operator is about to delete or write something.
    pub(crate) fn acts(&mut self, now: u64) {
        self.acted = now;
    }

    /// Whether nothing of the faults matters any more.
    pub(crate) fn is_settled(&self, now: u64) -> bool {
        self.settled.is_some_and(|settled| now >= settled)
    }

    /// Whether nothing of the faults mattered any more at this instant, nor what an operator did before this instant.
    pub(crate) fn counts(&self, since: u64) -> bool {
        self.is_settled(since) && since > self.acted
    }

    /// Notes which waiters were blocked until now.
    fn note_blocked(&mut self, now: u64) {
        let patience = self.patience();
        let Self { waiting, holding, neglecting, outside, .. } = self;
        let none = Outside::default();
        let Outside { gone, reaching } = outside.as_ref().unwrap_or(&none);
        let is_awaited = |who: &Who, since: u64| {
            neglecting.get(who).is_none_or(|neglects| now <= since.max(*neglects) + patience)
        };
        let holding = holding.iter().filter(|(who, _)| !gone.contains(&who.client));
        let holding = holding.filter(|(who, it)| it.releases.is_none_or(|since| is_awaited(who, since)));
        let holding = holding.map(|(_, holder)| holder).collect::<Vec<_>>();
        let held = holding.iter().map(|holder| holder.weight).sum::<u32>();
        let capacity = interventions::capacity();
        let is_held_off = |request: &Request| match request.part_of_pool() {
            Some((weight, _)) => held + weight > capacity,
            None => holding.iter().any(|holder| conflict(&holder.claims, &request.claims())),
        };
        // One that does not poll may be granted without knowing.
        let mut idlers = Vec::new();
        for (who, waiter) in waiting.iter_mut().filter(|(who, _)| neglecting.contains_key(*who)) {
            if is_held_off(&waiter.request) {
                waiter.held_off = now;
            }
            if !gone.contains(&who.client) && is_awaited(who, waiter.held_off) {
                idlers.push(waiter.request.clone());
            }
        }
        for (who, waiter) in waiting {
            let delays = |idler: &Request| {
                idler.part_of_pool().is_some() || conflict(&idler.claims(), &waiter.request.claims())
            };
            let is_blocked = neglecting.contains_key(who)
                || is_held_off(&waiter.request)
                || idlers.iter().any(delays)
                || !reaching.is_empty();
            if is_blocked {
                waiter.blocked = now;
            }
        }
    }

    /// Ends a wait, with this token if it was granted. Others may have waited behind this one.
    fn leaves(&mut self, who: Who, at: u64, token: Option<FencingToken>) -> Option<Waiter> {
        let left = self.waiting.remove(&who)?;
        self.suspects.retain(|suspect| !suspect.is_cleared_by(&left, token));
        let behind = self.waiting.values_mut().filter(|waiter| left.may_delay(waiter));
        behind.for_each(|waiter| waiter.blocked = at);
        Some(left)
    }

    /// Returns what came too late, or without a cause, and those of whom that is certain by now.
    pub(crate) fn hear(&mut self, who: Who, at: u64, event: &Event) -> Vec<String> {
        let wrong = self.judge(who, at, event).filter(|_| !self.is_outside(who.client));
        let until = at.saturating_sub(nanoseconds(self.handover()));
        let certain = self.suspects.extract_if(.., |suspect| suspect.left < until);
        wrong.into_iter().chain(certain.map(|suspect| suspect.what)).collect()
    }

    /// Returns those of whom nothing more is heard.
    pub(crate) fn end(self) -> impl Iterator<Item = String> {
        self.suspects.into_iter().map(|suspect| suspect.what)
    }

    /// Says so if one that has left now has waited in vain. In a pool that is not certain yet.
    fn suspect(&mut self, who: Who, at: u64, waiter: Waiter, token: Option<FencingToken>) -> Option<String> {
        let since = waiter.blocked.max(self.settled?);
        let waited = Duration::from_nanos(at.saturating_sub(since));
        if waited <= self.handover() {
            return None;
        }
        let what = format!("{who} waited for {waited:?}, though nobody was in its way");
        if !waiter.is_for_a_pool() {
            return Some(what);
        }
        if !self.is_outside(who.client) {
            self.suspects.push(Suspect { waiter, left: at, token, what });
        }
        None
    }

    fn judge(&mut self, who: Who, at: u64, event: &Event) -> Option<String> {
        self.note_blocked(at);
        self.heard.insert(who.client);
        match event {
            Event::Asks { request, how, .. } => {
                let (request, is_try) = (request.clone(), *how == How::Try);
                self.waiting.insert(
                    who,
                    Waiter { request, asked: at, is_try, is_late: false, blocked: at, held_off: at },
                );
            }
            Event::Neglects => {
                self.neglecting.insert(who, at);
                self.waiting.entry(who).and_modify(|waiter| waiter.is_late = true);
                self.holding.entry(who).and_modify(|holder| holder.is_late = true);
            }
            Event::Neglected { .. } => drop(self.neglecting.remove(&who)),
            Event::LeftWithout { why } => {
                let left = self.leaves(who, at, None)?;
                // A try ends after half a session timeout (docs/guide/timeouts.md), while nobody polls it, too. If directories have
                // vanished, it makes them one after the other, some of them twice, by fifteen round trips or more.
                let is_slow = |why: &str| left.is_try && why.contains("did not confirm the state");
                if let Leaving::Failed(why) = why
                    && self.counts(left.asked)
                    && !left.is_late
                    && !is_slow(why)
                    && !why.contains(MAX_HOLD)
                {
                    return Some(format!("{who} has failed without a cause: {why}"));
                }
                // What it stated of a pool is outdated: it is to hear of that soon.
                if let Leaving::Failed(_) = why
                    && left.is_for_a_pool()
                    && !left.is_late
                {
                    self.suspect(who, at, left, None);
                }
            }
            Event::Granted { claims, token, .. } => {
                let waiter = self.leaves(who, at, *token)?;
                let weight = waiter.request.part_of_pool().map_or(0, |(weight, _)| weight);
                let holder = Holder {
                    granted: at,
                    claims: claims.clone(),
                    weight,
                    token: *token,
                    releases: None,
                    is_late: waiter.is_late,
                };
                self.holding.insert(who, holder);
                if let Some(waited) = self.suspect(who, at, waiter, *token) {
                    return Some(waited);
                }
                let token = (*token)?;
                let first = *self.turns.entry((who.client, token.zxid())).or_insert(at);
                let age = Duration::from_nanos(at - first);
                if self.counts(first) && token.turn() > 0 && age > TURNS + self.bounds.round() {
                    return Some(format!("{who} was passed a lock on that its process had for {age:?}"));
                }
            }
            Event::Unmarked if self.counts(self.holding.get(&who)?.granted) => {
                return Some(format!("a transaction of {who} was refused, though it holds"));
            }
            Event::Lost { reason, .. } => {
                let Holder { granted, is_late, token, .. } = self.holding.remove(&who)?;
                // A holder hears by its first transaction that an operator wrote to its node before it watched it (docs/DESIGN.md, An early
                // write).
                let is_touched = *reason == LostReason::NodeDeleted.to_string()
                    && token.is_some_and(|token| interventions::is_touched(token.zxid()));
                if reason != MAX_HOLD {
                    // The node of a lost guard stays until its holder has wound down.
                    let until = at + nanoseconds(self.bounds.timeout / 4);
                    self.waiting.values_mut().for_each(|waiter| waiter.blocked = until);
                    // Nothing happens in a core that could take a guard. One whose caller did not poll may have little of its lease left.
                    if !is_late
                        && !is_touched
                        && self.counts(if self.outside.is_some() { at } else { granted })
                    {
                        return Some(format!("{who} has lost its guard without a cause: {reason}"));
                    }
                }
            }
            Event::Releases { .. } => {
                self.holding.entry(who).and_modify(|holder| holder.releases = Some(at));
            }
            Event::Released { unconfirmed } => {
                let holder = self.holding.remove(&who)?;
                let is_excused = unconfirmed.is_empty() || unconfirmed.contains(MAX_HOLD) || holder.is_late;
                if !is_excused && self.counts(holder.granted) {
                    return Some(format!("the release of {who} was not confirmed: {unconfirmed}"));
                }
            }
            Event::Drops { .. } => drop(self.holding.remove(&who)),
            Event::Observes => drop(self.observers.insert(who, (at, None))),
            Event::Told { leader } => {
                let told = leader.as_ref().map(|leader| leader.token);
                self.observers.entry(who).and_modify(|(_, last)| *last = told);
            }
            _ => {}
        }
        None
    }

    /// Whose lead begins or ends now, if this says so: the token, and whether it begins.
    pub(crate) fn leads(&self, who: Who, event: &Event) -> Option<(FencingToken, bool)> {
        match event {
            Event::Granted { token, .. } => Some(((*token)?, true)),
            Event::Released { unconfirmed } if !unconfirmed.is_empty() => None,
            Event::Lost { .. } | Event::Released { .. } | Event::Drops { .. } => {
                Some((self.holding.get(&who)?.token?, false))
            }
            _ => None,
        }
    }

    /// What is wrong with what observers were told, if this has been announced since then.
    pub(crate) fn misled(&self, token: Option<FencingToken>, at: u64) -> Vec<String> {
        let inside = self.observers.iter().filter(|(who, _)| !self.is_outside(who.client));
        let wrong = inside.filter(|(_, (since, last))| *since <= at && *last != token);
        wrong
            .map(|(who, (_, last))| format!("{who} was told of {last:?}, and {token:?} is announced"))
            .collect()
    }

    /// The connection of this client is about to break. It is there again, and what waited for it is done, half a timeout later.
    pub(crate) fn breaks(&mut self, client: u16, now: u64) {
        self.apart.insert(client, now + nanoseconds(self.bounds.timeout / 2));
    }

    /// Whether this client may have been without a connection at this instant, or later.
    pub(crate) fn is_apart(&self, client: u16, at: u64) -> bool {
        self.apart.get(&client).is_some_and(|until| *until > at)
    }

    /// A process is gone.
    pub(crate) fn gone(&mut self, client: u16) {
        self.waiting.retain(|who, _| who.client != client);
        self.holding.retain(|who, _| who.client != client);
        self.neglecting.retain(|who, _| who.client != client);
        self.heard.remove(&client);
        self.observers.retain(|who, _| who.client != client);
    }

    /// What is overdue now.
    pub(crate) fn unmet(
        &mut self,
        now: u64,
        contenders: &[Who],
        is_foreign: impl Fn(u16) -> bool,
    ) -> Vec<String> {
        self.note_blocked(now);
        let Some(settled) = self.settled else { return Vec::new() };
        let is_over =
            |since: u64| Duration::from_nanos(now.saturating_sub(since.max(settled))) > self.handover();
        let gone =
            |who: &Who| self.outside.as_ref().is_some_and(|outside| outside.gone.contains(&who.client));
        let waiting = self.waiting.iter().filter(|(who, _)| !gone(who));
        let (mut waiting, mut excused) =
            waiting.partition::<Vec<_>, _>(|(_, waiter)| is_over(waiter.blocked));
        // One waits behind others that wait.
        while let Some((_, before)) = excused.pop() {
            let (behind, others) = waiting.into_iter().partition(|(_, it)| before.may_delay(it));
            (waiting, excused) = (others, [excused, behind].concat());
        }
        let releasing = self.holding.iter().filter(|(who, holder)| {
            holder.releases.is_some_and(is_over) && !self.neglecting.contains_key(*who)
        });
        let waiting = waiting.into_iter().map(|(who, _)| (who, "waits, though nobody is in its way"));
        let releasing = releasing.map(|(who, _)| (who, "has not released what it held"));
        let silent = contenders.iter().filter(|who| !self.heard.contains(&who.client));
        let silent = silent.map(|who| (who, "has no session yet"));
        let all = waiting.chain(releasing).chain(silent);
        let all = all.filter(|(who, _)| !self.is_outside(who.client) && !is_foreign(who.client));
        let all = all.map(|(who, what)| format!("{who} {what}"));
        let known = now - nanoseconds(self.bounds.tale());
        let leading =
            self.holding.iter().filter(|(who, it)| it.granted < known && !self.is_outside(who.client));
        let leading = leading.filter(|(_, holder)| holder.releases.is_none());
        let untold = leading.filter_map(|(_, holder)| Some(self.told(holder.token?, known, true)));
        all.chain(untold.flatten()).collect()
    }

    /// What is wrong with what observers were told of the one that was granted this token, or released it, at this instant.
    pub(crate) fn told(&self, token: FencingToken, at: u64, leads: bool) -> Vec<String> {
        let is_its = |holder: &Holder| holder.token == Some(token) && holder.releases.is_none();
        let is_present = self.holding.values().any(is_its);
        let inside = self.observers.iter().filter(|(who, _)| !self.is_outside(who.client));
        let inside = inside.filter(|(who, _)| !self.is_apart(who.client, at));
        let told = inside.filter(|(_, (since, _))| *since <= at && leads == is_present);
        let wrong = told.filter(|(_, (_, last))| leads != (*last == Some(token)));
        let says = if leads { "does not know" } else { "still names" };
        wrong.map(|(who, _)| format!("{who} {says} the leader with {token}")).collect()
    }
}
