//! Every transition of a claim, and the commands that follow from it.

use super::*;

/// The token of the present guard, and of one that the claim had before.
const OURS: i64 = 9;
const LOST: i64 = 8;

type ClaimSent = ClaimCommand<char, ()>;
type ClaimTold = ClaimEvent<char, ()>;

fn record(progress: Progress, token: i64) -> SeenRecord {
    SeenRecord { progress, token, attempt: 2, version: 4, data: vec![5] }
}

fn page(record: Option<SeenRecord>) -> Page<char> {
    Page { record, may_be_forgotten: false, rest: 'p' }
}

fn looked(record: Option<SeenRecord>) -> ClaimTold {
    ClaimEvent::Looked(Some(page(record)))
}

fn tell(outcome: ClaimOutcome<char, ()>) -> Vec<ClaimSent> {
    vec![ClaimCommand::Tell(outcome)]
}

/// A claim under the present guard, after some events, and what it remembers of one guard before.
#[derive(Clone, Debug)]
struct After(ClaimMachine<char>, Begins);

fn after(retry: bool, events: &[ClaimTold]) -> After {
    let mut begins = Begins { unstarted: vec![LOST], before: None };
    let mut claim = ClaimMachine::new(OURS, retry);
    assert_eq!(claim.handle::<()>(&mut begins, ClaimEvent::Begin), [ClaimCommand::Look]);
    for event in events {
        claim.handle(&mut begins, event.clone());
    }
    After(claim, begins)
}

impl After {
    fn check<const N: usize>(&self, rows: [(ClaimTold, Vec<ClaimSent>); N]) {
        for (event, commands) in rows {
            let Self(mut claim, mut begins) = self.clone();
            assert_eq!(claim.handle(&mut begins, event.clone()), commands, "{self:?}, {event:?}");
        }
    }
}

/// One that has sent a begin, for the first attempt.
fn writing() -> Vec<ClaimTold> {
    vec![looked(None), ClaimEvent::Prepared('q')]
}

#[test]
fn a_run_without_a_record_begins_unless_it_may_be_forgotten() {
    for retry in [false, true] {
        let forgotten = Page { may_be_forgotten: true, ..page(None) };
        after(retry, &[]).check([
            (looked(None), vec![ClaimCommand::Prepare('p')]),
            (
                ClaimEvent::Looked(Some(forgotten)),
                vec![ClaimCommand::Tell(ClaimOutcome::Forgotten('p')), ClaimCommand::Verify],
            ),
            (ClaimEvent::Looked(None), vec![ClaimCommand::Create]),
        ]);
    }
    after(false, &[ClaimEvent::Looked(None)]).check([(ClaimEvent::Created, vec![ClaimCommand::Look])]);
    after(false, &[looked(None)])
        .check([(ClaimEvent::Prepared('q'), vec![ClaimCommand::Write(1, None, 'q')])]);
}

/// That records of its name were dropped matters only without a record.
#[test]
fn a_record_decides() {
    let runs = vec![ClaimCommand::Prepare('p')];
    for (progress, token, retry, commands) in [
        (Progress::Ended(RunEnd::Succeeded), 7, false, vec![ClaimCommand::Release]),
        (Progress::Ended(RunEnd::Succeeded), 7, true, vec![ClaimCommand::Release]),
        (Progress::Ended(RunEnd::Succeeded), LOST, true, vec![ClaimCommand::Release]),
        (Progress::Ended(RunEnd::Failed), 7, false, vec![ClaimCommand::Release]),
        (Progress::Ended(RunEnd::Failed), 7, true, runs.clone()),
        (Progress::Begun, 7, false, vec![ClaimCommand::Release]),
        (Progress::Begun, 7, true, runs.clone()),
        // Its own begins are no runs.
        (Progress::Begun, LOST, false, runs.clone()),
        (Progress::Begun, LOST, true, runs),
        (Progress::Begun, OURS, false, tell(ClaimOutcome::Runs(2, 4))),
        (Progress::Begun, OURS, true, tell(ClaimOutcome::Runs(2, 4))),
    ] {
        let seen = Page { may_be_forgotten: true, ..page(Some(record(progress, token))) };
        after(retry, &[]).check([(ClaimEvent::Looked(Some(seen)), commands)]);
    }
}

#[test]
fn an_attempt_is_counted_once() {
    for (token, attempt) in [(7, 3), (LOST, 2)] {
        let begun = record(Progress::Begun, token);
        after(true, &[looked(Some(begun.clone()))])
            .check([(ClaimEvent::Prepared('q'), vec![ClaimCommand::Write(attempt, Some(begun), 'q')])]);
    }
}

#[test]
fn writing_the_begin() {
    after(false, &writing()).check([
        (ClaimEvent::Written, tell(ClaimOutcome::Runs(1, 0))),
        (ClaimEvent::Contested, vec![ClaimCommand::Look]),
        (ClaimEvent::Unanswered, vec![ClaimCommand::Verify]),
        (ClaimEvent::Failed(()), vec![ClaimCommand::Tell(ClaimOutcome::Failed(())), ClaimCommand::Verify]),
        (ClaimEvent::Lost, tell(ClaimOutcome::Displaced)),
        // It may have been written.
        (ClaimEvent::GiveUp, vec![ClaimCommand::Verify]),
    ]);
    let unknown = [writing(), vec![ClaimEvent::Unanswered]].concat();
    after(false, &unknown).check([
        (ClaimEvent::Verified, vec![ClaimCommand::Look]),
        (ClaimEvent::Lost, tell(ClaimOutcome::Displaced)),
    ]);
}

#[test]
fn requests_before_the_begin() {
    for events in [vec![], vec![ClaimEvent::Looked(None)], vec![looked(None)]] {
        after(false, &events).check([
            (ClaimEvent::Unanswered, vec![ClaimCommand::Verify]),
            (ClaimEvent::Lost, tell(ClaimOutcome::Displaced)),
            (
                ClaimEvent::Failed(()),
                vec![ClaimCommand::Tell(ClaimOutcome::Failed(())), ClaimCommand::Verify],
            ),
            // An earlier guard has sent one.
            (ClaimEvent::GiveUp, vec![ClaimCommand::Verify]),
            (ClaimEvent::Written, vec![]),
        ]);
    }
    let mut first = ClaimMachine::<char>::new(OURS, false);
    let mut none = Begins::default();
    first.handle::<()>(&mut none, ClaimEvent::Begin);
    assert_eq!(first.handle::<()>(&mut none, ClaimEvent::GiveUp), []);
    assert!(first.is_ended() && !none.is_any());
}

#[test]
fn a_run_that_is_done_releases_the_lock_first() {
    let done = record(Progress::Ended(RunEnd::Succeeded), 7);
    let releasing = after(false, &[looked(Some(done.clone()))]);
    let told = || tell(ClaimOutcome::Done(page(Some(done.clone()))));
    releasing.check([
        (ClaimEvent::Released, told()),
        (ClaimEvent::Lost, told()),
        (ClaimEvent::GiveUp, vec![]),
    ]);
}

#[test]
fn looks_end() {
    let After(mut claim, mut begins) = after(false, &[]);
    for _ in 1..TRIES {
        assert_eq!(claim.handle::<()>(&mut begins, ClaimEvent::Unanswered), [ClaimCommand::Verify]);
        assert_eq!(claim.handle::<()>(&mut begins, ClaimEvent::Verified), [ClaimCommand::Look]);
    }
    assert_eq!(claim.handle::<()>(&mut begins, ClaimEvent::Unanswered), [ClaimCommand::Verify]);
    assert_eq!(
        claim.handle::<()>(&mut begins, ClaimEvent::Verified),
        [ClaimCommand::Tell(ClaimOutcome::Unconfirmed), ClaimCommand::Verify]
    );
}

#[test]
fn a_begin_that_nobody_takes_is_taken_back() {
    let gone = [writing(), vec![ClaimEvent::GiveUp]].concat();
    after(false, &gone).check([
        (ClaimEvent::Verified, vec![ClaimCommand::Look]),
        (ClaimEvent::Lost, vec![]),
        (ClaimEvent::GiveUp, vec![]),
    ]);
    let looking = [gone, vec![ClaimEvent::Verified]].concat();
    let ours = |token| record(Progress::Begun, token);
    after(false, &looking).check([
        (looked(Some(ours(OURS))), vec![ClaimCommand::Restore(ours(OURS), None)]),
        (looked(Some(ours(LOST))), vec![ClaimCommand::Restore(ours(LOST), None)]),
        (looked(Some(ours(7))), vec![]),
        (looked(Some(record(Progress::Ended(RunEnd::Failed), OURS))), vec![]),
        (looked(None), vec![]),
        (ClaimEvent::Looked(None), vec![]),
        (ClaimEvent::Failed(()), vec![]),
        (ClaimEvent::Lost, vec![]),
        (ClaimEvent::Unanswered, vec![ClaimCommand::Verify]),
    ]);
    let restoring = after(false, &[looking, vec![looked(Some(ours(OURS)))]].concat());
    restoring.check([
        (ClaimEvent::Written, vec![]),
        (ClaimEvent::Contested, vec![]),
        (ClaimEvent::Lost, vec![]),
        (ClaimEvent::Unanswered, vec![ClaimCommand::Verify]),
    ]);
    let After(mut claim, mut begins) = restoring;
    claim.handle::<()>(&mut begins, ClaimEvent::Written);
    assert!(claim.is_ended());
}

/// A claim that loses the lock behind its begin, and begins again, still knows whose record it has replaced.
#[test]
fn what_a_begin_has_replaced_is_written_again() {
    let failed = SeenRecord { data: vec![6], ..record(Progress::Ended(RunEnd::Failed), 7) };
    let back = |found: Option<SeenRecord>, mut begins: Begins| {
        let mut claim = ClaimMachine::new(OURS, true);
        claim.handle::<()>(&mut begins, ClaimEvent::Begin);
        for event in [looked(found), ClaimEvent::Prepared('q'), ClaimEvent::GiveUp, ClaimEvent::Verified] {
            claim.handle(&mut begins, event);
        }
        let restored = claim.handle::<()>(&mut begins, looked(Some(record(Progress::Begun, OURS))));
        let [ClaimCommand::Restore(_, before)] = &restored[..] else { panic!("{restored:?}") };
        (before.clone(), begins)
    };
    let (before, begins) = back(Some(failed), Begins::default());
    assert_eq!(before, Some(vec![6]));
    let begins = Begins { unstarted: vec![LOST], ..begins };
    assert_eq!(back(Some(record(Progress::Begun, LOST)), begins.clone()).0, Some(vec![6]));
    assert_eq!(back(None, begins).0, None, "an operator has deleted it");
}

#[test]
fn each_transaction_names_what_was_seen() {
    use ClaimTarget::{Dropped, Record, Records};
    use Operation::{Check, Create, Delete, Set};

    assert_eq!(begin::<char>(3, [], None), [Check(Records, Some(3)), Create(Record)]);
    let replaces = [
        Set(Records, Some(3)),
        Delete(Dropped('a'), Some(1)),
        Delete(Dropped('b'), Some(2)),
        Delete(Record, Some(4)),
        Create(Record),
    ];
    assert_eq!(begin(3, [('a', 1), ('b', 2)], Some(4)), replaces);
    assert_eq!([restore(4, true), restore(4, false)], [Set((), Some(4)), Delete((), Some(4))]);
}
