//! Every transition of a companion, and the command that follows from it.

use super::*;

const SESSION: i64 = 9;
const TOKEN: i64 = 7;

fn seen(session: i64, token: i64, version: i32) -> CompanionEvent {
    CompanionEvent::Seen(Some(SeenCompanion { session, token: Some(token), version }))
}

fn after(events: &[CompanionEvent]) -> Companion {
    let mut companion = Companion::new(SESSION, TOKEN);
    for event in events {
        companion.handle(*event);
    }
    companion
}

impl Companion {
    fn check<const N: usize>(self, rows: [(CompanionEvent, Option<CompanionCommand>, bool); N]) {
        for (event, command, goes_along) in rows {
            let mut companion = self;
            let found = (companion.handle(event), companion.goes_along());
            assert_eq!(found, (command, goes_along), "{self:?}, {event:?}");
        }
    }
}

#[test]
fn it_goes_along_or_is_taken_back() {
    after(&[]).check([
        (CompanionEvent::Left, Some(CompanionCommand::Read), true),
        (CompanionEvent::WentAlong, None, false),
        // No reply to anything.
        (CompanionEvent::Seen(None), None, true),
        (CompanionEvent::Deleted, None, true),
        (CompanionEvent::Unanswered, None, true),
        (CompanionEvent::Refused, None, true),
    ]);
    after(&[CompanionEvent::WentAlong])
        .check([(CompanionEvent::Left, None, false), (CompanionEvent::Unanswered, None, false)]);
}

#[test]
fn only_our_own_is_deleted() {
    after(&[CompanionEvent::Left]).check([
        (seen(SESSION, TOKEN, 0), Some(CompanionCommand::Delete(0)), true),
        // Its data says nothing any more.
        (seen(SESSION, 8, 3), Some(CompanionCommand::Delete(3)), true),
        (
            CompanionEvent::Seen(Some(SeenCompanion { session: SESSION, token: None, version: 1 })),
            Some(CompanionCommand::Delete(1)),
            true,
        ),
        (seen(SESSION, 8, 0), None, false),
        (
            CompanionEvent::Seen(Some(SeenCompanion { session: SESSION, token: None, version: 0 })),
            None,
            false,
        ),
        (seen(6, TOKEN, 0), None, false),
        (seen(6, TOKEN, 1), None, false),
        (CompanionEvent::Seen(None), None, false),
        // It may still go along.
        (CompanionEvent::Refused, None, true),
        (CompanionEvent::Unanswered, Some(CompanionCommand::Read), true),
        // It is being taken back.
        (CompanionEvent::Left, None, true),
        (CompanionEvent::WentAlong, None, false),
    ]);
}

#[test]
fn the_deletion() {
    after(&[CompanionEvent::Left, seen(SESSION, TOKEN, 0)]).check([
        (CompanionEvent::Deleted, None, false),
        (CompanionEvent::Refused, None, true),
        (CompanionEvent::Changed, Some(CompanionCommand::Read), true),
        (CompanionEvent::Unanswered, Some(CompanionCommand::Read), true),
        (CompanionEvent::WentAlong, None, false),
        (CompanionEvent::Left, None, true),
    ]);
}
