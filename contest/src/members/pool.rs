//! What a semaphore and slots have in common.

use super::rules::{ONE_LOCK, Rules};
use crate::acts::OperatorActs;
use crate::clock::Instant;
use crate::history::{History, Hold};

pub const POOL: Rules = Rules {
    tasks: |_| 2,
    // Longer than an admission takes, so that many hold at the same time.
    stretch: |_| 5,
    is_pool: true,
    ..ONE_LOCK
};

/// The guards, each with the last instant at which it was valid.
pub fn spans(history: &History) -> Vec<(&Hold, Instant)> {
    let acts = OperatorActs::of(&history.faults);
    history.holds.iter().map(|hold| (hold, hold.valid_until(acts.took(hold)))).collect()
}

/// What it takes of the pool.
pub fn weight(hold: &Hold) -> u32 {
    hold.weight.unwrap_or(1)
}

/// Each permit or slot, and what was held from its grant on, itself included.
pub fn grants(history: &History) -> Vec<(&Hold, u32)> {
    let mut held = Vec::<(u32, Instant)>::new();
    let grants = spans(history).into_iter().map(|(hold, until)| {
        held.retain(|(_, until)| *until > hold.granted);
        held.push((weight(hold), until));
        (hold, held.iter().map(|(weight, _)| weight).sum())
    });
    grants.collect()
}

pub fn has_waited(hold: &Hold, history: &History) -> bool {
    history.holds.iter().any(|before| (before.granted..before.over).contains(&hold.asked))
}
