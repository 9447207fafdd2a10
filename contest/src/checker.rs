//! Judges a history. Pure: what goes in is what was seen, what comes out is what was wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use zklock::{FencingToken, LostReason};

use crate::acts::OperatorActs;
use crate::asks;
use crate::history::{End, History, Hold, Left, Outcome, Remains};
use crate::member::Member;
use crate::members::{Rules, rules, unpaused};
use crate::record::Who;
use crate::register::{Ledger, Look};
use crate::request::{Claim, conflict};
use crate::spans::overlaps;

/// How many violations of a sort are told in full.
const EXAMPLES: u64 = 20;

/// So many occasions show what they are to show.
const ENOUGH: usize = 5;

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// Pairs of guards in conflict that were valid at the same time.
    Overlaps,
    /// Guards that lacked the node of one of their locks.
    Partial,
    /// Grants, accepted writes and reads whose token is not above, or not as high as, one in conflict with it before.
    OutOfOrder,
    /// Accepted writes that were built on another value than the one they replaced, reads of another value than the last
    /// one written, and what is missing in the end.
    LostUpdates,
    /// Nodes and watches that nobody owned, when all was over.
    Orphans,
    /// Nodes that some of the servers had then, and others had not.
    Divided,
    /// Announcements and ends of announcements that observers were told of, and should not have been.
    Misled,
    /// Guards that were valid, or promised to be, beyond their limit, and guards without a limit that ended by one.
    Overstayed,
    /// Asks that reached a holder whom they do not name, and askers that were told of an end too early.
    Misasked,
    /// Guards that were lost because their node was touched, though no operator touched it.
    Uncaused,
    /// What else the member forbids.
    Broken,
    /// Acquisitions without an outcome though their process lived, and contenders that were not granted once more.
    Unfinished,
    /// Clients that ended by themselves.
    Crashes,
    /// What a run of this member has to show, and this one has not.
    Unproven,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// How often; each must be 0.
    #[serde(flatten)]
    pub wrong: BTreeMap<Wrong, u64>,
    /// What exactly, for the first ones of each.
    pub examples: Vec<String>,
}

impl Verdict {
    pub fn of(member: Member, history: &History) -> Self {
        let wrong = Wrong::value_variants().iter().map(|wrong| (*wrong, 0)).collect();
        let (mut verdict, rules) = (Self { wrong, examples: Vec::new() }, rules(member));
        verdict.overlaps(rules, history);
        verdict.order(history);
        verdict.limits(history);
        for misasked in asks::wrong(history) {
            verdict.find(Wrong::Misasked, misasked);
        }
        for ledger in &history.ledgers {
            verdict.register(ledger);
        }
        verdict.remains(history);
        verdict.liveness(history);
        for misled in (rules.misled)(history) {
            verdict.find(Wrong::Misled, misled);
        }
        for why in &history.announcements.blinded {
            verdict.find(Wrong::Misled, why.clone());
        }
        for broken in (rules.broken)(history) {
            verdict.find(Wrong::Broken, broken);
        }
        for missing in rules.unproven(history) {
            verdict.find(Wrong::Unproven, missing.to_owned());
        }
        verdict
    }

    /// What is wrong, and how often, with a good history of this member that was spoiled.
    #[cfg(test)]
    pub fn spoiled(
        member: Member,
        mut history: History,
        spoil: impl FnOnce(&mut History),
    ) -> Vec<(Wrong, u64)> {
        spoil(&mut history);
        history.holds.sort_by_key(|hold| hold.granted);
        let mut wrong = Self::of(member, &history).wrong;
        wrong.retain(|_, number| *number > 0);
        wrong.into_iter().collect()
    }

    fn find(&mut self, wrong: Wrong, what: String) {
        self.find_several(wrong, 1, what);
    }

    fn find_several(&mut self, wrong: Wrong, several: u64, what: String) {
        let number = self.wrong.entry(wrong).or_default();
        if *number < EXAMPLES {
            self.examples.push(format!("{wrong:?}: {what}"));
        }
        *number += several;
    }

    fn overlaps(&mut self, rules: &Rules, history: &History) {
        let is_foreign = |hold: &Hold| (rules.is_foreign)(hold.who.client);
        let until = |hold: &Hold| {
            if is_foreign(hold) { unpaused(hold, &history.faults) } else { hold.valid_until(false) }
        };
        let sampled = history.holds.iter().filter(|_| history.scope.sampled);
        let spans = sampled.map(|hold| (hold, hold.granted, until(hold)));
        for (before, hold, time) in overlaps(spans.collect()) {
            let are_foreign = is_foreign(before) && is_foreign(hold);
            if conflict(&before.claims, &hold.claims) && !are_foreign {
                let (before, end, ms) = (granted(before), &before.end, time.as_secs_f64() * 1e3);
                self.find(
                    Wrong::Overlaps,
                    format!("{before}, {end:?}, with {} for {ms:.3} ms", granted(hold)),
                );
            }
        }
        for hold in history.holds.iter().filter(|hold| !hold.is_whole) {
            self.find(Wrong::Partial, granted(hold));
        }
    }

    /// No guard outlasts its limit, and each ends by one that it has. Others get what a limit or an ask has given up.
    fn limits(&mut self, history: &History) {
        let (acts, touched) = (OperatorActs::of(&history.faults), LostReason::NodeDeleted.to_string());
        for hold in &history.holds {
            let valid = hold.seen.promised.max(Some(hold.seen.valid));
            let is_over = |limit: Duration| {
                let drift = limit.mul_f64(f64::from(history.scope.drift) / 1e6);
                valid > Some(hold.granted + limit + drift)
            };
            if hold.limit.map_or(hold.has_reached_its_limit(), is_over) {
                let what = format!("{}, valid until {valid:?}, limit {:?}", granted(hold), hold.limit);
                self.find(Wrong::Overstayed, what);
            }
            if matches!(&hold.end, End::Lost(reason) if *reason == touched) && !acts.took(hold) {
                self.find(Wrong::Uncaused, granted(hold));
            }
        }
        if !history.scope.proves {
            return;
        }
        let kept = history.holds.iter().filter(|hold| hold.kept.is_some() && hold.is_exclusive()).count();
        if kept >= ENOUGH && history.given_up() == 0 {
            self.find(
                Wrong::Unproven,
                format!("{kept} kept a guard after its limit, and nobody was granted"),
            );
        }
        if history.asks.made.len() >= ENOUGH * 4 && history.asks.heard.is_empty() {
            self.find(Wrong::Unproven, "no holder heard of an ask".to_owned());
        }
    }

    /// Those in conflict are served in the order in which they came: tokens are given at the entry into the queue.
    fn order(&mut self, history: &History) {
        let mut marks = BTreeMap::<usize, Marks>::new();
        let acts = OperatorActs::of(&history.faults);
        // One that is killed while it is preempted is told of what comes after that, and never gets there.
        let in_turn = |hold: &&Hold| hold.granted <= hold.over && !acts.came_before(hold);
        for hold in history.holds.iter().filter(in_turn) {
            for claim in &hold.claims {
                let marks = marks.entry(claim.lock).or_default();
                let (who, token, highest) = (hold.who, hold.token, marks.against(claim.shared));
                if token.is_some() && token <= highest {
                    let what = format!("{who} was granted {claim} with {token:?} after {highest:?}");
                    self.find(Wrong::OutOfOrder, what);
                }
                marks.see(claim.shared, token);
            }
        }
    }

    /// What a register has accepted, in its order: no write with a lower token than any before, no read of a reader with a
    /// lower one than any write before; each built on the last value, or told of it.
    fn register(&mut self, ledger: &Ledger) {
        let (mut marks, mut value) = (Marks::default(), 0);
        let lost_before = self.wrong.get(&Wrong::LostUpdates).copied();
        let mut looks = ledger.looks.iter().peekable();
        for (number, write) in ledger.writes.iter().enumerate() {
            while let Some(look) = looks.next_if(|look| look.writes <= number) {
                self.look(look, &mut marks, value);
            }
            self.admitted(write.who, write.token, false, &mut marks);
            if write.read != value {
                let what = format!("{} replaced {value}, having read {}", write.who, write.read);
                self.find(Wrong::LostUpdates, what);
            }
            value = write.value;
        }
        for look in looks {
            self.look(look, &mut marks, value);
        }
        // What the register says of itself must agree.
        let accepted = ledger.writes.len() as u64;
        if ledger.value != accepted && self.wrong.get(&Wrong::LostUpdates).copied() == lost_before {
            let what = format!("{} after {accepted} writes", ledger.value);
            self.find_several(Wrong::LostUpdates, accepted.abs_diff(ledger.value), what);
        }
    }

    fn look(&mut self, look: &Look, marks: &mut Marks, value: u64) {
        self.admitted(look.who, look.token, true, marks);
        if look.value != value {
            self.find(Wrong::LostUpdates, format!("{} was told {} for {value}", look.who, look.value));
        }
    }

    fn admitted(&mut self, who: Who, token: Option<FencingToken>, shared: bool, marks: &mut Marks) {
        let highest = marks.against(shared);
        if token < highest {
            let did = if shared { "read" } else { "wrote" };
            self.find(Wrong::OutOfOrder, format!("{who} {did} with {token:?} after {highest:?}"));
        }
        marks.see(shared, token);
    }

    fn remains(&mut self, history: &History) {
        let Remains { nodes, watches, ephemerals } = &history.remains;
        for left in nodes {
            let wrong = if left.is_everywhere { Wrong::Orphans } else { Wrong::Divided };
            self.find(wrong, format!("{} on the servers {:?}", owned(left), left.servers));
        }
        if watches + ephemerals > 0 {
            let what = format!("{watches} watches, {ephemerals} nodes without a client");
            self.find_several(Wrong::Orphans, watches + ephemerals, what);
        }
    }

    fn liveness(&mut self, history: &History) {
        let pending = history.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Pending);
        let pending: BTreeSet<Who> = pending.map(|attempt| attempt.who).collect();
        for who in pending.iter().chain(&history.starved).collect::<BTreeSet<_>>() {
            let what = format!("{who}, whose acquisition is pending: {}", pending.contains(who));
            self.find(Wrong::Unfinished, what);
        }
    }
}

/// A node, and whose it is.
fn owned(Left { path, session, who, .. }: &Left) -> String {
    let owner = who.map_or_else(String::new, |who| format!(" of {who}"));
    format!("{path}{owner}, session {session:#x},")
}

/// Who was granted what, and when.
fn granted(hold: &Hold) -> String {
    let claims = hold.claims.iter().map(Claim::to_string).collect::<Vec<_>>().join(" and ");
    format!("{} (granted {claims} at {})", hold.who, hold.granted.0)
}

/// The highest tokens that were seen so far.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    exclusive: Option<FencingToken>,
    shared: Option<FencingToken>,
}

impl Marks {
    /// The highest of those that must not be at the same time.
    fn against(self, shared: bool) -> Option<FencingToken> {
        if shared { self.exclusive } else { self.exclusive.max(self.shared) }
    }

    fn see(&mut self, shared: bool, token: Option<FencingToken>) {
        let mark = if shared { &mut self.shared } else { &mut self.exclusive };
        *mark = token.max(*mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    fn hold(who: Who, token: i64, granted: u64, valid: u64, end: End) -> Hold {
        Hold { end, ..Hold::sample(who, token, granted, valid, &[Claim::exclusive(0)]) }
    }

    fn lost(why: &str) -> End {
        End::Lost(why.into())
    }

    /// Two take turns, and write what they should.
    fn history() -> History {
        let holds = vec![
            hold(ONE, 5, 10, 20, End::Released),
            hold(TWO, 6, 30, 40, lost("the lease is over")),
            hold(ONE, 7, 50, 60, End::Killed),
            hold(TWO, 8, 70, 80, End::Dropped),
        ];
        let killed = Attempt { who: TWO, outcome: Outcome::Killed };
        let writes =
            vec![Write::sample(15, ONE, 5, 0), Write::sample(16, ONE, 5, 1), Write::sample(35, TWO, 6, 2)];
        History {
            attempts: vec![Attempt { who: ONE, outcome: Outcome::Granted }, killed],
            holds,
            ledgers: vec![Ledger::sample(writes)],
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Lock, history(), spoil)
    }

    #[test]
    fn guards_that_are_valid_one_after_the_other_pass_and_others_overlap() {
        assert_eq!(verdict(|_| {}), []);
        assert_eq!(
            verdict(|it| it.holds[1].granted = Instant(19)),
            [(Overlaps, 1)],
            "the last look said valid"
        );
        // A short hold does not hide a long one.
        let found = verdict(|it| it.holds[0].seen.valid = Instant(55));
        assert_eq!(found, [(Overlaps, 2)], "it is valid throughout the second, and into the third");
    }

    #[test]
    fn a_grant_within_what_a_lost_lease_had_promised_is_an_overlap() {
        // Its process was stopped, so that it could not look; had it been continued, it would have been told "valid".
        let promised = |it: &mut History| it.holds[1].seen.promised = Some(Instant(55));
        assert_eq!(verdict(promised), [(Overlaps, 1)]);
    }

    /// Its session has moved to a server with a lower limit, so its lease was cut.
    #[test]
    fn a_guard_that_says_that_its_lease_has_ended_promises_no_more() {
        let cut = |over| {
            verdict(move |it| {
                it.holds[1].seen.promised = Some(Instant(55));
                it.holds[1].end = lost(&zklock::LostReason::Unconfirmed.to_string());
                it.holds[1].over = Instant(over);
            })
        };
        assert_eq!(cut(45), []);
        assert_eq!(cut(60), [(Overlaps, 1)], "it said so too late");
    }

    #[test]
    fn a_guard_ends_at_its_limit_and_only_by_one_that_it_has() {
        assert_eq!(LostReason::MaxHold.to_string(), MAX_HOLD);
        let limited = |limit: Option<u64>, valid, promised| {
            verdict(move |it| {
                let hold = &mut it.holds[1];
                (hold.limit, hold.end) = (limit.map(std::time::Duration::from_nanos), lost(MAX_HOLD));
                hold.seen = Seen { valid: Instant(valid), promised };
            })
        };
        assert_eq!(limited(Some(12), 40, Some(Instant(42))), [], "granted at 30");
        assert_eq!(limited(Some(12), 43, None), [(Overstayed, 1)]);
        assert_eq!(limited(Some(12), 40, Some(Instant(43))), [(Overstayed, 1)]);
        assert_eq!(limited(None, 40, None), [(Overstayed, 1)]);
        assert_eq!(limited(Some(25), 52, Some(Instant(55))), [(Overlaps, 1)], "the next one came before");
    }

    #[test]
    fn a_limit_gives_the_lock_to_others_though_the_guard_is_kept() {
        let kept = |until| {
            verdict(move |it| {
                let hold = Hold { end: lost(MAX_HOLD), token: None, ..it.holds[1].clone() };
                let kept = |at| {
                    let (granted, seen) = (Instant(at), Seen { valid: Instant(at), promised: None });
                    let (limit, kept) = (Some(std::time::Duration::from_nanos(9)), Some(Instant(until)));
                    Hold { granted, seen, limit, kept, ..hold.clone() }
                };
                it.holds.splice(1..2, (30..35).map(kept));
            })
        };
        assert_eq!(kept(55), [], "the next one was granted at 50");
        assert_eq!(kept(45), [(Unproven, 1)]);
    }

    #[test]
    fn nobody_but_an_operator_touches_nodes() {
        let touched = |it: &mut History| it.holds[1].end = lost(&LostReason::NodeDeleted.to_string());
        assert_eq!(verdict(touched), [(Uncaused, 1)]);
        let by_an_operator = |it: &mut History| {
            touched(it);
            it.faults.push(Fault { session: Some(2), ..Fault::sample(Effect::TakesHold, 35) });
        };
        assert_eq!(verdict(by_an_operator), []);
    }

    #[test]
    fn the_dead_hold_until_they_were_killed_and_no_longer() {
        let promise = |it: &mut History| it.holds[2].seen.promised = Some(Instant(500));
        assert_eq!(verdict(promise), []);
        let killed_late = |it: &mut History| {
            promise(it);
            it.holds[2].over = Instant(75);
        };
        assert_eq!(verdict(killed_late), [(Overlaps, 1)]);
    }

    #[test]
    fn tokens_grow_and_writes_follow_one_another() {
        let token = |token| Some(FencingToken::new(token));
        assert_eq!(verdict(|it| it.holds[1].token = token(5)), [(OutOfOrder, 1)], "a token given twice");
        let deleted = |at| {
            verdict(|it| {
                it.holds[1].token = token(5);
                let (session, node) = (Some(2), Some(5));
                it.faults.push(Fault { session, node, ..Fault::sample(Effect::TakesHold, at) });
            })
        };
        assert_eq!(
            [deleted(1), deleted(35)],
            [vec![], vec![(OutOfOrder, 1)]],
            "an operator deleted its node"
        );
        let found = verdict(|it| it.ledgers[0].writes[2].token = token(4));
        assert_eq!(found, [(OutOfOrder, 1)], "a write with a lower token");
        let found = verdict(|it| {
            it.ledgers[0].writes[2] = Write::sample(35, TWO, 6, 1);
            it.ledgers[0].value = 2;
        });
        assert_eq!(found, [(LostUpdates, 1)], "a write on a value that was replaced");
        assert_eq!(verdict(|it| it.ledgers[0].value = 2), [(LostUpdates, 1)], "the register forgot a write");
    }

    #[test]
    fn what_is_left_is_an_orphan_and_what_only_some_servers_have_their_fault() {
        let left = |servers: &[usize], watches| {
            let nodes = vec![Left::sample(servers)];
            verdict(|it| it.remains = Remains { nodes, watches, ephemerals: 0 })
        };
        assert_eq!(left(&[0, 1, 2], 2), [(Orphans, 3)]);
        assert_eq!(left(&[1], 0), [(Divided, 1)]);
    }

    #[test]
    fn every_acquisition_ends_and_nobody_starves() {
        assert_eq!(verdict(|it| it.attempts[0].outcome = Outcome::Pending), [(Unfinished, 1)]);
        assert_eq!(verdict(|it| it.starved.push(TWO)), [(Unfinished, 1)], "it is not granted once more");
    }
}
