//! Slots that run once, under one lock. New ones come all the time, and several contenders claim each.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::rules::{Moment, ONE_LOCK, Rules};
use crate::clock::Instant;
use crate::history::{Effect, History};
use crate::record::{RunRecord, Who};
use crate::request::{Period, Request};
use crate::runs::{Run, RunEnd, Runs};

/// Another period comes so often in a session timeout. Holders take one a second of four, so most periods are claimed again.
const PERIODS: f64 = 8.0 / 3.0;

pub const RULES: Rules = Rules {
    request,
    // They say of a begin that nobody runs whether it had to be taken back.
    has_witnesses: true,
    broken,
    proofs,
    ..ONE_LOCK
};

/// Mostly one of the last periods, and sometimes one that is forgotten. In some cases it is the lock alone.
fn request(rng: &mut Rng, Moment { now, timeout, .. }: Moment) -> Request {
    let age = match rng.u32(..20) {
        0 => return Request::Lock(0),
        1 | 2 => rng.u64(5..15),
        _ => rng.u64(..4),
    };
    let number = (now.0 as f64 * PERIODS / timeout.as_nanos() as f64) as u64;
    let number = number.saturating_sub(age);
    Request::Run(Period { number, fails: rng.bool() })
}

fn broken(history: &History) -> Vec<String> {
    let runs = &history.runs;
    let of_period = by_period(runs);
    let mut broken = Vec::new();
    for (period, all) in &of_period {
        if !retries(*period) && all.len() > 1 {
            broken.push(format!("period {period} began {} times without a retry: {all:?}", all.len()));
        }
        for (earlier, later) in all.iter().zip(all.iter().skip(1)) {
            if is_success(earlier) {
                broken.push(format!(
                    "period {period} began after its success was recorded: {earlier:?}, {later:?}"
                ));
            }
        }
        if let Some(last) = all.last() {
            broken.extend(unrecorded(runs, last));
        }
    }
    let told = runs.told.iter().map(|told| (told.period.number, &told.kept, (told.asked, told.at)));
    // The records were read when all was over.
    let last = (Instant(u64::MAX), Instant(u64::MAX));
    let records = runs.records.iter();
    let kept = records.filter_map(|(name, kept)| Some((Period::number_of(name)?, kept, last)));
    for (period, kept, (asked, at)) in told.chain(kept) {
        let all = of_period.get(&period).map(Vec::as_slice).unwrap_or_default();
        if !is_true(kept, all, asked) && !is_left(history, period, kept, at) {
            broken.push(format!("a record of period {period} was invented: {kept:?} of {all:?}"));
        }
        let begun = all.iter().filter(|run| zxid(run) <= Some(kept.token)).count();
        if (kept.attempt as usize) < begun {
            broken
                .push(format!("period {period} has begun {begun} times, and not {}: {kept:?}", kept.attempt));
        }
        if kept.attempt > 1 && !retries(period) {
            broken.push(format!("period {period} began {} times without a retry", kept.attempt));
        }
    }
    // Nobody but zklock writes to records.
    broken.extend(runs.blamed.iter().map(|run| format!("somebody has changed the record of {run:?}")));
    // Ranges only grow.
    for name in runs.forgotten.iter().map(Period::to_string).filter(|name| !runs.is_dropped(name)) {
        broken.push(format!("{name} was told to be forgotten, and no record of it was ever dropped"));
    }
    broken
}

fn proofs(history: &History) -> Vec<(bool, &'static str)> {
    let runs = &history.runs;
    let of_period = by_period(runs);
    let told = |state: &str| runs.told.iter().any(|told| told.kept.state == state);
    let again = |before: fn(&Run) -> bool| {
        of_period.values().any(|all| all.iter().rev().skip(1).any(|run| before(run)))
    };
    vec![
        (told("succeeded"), "no claim was told of a success"),
        (told("failed"), "no claim was told of a failure"),
        (told("begun"), "no claim was told of a run that never ended"),
        (again(|run| run.period.fails), "no period ran again after a failure"),
        (again(|run| run.end == RunEnd::Open), "no period ran again after its holder had vanished"),
        (!runs.forgotten.is_empty(), "no claim was told that its period is forgotten"),
        (!runs.witnessed.is_empty(), "no session was known to have its guards"),
    ]
}

fn retries(number: u64) -> bool {
    Period { number, fails: false }.retries()
}

fn by_period(runs: &Runs) -> BTreeMap<u64, Vec<&Run>> {
    let mut of_period = BTreeMap::<u64, Vec<&Run>>::new();
    for run in &runs.runs {
        of_period.entry(run.period.number).or_default().push(run);
    }
    of_period
}

/// The end that this run recorded, or may have recorded.
fn state(run: &Run) -> &'static str {
    if run.period.fails { "failed" } else { "succeeded" }
}

fn zxid(run: &Run) -> Option<i64> {
    run.token.map(|token| token.zxid())
}

fn is_success(run: &Run) -> bool {
    !run.period.fails && matches!(run.end, RunEnd::Recorded(_))
}

/// Whether a claim that was made at this instant may be told this of one of these runs.
fn is_true(kept: &RunRecord, all: &[&Run], asked: Instant) -> bool {
    let its = all.iter().find(|run| zxid(run) == Some(kept.token));
    its.is_some_and(|run| match run.end {
        RunEnd::Recorded(by) if kept.state == "begun" => asked <= by,
        RunEnd::Open | RunEnd::Denied => kept.state == "begun",
        RunEnd::Unsure | RunEnd::Recorded(_) => kept.state == "begun" || kept.state == state(run),
    })
}

/// Whether a record that was read by this instant may say that a run has begun, though no claim returned it. A claim takes
/// its begin back if nobody runs it. It cannot do so if its process is killed, or its guard is lost. Or it says that it is
/// unsure.
fn is_left(history: &History, period: u64, kept: &RunRecord, at: Instant) -> bool {
    let Ok(owner) = kept.owner.parse::<Who>() else { return false };
    let granted = || history.holds.iter().filter_map(|hold| Some((hold.token?.zxid(), hold)));
    if kept.state != "begun" || granted().any(|(zxid, _)| zxid == kept.token) {
        return false;
    }
    // The node of the claim is gone by the next grant.
    let gone = granted().filter(|(zxid, _)| *zxid > kept.token).map(|(_, hold)| hold.granted).min();
    let until = gone.unwrap_or(at).min(at);
    let claims =
        history.runs.claims.iter().filter(|claim| claim.who == owner && claim.period.number == period);
    // Tokens grow, so a grant before the claim has a lower one, and one that was asked for after it has a higher one.
    let mut claims = claims.filter(|claim| {
        granted().all(|(zxid, hold)| match zxid < kept.token {
            true => hold.asked < claim.ended,
            false => hold.granted > claim.asked,
        })
    });
    claims.any(|claim| {
        let is_touched = history.faults.iter().any(|fault| {
            let is_meanwhile = fault.at <= until && fault.until >= claim.asked;
            fault.node == Some(kept.token) || (fault.effect == Effect::TakesHold && is_meanwhile)
        });
        let until = claim.taken_back.unwrap_or(until);
        claim.is_unsure || is_touched || !history.runs.had_guards(owner.client, claim.asked, until)
    })
}

/// Whether the end of the last run of a period was recorded, and has no record.
fn unrecorded(runs: &Runs, last: &Run) -> Option<String> {
    let (RunEnd::Recorded(_), name) = (last.end, last.period.to_string()) else { return None };
    let is_kept = match runs.records.get(&name) {
        // A claim may have begun a failed period again, and nobody ever held its turn.
        Some(kept) if last.period.fails && last.period.retries() => Some(kept.token) >= zxid(last),
        Some(kept) => kept.state == state(last) && Some(kept.token) == zxid(last),
        None => runs.is_dropped(&name),
    };
    (!is_kept).then(|| format!("the end of {last:?} is lost: {:?}", runs.records.get(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{Claimed, Refusal};
    use crate::samples::*;

    /// Without a retry.
    const ONCE: u64 = 101;
    /// With one.
    const AGAIN: u64 = 102;

    fn run(number: u64, fails: bool, token: i64, end: RunEnd) -> Run {
        let (who, granted) = (Who { client: 1, task: 1 }, Instant(token.unsigned_abs()));
        Run { who, period: Period { number, fails }, token: Some(FencingToken::new(token)), granted, end }
    }

    fn recorded(number: u64, fails: bool, token: i64) -> Run {
        run(number, fails, token, RunEnd::Recorded(Instant(9)))
    }

    fn kept(state: &str, token: i64) -> RunRecord {
        RunRecord { state: state.to_owned(), owner: "c1.1".to_owned(), token, attempt: 1 }
    }

    fn told(number: u64, kept: RunRecord) -> Refusal {
        let period = Period { number, fails: false };
        Refusal { period, kept, asked: Instant(9), at: Instant(50) }
    }

    fn name(number: u64) -> String {
        Period { number, fails: false }.to_string()
    }

    /// A period that failed, and succeeded then; one that succeeded; one that was abandoned, and began again; a forgotten one.
    fn good() -> Runs {
        let runs = vec![
            recorded(AGAIN, true, 1),
            recorded(AGAIN, false, 2),
            recorded(ONCE, false, 3),
            run(AGAIN + 3, false, 4, RunEnd::Open),
            run(AGAIN + 3, false, 5, RunEnd::Unsure),
            recorded(ONCE - 1, true, 6),
        ];
        let second = |state, token| RunRecord { attempt: 2, ..kept(state, token) };
        let records =
            [(AGAIN, second("succeeded", 2)), (ONCE, kept("succeeded", 3)), (AGAIN + 3, second("begun", 5))];
        let told = [(AGAIN, kept("failed", 1)), (ONCE, kept("succeeded", 3)), (AGAIN + 3, kept("begun", 4))];
        Runs {
            runs,
            claims: Vec::new(),
            blamed: Vec::new(),
            told: told.map(|(number, kept)| self::told(number, kept)).to_vec(),
            forgotten: vec![Period { number: ONCE - 5, fails: true }],
            witnessed: [((1, Instant(10)), Instant(60))].into(),
            records: records.into_iter().map(|(number, kept)| (name(number), kept)).collect(),
            ranges: vec![(name(ONCE - 9), name(ONCE - 1))],
        }
    }

    fn judged(spoil: impl FnOnce(&mut Runs)) -> [usize; 2] {
        let mut history = History { runs: good(), ..History::default() };
        spoil(&mut history.runs);
        [broken(&history).len(), RULES.unproven(&history).count()]
    }

    #[test]
    fn a_good_run_breaks_nothing_and_shows_all() {
        assert_eq!(judged(|_| {}), [0, 0]);
    }

    #[test]
    fn a_period_that_begins_twice_without_a_retry_is_broken() {
        // A claim was told of that run, as one of another period.
        assert_eq!(judged(|runs| runs.runs[3].period.number = ONCE - 1), [2, 0]);
        assert_eq!(judged(|runs| runs.told[1].kept.attempt = 2), [1, 0]);
        let forgotten = |runs: &mut Runs| drop(runs.records.insert(name(AGAIN), kept("succeeded", 2)));
        assert_eq!(judged(forgotten), [1, 0], "an attempt is forgotten");
    }

    #[test]
    fn a_run_after_a_success_is_broken() {
        let again = run(AGAIN, false, 7, RunEnd::Open);
        assert_eq!(judged(|runs| runs.runs.push(again))[0], 1);
    }

    #[test]
    fn an_end_that_was_denied_is_nowhere_and_nobody_else_is_blamed() {
        assert_eq!(judged(|runs| runs.runs[4].end = RunEnd::Denied), [0, 0]);
        assert_eq!(judged(|runs| runs.runs[2].end = RunEnd::Denied)[0], 2, "it was told, and it is there");
        assert_eq!(judged(|runs| runs.blamed.push(runs.runs[4])), [1, 0]);
    }

    #[test]
    fn a_recorded_end_that_is_lost_is_broken() {
        assert_eq!(judged(|runs| drop(runs.records.remove(&name(ONCE)))), [1, 0]);
        assert_eq!(
            judged(|runs| runs.ranges.clear()),
            [2, 0],
            "it is lost, and a claim was told that it is forgotten"
        );
        assert_eq!(
            judged(|runs| runs.records.get_mut(&name(ONCE)).unwrap().state = "begun".to_owned()),
            [2, 0],
            "lost, and not what its holder recorded"
        );
    }

    #[test]
    fn an_invented_end_is_broken() {
        assert_eq!(judged(|runs| runs.told[2].kept.state = "succeeded".to_owned())[0], 1);
        assert_eq!(judged(|runs| runs.told[0].kept.token = 8), [2, 0], "nor is that the attempt");
        assert_eq!(judged(|runs| runs.runs[2].end = RunEnd::Open), [2, 0], "told, and kept");
    }

    #[test]
    fn a_begin_that_was_told_after_its_end_was_recorded_is_broken() {
        let late = |asked| {
            judged(|runs| {
                runs.told.push(Refusal { asked: Instant(asked), ..told(ONCE, kept("begun", 3)) });
            })
        };
        assert_eq!([late(9), late(10)], [[0, 0], [1, 0]]);
    }

    #[test]
    fn a_period_that_was_told_to_be_forgotten_and_is_not_is_broken() {
        for number in [ONCE - 10, ONCE] {
            assert_eq!(judged(|runs| runs.forgotten.push(Period { number, fails: false })), [1, 0]);
        }
    }

    /// A claim, between two grants of others, that left a record of a begin. Its session had its guards all the time.
    fn left(spoil: impl FnOnce(&mut History)) -> usize {
        const LEFT: u64 = 200;
        let other = Who { client: 2, task: 1 };
        let mut history = History { runs: good(), ..History::default() };
        for (token, granted) in [(19, 25), (21, 45)] {
            history.holds.push(Hold::sample(other, token, granted, granted + 1, &[Claim::exclusive(0)]));
        }
        let (who, period) = (Who { client: 1, task: 1 }, Period { number: LEFT, fails: false });
        let (asked, ended, is_unsure) = (Instant(30), Instant(40), false);
        history.runs.claims.push(Claimed { who, period, asked, ended, is_unsure, taken_back: None });
        history.runs.told.push(told(LEFT, kept("begun", 20)));
        spoil(&mut history);
        broken(&history).len()
    }

    fn witnessed(history: &mut History, since: u64, valid: u64) {
        history.runs.witnessed = [((1, Instant(since)), Instant(valid))].into();
    }

    #[test]
    fn a_begin_that_nobody_ran_and_nobody_took_back_is_broken() {
        assert_eq!(left(|_| {}), 1);
        assert_eq!(left(|it| witnessed(it, 30, 45)), 1);
        let closed = |it: &mut History| {
            witnessed(it, 30, 35);
            it.runs.claims[0].taken_back = Some(Instant(35));
        };
        assert_eq!(left(closed), 1);
        // It is still there in the end.
        let kept = kept("begun", 20);
        assert_eq!(left(|it| drop(it.runs.records.insert(name(200), kept))), 2);
    }

    #[test]
    fn a_begin_may_be_left_if_its_claim_could_not_take_it_back_or_says_so() {
        assert_eq!(left(|it| witnessed(it, 30, 44)), 0, "the guard was lost, or the process was killed");
        assert_eq!(left(|it| witnessed(it, 31, 60)), 0);
        assert_eq!(left(|it| it.runs.witnessed.clear()), 0);
        assert_eq!(left(|it| it.runs.claims[0].is_unsure = true), 0);
        let fault = |kind, at, node| {
            left(|it| {
                it.faults.push(Fault { node, ..Fault::sample(kind, at) });
            })
        };
        assert_eq!(fault(Effect::Writes, 35, Some(20)), 0, "somebody wrote to its node");
        assert_eq!(fault(Effect::Writes, 35, Some(18)), 1);
        assert_eq!(fault(Effect::TakesHold, 35, None), 0);
        assert_eq!(fault(Effect::TakesHold, 29, None), 1);
        assert_eq!(fault(Effect::TakesHold, 46, None), 1);
    }

    #[test]
    fn a_begin_that_nobody_wrote_is_broken_whatever_else_happened() {
        let lawless = |spoil: fn(&mut History)| {
            left(|it| {
                it.runs.witnessed.clear();
                spoil(it);
            })
        };
        assert_eq!(lawless(|it| it.runs.claims.clear()), 1);
        assert_eq!(lawless(|it| it.runs.claims[0].period.number += 1), 1, "it claimed another period");
        assert_eq!(lawless(|it| it.runs.claims[0].who.client = 2), 1, "another contender claimed it");
        assert_eq!(lawless(|it| it.runs.claims[0].ended = Instant(25)), 1, "the claim was over by then");
        assert_eq!(lawless(|it| it.runs.claims[0].asked = Instant(45)), 1, "the claim came later");
        assert_eq!(
            lawless(|it| it.holds[0].token = Some(FencingToken::new(20))),
            1,
            "a token of another hold"
        );
    }

    #[test]
    fn a_run_that_shows_too_little_is_unproven() {
        assert_eq!(judged(|runs| runs.told.clear()), [0, 3]);
        assert_eq!(judged(|runs| runs.witnessed.clear()), [0, 1]);
        assert_eq!(judged(|runs| runs.forgotten.clear()), [0, 1]);
    }
}
