//! Every transition of a candidacy, and the commands that follow from it.

use super::*;

/// The leader's session.
const OURS: i64 = 9;

type Sent = Command<char, ()>;
type Told = Event<char, ()>;

fn proclaimed(number: u64, value: char) -> Told {
    Event::Proclaimed(Proclamation { number, value })
}

fn seen(session: i64, value: char) -> Told {
    Event::Looked(Some(Seen { session, value }))
}

fn announce(value: char, replace: bool) -> Sent {
    Command::Announce { value, replace }
}

fn told(number: u64, next: Sent) -> Vec<Sent> {
    vec![Command::Tell(number, Ok(())), next]
}

/// The candidacy of a leader that proclaims `a`, after these events.
fn after(events: &[Told]) -> Candidacy<char> {
    let mut candidacy = Candidacy::new(OURS, 'a');
    assert_eq!(candidacy.handle(Told::Begin), [announce('a', false)]);
    for event in events {
        candidacy.handle(event.clone());
    }
    candidacy
}

impl Candidacy<char> {
    fn check<const N: usize>(&self, rows: [(Told, Vec<Sent>); N]) {
        for (event, commands) in rows {
            let mut candidacy = self.clone();
            assert_eq!(candidacy.handle(event.clone()), commands, "{self:?}, {event:?}");
        }
    }
}

fn looking() -> Vec<Told> {
    vec![Event::Announced, Event::Settled]
}

fn waiting() -> Vec<Told> {
    [looking(), vec![seen(OURS, 'a')]].concat()
}

#[test]
fn the_first_announcement() {
    after(&[]).check([
        (Event::Announced, told(1, Command::Settle)),
        (Event::Refused(()), vec![Command::Tell(1, Err(())), Command::Settle]),
        (Event::Contested, vec![announce('a', true)]),
        (Event::Unanswered, vec![announce('a', false)]),
        (Event::Over, vec![]),
        // No reply to it.
        (Event::Settled, vec![]),
        (Event::Changed, vec![]),
    ]);
    after(&[Event::Contested]).check([
        (Event::Announced, told(1, Command::Settle)),
        (Event::Contested, vec![announce('a', false)]),
        (Event::Unanswered, vec![announce('a', true)]),
    ]);
}

#[test]
fn settling() {
    after(&[Event::Announced]).check([
        (Event::Settled, vec![Command::Look(Footing::Unwatched)]),
        (proclaimed(2, 'b'), vec![announce('b', true)]),
        (Event::Over, vec![]),
    ]);
    // It settles on.
    after(&[Event::Announced, proclaimed(2, 'b')]).check([(Event::Announced, told(2, Command::Settle))]);
}

#[test]
fn a_look_compares_with_what_was_announced() {
    after(&looking()).check([
        (seen(OURS, 'a'), vec![Command::Wait]),
        (seen(OURS, 'b'), vec![Command::Pause]),
        (seen(7, 'a'), vec![Command::Pause]),
        (Event::Looked(None), vec![Command::Pause]),
        (Event::Hidden, vec![Command::Wait]),
        (Event::Unanswered, vec![Command::Look(Footing::Unwatched)]),
    ]);
}

/// The wait is over because its watch was lost, and the leader proclaims before the candidacy hears of that.
#[test]
fn a_doubt_behind_a_proclamation_is_not_forgotten() {
    let late = [waiting(), vec![proclaimed(2, 'b'), Event::Doubted]].concat();
    after(&late).check([(Event::Announced, told(2, Command::Look(Footing::Unwatched)))]);
}

#[test]
fn waiting_for_news() {
    // A session that may not read it waits as well.
    for waiting in [waiting(), [looking(), vec![Event::Hidden]].concat()] {
        after(&waiting).check([
            (Event::Changed, vec![Command::Look(Footing::Watched)]),
            (Event::Doubted, vec![Command::Look(Footing::Unwatched)]),
            (proclaimed(2, 'b'), vec![announce('b', true)]),
            // It is no newer than the last one.
            (proclaimed(1, 'a'), vec![]),
            (Event::Over, vec![]),
        ]);
        after(&[waiting, vec![proclaimed(2, 'b')]].concat())
            .check([(Event::Announced, told(2, Command::Look(Footing::Watched)))]);
    }
}

#[test]
fn an_announcement_that_is_gone_is_made_again() {
    let pausing = [looking(), vec![Event::Looked(None)]].concat();
    after(&pausing).check([(Event::Paused, vec![announce('a', false)]), (Event::Over, vec![])]);
    let announcing = [pausing.clone(), vec![Event::Paused]].concat();
    let look = Command::Look(Footing::Watched);
    after(&announcing).check([
        (Event::Announced, told(1, look.clone())),
        (Event::Refused(()), vec![Command::Tell(1, Err(())), look]),
        (Event::Contested, vec![announce('a', true)]),
    ]);
    // What was proclaimed meanwhile takes its place.
    let newer = [pausing, vec![proclaimed(2, 'b')]].concat();
    after(&newer).check([(Event::Paused, vec![announce('b', true)])]);
}

#[test]
fn a_proclamation_waits_for_the_reply_to_what_is_out() {
    for (events, reply, commands) in [
        (vec![], Event::Announced, told(1, announce('c', true))),
        (vec![], Event::Refused(()), vec![Command::Tell(1, Err(())), announce('c', true)]),
        // It is the same announcement that is sent again.
        (vec![], Event::Unanswered, vec![announce('a', false)]),
        (looking(), seen(OURS, 'a'), vec![announce('c', true)]),
        (looking(), Event::Hidden, vec![announce('c', true)]),
        (looking(), Event::Looked(None), vec![Command::Pause]),
    ] {
        let events = [events, vec![proclaimed(2, 'b'), proclaimed(3, 'c')]].concat();
        after(&events).check([(reply, commands)]);
    }
}

#[test]
fn the_end_of_the_hold_ends_it() {
    for events in [vec![], vec![Event::Announced], looking(), waiting()] {
        let mut candidacy = after(&events);
        assert!(!candidacy.is_ended());
        assert_eq!(candidacy.handle(Told::Over), []);
        assert!(candidacy.is_ended());
        assert_eq!(candidacy.handle(Told::Unanswered), []);
    }
}

#[test]
fn only_what_brings_it_on_is_news() {
    for event in [Told::Unanswered, Told::Contested] {
        assert!(!event.is_news());
    }
    for event in [Told::Announced, Told::Refused(()), Told::Hidden, Told::Looked(None)] {
        assert!(event.is_news());
    }
}
