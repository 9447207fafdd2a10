//! What happened, put together from what the contenders said and what was done to them: small enough to keep for hours.

use std::collections::BTreeMap;

use serde::Serialize;

use super::clients::{Heard, Killed};
use super::record::{Event, How, Leaving, Record, Seen, Who};
use super::schedule::Kind;
use crate::harness::Instant;
use crate::harness::register::Ledger;

/// All that is judged, reported and drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) ledger: Ledger<Who>,
    pub(crate) remains: Remains,
    /// Acquisitions that failed, in their own words.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Releases that were not confirmed, likewise.
    pub(crate) unconfirmed: BTreeMap<String, u64>,
    /// Acquisitions that were not polled for a while, and how often their sessions queued again meanwhile or then.
    pub(crate) neglected: u64,
    pub(crate) requeued: u64,
    pub(crate) crashes: Vec<u16>,
    /// The contenders that were not granted once more after all faults were over.
    pub(crate) starved: Vec<Who>,
}

/// One acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) who: Who,
    pub(crate) how: How,
    pub(crate) asked: Instant,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Granted,
    TimedOut,
    Cancelled,
    Busy,
    NodeDeleted,
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
    pub(crate) token: Option<i64>,
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
    /// The holder at that moment.
    pub(crate) holder: Option<Who>,
}

/// What was left on the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Remains {
    /// Contenders' nodes, while all contenders were idle.
    pub(crate) nodes: Vec<String>,
    pub(crate) watches: u64,
    /// Ephemeral nodes, after all clients were gone.
    pub(crate) ephemerals: u64,
}

/// Builds the history, record by record.
#[derive(Default)]
pub(crate) struct Builder {
    history: History,
    asking: BTreeMap<Who, (Instant, How)>,
    holding: BTreeMap<Who, Hold>,
    reasons: BTreeMap<String, Reason>,
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
        match event {
            Event::Asks { how, .. } => drop(self.asking.insert(*who, (*at, *how))),
            Event::LeftWithout { why } => {
                let outcome = match why {
                    Leaving::TimedOut => Outcome::TimedOut,
                    Leaving::Cancelled => Outcome::Cancelled,
                    Leaving::Busy => Outcome::Busy,
                    Leaving::Deleted => Outcome::NodeDeleted,
                    Leaving::Failed(why) => {
                        *self.history.failures.entry(why.clone()).or_default() += 1;
                        Outcome::Failed
                    }
                };
                self.attempted(*who, *at, outcome);
            }
            Event::Neglected { requeued } => {
                self.history.neglected += 1;
                self.history.requeued += requeued;
            }
            Event::Granted { session, token, seen, .. } => {
                let asked = self.attempted(*who, *at, Outcome::Granted).unwrap_or(*at);
                let (session, token, seen, granted, over) = (*session, *token, *seen, *at, *at);
                let hold = Hold { who: *who, session, token, asked, granted, seen, over, end: End::Killed };
                self.holding.insert(*who, hold);
            }
            Event::Holds { seen } => {
                self.holding.entry(*who).and_modify(|hold| hold.seen = *seen);
            }
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
            Event::Released { .. } | Event::Finished => {}
        }
    }

    /// When it began.
    fn attempted(&mut self, who: Who, ended: Instant, outcome: Outcome) -> Option<Instant> {
        let (asked, how) = self.asking.remove(&who)?;
        self.history.attempts.push(Attempt { who, how, asked, ended, outcome });
        Some(asked)
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
        self.history
    }
}
