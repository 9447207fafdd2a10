//! What a semaphore and slots have in common.

use std::time::Duration;

use super::rules::{ONE_LOCK, Rules};
use crate::acts::OperatorActs;
use crate::clock::Instant;
use crate::history::{Effect, History, Hold};

pub const POOL: Rules = Rules {
    tasks: |_| 2,
    // Longer than an admission takes, so that many hold at the same time.
    stretch: |_| 5,
    is_pool: true,
    ..ONE_LOCK
};

/// How long it takes at most until a holder hears of what an operator took, while nothing else fails.
const TOLD: Duration = Duration::from_secs(3);

/// The guards, each with the last instant at which it was valid.
pub fn spans(history: &History) -> Vec<(&Hold, Instant)> {
    let acts = OperatorActs::of(&history.faults);
    history.holds.iter().map(|hold| (hold, hold.valid_until(acts.took(hold)))).collect()
}

/// Holders that an operator took the node from, or the session, and that were not told.
pub fn untold(history: &History) -> Vec<String> {
    let acts = history
        .faults
        .iter()
        .filter(|_| history.scope.sampled)
        .filter(|fault| fault.effect == Effect::TakesHold);
    let met = acts.filter_map(|fault| {
        let of_fault =
            |hold: &&Hold| Some(hold.who) == fault.holder && (hold.granted..=hold.over).contains(&fault.at);
        Some((fault, history.holds.iter().find(of_fault)?))
    });
    met.filter(|(fault, hold)| hold.over.since(fault.until) > TOLD)
        .map(|(fault, hold)| format!("{} was not told of what an operator took at {}", hold.who, fault.at.0))
        .collect()
}

pub fn has_waited(hold: &Hold, history: &History) -> bool {
    history.holds.iter().any(|before| (before.granted..before.over).contains(&hold.asked))
}
