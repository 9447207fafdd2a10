//! Every transition of the end of a run, and the command that follows from it.

use alloc::vec;

use super::*;

/// The token of the guard, and of another one.
const OURS: i64 = 9;
const ANOTHER: i64 = 8;

/// The version with which the run began.
const VERSION: i32 = 4;

type EndingTold = EndingEvent<char>;

const WRITE: Option<EndingCommand<char>> = Some(EndingCommand::Write(RunEnd::Succeeded, VERSION));
const VERIFY: Option<EndingCommand<char>> = Some(EndingCommand::Verify);

fn tell(outcome: EndingOutcome<char>) -> Option<EndingCommand<char>> {
    Some(EndingCommand::Tell(outcome))
}

fn looked(progress: Progress, token: i64, version: i32) -> EndingTold {
    EndingEvent::Looked(Some(SeenRecord { progress, token, attempt: 2, version, data: vec![5] }))
}

/// The success of a run, after these events.
fn after(events: &[EndingTold]) -> Ending {
    let mut ending = Ending::new(RunEnd::Succeeded, OURS, VERSION);
    assert_eq!(ending.handle(EndingEvent::Begin), WRITE);
    for event in events {
        ending.handle(event.clone());
    }
    ending
}

impl Ending {
    fn check<const N: usize>(&self, rows: [(EndingTold, Option<EndingCommand<char>>); N]) {
        for (event, command) in rows {
            let mut ending = self.clone();
            let ends = matches!(command, Some(EndingCommand::Tell(_)));
            let found = (ending.handle(event.clone()), ending.is_ended());
            assert_eq!(found, (command, ends), "{self:?}, {event:?}");
        }
    }
}

#[test]
fn writing_the_end() {
    after(&[]).check([
        (EndingEvent::Written, tell(EndingOutcome::Written)),
        (EndingEvent::Rejected, VERIFY),
        (EndingEvent::Unanswered, VERIFY),
        (EndingEvent::Failed('f'), tell(EndingOutcome::Failed('f'))),
        (EndingEvent::Verified, None),
        (EndingEvent::Begin, None),
    ]);
    let mut failed = Ending::new(RunEnd::Failed, OURS, 0);
    assert_eq!(failed.handle::<char>(EndingEvent::Begin), Some(EndingCommand::Write(RunEnd::Failed, 0)));
}

#[test]
fn only_a_write_without_an_answer_may_have_ended_the_run_unseen() {
    let verified = |first: EndingTold| after(&[first, EndingEvent::Verified]);
    let looked_in_vain = |first: EndingTold| after(&[first, EndingEvent::Verified, EndingEvent::Unanswered]);
    for (first, failed) in [
        (EndingEvent::Unanswered, EndingOutcome::Unconfirmed),
        (EndingEvent::Rejected, EndingOutcome::Failed('f')),
    ] {
        let unseen = tell(failed);
        for verifying in [after(std::slice::from_ref(&first)), looked_in_vain(first.clone())] {
            let rows = [
                (EndingEvent::Verified, Some(EndingCommand::Look)),
                (EndingEvent::Failed('f'), unseen.clone()),
                (EndingEvent::Written, None),
            ];
            verifying.check(rows);
        }
        verified(first).check([(EndingEvent::Unanswered, VERIFY), (EndingEvent::Failed('f'), unseen)]);
    }
    // A look settles it.
    let begun = looked(Progress::Begun, OURS, VERSION);
    let settled = after(&[EndingEvent::Unanswered, EndingEvent::Verified, begun]);
    settled.check([
        (EndingEvent::Failed('f'), tell(EndingOutcome::Failed('f'))),
        (EndingEvent::Unanswered, VERIFY),
    ]);
}

#[test]
fn a_record_decides() {
    let ended = Progress::Ended;
    // What has taken the place of the begin may have taken that of the end.
    for (first, another) in [
        (EndingEvent::Unanswered, EndingOutcome::Unconfirmed),
        (EndingEvent::Rejected, EndingOutcome::Changed),
    ] {
        let another = tell(another);
        after(&[first, EndingEvent::Verified]).check([
            (looked(ended(RunEnd::Succeeded), OURS, VERSION + 1), tell(EndingOutcome::Written)),
            (looked(Progress::Begun, OURS, VERSION), WRITE),
            (looked(ended(RunEnd::Succeeded), ANOTHER, VERSION + 1), another.clone()),
            (looked(ended(RunEnd::Failed), OURS, VERSION + 1), another.clone()),
            // Somebody has written the same again, or has made the node anew.
            (looked(Progress::Begun, OURS, VERSION + 1), another.clone()),
            (looked(Progress::Begun, ANOTHER, VERSION), another.clone()),
            (EndingEvent::Looked(None), another),
        ]);
    }
}

#[test]
fn tries_end() {
    let unwritten = [EndingEvent::Unanswered, EndingEvent::Verified, looked(Progress::Begun, OURS, VERSION)];
    let mut writing = after(&[&unwritten[..]; 7].concat());
    for event in [EndingTold::Unanswered, EndingEvent::Verified] {
        assert!(!matches!(writing.handle(event), None | Some(EndingCommand::Tell(_))));
    }
    writing.check([
        (unwritten[2].clone(), tell(EndingOutcome::Unconfirmed)),
        (EndingEvent::Unanswered, tell(EndingOutcome::Unconfirmed)),
        (looked(Progress::Ended(RunEnd::Succeeded), OURS, VERSION + 1), tell(EndingOutcome::Written)),
    ]);
}

#[test]
fn the_end_is_written_over_the_version_with_which_the_run_began() {
    assert_eq!(write(VERSION), Operation::Set((), Some(VERSION)));
}
