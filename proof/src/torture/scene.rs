//! What is known at this moment: what has happened so far, who holds, who waits, who has finished. Faults are aimed by it, and
//! the history is what it comes to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use zklock::FencingToken;

use super::announcements::{Announcement, Tale};
use super::clients::Heard;
use super::history::{Attempt, End, Entries, Fault, HeardAsk, History, Hold, MadeAsk, Outcome};
use super::record::{Event, How, Leaving, Record, Reply, Seen, Who};
use super::runs;
use super::servers::Node;
use super::wish::{Claim, Wish};
use crate::harness::Instant;

/// Follows what is heard and done, and tells of changes.
#[derive(Default)]
pub(crate) struct Scene(watch::Sender<Present>);

#[derive(Default)]
struct Present {
    history: History,
    asking: BTreeMap<Who, Asking>,
    holding: BTreeMap<Who, Hold>,
    finished: BTreeSet<Who>,
    /// The token of the leader that each observer was told of, if it was told anything: `None` if nobody leads.
    told: BTreeMap<Who, Option<FencingToken>>,
    /// How many observers each process has opened.
    observers: BTreeMap<Who, u32>,
    runs: runs::Collector,
}

/// An acquisition that is under way.
struct Asking {
    at: Instant,
    how: How,
    wish: Wish,
    /// Whether it has a takeover delay.
    delayed: bool,
    limit: Option<Duration>,
}

impl Scene {
    pub(crate) fn hear(&self, heard: &Heard) {
        self.0.send_if_modified(|present| {
            present.hear(heard);
            let is_routine = |event: &Event| matches!(event, Event::Holds { .. } | Event::Witnesses { .. });
            !matches!(heard, Heard::Said(Record { event, .. }) if is_routine(event))
        });
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.0.send_modify(|present| present.history.faults.push(fault));
    }

    /// What happened until this instant, in the order in which it began.
    pub(crate) fn finish(&self, now: Instant) -> History {
        self.0.send_replace(Present::default()).finish(now)
    }

    /// The present holders, the latest first.
    pub(crate) fn holders(&self) -> Vec<Hold> {
        self.0.borrow().holders()
    }

    /// Waits for a holder that will do, at most for so long; the latest, should several do.
    pub(crate) async fn holder_within(
        &self,
        limit: Duration,
        will_do: impl Fn(&Hold) -> bool,
    ) -> Option<Hold> {
        let mut present = self.0.subscribe();
        let found = async {
            loop {
                let found = present.borrow_and_update().holders().into_iter().find(&will_do);
                if found.is_some() {
                    return found;
                }
                present.changed().await.ok()?;
            }
        };
        timeout(limit, found).await.ok().flatten()
    }

    /// Whether this one waits, and gives up by itself if that takes long.
    pub(crate) fn gives_up(&self, who: Who) -> bool {
        let present = self.0.borrow();
        present.asking.get(&who).is_some_and(|asking| matches!(asking.how, How::Timeout | How::Cancel))
    }

    /// Whether all who wait have a takeover delay.
    pub(crate) fn is_delayed(&self) -> bool {
        self.0.borrow().asking.values().all(|asking| asking.delayed)
    }

    /// Whether the contender with this node has waited for so long by now, and will not leave. One that the tasks of a
    /// process share stays as long as one of these tasks does.
    pub(crate) fn stays(&self, node: &Node, long: Duration) -> bool {
        let (present, now) = (self.0.borrow(), Instant::now());
        let stays = |asking: &Asking| asking.how == How::Wait && now.since(asking.at) >= long;
        let Some(who) = node.who else { return false };
        if !who.is_process() {
            return present.asking.get(&who).is_some_and(stays);
        }
        let in_line = |key: usize| Claim::exclusive(key).fits(&node.path);
        let mut waiting = present.asking.iter().filter(|(other, _)| other.client == who.client);
        let some_task_stays =
            waiting.any(|(_, asking)| asking.wish.key().is_some_and(in_line) && stays(asking));
        node.age >= long && some_task_stays
    }

    /// Waits until all of them have finished. Returns those that have not within the limit.
    pub(crate) async fn unfinished_within(&self, limit: Duration, all: &[Who]) -> Vec<Who> {
        self.others_within(limit, all, |present, who| present.finished.contains(who)).await
    }

    /// Waits until all of these observers have been told of the leader with this token, or that nobody leads. Returns those
    /// that have not within the limit.
    pub(crate) async fn uninformed_within(
        &self,
        limit: Duration,
        observers: &[Who],
        leader: Option<FencingToken>,
    ) -> Vec<Who> {
        self.others_within(limit, observers, |present, who| present.told.get(who) == Some(&leader)).await
    }

    /// Waits until this is so of all of them. Returns those of which it is not within the limit.
    async fn others_within(
        &self,
        limit: Duration,
        all: &[Who],
        is_so: impl Fn(&Present, &Who) -> bool,
    ) -> Vec<Who> {
        let mut present = self.0.subscribe();
        let done = present.wait_for(|present| all.iter().all(|who| is_so(present, who)));
        let _in_time = timeout(limit, done).await.is_ok();
        let present = self.0.borrow();
        all.iter().filter(|who| !is_so(&present, who)).copied().collect()
    }
}

impl Present {
    fn holders(&self) -> Vec<Hold> {
        let mut holders: Vec<_> = self.holding.values().cloned().collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.granted));
        holders
    }

    fn hear(&mut self, heard: &Heard) {
        match heard {
            Heard::Said(record) => self.said(record),
            Heard::Killed { client, at } => self.gone(*client, *at),
            Heard::Crashed { client, at } => {
                self.history.crashes.push(*client);
                self.gone(*client, *at);
            }
        }
    }

    fn said(&mut self, record: &Record) {
        let Record { at, who, event } = record;
        let (at, who) = (*at, *who);
        self.runs.said(record);
        match event {
            Event::Asks { how, wish, delayed, limit, .. } => {
                if let Wish::Lead(value) = wish {
                    self.announces(value, Announcement { at, who, token: None, is_campaign: true });
                }
                let limit = limit.map(Duration::from_millis);
                let asking = Asking { at, how: *how, wish: wish.clone(), delayed: *delayed, limit };
                self.asking.insert(who, asking);
            }
            Event::LeftWithout { why } => {
                let outcome = match why {
                    Leaving::TimedOut => Outcome::TimedOut,
                    Leaving::Cancelled => Outcome::Cancelled,
                    Leaving::Busy => Outcome::Busy,
                    Leaving::Deleted => Outcome::NodeDeleted,
                    Leaving::Done(_) | Leaving::Forgotten => Outcome::Done,
                    Leaving::Failed(why) => {
                        *self.history.failures.entry(why.clone()).or_default() += 1;
                        Outcome::Failed
                    }
                };
                self.attempted(who, at, outcome);
            }
            Event::Neglected { requeued } => {
                self.history.neglected += 1;
                self.history.requeued += requeued;
            }
            Event::Granted { session, token, claims, nodes, seen } => {
                let asking = self.attempted(who, at, Outcome::Granted);
                let wish = asking.as_ref().map(|asking| &asking.wish);
                if let Some(Wish::Lead(value)) = wish {
                    let values = &mut self.history.announcements.values;
                    values.entry(value.clone()).and_modify(|announcement| announcement.token = *token);
                }
                let fits = claims.iter().zip(nodes).all(|(claim, node)| claim.fits(node));
                let hold = Hold {
                    who,
                    session: *session,
                    token: *token,
                    claims: claims.clone(),
                    nodes: nodes.clone(),
                    is_whole: claims.len() == nodes.len() && fits,
                    weight: wish.and_then(Wish::weight),
                    is_keyed: wish.is_some_and(|wish| wish.key().is_some()),
                    shares: 0,
                    has_claimed: false,
                    entries: Entries::default(),
                    asked: asking.as_ref().map_or(at, |asking| asking.at),
                    granted: at,
                    seen: *seen,
                    over: at,
                    end: End::Killed,
                    limit: asking.as_ref().and_then(|asking| asking.limit),
                    kept: None,
                };
                self.holding.insert(who, hold);
            }
            Event::Holds { seen } => self.holds(who, |hold| hold.seen = *seen),
            Event::Shares { number } => self.holds(who, |hold| hold.shares = *number),
            Event::Claims => self.holds(who, |hold| hold.has_claimed = true),
            Event::Enters => self.holds(who, |hold| hold.entries.open += 1),
            Event::Entered { done } => self.holds(who, |Hold { entries, .. }| {
                entries.open -= 1;
                entries.committed += u64::from(*done);
            }),
            Event::AsksHolders { ask, of } => {
                let made = MadeAsk { of: of.clone(), let_go: None };
                self.history.asks.made.insert(ask.clone(), made);
            }
            Event::Answered { ask, reply } => {
                if let Some(made) = self.history.asks.made.get_mut(ask) {
                    made.let_go = (*reply == Reply::LetGo).then_some(at);
                }
                *self.history.asks.replies.entry(reply.clone()).or_default() += 1;
            }
            Event::Hears { ask, .. } => {
                let token = self.holding.get(&who).and_then(|hold| hold.token);
                self.history.asks.heard.push(HeardAsk { who, token, ask: ask.clone() });
            }
            Event::LetsGo => {
                let last = self.history.holds.iter_mut().rfind(|hold| hold.who == who);
                last.into_iter().for_each(|hold| hold.kept = Some(at));
            }
            Event::Outlived => self.history.outlived.push(who),
            Event::Lost { seen, reason } => {
                self.held(who, at, Some(*seen), End::Lost(reason.clone()));
            }
            Event::Releases { seen } => self.held(who, at, Some(*seen), End::Released),
            Event::Drops { seen } => self.held(who, at, Some(*seen), End::Dropped),
            Event::Released { unconfirmed } if !unconfirmed.is_empty() => {
                *self.history.unconfirmed.entry(unconfirmed.clone()).or_default() += 1;
            }
            Event::Proclaims { value } => {
                let token = self.holding.get(&who).and_then(|hold| hold.token);
                self.announces(value, Announcement { at, who, token, is_campaign: false });
            }
            Event::Unannounced { why } => *self.history.failures.entry(why.clone()).or_default() += 1,
            Event::Observes => {
                *self.observers.entry(who).or_default() += 1;
                self.told.remove(&who);
            }
            Event::Told { leader } => {
                self.told.insert(who, leader.as_ref().map(|leader| leader.token));
                let observer = self.observers.get(&who).copied().unwrap_or_default();
                self.history.announcements.told.push(Tale { at, who, observer, leader: leader.clone() });
            }
            Event::Finished => drop(self.finished.insert(who)),
            Event::Released { .. } | Event::Witnesses { .. } => {}
        }
    }

    fn announces(&mut self, value: &str, announcement: Announcement) {
        self.history.announcements.values.insert(value.to_owned(), announcement);
    }

    /// The acquisition that has ended.
    fn attempted(&mut self, who: Who, ended: Instant, outcome: Outcome) -> Option<Asking> {
        let asking = self.asking.remove(&who)?;
        let Asking { at: asked, how, wish, .. } = &asking;
        let (asked, how, key) = (*asked, *how, wish.key());
        self.history.attempts.push(Attempt { who, how, key, asked, ended, outcome });
        Some(asking)
    }

    fn holds(&mut self, who: Who, what: impl FnOnce(&mut Hold)) {
        self.holding.entry(who).and_modify(what);
    }

    fn held(&mut self, who: Who, over: Instant, seen: Option<Seen>, end: End) {
        if let Some(hold) = self.holding.remove(&who) {
            let seen = seen.unwrap_or(hold.seen);
            self.history.holds.push(Hold { seen, over, end, nodes: Vec::new(), ..hold });
        }
    }

    /// A process is no more.
    fn gone(&mut self, client: u16, at: Instant) {
        self.told.retain(|who, _| who.client != client);
        self.end(|who| who.client == client, at, Outcome::Killed);
    }

    /// Ends what is under way of these.
    fn end(&mut self, whose: impl Fn(&Who) -> bool, at: Instant, outcome: Outcome) {
        for who in self.asking.keys().copied().filter(&whose).collect::<Vec<_>>() {
            self.attempted(who, at, outcome);
        }
        for who in self.holding.keys().copied().filter(&whose).collect::<Vec<_>>() {
            self.held(who, at, None, End::Killed);
        }
    }

    fn finish(mut self, now: Instant) -> History {
        self.end(|_| true, now, Outcome::Pending);
        self.history.attempts.sort_by_key(|attempt| attempt.asked);
        self.history.holds.sort_by_key(|hold| hold.granted);
        self.history.faults.sort_by_key(|fault| fault.at);
        self.history.runs = self.runs.finish();
        self.history
    }
}
