//! Who believed what at the same time, and which writes came late.
//!
//! A contender believes that it holds the lock from the return of its acquisition until it begins to release, or is told of the
//! loss. One that is stopped believes nothing. When it continues, it believes what it believed before, unless its lock can tell,
//! and says that it is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::harness::Instant;
use zklock_contest::record::Who;
use zklock_contest::register::Write;
use zklock_contest::spans::overlaps;

#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) contender: Who,
    /// When the server granted it.
    pub(super) granted: Instant,
    /// When it was believed.
    pub(super) spans: Vec<(Instant, Instant)>,
}

/// The pairs of holds of different contenders at the same time: how many, and how long the longest was.
pub(super) fn together(holds: &[Hold]) -> (usize, Duration) {
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
    (together.len(), together.into_values().max().unwrap_or_default())
}

/// The writes whose contender was granted the lock before somebody else, who was granted it before the write.
pub(super) fn late(writes: &[Write], holds: &[Hold]) -> usize {
    let is_late = |write: &&Write| {
        let before = || holds.iter().filter(|hold| hold.granted <= write.at);
        let own = before().filter(|hold| hold.contender == write.who).map(|hold| hold.granted).max();
        // Nobody writes here who has never held the lock.
        own.is_some_and(|own| before().any(|hold| hold.contender != write.who && hold.granted > own))
    };
    writes.iter().filter(is_late).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(contender: u16, granted: u64, spans: &[(u64, u64)]) -> Hold {
        let spans = spans.iter().map(|(since, until)| (Instant(*since), Instant(*until))).collect();
        Hold { contender: Who::process(contender), granted: Instant(granted), spans }
    }

    /// What it comes to if these are the holds, and these contenders' writes were accepted.
    fn found(holds: &[Hold], writes: &[(u64, u16)]) -> (usize, u128, usize) {
        let who = Who::process;
        let write =
            |&(at, contender)| Write { at: Instant(at), who: who(contender), token: None, read: 0, value: 0 };
        let writes = writes.iter().map(write).collect::<Vec<_>>();
        let (pairs, longest) = together(holds);
        (pairs, longest.as_nanos(), late(&writes, holds))
    }

    #[test]
    fn one_after_the_other_is_as_it_should_be() {
        let holds = [hold(0, 1, &[(1, 5)]), hold(1, 5, &[(5, 9)])];
        assert_eq!(found(&holds, &[(2, 0), (6, 1)]), (0, 0, 0));
        let again = [holds[0].clone(), holds[1].clone(), hold(0, 9, &[(9, 12)])];
        assert_eq!(found(&again, &[(10, 0)]), (0, 0, 0), "by a hold of its own");
    }

    #[test]
    fn two_at_once_are_found_and_so_is_the_late_write() {
        let holds = [hold(0, 1, &[(1, 7)]), hold(1, 5, &[(5, 9)])];
        assert_eq!(found(&holds, &[(2, 0), (6, 1), (6, 0)]), (1, 2, 1));
    }

    #[test]
    fn what_was_granted_first_and_known_late_is_the_former_hold() {
        let holds = [hold(1, 5, &[(5, 9)]), hold(0, 1, &[(6, 8)])];
        assert_eq!(found(&holds, &[(7, 0)]), (1, 2, 1));
        assert_eq!(found(&holds, &[(7, 1)]), (1, 2, 0));
    }

    #[test]
    fn a_hold_with_a_stop_in_it_is_one_hold() {
        let holds = [hold(0, 1, &[(1, 2), (7, 8)]), hold(1, 5, &[(5, 9)])];
        assert_eq!(found(&holds, &[]), (1, 1, 0));
        let told = [hold(0, 1, &[(1, 2)]), hold(1, 5, &[(5, 9)])];
        assert_eq!(found(&told, &[(7, 0)]), (0, 0, 1), "its lock told it first thing");
    }
}
