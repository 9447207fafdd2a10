//! What is known at this moment of one member's contenders: who holds, who waits, who has finished. Faults are aimed by it, and the history
//! is what it comes to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::announcements::{Announcement, Tale};
use crate::clock::Instant;
use crate::history::{Attempt, End, Fault, HeardAsk, History, Hold, MadeAsk, Outcome};
use crate::member::Member;
use crate::record::{Event, LOST_BY_THEN, Leaving, Record, Reply, Seen, UNCONFIRMED, Who};
use crate::request::Request;
use crate::runs::{Claimed, Refusal, Run, RunEnd};

/// The signal that kills a process may come so long after the instant that is said of it.
const SIGNAL: Duration = Duration::from_secs(1);

pub struct Collector {
    member: Member,
    history: History,
    asking: BTreeMap<Who, Asking>,
    holding: BTreeMap<Who, Hold>,
    finished: BTreeSet<Who>,
    /// How many observers each process has opened.
    observers: BTreeMap<Who, u32>,
}

struct Asking {
    at: Instant,
    request: Request,
    limit: Option<Duration>,
    requeued: bool,
}

impl Collector {
    pub fn new(member: Member) -> Self {
        Self {
            member,
            history: History::default(),
            asking: BTreeMap::new(),
            holding: BTreeMap::new(),
            finished: BTreeSet::new(),
            observers: BTreeMap::new(),
        }
    }

    /// Something was done to contenders.
    pub fn add(&mut self, fault: &Fault) {
        self.history.faults.push(fault.clone());
    }

    /// The present holders, the latest first.
    pub fn holders(&self) -> Vec<Hold> {
        let mut holders: Vec<_> = self.holding.values().cloned().collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.granted));
        holders
    }

    pub fn has_finished(&self, who: Who) -> bool {
        self.finished.contains(&who)
    }

    pub fn doing(&self, who: Who) -> &'static str {
        match (self.asking.contains_key(&who), self.holding.contains_key(&who)) {
            (true, _) => "it acquires",
            (_, true) => "it holds",
            _ => "it pauses, releases or connects",
        }
    }

    pub fn hear(&mut self, record: &Record) {
        let Record { at, who, event, .. } = record;
        let (at, who) = (*at, *who);
        match event {
            Event::Asks { request, limit, .. } => {
                if let Request::Lead(value) = request {
                    self.announces(value, Announcement { at, who, token: None, is_campaign: true });
                }
                let asking = Asking { at, request: request.clone(), limit: *limit, requeued: false };
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
                if let Some(Asking { at: asked, request: Request::Run(period), .. }) =
                    self.attempted(who, at, outcome)
                {
                    let runs = &mut self.history.runs;
                    match why {
                        Leaving::Done(kept) => {
                            runs.told.push(Refusal { period, kept: kept.clone(), asked, at });
                        }
                        Leaving::Forgotten => runs.forgotten.push(period),
                        Leaving::Failed(why) if why == UNCONFIRMED || why.starts_with(LOST_BY_THEN) => {
                            runs.claims.last_mut().into_iter().for_each(|claim| claim.is_unsure = true);
                        }
                        _ => {}
                    }
                }
            }
            Event::Neglects | Event::Unmarked => {}
            Event::Neglected { requeued } => {
                self.history.neglected += 1;
                self.history.requeued += requeued;
                self.asking.entry(who).and_modify(|asking| asking.requeued |= *requeued > 0);
            }
            Event::Granted { session, token, claims, nodes, seen } => {
                let asking = self.attempted(who, at, Outcome::Granted);
                let request = asking.as_ref().map(|asking| &asking.request);
                if let Some(Request::Run(period)) = request {
                    let (token, end) = (*token, RunEnd::Open);
                    self.history.runs.runs.push(Run { who, period: *period, token, granted: at, end });
                }
                if let Some(Request::Lead(value)) = request {
                    let values = &mut self.history.announcements.values;
                    values.entry(value.clone()).and_modify(|announcement| announcement.token = *token);
                }
                let fits = claims.iter().zip(nodes).all(|(claim, node)| claim.fits(self.member, node));
                let hold = Hold {
                    session: *session,
                    token: *token,
                    claims: claims.clone(),
                    is_whole: claims.len() == nodes.len() && fits,
                    weight: request.and_then(Request::weight),
                    is_keyed: request.is_some_and(|request| request.key().is_some()),
                    asked: asking.as_ref().map_or(at, |asking| asking.at),
                    limit: asking.as_ref().and_then(|asking| asking.limit),
                    requeued: asking.as_ref().is_some_and(|asking| asking.requeued),
                    ..Hold::begins(self.member, who, at, *seen)
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
            Event::Releases { seen } => {
                self.held(who, at, Some(*seen), End::Released);
                self.ends(who, RunEnd::Unsure);
            }
            Event::Drops { seen } => self.held(who, at, Some(*seen), End::Dropped),
            Event::Released { unconfirmed } => match unconfirmed.as_str() {
                "" => self.ends(who, RunEnd::Recorded(at)),
                why => {
                    *self.history.unconfirmed.entry(why.to_owned()).or_default() += 1;
                    self.ends(who, if why == "Unconfirmed" { RunEnd::Unsure } else { RunEnd::Denied });
                    if why == "Changed" {
                        let blamed = self.run(who).copied();
                        self.history.runs.blamed.extend(blamed);
                    }
                }
            },
            Event::Witnesses { since, valid } => {
                self.history.runs.witnessed.insert((who.client, *since), *valid);
            }
            Event::Proclaims { value } => {
                let token = self.holding.get(&who).and_then(|hold| hold.token);
                self.announces(value, Announcement { at, who, token, is_campaign: false });
            }
            Event::Unannounced { why } => *self.history.failures.entry(why.clone()).or_default() += 1,
            Event::Observes => *self.observers.entry(who).or_default() += 1,
            Event::Told { leader } => {
                let observer = self.observers.get(&who).copied().unwrap_or_default();
                self.history.announcements.told.push(Tale { at, who, observer, leader: leader.clone() });
            }
            Event::Blinded { why } => self.history.announcements.blinded.push(why.clone()),
            Event::Finished => drop(self.finished.insert(who)),
        }
    }

    fn announces(&mut self, value: &str, announcement: Announcement) {
        self.history.announcements.values.insert(value.to_owned(), announcement);
    }

    /// The acquisition that has ended.
    fn attempted(&mut self, who: Who, ended: Instant, outcome: Outcome) -> Option<Asking> {
        let asking = self.asking.remove(&who)?;
        let asked = asking.at;
        self.history.attempts.push(Attempt { who, outcome });
        if let Request::Run(period) = asking.request {
            let ended = if outcome == Outcome::Killed { ended + SIGNAL } else { ended };
            self.history.runs.claims.push(Claimed {
                who,
                period,
                asked,
                ended,
                is_unsure: false,
                taken_back: None,
            });
        }
        Some(asking)
    }

    fn holds(&mut self, who: Who, what: impl FnOnce(&mut Hold)) {
        self.holding.entry(who).and_modify(what);
    }

    fn held(&mut self, who: Who, over: Instant, seen: Option<Seen>, end: End) {
        if let Some(hold) = self.holding.remove(&who) {
            let seen = seen.unwrap_or(hold.seen);
            self.history.holds.push(Hold { seen, over, end, ..hold });
        }
    }

    /// The run that this contender released last, if what it released was a run.
    fn run(&mut self, who: Who) -> Option<&mut Run> {
        let granted = self.history.holds.iter().rfind(|hold| hold.who == who)?.granted;
        self.history.runs.runs.iter_mut().rfind(|run| run.who == who && run.granted == granted)
    }

    fn ends(&mut self, who: Who, end: RunEnd) {
        self.run(who).into_iter().for_each(|run| run.end = end);
    }

    /// The end of this contender's run is recorded by now, though nobody was told.
    pub fn recorded(&mut self, who: Who, at: Instant) {
        self.ends(who, RunEnd::Recorded(at));
    }

    /// What the claims of this client had begun that ended with it is taken back, though nobody was told.
    pub fn taken_back(&mut self, client: u16, ended: Instant) {
        let claims = self.history.runs.claims.iter_mut();
        for claim in claims.filter(|claim| claim.who.client == client && claim.ended == ended + SIGNAL) {
            claim.taken_back = Some(ended);
        }
    }

    pub fn gone(&mut self, client: u16, at: Instant) {
        self.end(|who| who.client == client, at, Outcome::Killed);
    }

    fn end(&mut self, whose: impl Fn(&Who) -> bool, at: Instant, outcome: Outcome) {
        for who in self.asking.keys().copied().filter(&whose).collect::<Vec<_>>() {
            self.attempted(who, at, outcome);
        }
        for who in self.holding.keys().copied().filter(&whose).collect::<Vec<_>>() {
            self.held(who, at, None, End::Killed);
        }
    }

    /// What happened until this instant, in the order in which it began.
    pub fn finish(mut self, now: Instant) -> History {
        self.end(|_| true, now, Outcome::Pending);
        self.history.holds.sort_by_key(|hold| hold.granted);
        self.history.faults.sort_by_key(|fault| fault.at);
        self.history.runs.runs.sort_by_key(|run| run.granted);
        self.history
    }
}
