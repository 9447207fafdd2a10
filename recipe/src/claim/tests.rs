//! Every transition of a claim, and the commands that follow from it.

use super::*;

/// The token of the present guard, and of one that the claim had before.
const OURS: i64 = 9;
const LOST: i64 = 8;

type Sent = Command<char, ()>;
type Told = Event<char, ()>;

fn record(progress: Progress, token: i64) -> Record {
    Record { progress, token, attempt: 2, version: 4, data: vec![5] }
}

fn page(record: Option<Record>) -> Page<char> {
    Page { record, may_be_forgotten: false, rest: 'p' }
}

fn looked(record: Option<Record>) -> Told {
    Event::Looked(Some(page(record)))
}

fn tell(outcome: Outcome<char, ()>) -> Vec<Sent> {
    vec![Command::Tell(outcome)]
}

/// A claim under the present guard, after some events, and what it remembers of one guard before.
#[derive(Clone, Debug)]
struct After(Claim<char>, Begins);

fn after(retry: bool, events: &[Told]) -> After {
    let mut begins = Begins { unstarted: vec![LOST], before: None };
    let mut claim = Claim::new(OURS, retry);
    assert_eq!(claim.handle::<()>(&mut begins, Event::Begin), [Command::Look]);
    for event in events {
        claim.handle(&mut begins, event.clone());
    }
    After(claim, begins)
}

impl After {
    fn check<const N: usize>(&self, rows: [(Told, Vec<Sent>); N]) {
        for (event, commands) in rows {
            let Self(mut claim, mut begins) = self.clone();
            assert_eq!(claim.handle(&mut begins, event.clone()), commands, "{self:?}, {event:?}");
        }
    }
}

/// One that has sent a begin, for the first attempt.
fn writing() -> Vec<Told> {
    vec![looked(None), Event::Prepared('q')]
}

#[test]
fn a_run_without_a_record_begins_unless_it_may_be_forgotten() {
    for retry in [false, true] {
        let forgotten = Page { may_be_forgotten: true, ..page(None) };
        after(retry, &[]).check([
            (looked(None), vec![Command::Prepare('p')]),
            (Event::Looked(Some(forgotten)), vec![Command::Tell(Outcome::Forgotten('p')), Command::Verify]),
            (Event::Looked(None), vec![Command::Create]),
        ]);
    }
    after(false, &[Event::Looked(None)]).check([(Event::Created, vec![Command::Look])]);
    after(false, &[looked(None)]).check([(Event::Prepared('q'), vec![Command::Write(1, None, 'q')])]);
}

/// That records of its name were dropped matters only without a record.
#[test]
fn a_record_decides() {
    let runs = vec![Command::Prepare('p')];
    for (progress, token, retry, commands) in [
        (Progress::Ended(RunEnd::Succeeded), 7, false, vec![Command::Release]),
        (Progress::Ended(RunEnd::Succeeded), 7, true, vec![Command::Release]),
        (Progress::Ended(RunEnd::Succeeded), LOST, true, vec![Command::Release]),
        (Progress::Ended(RunEnd::Failed), 7, false, vec![Command::Release]),
        (Progress::Ended(RunEnd::Failed), 7, true, runs.clone()),
        (Progress::Begun, 7, false, vec![Command::Release]),
        (Progress::Begun, 7, true, runs.clone()),
        // Its own begins are no runs.
        (Progress::Begun, LOST, false, runs.clone()),
        (Progress::Begun, LOST, true, runs),
        (Progress::Begun, OURS, false, tell(Outcome::Runs(2, 4))),
        (Progress::Begun, OURS, true, tell(Outcome::Runs(2, 4))),
    ] {
        let seen = Page { may_be_forgotten: true, ..page(Some(record(progress, token))) };
        after(retry, &[]).check([(Event::Looked(Some(seen)), commands)]);
    }
}

#[test]
fn an_attempt_is_counted_once() {
    for (token, attempt) in [(7, 3), (LOST, 2)] {
        let begun = record(Progress::Begun, token);
        after(true, &[looked(Some(begun.clone()))])
            .check([(Event::Prepared('q'), vec![Command::Write(attempt, Some(begun), 'q')])]);
    }
}

#[test]
fn writing_the_begin() {
    after(false, &writing()).check([
        (Event::Written, tell(Outcome::Runs(1, 0))),
        (Event::Contested, vec![Command::Look]),
        (Event::Unanswered, vec![Command::Verify]),
        (Event::Failed(()), vec![Command::Tell(Outcome::Failed(())), Command::Verify]),
        (Event::Lost, tell(Outcome::Displaced)),
        // It may have been written.
        (Event::GiveUp, vec![Command::Verify]),
    ]);
    let unknown = [writing(), vec![Event::Unanswered]].concat();
    after(false, &unknown)
        .check([(Event::Verified, vec![Command::Look]), (Event::Lost, tell(Outcome::Displaced))]);
}

#[test]
fn requests_before_the_begin() {
    for events in [vec![], vec![Event::Looked(None)], vec![looked(None)]] {
        after(false, &events).check([
            (Event::Unanswered, vec![Command::Verify]),
            (Event::Lost, tell(Outcome::Displaced)),
            (Event::Failed(()), vec![Command::Tell(Outcome::Failed(())), Command::Verify]),
            // An earlier guard has sent one.
            (Event::GiveUp, vec![Command::Verify]),
            (Event::Written, vec![]),
        ]);
    }
    let (mut first, mut none) = (Claim::<char>::new(OURS, false), Begins::default());
    first.handle::<()>(&mut none, Event::Begin);
    assert_eq!(first.handle::<()>(&mut none, Event::GiveUp), []);
    assert!(first.is_ended() && !none.is_any());
}

#[test]
fn a_run_that_is_done_releases_the_lock_first() {
    let done = record(Progress::Ended(RunEnd::Succeeded), 7);
    let releasing = after(false, &[looked(Some(done.clone()))]);
    let told = || tell(Outcome::Done(page(Some(done.clone()))));
    releasing.check([(Event::Released, told()), (Event::Lost, told()), (Event::GiveUp, vec![])]);
}

#[test]
fn looks_end() {
    let After(mut claim, mut begins) = after(false, &[]);
    for _ in 1..TRIES {
        assert_eq!(claim.handle::<()>(&mut begins, Event::Unanswered), [Command::Verify]);
        assert_eq!(claim.handle::<()>(&mut begins, Event::Verified), [Command::Look]);
    }
    assert_eq!(claim.handle::<()>(&mut begins, Event::Unanswered), [Command::Verify]);
    assert_eq!(
        claim.handle::<()>(&mut begins, Event::Verified),
        [Command::Tell(Outcome::Unconfirmed), Command::Verify]
    );
}

#[test]
fn a_begin_that_nobody_takes_is_taken_back() {
    let gone = [writing(), vec![Event::GiveUp]].concat();
    after(false, &gone).check([
        (Event::Verified, vec![Command::Look]),
        (Event::Lost, vec![]),
        (Event::GiveUp, vec![]),
    ]);
    let looking = [gone, vec![Event::Verified]].concat();
    let ours = |token| record(Progress::Begun, token);
    after(false, &looking).check([
        (looked(Some(ours(OURS))), vec![Command::Restore(ours(OURS), None)]),
        (looked(Some(ours(LOST))), vec![Command::Restore(ours(LOST), None)]),
        (looked(Some(ours(7))), vec![]),
        (looked(Some(record(Progress::Ended(RunEnd::Failed), OURS))), vec![]),
        (looked(None), vec![]),
        (Event::Looked(None), vec![]),
        (Event::Failed(()), vec![]),
        (Event::Lost, vec![]),
        (Event::Unanswered, vec![Command::Verify]),
    ]);
    let restoring = after(false, &[looking, vec![looked(Some(ours(OURS)))]].concat());
    restoring.check([
        (Event::Written, vec![]),
        (Event::Contested, vec![]),
        (Event::Lost, vec![]),
        (Event::Unanswered, vec![Command::Verify]),
    ]);
    let After(mut claim, mut begins) = restoring;
    claim.handle::<()>(&mut begins, Event::Written);
    assert!(claim.is_ended());
}

/// A claim that loses the lock behind its begin, and begins again, still knows whose record it has replaced.
#[test]
fn what_a_begin_has_replaced_is_written_again() {
    let failed = Record { data: vec![6], ..record(Progress::Ended(RunEnd::Failed), 7) };
    let back = |found: Option<Record>, mut begins: Begins| {
        let mut claim = Claim::new(OURS, true);
        claim.handle::<()>(&mut begins, Event::Begin);
        for event in [looked(found), Event::Prepared('q'), Event::GiveUp, Event::Verified] {
            claim.handle(&mut begins, event);
        }
        let restored = claim.handle::<()>(&mut begins, looked(Some(record(Progress::Begun, OURS))));
        let [Command::Restore(_, before)] = &restored[..] else { panic!("{restored:?}") };
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
    use Operation::{Check, Create, Delete, Set};
    use Target::{Dropped, Record, Records};

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
