//! Some of five locks at once, named in any order, besides single locks and readers.

use fastrand::Rng;

use super::rules::{Moment, ONE_LOCK, Rules};
use crate::history::{History, Hold};
use crate::request::{Claim, Request, conflict};
use crate::spans::overlaps;

const LOCKS: usize = 5;
/// The most that one acquisition names.
const MOST: usize = 3;

pub const RULES: Rules = Rules {
    locks: LOCKS,
    request,
    // With nothing to break a deadlock, contenders that could wait for each other in a circle soon do.
    last_turns: 8,
    proofs: |history| {
        vec![
            (have_held_apart(history), "no two guards of several locks each were valid at the same time"),
            (has_waited(history), "no guard of several locks was waited for"),
        ]
    },
    ..ONE_LOCK
};

fn request(rng: &mut Rng, _: Moment) -> Request {
    let mut locks: Vec<_> = (0..LOCKS).collect();
    rng.shuffle(&mut locks);
    locks.truncate(rng.usize(1..=MOST));
    let claim = |rng: &mut Rng, lock| Claim { lock, shared: rng.u32(..4) == 0 };
    match locks.as_slice() {
        [lock] => match rng.u32(..4) {
            0 => Request::Read(*lock),
            1 => Request::Write(*lock),
            2 => Request::All(vec![claim(rng, *lock)]),
            _ => Request::Lock(*lock),
        },
        several => Request::All(several.iter().map(|lock| claim(rng, *lock)).collect()),
    }
}

fn of_several(history: &History) -> impl Iterator<Item = &Hold> {
    history.holds.iter().filter(|hold| hold.claims.len() > 1)
}

/// Whether guards that need different locks did not wait for each other.
fn have_held_apart(history: &History) -> bool {
    let spans = of_several(history).map(|hold| (hold, hold.granted, hold.seen.valid)).collect();
    overlaps(spans).iter().any(|(one, other, _)| !conflict(&one.claims, &other.claims))
}

/// Whether one was granted that had asked while another one in conflict with it held.
fn has_waited(history: &History) -> bool {
    let waited = |hold: &&Hold| {
        history.holds.iter().any(|before| {
            (before.granted..before.over).contains(&hold.asked) && conflict(&before.claims, &hold.claims)
        })
    };
    of_several(history).any(|hold| waited(&hold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;

    fn all(locks: &[usize]) -> Vec<Claim> {
        locks.iter().copied().map(Claim::exclusive).collect()
    }

    /// Two that need nothing in common at once; then one that needs a lock of each, in the other order.
    fn history() -> History {
        History {
            holds: vec![
                Hold::sample(ONE, 5, 10, 20, &all(&[0, 1])),
                Hold::sample(TWO, 6, 12, 25, &all(&[2, 3])),
                Hold { asked: Instant(15), ..Hold::sample(THREE, 7, 30, 40, &all(&[3, 1, 0])) },
                Hold::sample(ONE, 8, 50, 60, &all(&[4])),
            ],
            ..History::default()
        }
    }

    fn verdict(spoil: impl FnOnce(&mut History)) -> Vec<(Wrong, u64)> {
        Verdict::spoiled(Member::Several, history(), spoil)
    }

    #[test]
    fn guards_overlap_if_they_have_a_lock_in_common() {
        assert_eq!(verdict(|_| {}), []);
        let found = verdict(|it| it.holds[2].granted = Instant(22));
        assert_eq!(found, [(Overlaps, 1)], "it has waited for the first of its locks alone");
        let found = verdict(|it| it.holds[2].granted = Instant(14));
        assert_eq!(found, [(Overlaps, 2)], "it has waited for neither");
        // An operator deleted one of its nodes, and it went on with the other lock.
        let found = verdict(|it| {
            it.holds[0].seen.valid = Instant(35);
            it.holds[0].over = Instant(36);
        });
        assert_eq!(found, [(Overlaps, 1)]);
        assert_eq!(verdict(|it| it.holds[2].is_whole = false), [(Partial, 1)]);
    }

    #[test]
    fn a_token_counts_for_each_of_the_locks() {
        let found = verdict(|it| it.holds[2].token = Some(FencingToken::new(4)));
        assert_eq!(found, [(OutOfOrder, 3)]);
        let found = verdict(|it| it.holds[3].token = Some(FencingToken::new(1)));
        assert_eq!(found, [], "nobody else held that lock");
    }

    #[test]
    fn a_run_without_several_locks_at_once_proves_nothing() {
        let found = verdict(|it| it.holds.iter_mut().for_each(|hold| hold.claims.truncate(1)));
        assert_eq!(found, [(Unproven, 2)]);
    }
}
