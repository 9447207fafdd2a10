//! What happened in one run, and what it comes to: who believed what at the same time, and which writes came late.
//!
//! A contender believes that it holds the lock from the return of its acquisition until it begins to release, is told of
//! the loss, or is killed. A stopped process believes nothing. When it continues, it believes what it believed before,
//! unless its lock can tell, and has not once said "held" again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::harness::register::Write;
use crate::harness::{Instant, overlaps};
use crate::redis::word::Word;

/// Everything, not necessarily in order.
#[derive(Debug, Default)]
pub(crate) struct History {
    entries: Vec<Entry>,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) contender: usize,
    pub(crate) at: Instant,
    pub(crate) fact: Fact,
}

#[derive(Clone, Debug)]
pub(crate) enum Fact {
    Said(Word),
    Stopped,
    Continued,
    /// The server has granted it the lock that it acquires next, and it does not know yet.
    Granted,
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Pairs of holds at the same time.
    pub(crate) double_holds: usize,
    /// The longest of them.
    pub(crate) longest: Duration,
    /// Writes of former holders that were accepted after a later holder was granted the lock.
    pub(crate) late_writes: usize,
}

/// One hold.
#[derive(Debug)]
struct Hold {
    contender: usize,
    /// When the server granted it.
    granted: Instant,
    /// When it was believed.
    spans: Vec<(Instant, Instant)>,
}

impl History {
    pub(crate) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What it comes to, with the writes that were accepted, if it ended now.
    pub(crate) fn findings(&self, writes: &[Write<usize>]) -> Findings {
        let holds = self.holds(Instant::now());
        let spans = holds.iter().enumerate().flat_map(|(number, hold)| {
            hold.spans.iter().map(move |(since, until)| ((number, hold.contender), *since, *until))
        });
        // A hold with a stop in it may share several spans with another.
        let mut together = BTreeMap::<_, Duration>::new();
        for ((one, its), (other, others), time) in overlaps(spans.collect()) {
            if its != others && !time.is_zero() {
                *together.entry((one.min(other), one.max(other))).or_default() += time;
            }
        }
        let late_writes = writes.iter().filter(|write| is_late(write, &holds)).count();
        let longest = together.values().max().copied().unwrap_or_default();
        Findings { double_holds: together.len(), longest, late_writes }
    }

    /// Every hold, in the order in which they were granted.
    fn holds(&self, end: Instant) -> Vec<Hold> {
        let mut entries = self.entries.clone();
        entries.sort_by_key(|entry| entry.at);
        let contenders = entries.iter().map(|entry| entry.contender + 1).max().unwrap_or(0);
        let of = |contender| entries.iter().filter(move |entry| entry.contender == contender);
        let mut holds: Vec<_> = (0..contenders).flat_map(|one| holds_of(one, of(one), end)).collect();
        holds.sort_by_key(|hold| hold.granted);
        holds
    }
}

/// One contender's holds; `entries` are its own, in order.
fn holds_of<'a>(contender: usize, entries: impl Iterator<Item = &'a Entry>, end: Instant) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    let mut granted = None;
    // The begin of the present span, and whether the process holds what it has acquired last.
    let (mut since, mut holding) = (None, false);
    for Entry { at, fact, .. } in entries {
        let at = *at;
        match fact {
            Fact::Granted => granted = Some(at),
            Fact::Said(Word::Acquired { .. }) => {
                holds.push(Hold { contender, granted: granted.take().unwrap_or(at), spans: Vec::new() });
                (since, holding) = (Some(at), true);
            }
            Fact::Continued if holding => since = Some(at),
            Fact::Stopped => close(&mut holds, since.take(), at),
            Fact::Said(Word::Lost { last_held }) => {
                // Since it was continued, the lock has never said that it is held.
                since = since.filter(|since| last_held >= since);
                close(&mut holds, since.take(), at);
                holding = false;
            }
            Fact::Said(Word::Releasing) => {
                close(&mut holds, since.take(), at);
                holding = false;
            }
            Fact::Said(_) | Fact::Continued => {}
        }
    }
    close(&mut holds, since, end);
    holds
}

fn close(holds: &mut [Hold], since: Option<Instant>, until: Instant) {
    if let (Some(hold), Some(since)) = (holds.last_mut(), since) {
        hold.spans.push((since, until));
    }
}

/// Whether somebody was granted the lock between the writer's last grant and its write.
fn is_late(write: &Write<usize>, holds: &[Hold]) -> bool {
    let before = |hold: &&Hold| hold.granted <= write.at;
    let own = holds.iter().filter(before).rfind(|hold| hold.contender == write.who);
    let last = holds.iter().rfind(|hold| hold.granted <= write.at);
    match (own, last) {
        (Some(own), Some(last)) => own.contender != last.contender && own.granted < last.granted,
        // Nobody writes here who has never held the lock.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACQUIRED: Fact = Fact::Said(Word::Acquired { token: None });
    const RELEASING: Fact = Fact::Said(Word::Releasing);

    fn lost(last_held: u64) -> Fact {
        Fact::Said(Word::Lost { last_held: Instant(last_held) })
    }

    /// What it comes to if these things happened, and these writes were accepted.
    fn findings<const N: usize>(
        facts: [(u64, usize, Fact); N],
        writes: &[(u64, usize)],
    ) -> (usize, u64, usize) {
        let entry = |(at, contender, fact)| Entry { contender, at: Instant(at), fact };
        let history = History { entries: facts.into_iter().map(entry).collect() };
        let write = |&(at, who)| Write { at: Instant(at), who, token: None, read: 0, value: 0 };
        let writes: Vec<_> = writes.iter().map(write).collect();
        let Findings { double_holds, longest, late_writes } = history.findings(&writes);
        (double_holds, longest.as_nanos().try_into().unwrap(), late_writes)
    }

    #[test]
    fn one_after_the_other_is_as_it_should_be() {
        let facts = [(1, 0, ACQUIRED), (5, 0, RELEASING), (5, 1, ACQUIRED), (9, 1, RELEASING)];
        assert_eq!(findings(facts, &[(2, 0), (6, 1)]), (0, 0, 0));
    }

    #[test]
    fn two_at_once_are_found_and_so_is_the_late_write() {
        let facts = [(1, 0, ACQUIRED), (5, 1, ACQUIRED), (7, 0, RELEASING), (9, 1, RELEASING)];
        assert_eq!(findings(facts, &[(2, 0), (6, 1), (6, 0)]), (1, 2, 1));
    }

    #[test]
    fn what_was_granted_first_and_known_late_is_the_former_hold() {
        let facts =
            [(1, 0, Fact::Granted), (5, 1, ACQUIRED), (6, 0, ACQUIRED), (8, 0, RELEASING), (9, 1, RELEASING)];
        assert_eq!(findings(facts.clone(), &[(7, 0)]), (1, 2, 1));
        assert_eq!(findings(facts, &[(7, 1)]), (1, 2, 0));
    }

    #[test]
    fn a_stopped_process_believes_nothing_until_it_continues() {
        let facts = [
            (1, 0, ACQUIRED),
            (2, 0, Fact::Stopped),
            (5, 1, ACQUIRED),
            (7, 0, Fact::Continued),
            (8, 0, RELEASING),
            (9, 1, RELEASING),
        ];
        assert_eq!(findings(facts, &[]), (1, 1, 0));
    }

    #[test]
    fn a_lock_that_tells_of_the_loss_first_thing_leaves_no_belief_but_perhaps_a_late_write() {
        let facts = |last_held| {
            [
                (1, 0, ACQUIRED),
                (3, 0, Fact::Stopped),
                (5, 1, ACQUIRED),
                (7, 0, Fact::Continued),
                (9, 0, lost(last_held)),
                (12, 1, RELEASING),
            ]
        };
        assert_eq!(findings(facts(2), &[(8, 0)]), (0, 0, 1));
        // It said "held" after it had continued.
        assert_eq!(findings(facts(8), &[]), (1, 2, 0));
    }

    #[test]
    fn whoever_holds_again_writes_in_time() {
        let facts = [
            (1, 0, ACQUIRED),
            (2, 0, RELEASING),
            (3, 1, ACQUIRED),
            (4, 1, RELEASING),
            (5, 0, ACQUIRED),
            (7, 0, RELEASING),
        ];
        assert_eq!(findings(facts, &[(6, 0)]), (0, 0, 0));
    }
}
