//! Slots, each of which one guard holds: every index is a lock of its own.

use fastrand::Rng;

use super::pool::{STRETCH, TASKS, has_waited, is_lost, spans, untold};
use super::rules::Rules;
use crate::harness::Instant;
use crate::torture::history::{History, Hold};
use crate::torture::wish::{SLOTS, Wish};

pub(super) struct Places;

impl Rules for Places {
    fn locks(&self) -> usize {
        SLOTS as usize
    }

    fn wish(&self, rng: &mut Rng) -> Wish {
        Wish::Slot((rng.u32(..5) < 2).then(|| rng.u32(..SLOTS)))
    }

    fn last_turns(&self) -> u32 {
        3
    }

    fn tasks(&self, _: u16) -> u16 {
        TASKS
    }

    /// Longer than an admission takes, so that many hold at the same time.
    fn stretch(&self) -> u32 {
        STRETCH
    }

    fn is_pool(&self) -> bool {
        true
    }

    fn broken(&self, history: &History) -> Vec<String> {
        let strange =
            history.holds.iter().filter(|hold| index(hold).is_none_or(|index| index >= self.locks()));
        let strange = strange.map(|hold| format!("{} holds {:?} of {SLOTS} slots", hold.who, index(hold)));
        strange.chain(untold(history)).collect()
    }

    fn unproven(&self, history: &History) -> Vec<&'static str> {
        let spans = spans(history);
        let came_back = |(lost, until): &(&Hold, Instant)| {
            is_lost(lost)
                && history.holds.iter().any(|hold| hold.granted > *until && index(hold) == index(lost))
        };
        let proofs = [
            (was_full(&spans), "the slots were never held all at the same time"),
            (history.holds.iter().any(|hold| has_waited(hold, history)), "no slot was waited for"),
            (spans.iter().any(came_back), "no slot that was lost was claimed again"),
        ];
        proofs.into_iter().filter(|(shown, _)| !shown).map(|(_, missing)| missing).collect()
    }
}

fn index(hold: &Hold) -> Option<usize> {
    hold.claims.first().map(|claim| claim.lock)
}

fn was_full(spans: &[(&Hold, Instant)]) -> bool {
    let mut held = Vec::<Instant>::new();
    spans.iter().any(|(hold, until)| {
        held.retain(|until| *until > hold.granted);
        held.push(*until);
        held.len() == SLOTS as usize
    })
}

#[cfg(test)]
mod tests {
    use zklock::FencingToken;

    use super::*;
    use crate::harness::register::{Ledger, Write};
    use crate::torture::args::Mode;
    use crate::torture::checker::Verdict;
    use crate::torture::history::{End, Fault};
    use crate::torture::record::Who;
    use crate::torture::schedule::Kind;
    use crate::torture::wish::Claim;

    const ONE: Who = Who { client: 1, task: 1 };
    const TWO: Who = Who { client: 2, task: 1 };
    const THREE: Who = Who { client: 3, task: 1 };

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

    fn verdict(spoil: impl FnOnce(&mut History)) -> Verdict {
        let mut history = history();
        spoil(&mut history);
        history.holds.sort_by_key(|hold| hold.granted);
        Verdict { examples: Vec::new(), ..Verdict::of(Mode::Slots, &history) }
    }

    #[test]
    fn each_slot_has_one_holder_in_a_good_history() {
        assert_eq!(verdict(|_| {}), Verdict::default());
    }

    #[test]
    fn an_index_that_is_held_twice_is_an_overlap() {
        let found = verdict(|it| it.holds[2].claims = vec![Claim::exclusive(0)]);
        assert_eq!(found.overlaps, 1, "{found:?}");
        let found = verdict(|it| it.holds[3].granted = Instant(18));
        assert_eq!(found.overlaps, 1, "it was not free yet: {found:?}");
    }

    #[test]
    fn an_index_that_does_not_exist_is_broken() {
        let found = verdict(|it| it.holds[3].claims = vec![Claim::exclusive(SLOTS as usize)]);
        assert_eq!(found.broken, 1, "{found:?}");
    }

    #[test]
    fn a_token_that_does_not_grow_at_its_index_is_out_of_order() {
        let found = verdict(|it| it.holds[3].token = Some(FencingToken::new(6)));
        assert_eq!(found, Verdict { out_of_order: 1, ..Verdict::default() });
        let found = verdict(|it| it.holds[2].token = Some(FencingToken::new(1)));
        assert_eq!(found, Verdict::default(), "at another index it may be lower");
    }

    #[test]
    fn a_write_with_a_lower_token_is_out_of_order() {
        let write = |who, token, read| Write {
            at: Instant(15),
            who,
            token: Some(FencingToken::new(token)),
            read,
            value: read + 1,
        };
        let found = verdict(|it| {
            let writes = vec![write(ONE, 8, 0), write(TWO, 6, 1)];
            it.ledgers = vec![Ledger::default(), Ledger { value: 2, writes, ..Ledger::default() }];
        });
        assert_eq!(found, Verdict { out_of_order: 1, ..Verdict::default() });
    }

    #[test]
    fn a_holder_that_is_not_told_is_broken() {
        let found = verdict(|it| {
            it.holds[3].over = Instant(5_000_000_000);
            let (kind, at, servers) = (Kind::DeleteHolder, Instant(45), vec![]);
            let (client, session, holder) = (Some(1), Some(1), Some(ONE));
            it.faults.push(Fault { kind, at, until: at, servers, client, session, node: None, holder });
        });
        assert_eq!(found, Verdict { broken: 1, ..Verdict::default() });
    }

    #[test]
    fn a_guard_with_another_node_is_partial() {
        assert_eq!(verdict(|it| it.holds[1].is_whole = false).partial, 1);
    }

    #[test]
    fn a_run_that_never_fills_the_slots_proves_nothing() {
        let unproven = |spoil: fn(&mut History)| verdict(spoil).unproven;
        assert_eq!(unproven(|it| drop(it.holds.remove(2))), 1, "there was always a free one");
        assert_eq!(
            unproven(|it| it.holds.iter_mut().for_each(|hold| hold.asked = Instant(1))),
            1,
            "nobody waited"
        );
        assert_eq!(unproven(|it| it.holds[1].end = End::Released), 1, "nothing was lost");
    }
}
