//! Readers and writers of one read-write lock, and contenders that know it as a plain lock.

use super::rules::{ONE_LOCK, Rules};
use crate::history::{End, History, Hold};
use crate::request::Request;
use crate::spans::overlaps;

pub const RULES: Rules = Rules {
    request: |rng, _| match rng.u32(..100) {
        0..60 => Request::Read(0),
        60..90 => Request::Write(0),
        _ => Request::Lock(0),
    },
    last_turns: 3,
    proofs: |history| {
        vec![
            (have_read_together(history), "no two readers held the lock at the same time"),
            (was_handed_over(history, false, true), "no writer handed over to a reader that waited"),
            (was_handed_over(history, true, false), "no reader handed over to a writer that waited"),
            (history.ledgers.iter().any(|ledger| !ledger.looks.is_empty()), "no reader has read"),
            (history.ledgers.iter().any(|ledger| !ledger.writes.is_empty()), "no writer has written"),
        ]
    },
    ..ONE_LOCK
};

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
    use super::*;
    use crate::samples::*;

    const WRITER: Who = Who { client: 1, task: 1 };

    fn look(who: Who, token: i64, value: u64, writes: usize) -> Look {
        Look { who, token: Some(FencingToken::new(token)), value, writes }
    }

    /// A writer, two readers together, a writer.
    fn history() -> History {
        let hold = |who, token, granted, valid, claim| Hold {
            asked: Instant(1),
            ..Hold::sample(who, token, granted, valid, &[claim])
        };
        let (read, alone) = (Claim::shared(0), Claim::exclusive(0));
        let writes = vec![Write::sample(0, WRITER, 5, 0), Write::sample(0, WRITER, 8, 1)];
        let looks = vec![look(TWO, 7, 1, 1), look(ONE, 6, 1, 1)];
        History {
            holds: vec![
                hold(WRITER, 5, 10, 20, alone),
                hold(TWO, 7, 30, 50, read),
                hold(ONE, 6, 31, 40, read),
                hold(WRITER, 8, 60, 70, alone),
            ],
            ledgers: vec![Ledger { looks, ..Ledger::sample(writes) }],
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Readwrite, history(), spoil)
    }

    #[test]
    fn readers_overlap_each_other_and_no_writer() {
        assert_eq!(verdict(|_| {}), []);
        let found = verdict(|it| it.holds[3].granted = Instant(35));
        assert_eq!(found, [(Overlaps, 2), (Unproven, 1)], "a writer with both readers");
        let found = verdict(|it| it.holds[2].granted = Instant(15));
        assert_eq!(found, [(Overlaps, 1), (Unproven, 1)], "a reader beside a writer");
        assert_eq!(
            verdict(|it| it.holds[1].is_whole = false),
            [(Partial, 1)],
            "with the node of the other kind"
        );
    }

    /// The one that passes came behind the other one, and was granted before it: nobody overlaps anybody.
    #[test]
    fn a_reader_or_a_writer_that_passes_a_waiting_one_is_out_of_order() {
        let found = verdict(|it| it.holds[1].token = Some(FencingToken::new(9)));
        assert_eq!(found, [(OutOfOrder, 1)]);
        let found = verdict(|it| {
            it.holds[0].token = Some(FencingToken::new(7));
            it.ledgers[0].writes[0].token = Some(FencingToken::new(5));
        });
        assert_eq!(found, [(OutOfOrder, 2)], "both readers came before the writer");
    }

    #[test]
    fn a_read_or_a_write_with_a_lower_token_than_one_in_conflict_is_out_of_order() {
        let found = verdict(|it| it.ledgers[0].looks[0] = look(TWO, 9, 1, 1));
        assert_eq!(found, [(OutOfOrder, 1)], "a reader has read with a higher one than the writer's");
        let found = verdict(|it| it.ledgers[0].looks[1] = look(ONE, 6, 2, 2));
        assert_eq!(found, [(OutOfOrder, 1)], "a writer has written with a higher one than the reader's");
        let found = verdict(|it| it.ledgers[0].looks[1].value = 0);
        assert_eq!(found, [(LostUpdates, 1)], "a reader reads what nobody wrote last");
    }

    #[test]
    fn a_run_without_readers_that_overlap_and_writers_proves_nothing() {
        assert_eq!(verdict(|it| it.holds[2].granted = Instant(55)), [(Unproven, 1)]);
        let found = verdict(|it| {
            it.holds.truncate(1);
            it.ledgers[0].looks.clear();
        });
        assert_eq!(found, [(Unproven, 4)]);
    }
}
