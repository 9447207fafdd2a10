//! Readers and writers of one read-write lock, and contenders that know it as a plain lock.

use fastrand::Rng;

use super::rules::Rules;
use crate::harness::overlaps;
use crate::torture::history::{End, History, Hold};
use crate::torture::wish::Wish;

pub(super) struct ReadersAndWriters;

impl Rules for ReadersAndWriters {
    fn locks(&self) -> usize {
        1
    }

    fn wish(&self, rng: &mut Rng) -> Wish {
        match rng.u32(..100) {
            0..60 => Wish::Read(0),
            60..90 => Wish::Write(0),
            _ => Wish::Lock(0),
        }
    }

    fn last_turns(&self) -> u32 {
        3
    }

    fn unproven(&self, history: &History) -> Vec<&'static str> {
        let proofs = [
            (have_read_together(history), "no two readers held the lock at the same time"),
            (was_handed_over(history, false, true), "no writer handed over to a reader that waited"),
            (was_handed_over(history, true, false), "no reader handed over to a writer that waited"),
            (history.ledgers.iter().any(|ledger| !ledger.looks.is_empty()), "no reader has read"),
            (history.ledgers.iter().any(|ledger| !ledger.writes.is_empty()), "no writer has written"),
        ];
        proofs.into_iter().filter(|(shown, _)| !shown).map(|(_, missing)| missing).collect()
    }
}

fn is_reader(hold: &Hold) -> bool {
    hold.claims.iter().all(|claim| claim.shared)
}

/// Whether two readers saw their guards valid at the same time.
fn have_read_together(history: &History) -> bool {
    let readers = history.holds.iter().filter(|hold| is_reader(hold));
    let spans = readers.map(|hold| (hold.who, hold.granted, hold.seen.valid)).collect();
    overlaps(spans).iter().any(|(one, other, _)| one != other)
}

/// Whether a release was followed by the grant of one who waited then.
fn was_handed_over(history: &History, from_reader: bool, to_reader: bool) -> bool {
    history.holds.iter().zip(history.holds.iter().skip(1)).any(|(hold, next)| {
        let kinds = is_reader(hold) == from_reader && is_reader(next) == to_reader;
        kinds && hold.end == End::Released && next.asked < hold.over && hold.over <= next.granted
    })
}

#[cfg(test)]
mod tests {
    use zklock::FencingToken;

    use super::*;
    use crate::harness::Instant;
    use crate::harness::register::{Ledger, Look, Write};
    use crate::torture::args::Mode;
    use crate::torture::checker::Verdict;
    use crate::torture::record::Who;
    use crate::torture::wish::Claim;

    const WRITER: Who = Who { client: 1, task: 1 };
    const ONE: Who = Who { client: 2, task: 1 };
    const TWO: Who = Who { client: 3, task: 1 };

    fn look(who: Who, token: i64, value: u64, writes: usize) -> Look<Who> {
        Look { who, token: Some(FencingToken::new(token)), value, writes }
    }

    fn write(who: Who, token: i64, read: u64) -> Write<Who> {
        Write { at: Instant(0), who, token: Some(FencingToken::new(token)), read, value: read + 1 }
    }

    /// A writer, two readers together, a writer.
    fn history() -> History {
        let hold = |who, token, granted, valid, claim| Hold {
            asked: Instant(1),
            ..Hold::sample(who, token, granted, valid, &[claim])
        };
        let (read, alone) = (Claim::shared(0), Claim::exclusive(0));
        History {
            holds: vec![
                hold(WRITER, 5, 10, 20, alone),
                hold(TWO, 7, 30, 50, read),
                hold(ONE, 6, 31, 40, read),
                hold(WRITER, 8, 60, 70, alone),
            ],
            ledgers: vec![Ledger {
                value: 2,
                writes: vec![write(WRITER, 5, 0), write(WRITER, 8, 1)],
                looks: vec![look(TWO, 7, 1, 1), look(ONE, 6, 1, 1)],
                ..Ledger::default()
            }],
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Verdict {
        let mut history = history();
        spoil(&mut history);
        history.holds.sort_by_key(|hold| hold.granted);
        Verdict { examples: Vec::new(), ..Verdict::of(Mode::Rw, &history) }
    }

    #[test]
    fn readers_overlap_each_other_in_a_good_history() {
        let good = verdict(|_| {});
        assert_eq!(good, Verdict::default());
    }

    #[test]
    fn a_writer_overlaps_each_reader_and_each_reader_a_writer() {
        let found = verdict(|it| it.holds[3].granted = Instant(35));
        assert_eq!(found.overlaps, 2, "with both readers");
        assert_eq!(verdict(|it| it.holds[2].granted = Instant(15)).overlaps, 1, "a reader beside a writer");
    }

    /// The reader came behind the writer that waited, and was granted before it: nobody overlaps anybody.
    #[test]
    fn a_reader_that_passes_a_waiting_writer_is_out_of_order() {
        let found = verdict(|it| it.holds[1].token = Some(FencingToken::new(9)));
        assert_eq!((found.overlaps, found.out_of_order), (0, 1), "{found:?}");
    }

    #[test]
    fn a_writer_that_passes_a_waiting_reader_is_out_of_order() {
        let found = verdict(|it| {
            it.holds[0].token = Some(FencingToken::new(7));
            it.ledgers[0].writes[0].token = Some(FencingToken::new(5));
        });
        assert_eq!(found.out_of_order, 2, "both readers came before it: {found:?}");
    }

    #[test]
    fn a_write_with_a_lower_token_than_a_reader_that_has_read_is_out_of_order() {
        let found = verdict(|it| it.ledgers[0].looks[0] = look(TWO, 9, 1, 1));
        assert_eq!(found, Verdict { out_of_order: 1, ..Verdict::default() });
    }

    #[test]
    fn a_read_with_a_lower_token_than_a_write_is_out_of_order() {
        let found = verdict(|it| it.ledgers[0].looks[1] = look(ONE, 6, 2, 2));
        assert_eq!(found, Verdict { out_of_order: 1, ..Verdict::default() });
    }

    #[test]
    fn a_reader_that_reads_what_nobody_wrote_last_is_a_lost_update() {
        let found = verdict(|it| it.ledgers[0].looks[1].value = 0);
        assert_eq!(found, Verdict { lost_updates: 1, ..Verdict::default() });
    }

    #[test]
    fn a_guard_with_the_node_of_the_other_kind_is_partial() {
        assert_eq!(verdict(|it| it.holds[1].is_whole = false).partial, 1);
    }

    #[test]
    fn readers_that_never_overlap_prove_nothing() {
        let found = verdict(|it| it.holds[2].granted = Instant(55));
        assert_eq!(found, Verdict { unproven: 1, ..Verdict::default() });
        assert!(!found.passed());
    }

    #[test]
    fn a_run_without_readers_or_writers_proves_nothing() {
        let found = verdict(|it| {
            it.holds.truncate(1);
            it.ledgers[0].looks.clear();
        });
        assert_eq!(found.unproven, 4, "{found:?}");
    }
}
