//! What happened, put together from what the contenders said and what was done to them: small enough to keep for hours.

use std::collections::BTreeMap;

use serde::Serialize;
use zklock::FencingToken;

use super::announcements::{Announcements, Collector};
use super::heard::{Heard, Killed};
use super::record::{Entry, Event, How, Leaving, Record, Seen, Who};
use super::runs::{self, Runs};
use super::schedule::Kind;
use super::wish::{Claim, Wish};
use crate::harness::Instant;
use crate::harness::register::Ledger;

/// All that is judged, reported and drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) faults: Vec<Fault>,
    /// One for each lock.
    pub(crate) ledgers: Vec<Ledger<Who>>,
    /// What was entered in each lock's log, in the order in which ZooKeeper committed it.
    pub(crate) logs: Vec<Vec<Entry>>,
    /// Those with a claim that was current after their release.
    pub(crate) outlived: Vec<Who>,
    pub(crate) remains: Remains,
    /// Acquisitions that failed, in their own words.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Releases that were not confirmed, likewise.
    pub(crate) unconfirmed: BTreeMap<String, u64>,
    /// Acquisitions that were not polled for a while, and how often their sessions queued again meanwhile or then.
    pub(crate) neglected: u64,
    pub(crate) requeued: u64,
    pub(crate) crashes: Vec<u16>,
    pub(crate) announcements: Announcements,
    pub(crate) runs: Runs,
    /// The contenders that were not granted once more after all faults were over.
    pub(crate) starved: Vec<Who>,
}

/// One acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) who: Who,
    pub(crate) how: How,
    /// The lock for which it stood in line in its process.
    pub(crate) key: Option<usize>,
    /// The weight of the permit that it asked for.
    pub(crate) weight: Option<u32>,
    pub(crate) asked: Instant,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

impl Attempt {
    /// The one that led to this guard, for tests.
    #[cfg(test)]
    pub(crate) fn of(hold: &Hold) -> Self {
        let Hold { who, weight, asked, granted: ended, .. } = *hold;
        let key = hold.is_keyed.then_some(0);
        Self { who, how: How::Wait, key, weight, asked, ended, outcome: Outcome::Granted }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Granted,
    TimedOut,
    Cancelled,
    Busy,
    NodeDeleted,
    /// Its slot has run, or may have.
    Done,
    Failed,
    /// Its process was.
    Killed,
    /// It has none, though its process lives.
    Pending,
}

/// One guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) who: Who,
    pub(crate) session: i64,
    pub(crate) token: Option<FencingToken>,
    /// Which locks it holds, in the order in which they were named.
    pub(crate) claims: Vec<Claim>,
    /// Whether it has one node in the queue of each of them.
    pub(crate) is_whole: bool,
    /// The weight of a permit.
    pub(crate) weight: Option<u32>,
    /// Whether it was acquired by key.
    pub(crate) is_keyed: bool,
    /// How many other guards its holder made of it.
    pub(crate) shares: usize,
    pub(crate) has_claimed: bool,
    pub(crate) entries: Entries,
    /// When its acquisition began.
    pub(crate) asked: Instant,
    /// It was valid at this instant.
    pub(crate) granted: Instant,
    pub(crate) seen: Seen,
    /// When its holder released or dropped it; the instant behind the look that said "lost"; just before the signal that
    /// killed the holder.
    pub(crate) over: Instant,
    pub(crate) end: End,
}

/// The entries of a holder in the lock's log, as far as it has heard of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) committed: u64,
    /// Those that it sent, or was about to, and of which it does not know what came.
    pub(crate) open: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Dropped,
    Lost(Reason),
    Killed,
}

/// How zklock's guard says that its lease has ended (`LostReason::Unconfirmed`).
const UNCONFIRMED: &str = "ZooKeeper did not confirm the session in time";

/// Why a guard was lost, in its own words.
pub(crate) type Reason = std::sync::Arc<str>;

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) at: Instant,
    pub(crate) until: Instant,
    pub(crate) servers: Vec<usize>,
    pub(crate) client: Option<u16>,
    /// The session that was closed, or whose node was deleted.
    pub(crate) session: Option<i64>,
    /// The transaction that created the node that was written to.
    pub(crate) node: Option<i64>,
    /// The holder at that moment.
    pub(crate) holder: Option<Who>,
}

impl Fault {
    /// One that begins now, and of which no more is known.
    pub(crate) fn begins(kind: Kind, at: Instant) -> Self {
        let (servers, until) = (Vec::new(), at);
        Self { kind, at, until, servers, client: None, session: None, node: None, holder: None }
    }
}

/// What was left on the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Remains {
    /// Contenders' nodes and an announcement, while all contenders were idle.
    pub(crate) nodes: Vec<Left>,
    pub(crate) watches: u64,
    /// Ephemeral nodes, after all clients were gone.
    pub(crate) ephemerals: u64,
}

/// A node that was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Left {
    /// With its directory.
    pub(crate) path: String,
    pub(crate) session: i64,
    /// Whose it is, unless its data was overwritten.
    pub(crate) who: Option<Who>,
    /// The servers that have it.
    pub(crate) servers: Vec<usize>,
}

impl Left {
    /// One of the first contender, for tests.
    #[cfg(test)]
    pub(crate) fn sample(servers: &[usize]) -> Self {
        let who = Some(Who { client: 1, task: 1 });
        Self { path: "lock-0000000007".to_owned(), session: 1, who, servers: servers.to_vec() }
    }
}

/// Builds the history, record by record.
#[derive(Default)]
pub(crate) struct Builder {
    history: History,
    asking: BTreeMap<Who, Asking>,
    holding: BTreeMap<Who, Hold>,
    reasons: BTreeMap<String, Reason>,
    collector: Collector,
    runs: runs::Collector,
}

/// An acquisition that is under way.
#[derive(Clone, Copy)]
struct Asking {
    at: Instant,
    how: How,
    key: Option<usize>,
    weight: Option<u32>,
}

impl Hold {
    /// The last instant at which the guard was valid, or would have said so: a stopped process cannot ask it. The promise of
    /// the lease stands, unless the holder gave the lock away or an operator took it.
    pub(crate) fn valid_until(&self, is_taken: bool) -> Instant {
        let promised = self.seen.promised.unwrap_or(self.seen.valid);
        match &self.end {
            End::Released | End::Dropped => self.seen.valid,
            End::Lost(_) if is_taken => self.seen.valid,
            // A guard may be lost before the promised end: the lease of a session that moves to a server with a lower limit
            // is cut. If the servers say that the session has expired, the promise stands, because they would say so for a
            // lease that is too long as well.
            End::Lost(reason) if reason.as_ref() == UNCONFIRMED => {
                promised.min(self.over).max(self.seen.valid)
            }
            End::Lost(_) => promised.max(self.seen.valid),
            // The dead ask nobody.
            End::Killed if self.seen.promised.is_some() => promised.min(self.over).max(self.seen.valid),
            End::Killed => self.over,
        }
    }

    /// One that was released, for tests.
    #[cfg(test)]
    pub(crate) fn sample(who: Who, token: i64, granted: u64, valid: u64, claims: &[Claim]) -> Self {
        let (granted, valid, over) = (Instant(granted), Instant(valid), Instant(valid + 1));
        Self {
            who,
            session: i64::from(who.client),
            token: Some(FencingToken::new(token)),
            claims: claims.to_vec(),
            is_whole: true,
            weight: None,
            is_keyed: false,
            shares: 0,
            has_claimed: false,
            entries: Entries::default(),
            asked: granted,
            granted,
            seen: Seen { valid, promised: Some(valid) },
            over,
            end: End::Released,
        }
    }
}

impl Builder {
    pub(crate) fn hear(&mut self, heard: &Heard) {
        match heard {
            Heard::Said(record) => self.said(record),
            Heard::Killed { client, killed } => self.gone(*client, *killed),
            Heard::Crashed { client, at } => {
                self.history.crashes.push(*client);
                self.gone(*client, Killed { at: *at, dead: *at });
            }
        }
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        self.history.faults.push(fault);
    }

    fn said(&mut self, record: &Record) {
        let Record { at, who, event } = record;
        self.runs.said(record);
        match event {
            Event::Asks { how, wish, .. } => {
                if let Wish::Lead(value) = wish {
                    self.collector.campaigns(*who, *at, value);
                }
                self.asking
                    .insert(*who, Asking { at: *at, how: *how, key: wish.key(), weight: wish.weight() });
            }
            Event::LeftWithout { why } => {
                let outcome = match why {
                    Leaving::TimedOut => Outcome::TimedOut,
                    Leaving::Cancelled => Outcome::Cancelled,
                    Leaving::Busy => Outcome::Busy,
                    Leaving::Deleted => Outcome::NodeDeleted,
                    Leaving::Done { .. } | Leaving::Forgotten => Outcome::Done,
                    Leaving::Failed(why) => {
                        *self.history.failures.entry(why.clone()).or_default() += 1;
                        Outcome::Failed
                    }
                };
                self.collector.leaves(*who);
                self.attempted(*who, *at, outcome);
            }
            Event::Neglected { requeued } => {
                self.history.neglected += 1;
                self.history.requeued += requeued;
            }
            Event::Granted { session, token, claims, nodes, seen } => {
                self.collector.leads(*who, *token);
                let asking = self.attempted(*who, *at, Outcome::Granted);
                let asked = asking.map_or(*at, |asking| asking.at);
                let weight = asking.and_then(|asking| asking.weight);
                let is_keyed = asking.is_some_and(|asking| asking.key.is_some());
                let (session, token, seen, granted, over) = (*session, *token, *seen, *at, *at);
                let is_whole = claims.len() == nodes.len()
                    && claims.iter().zip(nodes).all(|(claim, node)| claim.fits(node));
                let (who, claims, end) = (*who, claims.clone(), End::Killed);
                let (shares, has_claimed, entries) = (0, false, Entries::default());
                let hold = Hold {
                    who,
                    session,
                    token,
                    claims,
                    is_whole,
                    weight,
                    is_keyed,
                    shares,
                    has_claimed,
                    entries,
                    asked,
                    granted,
                    seen,
                    over,
                    end,
                };
                self.holding.insert(who, hold);
            }
            Event::Holds { seen } => {
                self.holding.entry(*who).and_modify(|hold| hold.seen = *seen);
            }
            Event::Shares { number } => {
                self.holding.entry(*who).and_modify(|hold| hold.shares = *number);
            }
            Event::Claims => {
                self.holding.entry(*who).and_modify(|hold| hold.has_claimed = true);
            }
            Event::Enters => {
                self.holding.entry(*who).and_modify(|hold| hold.entries.open += 1);
            }
            Event::Entered { done } => {
                self.holding.entry(*who).and_modify(|Hold { entries, .. }| {
                    entries.open -= 1;
                    entries.committed += u64::from(*done);
                });
            }
            Event::Outlived => self.history.outlived.push(*who),
            Event::Lost { seen, reason } => {
                let reason = self.reasons.entry(reason.clone()).or_insert_with(|| reason.as_str().into());
                let end = End::Lost(reason.clone());
                self.held(*who, *at, Some(*seen), end);
            }
            Event::Releases { seen } => self.held(*who, *at, Some(*seen), End::Released),
            Event::Drops { seen } => self.held(*who, *at, Some(*seen), End::Dropped),
            Event::Released { unconfirmed } if !unconfirmed.is_empty() => {
                *self.history.unconfirmed.entry(unconfirmed.clone()).or_default() += 1;
            }
            Event::Proclaims { value } => {
                let token = self.holding.get(who).and_then(|hold| hold.token);
                self.collector.proclaims(*who, *at, value, token);
            }
            Event::Unannounced { why } => *self.history.failures.entry(why.clone()).or_default() += 1,
            Event::Observes => self.collector.observes(*who),
            Event::Told { leader } => self.collector.tells(*who, *at, leader.clone()),
            Event::Released { .. } | Event::Witnesses { .. } | Event::Finished => {}
        }
    }

    /// The acquisition that has ended.
    fn attempted(&mut self, who: Who, ended: Instant, outcome: Outcome) -> Option<Asking> {
        let asking = self.asking.remove(&who)?;
        let Asking { at: asked, how, key, weight } = asking;
        self.history.attempts.push(Attempt { who, how, key, weight, asked, ended, outcome });
        Some(asking)
    }

    fn held(&mut self, who: Who, over: Instant, seen: Option<Seen>, end: End) {
        if let Some(hold) = self.holding.remove(&who) {
            let seen = seen.unwrap_or(hold.seen);
            self.history.holds.push(Hold { seen, over, end, ..hold });
        }
    }

    /// A process is no more.
    fn gone(&mut self, client: u16, killed: Killed) {
        let asking: Vec<_> = self.asking.keys().copied().filter(|who| who.client == client).collect();
        for who in asking {
            self.attempted(who, killed.at, Outcome::Killed);
            self.collector.leaves(who);
        }
        let holding: Vec<_> = self.holding.keys().copied().filter(|who| who.client == client).collect();
        for who in holding {
            self.held(who, killed.at, None, End::Killed);
        }
    }

    /// What happened until this instant, in the order in which it began.
    pub(crate) fn finish(mut self, now: Instant) -> History {
        let asking: Vec<_> = self.asking.keys().copied().collect();
        for who in asking {
            self.attempted(who, now, Outcome::Pending);
        }
        let holding: Vec<_> = self.holding.keys().copied().collect();
        for who in holding {
            self.held(who, now, None, End::Killed);
        }
        self.history.attempts.sort_by_key(|attempt| attempt.asked);
        self.history.holds.sort_by_key(|hold| hold.granted);
        self.history.faults.sort_by_key(|fault| fault.at);
        self.history.announcements = self.collector.announcements;
        self.history.runs = self.runs.finish();
        self.history
    }
}
