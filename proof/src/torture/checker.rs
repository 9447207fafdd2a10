//! Judges a history. Pure: what goes in is what was seen, what comes out is what was wrong.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use zklock::FencingToken;

use super::args::Mode;
use super::history::{History, Left, Outcome, Remains};
use super::mode::rules;
use super::record::Who;
use super::servers::SERVERS;
use super::taken::Taken;
use super::wish::{Claim, conflict};
use crate::harness::overlaps;
use crate::harness::register::{Ledger, Look, Write};

/// How many violations of a sort are told in full.
const EXAMPLES: usize = 20;

/// Each must be 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// Pairs of guards in conflict that were valid at the same time.
    pub(crate) overlaps: u64,
    /// Guards that lacked the node of one of their locks.
    pub(crate) partial: u64,
    /// Grants, accepted writes and reads whose token is not above, or not as high as, one in conflict with it before.
    pub(crate) out_of_order: u64,
    /// Accepted writes that were built on another value than the one they replaced, reads of another value than the last
    /// one written, and what is missing in the end.
    pub(crate) lost_updates: u64,
    /// Nodes and watches that nobody owned, when all was over.
    pub(crate) orphans: u64,
    /// Nodes that some of the servers had then, and others had not.
    pub(crate) divided: u64,
    /// Announcements and ends of announcements that observers were told of, and should not have been.
    pub(crate) misled: u64,
    /// Observers that were not told the present state, when all was over.
    pub(crate) uninformed: u64,
    /// What else the mode forbids.
    pub(crate) broken: u64,
    /// Acquisitions without an outcome though their process lived, and contenders that were not granted once more.
    pub(crate) unfinished: u64,
    /// Clients that ended by themselves.
    pub(crate) crashes: u64,
    /// What a run of this mode has to show, and this one has not.
    pub(crate) unproven: u64,
    /// What exactly, for the first ones of each.
    pub(crate) examples: Vec<String>,
}

impl Verdict {
    pub(crate) fn of(mode: Mode, history: &History) -> Self {
        let mut verdict = Self::default();
        verdict.overlaps(history);
        verdict.order(history);
        for ledger in &history.ledgers {
            verdict.register(ledger);
        }
        verdict.remains(history);
        verdict.liveness(history);
        verdict.observers(mode, history);
        for (number, broken) in (1..).zip(rules(mode).broken(history)) {
            verdict.broken = number;
            verdict.tell(number, format!("broken: {broken}"));
        }
        let unproven = rules(mode).unproven(history);
        verdict.unproven = unproven.len() as u64;
        for (number, missing) in (1..).zip(unproven) {
            verdict.tell(number, format!("unproven: {missing}"));
        }
        verdict
    }

    pub(crate) fn passed(&self) -> bool {
        let Self { overlaps, partial, out_of_order, lost_updates, .. } = self;
        let Self { orphans, divided, misled, uninformed, broken, unfinished, crashes, unproven, .. } = self;
        let of_guards = [overlaps, partial, out_of_order, lost_updates, orphans, divided, unfinished];
        let mut wrong = of_guards.into_iter().chain([misled, uninformed, broken, crashes, unproven]);
        wrong.all(|number| *number == 0)
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
            if !conflict(&before.claims, &hold.claims) {
                continue;
            }
            self.overlaps += 1;
            let text = format!(
                "overlap: {} (granted {} at {}, {:?}) with {} (granted {} at {}) for {:.3} ms",
                before.who,
                text(&before.claims),
                before.granted.0,
                before.end,
                hold.who,
                text(&hold.claims),
                hold.granted.0,
                time.as_secs_f64() * 1e3
            );
            self.tell(self.overlaps, text);
        }
        for hold in history.holds.iter().filter(|hold| !hold.is_whole) {
            self.partial += 1;
            let text = format!("partial: {}, granted {} at {}", hold.who, text(&hold.claims), hold.granted.0);
            self.tell(self.partial, text);
        }
    }

    /// Those in conflict are served in the order in which they came: tokens are given at the entry into the queue.
    fn order(&mut self, history: &History) {
        let mut marks = BTreeMap::<usize, Marks>::new();
        for hold in &history.holds {
            for claim in &hold.claims {
                let marks = marks.entry(claim.lock).or_default();
                let highest = marks.against(claim.shared);
                if hold.token.is_some() && hold.token <= highest {
                    self.out_of_order += 1;
                    let (who, token) = (hold.who, hold.token);
                    let text = format!("order: {who} was granted {claim} with {token:?} after {highest:?}");
                    self.tell(self.out_of_order, text);
                }
                marks.see(claim.shared, hold.token);
            }
        }
    }

    /// What a register has accepted, in its order: no write with a lower token than any before, no read of a reader with a
    /// lower one than any write before; each built on the last value, or told of it.
    fn register(&mut self, ledger: &Ledger<Who>) {
        let (mut marks, mut value, lost_before) = (Marks::default(), 0, self.lost_updates);
        let mut looks = ledger.looks.iter().peekable();
        for (number, write) in ledger.writes.iter().enumerate() {
            while let Some(look) = looks.next_if(|look| look.writes <= number) {
                self.look(look, &mut marks, value);
            }
            self.write(write, &mut marks, value);
            value = write.value;
        }
        for look in looks {
            self.look(look, &mut marks, value);
        }
        // What the register says of itself must agree.
        let accepted = ledger.writes.len() as u64;
        if ledger.value != accepted && self.lost_updates == lost_before {
            self.lost_updates += accepted.abs_diff(ledger.value);
            self.tell(1, format!("lost update: {} after {accepted} writes", ledger.value));
        }
    }

    fn look(&mut self, look: &Look<Who>, marks: &mut Marks, value: u64) {
        let (who, token, highest) = (look.who, look.token, marks.against(true));
        if token < highest {
            self.out_of_order += 1;
            self.tell(self.out_of_order, format!("order: {who} read with {token:?} after {highest:?}"));
        }
        marks.see(true, token);
        if look.value != value {
            self.lost_updates += 1;
            self.tell(self.lost_updates, format!("lost update: {who} was told {} for {value}", look.value));
        }
    }

    fn write(&mut self, write: &Write<Who>, marks: &mut Marks, value: u64) {
        let (who, token, highest) = (write.who, write.token, marks.against(false));
        if token < highest {
            self.out_of_order += 1;
            self.tell(self.out_of_order, format!("order: {who} wrote with {token:?} after {highest:?}"));
        }
        marks.see(false, token);
        if write.read != value {
            self.lost_updates += 1;
            let text = format!("lost update: {who} replaced {value}, having read {}", write.read);
            self.tell(self.lost_updates, text);
        }
    }

    fn remains(&mut self, history: &History) {
        let Remains { nodes, watches, ephemerals } = &history.remains;
        for left in nodes {
            let (number, what) = match left.servers.len() {
                SERVERS => (&mut self.orphans, "orphan"),
                _ => (&mut self.divided, "divided"),
            };
            *number += 1;
            let (number, servers) = (*number, &left.servers);
            self.tell(number, format!("{what}: {} on the servers {servers:?}", owned(left, history)));
        }
        self.orphans += watches + ephemerals;
        if watches + ephemerals > 0 {
            self.tell(1, format!("orphans: {watches} watches, {ephemerals} nodes without a client"));
        }
    }

    fn observers(&mut self, mode: Mode, history: &History) {
        for (number, misled) in (1..).zip(rules(mode).misled(history)) {
            self.misled = number;
            self.tell(number, format!("misled: {misled}"));
        }
        for (number, who) in (1..).zip(&history.announcements.uninformed) {
            self.uninformed = number;
            self.tell(number, format!("uninformed: {who} was not told the present state in the end"));
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

/// A node, and whether its client knows of the session that it belongs to. In the end, every contender has held in the
/// session that its client believes in.
fn owned(left: &Left, history: &History) -> String {
    let Left { path, session, who, .. } = left;
    let Some(who) = who else { return format!("{path}, session {session:#x}") };
    let held = || history.holds.iter().rev().filter(|hold| hold.who.client == who.client);
    let known = match (held().next(), held().any(|hold| hold.session == *session)) {
        (Some(last), _) if last.session == *session => "in which its client has held last",
        (_, true) => "which its client has left",
        (_, false) => "in which its client has never held",
    };
    format!("{path} of {who}, session {session:#x}, {known},")
}

fn text(claims: &[Claim]) -> String {
    claims.iter().map(Claim::to_string).collect::<Vec<_>>().join(" and ")
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
    use super::super::history::{Attempt, End, Fault, Hold};
    use super::super::record::How;
    use super::super::schedule::Kind;
    use super::*;
    use crate::harness::Instant;

    const ONE: Who = Who { client: 1, task: 1 };
    const TWO: Who = Who { client: 2, task: 1 };

    fn hold(who: Who, token: i64, granted: u64, valid: u64, end: End) -> Hold {
        Hold { end, ..Hold::sample(who, token, granted, valid, &[Claim::exclusive(0)]) }
    }

    fn lost(why: &str) -> End {
        End::Lost(why.into())
    }

    /// Two take turns, and write what they should.
    fn history() -> History {
        let write = |at, who, token, read| Write {
            at: Instant(at),
            who,
            token: Some(FencingToken::new(token)),
            read,
            value: read + 1,
        };
        let attempt = |who, asked, outcome| Attempt {
            who,
            how: How::Wait,
            key: None,
            weight: None,
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
            ledgers: vec![Ledger {
                value: 3,
                writes: vec![write(15, ONE, 5, 0), write(16, ONE, 5, 1), write(35, TWO, 6, 2)],
                ..Ledger::default()
            }],
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Verdict {
        let mut history = history();
        spoil(&mut history);
        Verdict { examples: Vec::new(), ..Verdict::of(Mode::Lock, &history) }
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
                    node: None,
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
        assert_eq!(verdict(|it| it.holds[1].token = Some(FencingToken::new(5))).out_of_order, 1);
    }

    #[test]
    fn a_write_with_a_lower_token_is_out_of_order() {
        assert_eq!(verdict(|it| it.ledgers[0].writes[2].token = Some(FencingToken::new(4))).out_of_order, 1);
    }

    #[test]
    fn a_write_on_a_value_that_was_replaced_is_a_lost_update() {
        let found = verdict(|it| {
            it.ledgers[0].writes[2].read = 1;
            it.ledgers[0].writes[2].value = 2;
            it.ledgers[0].value = 2;
        });
        assert_eq!(found, Verdict { lost_updates: 1, ..Verdict::default() });
    }

    #[test]
    fn a_register_that_forgot_a_write_is_a_lost_update() {
        assert_eq!(verdict(|it| it.ledgers[0].value = 2).lost_updates, 1);
    }

    #[test]
    fn what_is_left_is_an_orphan() {
        let nodes = vec![Left::sample(&[0, 1, 2])];
        let found = verdict(|it| it.remains = Remains { nodes, watches: 2, ephemerals: 0 });
        assert_eq!(found, Verdict { orphans: 3, ..Verdict::default() });
    }

    #[test]
    fn what_only_some_servers_have_is_no_orphan_but_their_fault() {
        let nodes = vec![Left::sample(&[1])];
        let found = verdict(|it| it.remains = Remains { nodes, ..Remains::default() });
        assert_eq!(found, Verdict { divided: 1, ..Verdict::default() });
        assert!(!found.passed());
    }

    #[test]
    fn what_is_left_names_its_session_by_what_its_client_knows_of_it() {
        let mut history = history();
        history.holds[2].session = 7;
        let of = |session| owned(&Left { session, ..Left::sample(&[0]) }, &history);
        assert_eq!(of(7), "lock-0000000007 of c1.1, session 0x7, in which its client has held last,");
        assert_eq!(of(1), "lock-0000000007 of c1.1, session 0x1, which its client has left,");
        assert_eq!(of(9), "lock-0000000007 of c1.1, session 0x9, in which its client has never held,");
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
