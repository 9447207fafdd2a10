//! Judges a history. Pure: what goes in is what was seen, what comes out is what was wrong.

use std::collections::BTreeSet;

use serde::Serialize;

use super::history::{End, Fault, History, Hold, Outcome};
use super::record::Who;
use crate::harness::overlaps;

/// How many violations of a sort are told in full.
const EXAMPLES: usize = 20;

/// Each must be 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// Pairs of guards that were valid at the same time.
    pub(crate) overlaps: u64,
    /// Grants, and accepted writes, whose token is not above, or not as high as, one before.
    pub(crate) out_of_order: u64,
    /// Accepted writes that were built on another value than the one they replaced, and what is missing in the end.
    pub(crate) lost_updates: u64,
    /// Nodes and watches that nobody owned, when all was over.
    pub(crate) orphans: u64,
    /// Acquisitions without an outcome though their process lived, and contenders that were not granted once more.
    pub(crate) unfinished: u64,
    /// Clients that ended by themselves.
    pub(crate) crashes: u64,
    /// What exactly, for the first ones of each.
    pub(crate) examples: Vec<String>,
}

impl Verdict {
    pub(crate) fn of(history: &History) -> Self {
        let mut verdict = Self::default();
        verdict.overlaps(history);
        verdict.order(history);
        verdict.updates(history);
        verdict.remains(history);
        verdict.liveness(history);
        verdict
    }

    pub(crate) fn passed(&self) -> bool {
        let Self { overlaps, out_of_order, lost_updates, orphans, unfinished, crashes, examples: _ } = self;
        overlaps + out_of_order + lost_updates + orphans + unfinished + crashes == 0
    }

    fn tell(&mut self, number: u64, example: String) {
        if number as usize <= EXAMPLES {
            self.examples.push(example);
        }
    }

    fn overlaps(&mut self, history: &History) {
        let taken = Taken::of(&history.faults);
        let spans = history.holds.iter().map(|hold| (hold, hold.granted, hold.valid_until(taken.has(hold))));
        for (before, hold, time) in overlaps(spans.collect()) {
            self.overlaps += 1;
            let text = format!(
                "overlap: {} (granted at {}, {:?}) with {} (granted at {}) for {:.3} ms",
                before.who,
                before.granted.0,
                before.end,
                hold.who,
                hold.granted.0,
                time.as_secs_f64() * 1e3
            );
            self.tell(self.overlaps, text);
        }
    }

    fn order(&mut self, history: &History) {
        let mut highest = None;
        for hold in &history.holds {
            if hold.token.is_some() && hold.token <= highest {
                self.out_of_order += 1;
                let text = format!("order: {} was granted {:?} after {highest:?}", hold.who, hold.token);
                self.tell(self.out_of_order, text);
            }
            highest = highest.max(hold.token);
        }
        let mut highest = None;
        for write in &history.ledger.writes {
            if write.token < highest {
                self.out_of_order += 1;
                let text = format!("order: {} wrote with {:?} after {highest:?}", write.who, write.token);
                self.tell(self.out_of_order, text);
            }
            highest = highest.max(write.token);
        }
    }

    fn updates(&mut self, history: &History) {
        let mut value = 0;
        for write in &history.ledger.writes {
            if write.read != value {
                self.lost_updates += 1;
                let (who, read) = (write.who, write.read);
                let text = format!("lost update: {who} replaced {value}, having read {read}");
                self.tell(self.lost_updates, text);
            }
            value = write.value;
        }
        // What the register says of itself must agree.
        let accepted = history.ledger.writes.len() as u64;
        if history.ledger.value != accepted && self.lost_updates == 0 {
            self.lost_updates += accepted.abs_diff(history.ledger.value);
            self.tell(1, format!("lost update: {} after {accepted} writes", history.ledger.value));
        }
    }

    fn remains(&mut self, history: &History) {
        let remains = &history.remains;
        self.orphans = remains.nodes.len() as u64 + remains.watches + remains.ephemerals;
        if self.orphans > 0 {
            self.tell(1, format!("orphans: {remains:?}"));
        }
    }

    fn liveness(&mut self, history: &History) {
        let pending = history.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Pending);
        let pending: BTreeSet<Who> = pending.map(|attempt| attempt.who).collect();
        let all: BTreeSet<Who> = pending.iter().chain(&history.starved).copied().collect();
        self.unfinished = all.len() as u64;
        for (number, who) in (1..).zip(all) {
            self.tell(
                number,
                format!("unfinished: {who}, whose acquisition is pending: {}", pending.contains(&who)),
            );
        }
        self.crashes = history.crashes.len() as u64;
        for (number, client) in (1..).zip(&history.crashes) {
            self.tell(number, format!("crash: client {client} ended by itself"));
        }
    }
}

/// The sessions that an operator closed, and those of which a node was deleted or written to.
pub(crate) struct Taken<'a>(Vec<&'a Fault>);

impl<'a> Taken<'a> {
    pub(crate) fn of(faults: &'a [Fault]) -> Self {
        Self(faults.iter().filter(|fault| fault.kind.may_take()).collect())
    }

    /// Whether an operator took the lock from this holder, so that its lease promised what nobody could keep.
    pub(crate) fn has(&self, hold: &Hold) -> bool {
        let lost = matches!(hold.end, End::Lost(_));
        lost && self
            .0
            .iter()
            .any(|fault| fault.session == Some(hold.session) && (hold.asked..=hold.over).contains(&fault.at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::{Attempt, Remains};
    use super::super::record::{How, Seen};
    use super::super::schedule::Kind;
    use super::*;
    use crate::harness::Instant;
    use crate::harness::register::{Ledger, Write};

    const ONE: Who = Who { client: 1, task: 1 };
    const TWO: Who = Who { client: 2, task: 1 };

    fn hold(who: Who, token: i64, granted: u64, valid: u64, end: End) -> Hold {
        let (granted, valid, over) = (Instant(granted), Instant(valid), Instant(valid + 1));
        let seen = Seen { valid, promised: Some(valid) };
        Hold {
            who,
            session: i64::from(who.client),
            token: Some(token),
            asked: granted,
            granted,
            seen,
            over,
            end,
        }
    }

    fn lost(why: &str) -> End {
        End::Lost(why.into())
    }

    /// Two take turns, and write what they should.
    fn history() -> History {
        let write =
            |at, who, token, read| Write { at: Instant(at), who, token: Some(token), read, value: read + 1 };
        let attempt = |who, asked, outcome| Attempt {
            who,
            how: How::Wait,
            asked: Instant(asked),
            ended: Instant(asked + 5),
            outcome,
        };
        History {
            holds: vec![
                hold(ONE, 5, 10, 20, End::Released),
                hold(TWO, 6, 30, 40, lost("the lease is over")),
                hold(ONE, 7, 50, 60, End::Killed),
                hold(TWO, 8, 70, 80, End::Dropped),
            ],
            attempts: vec![attempt(ONE, 1, Outcome::Granted), attempt(TWO, 2, Outcome::Killed)],
            ledger: Ledger {
                value: 3,
                writes: vec![write(15, ONE, 5, 0), write(16, ONE, 5, 1), write(35, TWO, 6, 2)],
                ..Ledger::default()
            },
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Verdict {
        let mut history = history();
        spoil(&mut history);
        Verdict { examples: Vec::new(), ..Verdict::of(&history) }
    }

    #[test]
    fn a_good_history_passes() {
        let verdict = verdict(|_| {});
        assert!(verdict.passed(), "{verdict:?}");
    }

    #[test]
    fn a_grant_before_the_last_look_that_said_valid_is_an_overlap() {
        let found = verdict(|it| it.holds[1].granted = Instant(19));
        assert_eq!(found, Verdict { overlaps: 1, ..Verdict::default() });
        assert!(!found.passed());
    }

    #[test]
    fn a_short_hold_does_not_hide_a_long_one() {
        // The first is valid throughout the second, and into the third.
        let found = verdict(|it| it.holds[0].seen.valid = Instant(55));
        assert_eq!(found.overlaps, 2);
    }

    #[test]
    fn a_grant_within_what_a_lost_lease_had_promised_is_an_overlap() {
        // Its process was stopped, so that it could not look; had it been continued, it would have been told "valid".
        let promised = |it: &mut History| it.holds[1].seen.promised = Some(Instant(55));
        assert_eq!(verdict(promised).overlaps, 1);
        let with = |kind, session| {
            verdict(|it| {
                promised(it);
                it.faults.push(Fault {
                    kind,
                    at: Instant(35),
                    until: Instant(36),
                    servers: vec![],
                    client: None,
                    session: Some(session),
                    holder: Some(TWO),
                });
            })
        };
        for kind in [Kind::CloseHolder, Kind::WriteWaiter] {
            assert!(with(kind, 2).passed(), "{kind:?} took it");
            assert_eq!(with(kind, 1).overlaps, 1, "{kind:?} met another session");
        }
        assert_eq!(with(Kind::Neglect, 2).overlaps, 1);
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
        assert!(cut(45).passed());
        assert_eq!(cut(60).overlaps, 1, "it said so too late");
    }

    #[test]
    fn the_dead_hold_until_they_were_killed_and_no_longer() {
        let promise = |it: &mut History| it.holds[2].seen.promised = Some(Instant(500));
        assert_eq!(verdict(promise).overlaps, 0);
        let killed_late = |it: &mut History| {
            promise(it);
            it.holds[2].over = Instant(75);
        };
        assert_eq!(verdict(killed_late).overlaps, 1);
    }

    #[test]
    fn a_token_given_twice_is_out_of_order() {
        assert_eq!(verdict(|it| it.holds[1].token = Some(5)).out_of_order, 1);
    }

    #[test]
    fn a_write_with_a_lower_token_is_out_of_order() {
        assert_eq!(verdict(|it| it.ledger.writes[2].token = Some(4)).out_of_order, 1);
    }

    #[test]
    fn a_write_on_a_value_that_was_replaced_is_a_lost_update() {
        let found = verdict(|it| {
            it.ledger.writes[2].read = 1;
            it.ledger.writes[2].value = 2;
            it.ledger.value = 2;
        });
        assert_eq!(found, Verdict { lost_updates: 1, ..Verdict::default() });
    }

    #[test]
    fn a_register_that_forgot_a_write_is_a_lost_update() {
        assert_eq!(verdict(|it| it.ledger.value = 2).lost_updates, 1);
    }

    #[test]
    fn what_is_left_is_an_orphan() {
        let found = verdict(|it| {
            it.remains = Remains { nodes: vec!["lock-0000000007".to_owned()], watches: 2, ephemerals: 0 };
        });
        assert_eq!(found, Verdict { orphans: 3, ..Verdict::default() });
    }

    #[test]
    fn an_acquisition_without_an_outcome_is_unfinished() {
        assert_eq!(verdict(|it| it.attempts[0].outcome = Outcome::Pending).unfinished, 1);
    }

    #[test]
    fn who_is_not_granted_once_more_is_unfinished() {
        assert_eq!(verdict(|it| it.starved.push(TWO)).unfinished, 1);
    }

    #[test]
    fn a_client_that_ends_by_itself_is_told() {
        assert!(!verdict(|it| it.crashes.push(1)).passed());
    }
}
