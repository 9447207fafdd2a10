//! Slots that run once, under one lock. New ones come all the time, and several contenders claim each.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::rules::Rules;
use crate::harness::Instant;
use crate::torture::history::History;
use crate::torture::runs::{Kept, Run, RunEnd, Runs};
use crate::torture::wish::{SlotName, Wish};

/// Another slot comes so often, in nanoseconds. Holders take one a second, so most slots are claimed again.
const PERIOD: u64 = 1_500_000_000;

pub(super) struct SlotsThatRunOnce;

impl Rules for SlotsThatRunOnce {
    fn locks(&self) -> usize {
        1
    }

    /// Mostly one of the last slots, and sometimes one that is forgotten. In some cases it is the lock alone.
    fn wish(&self, rng: &mut Rng) -> Wish {
        let age = match rng.u32(..20) {
            0 => return Wish::Lock(0),
            1 | 2 => rng.u64(5..15),
            _ => rng.u64(..4),
        };
        let number = (Instant::now().0 / PERIOD).saturating_sub(age);
        Wish::Run(SlotName { number, fails: rng.bool() })
    }

    fn last_turns(&self) -> u32 {
        1
    }

    fn broken(&self, history: &History) -> Vec<String> {
        let runs = &history.runs;
        let of_slot = by_slot(runs);
        let mut broken = Vec::new();
        for (slot, all) in &of_slot {
            if !slot_retries(*slot) && all.len() > 1 {
                broken.push(format!("slot {slot} began {} times without a retry: {all:?}", all.len()));
            }
            for (earlier, later) in all.iter().zip(all.iter().skip(1)) {
                if is_success(earlier) {
                    broken.push(format!(
                        "slot {slot} began after its success was recorded: {earlier:?}, {later:?}"
                    ));
                }
            }
            if let Some(last) = all.last() {
                broken.extend(unrecorded(runs, last));
            }
        }
        let told = runs.told.iter().map(|(slot, kept)| (slot.number, kept));
        let kept = runs.records.iter().filter_map(|(name, kept)| Some((SlotName::number_of(name)?, kept)));
        for (slot, kept) in told.chain(kept) {
            let all = of_slot.get(&slot).map(Vec::as_slice).unwrap_or_default();
            if !is_true(kept, all) {
                broken.push(format!("a record of slot {slot} was invented: {kept:?} of {all:?}"));
            }
            if kept.attempt > 1 && !slot_retries(slot) {
                broken.push(format!("slot {slot} began {} times without a retry", kept.attempt));
            }
        }
        broken
    }

    fn unproven(&self, history: &History) -> Vec<&'static str> {
        let runs = &history.runs;
        let of_slot = by_slot(runs);
        let told = |state: &str| runs.told.iter().any(|(_, kept)| kept.state == state);
        let again = |before: fn(&Run) -> bool| {
            of_slot.values().any(|all| all.iter().rev().skip(1).any(|run| before(run)))
        };
        let proofs = [
            (told("succeeded"), "no claim was told of a success"),
            (told("failed"), "no claim was told of a failure"),
            (told("begun"), "no claim was told of a run that never ended"),
            (again(|run| run.slot.fails), "no slot ran again after a failure"),
            (again(|run| run.end == RunEnd::Open), "no slot ran again after its holder had vanished"),
            (runs.forgotten > 0, "no claim was told that its slot is forgotten"),
        ];
        proofs.into_iter().filter(|(shown, _)| !shown).map(|(_, missing)| missing).collect()
    }
}

fn slot_retries(number: u64) -> bool {
    SlotName { number, fails: false }.retries()
}

/// The runs of each slot, in order.
fn by_slot(runs: &Runs) -> BTreeMap<u64, Vec<&Run>> {
    let mut of_slot = BTreeMap::<u64, Vec<&Run>>::new();
    for run in &runs.runs {
        of_slot.entry(run.slot.number).or_default().push(run);
    }
    of_slot
}

/// The end that this run recorded, or may have recorded.
fn state(run: &Run) -> &'static str {
    if run.slot.fails { "failed" } else { "succeeded" }
}

fn zxid(run: &Run) -> Option<i64> {
    run.token.map(|token| token.zxid())
}

fn is_success(run: &Run) -> bool {
    !run.slot.fails && matches!(run.end, RunEnd::Recorded(_))
}

/// Whether what a record says of the end of a run is what its holder recorded. Nobody may have seen that a run began.
fn is_true(kept: &Kept, all: &[&Run]) -> bool {
    let its = all.iter().find(|run| zxid(run) == Some(kept.token));
    kept.state == "begun" || its.is_some_and(|run| run.end != RunEnd::Open && state(run) == kept.state)
}

/// Whether the end of the last run of a slot was recorded, and has no record.
fn unrecorded(runs: &Runs, last: &Run) -> Option<String> {
    let (RunEnd::Recorded(_), name) = (last.end, last.slot.to_string()) else { return None };
    let is_kept = match runs.records.get(&name) {
        // A claim may have begun a failed slot again, and nobody ever held its turn.
        Some(kept) if last.slot.fails && last.slot.retries() => Some(kept.token) >= zxid(last),
        Some(kept) => kept.state == state(last) && Some(kept.token) == zxid(last),
        None => runs.ranges.iter().any(|(first, last)| (first..=last).contains(&&name)),
    };
    (!is_kept).then(|| format!("the end of {last:?} is lost: {:?}", runs.records.get(&name)))
}

#[cfg(test)]
mod tests {
    use zklock::FencingToken;

    use super::*;
    use crate::torture::record::Who;

    /// Without a retry.
    const ONCE: u64 = 101;
    /// With one.
    const AGAIN: u64 = 102;

    fn run(number: u64, fails: bool, token: i64, end: RunEnd) -> Run {
        let (who, granted) = (Who { client: 1, task: 1 }, Instant(token.unsigned_abs()));
        Run { who, slot: SlotName { number, fails }, token: Some(FencingToken::new(token)), granted, end }
    }

    fn recorded(number: u64, fails: bool, token: i64) -> Run {
        run(number, fails, token, RunEnd::Recorded(Instant(9)))
    }

    fn kept(state: &str, token: i64) -> Kept {
        Kept { state: state.to_owned(), token, attempt: 1 }
    }

    fn name(number: u64) -> String {
        SlotName { number, fails: false }.to_string()
    }

    /// A slot that failed, and succeeded then; one that succeeded; one that was abandoned, and began again; a forgotten one.
    fn good() -> Runs {
        let runs = vec![
            recorded(AGAIN, true, 1),
            recorded(AGAIN, false, 2),
            recorded(ONCE, false, 3),
            run(AGAIN + 3, false, 4, RunEnd::Open),
            run(AGAIN + 3, false, 5, RunEnd::Unsure),
            recorded(ONCE - 1, true, 6),
        ];
        let records =
            [(AGAIN, kept("succeeded", 2)), (ONCE, kept("succeeded", 3)), (AGAIN + 3, kept("begun", 5))];
        let slot = |number| SlotName { number, fails: false };
        let told = [(AGAIN, kept("failed", 1)), (ONCE, kept("succeeded", 3)), (AGAIN + 3, kept("begun", 4))];
        Runs {
            runs,
            told: told.map(|(number, kept)| (slot(number), kept)).to_vec(),
            forgotten: 1,
            records: records.into_iter().map(|(number, kept)| (name(number), kept)).collect(),
            ranges: vec![(name(ONCE - 9), name(ONCE - 1))],
        }
    }

    fn judged(spoil: impl FnOnce(&mut Runs)) -> [usize; 2] {
        let mut runs = good();
        spoil(&mut runs);
        let history = History { runs, ..History::default() };
        [SlotsThatRunOnce.broken(&history).len(), SlotsThatRunOnce.unproven(&history).len()]
    }

    #[test]
    fn a_good_run_breaks_nothing_and_shows_all() {
        assert_eq!(judged(|_| {}), [0, 0]);
    }

    #[test]
    fn a_slot_that_begins_twice_without_a_retry_is_broken() {
        assert_eq!(judged(|runs| runs.runs[3].slot.number = ONCE - 1), [1, 0]);
        assert_eq!(judged(|runs| runs.told[1].1.attempt = 2), [1, 0]);
    }

    #[test]
    fn a_run_after_a_success_is_broken() {
        let again = run(AGAIN, false, 7, RunEnd::Open);
        assert_eq!(judged(|runs| runs.runs.push(again))[0], 1);
    }

    #[test]
    fn a_recorded_end_that_is_lost_is_broken() {
        assert_eq!(judged(|runs| drop(runs.records.remove(&name(ONCE)))), [1, 0]);
        assert_eq!(judged(|runs| runs.ranges.clear()), [1, 0]);
        assert_eq!(
            judged(|runs| runs.records.get_mut(&name(ONCE)).unwrap().state = "begun".to_owned()),
            [1, 0]
        );
    }

    #[test]
    fn an_invented_end_is_broken() {
        assert_eq!(judged(|runs| runs.told[2].1.state = "succeeded".to_owned())[0], 1);
        assert_eq!(judged(|runs| runs.told[0].1.token = 8), [1, 0]);
        assert_eq!(judged(|runs| runs.runs[2].end = RunEnd::Open), [2, 0], "told, and kept");
    }

    #[test]
    fn a_run_that_shows_too_little_is_unproven() {
        assert_eq!(judged(|runs| runs.told.clear()), [0, 3]);
        assert_eq!(judged(|runs| runs.forgotten = 0), [0, 1]);
    }
}
