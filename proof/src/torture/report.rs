//! The figures, as one JSON object.

use std::collections::BTreeMap;

use serde::Serialize;
use zklock_contest::checker::{Verdict, Wrong};
use zklock_contest::history::{End, Fault, History, Hold, Outcome};
use zklock_contest::member::Member;
use zklock_contest::request::Claim;

use super::args::Torture;
use super::schedule::Kind;
use super::slew;
use crate::harness::Ruling;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    seed: u64,
    seconds: u64,
    clients: u16,
    pub(crate) ruling: Ruling,
    /// How often each was wrong, with all members; each must be 0.
    wrong: BTreeMap<Wrong, u64>,
    examples: Vec<String>,
    faults: BTreeMap<String, u64>,
    /// Faults for which the right moment did not come.
    omitted: BTreeMap<Kind, u64>,
    members: BTreeMap<Member, Figures>,
}

/// What was seen of one member.
#[derive(Debug, Serialize)]
struct Figures {
    acquisitions: BTreeMap<Outcome, u64>,
    /// Guards by what they held.
    kinds: BTreeMap<String, u64>,
    /// How the guards ended.
    ends: BTreeMap<&'static str, u64>,
    /// Why those that were lost were, why acquisitions failed, why releases were not confirmed, and what came of asks.
    losses: BTreeMap<String, u64>,
    failures: BTreeMap<String, u64>,
    unconfirmed: BTreeMap<String, u64>,
    replies: BTreeMap<String, u64>,
    #[serde(flatten)]
    counts: BTreeMap<&'static str, u64>,
}

/// A name, and how a history says what it stands for.
type Count = (&'static str, fn(&History) -> usize);

const COUNTS: [Count; 10] = [
    ("holds", |it| it.holds.len()),
    // Those whose holders' clocks were slewed, those that their processes passed on, and those that were shared.
    ("slewed", |it| holds(it, |hold| slew::is_slewed(hold.who.client))),
    ("passed_on", |it| holds(it, |hold| hold.token.is_some_and(|token| token.turn() > 0))),
    ("shared", |it| holds(it, |hold| hold.shares > 0)),
    // Those that count beyond the last look of their process, because it was stopped, killed or cut off.
    ("promised", |it| holds(it, |hold| hold.is_lost() && hold.valid_until(false) > hold.seen.valid)),
    // Acquisitions and releases that were not polled for a while, and how often their sessions queued again in that time.
    ("neglected", |it| it.neglected as usize),
    ("requeued", |it| it.requeued as usize),
    // Writes that the register accepted.
    ("writes", |it| it.ledgers.iter().map(|ledger| ledger.writes.len()).sum()),
    // Transactions that were committed under a lock, and what observers were told.
    ("entries", |it| it.logs.iter().map(Vec::len).sum()),
    ("told", |it| it.announcements.told.len()),
];

fn holds(history: &History, counts: impl Fn(&Hold) -> bool) -> usize {
    history.holds.iter().filter(|hold| counts(hold)).count()
}

impl Figures {
    fn of(history: &History) -> Self {
        let lost = history.holds.iter().filter_map(|hold| match &hold.end {
            End::Lost(reason) => Some(reason.clone()),
            _ => None,
        });
        let replies = history.asks.replies.iter();
        Self {
            acquisitions: count(history.attempts.iter().map(|attempt| attempt.outcome)),
            kinds: count(history.holds.iter().map(kind)),
            ends: count(history.holds.iter().map(|hold| end(&hold.end))),
            losses: count(lost),
            failures: history.failures.clone(),
            unconfirmed: history.unconfirmed.clone(),
            replies: replies.map(|(reply, number)| (format!("{reply:?}"), *number)).collect(),
            counts: COUNTS.map(|(name, count)| (name, count(history) as u64)).into(),
        }
    }
}

impl Report {
    pub(crate) fn of(
        torture: &Torture,
        seed: u64,
        histories: &BTreeMap<Member, History>,
        faults: &[Fault],
        omitted: &[Kind],
        crashes: &[u16],
    ) -> Self {
        let (mut wrong, mut examples) = (BTreeMap::new(), Vec::new());
        for (member, history) in histories {
            let verdict = Verdict::of(*member, history);
            for (one, number) in verdict.wrong {
                *wrong.entry(one).or_default() += number;
            }
            examples.extend(verdict.examples.into_iter().map(|example| format!("{member}: {example}")));
        }
        *wrong.entry(Wrong::Crashes).or_default() += crashes.len() as u64;
        examples.extend(crashes.iter().map(|client| format!("client {client} ended by itself")));
        Self {
            seed,
            seconds: torture.seconds,
            clients: torture.clients,
            ruling: ruling(&wrong),
            wrong,
            examples,
            faults: count(faults.iter().map(|fault| fault.name.clone())),
            omitted: count(omitted.iter().copied()),
            members: histories.iter().map(|(member, history)| (*member, Figures::of(history))).collect(),
        }
    }
}

/// A run that showed too little has broken no promise.
fn ruling(wrong: &BTreeMap<Wrong, u64>) -> Ruling {
    let found = wrong.iter().filter(|(_, number)| **number > 0).map(|(wrong, _)| *wrong);
    match found.collect::<Vec<_>>()[..] {
        [] => Ruling::Pass,
        [Wrong::Unproven] => Ruling::Unproven,
        [..] => Ruling::Fail,
    }
}

/// What a guard holds, as a word.
fn kind(hold: &Hold) -> String {
    match (hold.weight, &hold.claims[..]) {
        (Some(weight), _) => format!("permit of {weight}"),
        (_, [slot]) if hold.member == Member::Slots => format!("slot {}", slot.lock),
        (_, [Claim { shared: true, .. }]) => "reader".to_owned(),
        (_, [_]) => "one lock".to_owned(),
        (_, several) => format!("{} locks", several.len()),
    }
}

fn end(end: &End) -> &'static str {
    match end {
        End::Released => "released",
        End::Dropped => "dropped",
        End::Lost(_) => "lost",
        End::Killed => "killed",
    }
}

fn count<T: Ord>(things: impl Iterator<Item = T>) -> BTreeMap<T, u64> {
    let mut counts = BTreeMap::new();
    for thing in things {
        *counts.entry(thing).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_broken_promise_fails_a_run() {
        let ruled = |found: &[(Wrong, u64)]| ruling(&found.iter().copied().collect());
        assert_eq!(ruled(&[(Wrong::Overlaps, 0), (Wrong::Unproven, 0)]), Ruling::Pass);
        assert_eq!(ruled(&[(Wrong::Overlaps, 0), (Wrong::Unproven, 1)]), Ruling::Unproven);
        assert_eq!(ruled(&[(Wrong::Overlaps, 1), (Wrong::Unproven, 1)]), Ruling::Fail);
        assert_eq!(ruled(&[(Wrong::Crashes, 1), (Wrong::Unproven, 0)]), Ruling::Fail);
    }
}
