//! Every transition of a companion, and the command that follows from it.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

const SESSION: i64 = 9;
const TOKEN: i64 = 7;

fn seen(session: i64, token: i64, version: i32) -> Event {
    Event::Seen(Some(Seen { session, token: Some(token), version }))
}

fn check(events: &[Event], rows: Vec<(Event, Option<Command>, bool)>) {
    let mut companion = Companion::new(SESSION, TOKEN);
    for event in events {
        companion.handle(*event);
    }
    for (event, command, goes_along) in rows {
        let (mut companion, before) = (companion, format!("{companion:?}, {event:?}"));
        assert_eq!((companion.handle(event), companion.goes_along()), (command, goes_along), "{before}");
    }
}

#[test]
fn it_goes_along_or_is_taken_back() {
    check(
        &[],
        vec![
            (Event::Left, Some(Command::Read), true),
            (Event::WentAlong, None, false),
            // No reply to anything.
            (Event::Seen(None), None, true),
            (Event::Deleted, None, true),
            (Event::Unanswered, None, true),
            (Event::Refused, None, true),
        ],
    );
    check(&[Event::WentAlong], vec![(Event::Left, None, false), (Event::Unanswered, None, false)]);
}

#[test]
fn only_our_own_is_deleted() {
    check(
        &[Event::Left],
        vec![
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
        ],
    );
}

#[test]
fn the_deletion() {
    check(
        &[Event::Left, seen(SESSION, TOKEN, 0)],
        vec![
            (Event::Deleted, None, false),
            (Event::Refused, None, true),
            (Event::Changed, Some(Command::Read), true),
            (Event::Unanswered, Some(Command::Read), true),
            (Event::WentAlong, None, false),
            (Event::Left, None, true),
        ],
    );
}
