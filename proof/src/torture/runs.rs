//! Slots that run once: what claims were told, how runs ended, and what the records say in the end.

use std::collections::BTreeMap;

use serde::Deserialize;
use zklock::FencingToken;

use super::record::{Event, Leaving, Record, Who};
use super::wish::{SlotName, Wish};
use crate::harness::Instant;

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub(crate) runs: Vec<Run>,
    /// The slots that claims were told are done, and by which record.
    pub(crate) told: Vec<(SlotName, Kept)>,
    /// How many claims were told that their slots are forgotten.
    pub(crate) forgotten: u64,
    /// The records when all was over, by their slots.
    pub(crate) records: BTreeMap<String, Kept>,
    /// The ranges of names whose records were dropped by then.
    pub(crate) ranges: Vec<(String, String)>,
}

/// A turn that a claim returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) who: Who,
    pub(crate) slot: SlotName,
    pub(crate) token: Option<FencingToken>,
    pub(crate) granted: Instant,
    pub(crate) end: RunEnd,
}

/// How far a run has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// Nobody was about to record an end.
    Open,
    /// Its holder was about to record that it has succeeded or failed, and is not known to have been told that it is done.
    Unsure,
    /// Its holder was told that it is recorded, by this instant.
    Recorded(Instant),
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Kept {
    pub(crate) state: String,
    pub(crate) token: i64,
    pub(crate) attempt: u32,
}

/// Collects them.
#[derive(Default)]
pub(crate) struct Collector {
    pub(crate) runs: Runs,
    claiming: BTreeMap<Who, SlotName>,
    /// The last run of each contender.
    running: BTreeMap<Who, Run>,
}

impl Collector {
    /// A contender that was killed contends again, as another process.
    pub(crate) fn said(&mut self, Record { at, who, event }: &Record) {
        match event {
            Event::Asks { wish, .. } => {
                self.runs.runs.extend(self.running.remove(who));
                self.claiming.remove(who);
                if let Wish::Run(slot) = wish {
                    self.claiming.insert(*who, *slot);
                }
            }
            Event::LeftWithout { why } => {
                let slot = self.claiming.remove(who);
                match (why, slot) {
                    (Leaving::Done { state, token, attempt }, Some(slot)) => {
                        let (state, token, attempt) = (state.clone(), *token, *attempt);
                        self.runs.told.push((slot, Kept { state, token, attempt }));
                    }
                    (Leaving::Forgotten, _) => self.runs.forgotten += 1,
                    _ => {}
                }
            }
            Event::Granted { token, .. } => {
                if let Some(slot) = self.claiming.remove(who) {
                    let (token, granted, end) = (*token, *at, RunEnd::Open);
                    self.running.insert(*who, Run { who: *who, slot, token, granted, end });
                }
            }
            Event::Releases { .. } => {
                self.running.entry(*who).and_modify(|run| run.end = RunEnd::Unsure);
            }
            Event::Released { unconfirmed } if unconfirmed.is_empty() => {
                self.running.entry(*who).and_modify(|run| run.end = RunEnd::Recorded(*at));
            }
            _ => {}
        }
    }

    pub(crate) fn finish(mut self) -> Runs {
        self.runs.runs.extend(self.running.into_values());
        self.runs.runs.sort_by_key(|run| run.granted);
        self.runs
    }
}
