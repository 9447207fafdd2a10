//! Slots, each of which one guard holds: every index is a lock of its own.

use super::pool::{POOL, grants, has_waited, spans};
use super::rules::{Moment, Rules};
use crate::clock::Instant;
use crate::history::Hold;
use crate::request::{Request, SLOTS};

pub const RULES: Rules = Rules {
    locks: SLOTS as usize,
    capacity: SLOTS,
    request: |rng, Moment { capacity, .. }| {
        let preferred = (rng.u32(..5) < 2).then(|| rng.u32(..capacity));
        Request::Slot { preferred, count: capacity }
    },
    last_turns: 3,
    broken: |history| {
        let is_strange = |hold: &&Hold| index(hold).is_none_or(|index| index >= SLOTS as usize);
        let strange = history.holds.iter().filter(is_strange);
        strange.map(|hold| format!("{} holds {:?} of {SLOTS} slots", hold.who, index(hold))).collect()
    },
    proofs: |history| {
        let is_full = grants(history).iter().any(|(_, held)| *held == SLOTS);
        let came_back = |(lost, until): &(&Hold, Instant)| {
            lost.is_lost()
                && history.holds.iter().any(|hold| hold.granted > *until && index(hold) == index(lost))
        };
        vec![
            (is_full, "the slots were never held all at the same time"),
            (history.holds.iter().any(|hold| has_waited(hold, history)), "no slot was waited for"),
            (spans(history).iter().any(came_back), "no slot that was lost was claimed again"),
        ]
    },
    ..POOL
};

fn index(hold: &Hold) -> Option<usize> {
    hold.claims.first().map(|claim| claim.lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    fn hold(who: Who, token: i64, index: usize, granted: u64, valid: u64) -> Hold {
        Hold::sample(who, token, granted, valid, &[Claim::exclusive(index)])
    }

    /// All slots are held. One is lost, and claimed again by one that has waited.
    fn history() -> History {
        let lost = Hold { end: End::Lost("the lease is over".into()), ..hold(TWO, 6, 1, 11, 20) };
        let again = Hold { asked: Instant(15), ..hold(ONE, 8, 1, 40, 50) };
        History {
            holds: vec![hold(ONE, 5, 0, 10, 30), lost, hold(THREE, 7, 2, 12, 30), again],
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Slots, history(), spoil)
    }

    #[test]
    fn each_slot_has_one_holder() {
        assert_eq!(verdict(|_| {}), []);
        let found = verdict(|it| it.holds[2].claims = vec![Claim::exclusive(0)]);
        assert_eq!(found, [(Overlaps, 1)], "an index is held twice");
        let found = verdict(|it| it.holds[3].granted = Instant(18));
        assert_eq!(found, [(Overlaps, 1), (Unproven, 1)], "it was not free yet");
        let found = verdict(|it| it.holds[3].claims = vec![Claim::exclusive(SLOTS as usize)]);
        assert_eq!(found, [(Broken, 1), (Unproven, 1)], "that index does not exist");
        assert_eq!(verdict(|it| it.holds[1].is_whole = false), [(Partial, 1)], "with another node");
    }

    #[test]
    fn a_run_that_never_fills_the_slots_proves_nothing() {
        assert_eq!(verdict(|it| drop(it.holds.remove(2))), [(Unproven, 1)], "there was always a free one");
        let found = verdict(|it| it.holds.iter_mut().for_each(|hold| hold.asked = Instant(1)));
        assert_eq!(found, [(Unproven, 1)], "nobody waited");
        assert_eq!(verdict(|it| it.holds[1].end = End::Released), [(Unproven, 1)], "nothing was lost");
    }
}
