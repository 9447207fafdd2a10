//! What a run has seen, in numbers.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use zklock_contest::history::History;
use zklock_contest::member::Member;
use zklock_contest::members::rules;

/// What one run has seen, or several together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Two runs that took the same steps have the same one.
    pub fingerprint: u64,
    /// How much time was simulated.
    pub time: Duration,
    /// How many faults were drawn.
    pub faults: u64,
    /// How often a guard was granted.
    pub grants: u64,
    /// How often a guard was lost before it was given up.
    pub losses: u64,
    /// What members have shown of what they are to show, a bit each.
    pub shown: u64,
    /// By how much the slack of each member was larger than it must be at the least, in millionths of the session timeout. A member is
    /// absent if no session of its holders has ended early.
    pub slack: BTreeMap<Member, u64>,
}

/// What the members are to show, in the order of the bits: what is to be said of it if it was not shown.
fn to_show(history: &History, of: Option<Member>) -> impl Iterator<Item = (Member, bool, &'static str)> {
    Member::value_variants().iter().flat_map(move |member| {
        let other = History::default();
        let history = if Some(*member) == of { history } else { &other };
        let proofs = (rules(*member).proofs)(history).into_iter();
        proofs.map(|(shown, missing)| (*member, shown, missing)).collect::<Vec<_>>()
    })
}

/// What a run of this member has shown.
pub(crate) fn shown(member: Member, history: &History) -> u64 {
    let all = to_show(history, Some(member)).enumerate();
    all.filter(|(_, (its, shown, _))| *its == member && *shown).map(|(bit, _)| 1u64 << bit).sum()
}

impl Seen {
    /// What was not shown, and should have been by a long run.
    pub fn unproven(&self) -> Vec<String> {
        let nothing = History::default();
        let missing = to_show(&nothing, None).enumerate().filter(|(bit, _)| self.shown & 1 << bit == 0);
        missing.map(|(_, (member, _, missing))| format!("{member}: {missing}")).collect()
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        let Self { fingerprint, time, faults, grants, losses, shown, slack } = other;
        self.fingerprint ^= fingerprint;
        self.time += time;
        self.faults += faults;
        self.grants += grants;
        self.losses += losses;
        self.shown |= shown;
        for (member, slack) in slack {
            self.slack.entry(member).and_modify(|least| *least = slack.min(*least)).or_insert(slack);
        }
    }
}
