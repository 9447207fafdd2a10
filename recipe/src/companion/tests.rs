//! Every transition of a companion, and the command that follows from it.

use super::*;

const SESSION: i64 = 9;
const TOKEN: i64 = 7;

fn seen(session: i64, token: i64, version: i32) -> Event {
    Event::Seen(Some(Seen { session, token: Some(token), version }))
}

fn after(events: &[Event]) -> Companion {
    let mut companion = Companion::new(SESSION, TOKEN);
    for event in events {
        companion.handle(*event);
    }
    companion
}

impl Companion {
    fn check<const N: usize>(self, rows: [(Event, Option<Command>, bool); N]) {
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
        (Event::Left, Some(Command::Read), true),
        (Event::WentAlong, None, false),
        // No reply to anything.
        (Event::Seen(None), None, true),
        (Event::Deleted, None, true),
        (Event::Unanswered, None, true),
        (Event::Refused, None, true),
    ]);
    after(&[Event::WentAlong]).check([(Event::Left, None, false), (Event::Unanswered, None, false)]);
}

#[test]
fn only_our_own_is_deleted() {
    after(&[Event::Left]).check([
        (seen(SESSION, TOKEN, 0), Some(Command::Delete(0)), true),
        // Its data says nothing any more.
        (seen(SESSION, 8, 3), Some(Command::Delete(3)), true),
        (
            Event::Seen(Some(Seen { session: SESSION, token: None, version: 1 })),
            Some(Command::Delete(1)),
            true,
        ),
        (seen(SESSION, 8, 0), None, false),
        (Event::Seen(Some(Seen { session: SESSION, token: None, version: 0 })), None, false),
        (seen(6, TOKEN, 0), None, false),
        (seen(6, TOKEN, 1), None, false),
        (Event::Seen(None), None, false),
        // It may still go along.
        (Event::Refused, None, true),
        (Event::Unanswered, Some(Command::Read), true),
        // It is being taken back.
        (Event::Left, None, true),
        (Event::WentAlong, None, false),
    ]);
}

#[test]
fn the_deletion() {
    after(&[Event::Left, seen(SESSION, TOKEN, 0)]).check([
        (Event::Deleted, None, false),
        (Event::Refused, None, true),
        (Event::Changed, Some(Command::Read), true),
        (Event::Unanswered, Some(Command::Read), true),
        (Event::WentAlong, None, false),
        (Event::Left, None, true),
    ]);
}
