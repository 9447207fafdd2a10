//! Every transition of a candidacy, and the commands that follow from it.

use super::*;

/// The leader's session.
const OURS: i64 = 9;

type CandidacySent = CandidacyCommand<char, ()>;
type CandidacyTold = CandidacyEvent<char, ()>;

fn proclaimed(number: u64, value: char) -> CandidacyTold {
    CandidacyEvent::Proclaimed(Proclamation { number, value })
}

fn seen(session: i64, value: char) -> CandidacyTold {
    CandidacyEvent::Looked(Some(SeenAnnouncement { session, value }))
}

fn announce(value: char, replace: bool) -> CandidacySent {
    CandidacyCommand::Announce { value, replace }
}

fn told(number: u64, next: CandidacySent) -> Vec<CandidacySent> {
    vec![CandidacyCommand::Tell(number, Ok(())), next]
}

/// The candidacy of a leader that proclaims `a`, after these events.
fn after(events: &[CandidacyTold]) -> Candidacy<char> {
    let mut candidacy = Candidacy::new(OURS, 'a');
    assert_eq!(candidacy.handle(CandidacyTold::Begin), [announce('a', false)]);
    for event in events {
        candidacy.handle(event.clone());
    }
    candidacy
}

impl Candidacy<char> {
    fn check<const N: usize>(&self, rows: [(CandidacyTold, Vec<CandidacySent>); N]) {
        for (event, commands) in rows {
            let mut candidacy = self.clone();
            assert_eq!(candidacy.handle(event.clone()), commands, "{self:?}, {event:?}");
        }
    }
}

fn looking() -> Vec<CandidacyTold> {
    vec![CandidacyEvent::Announced, CandidacyEvent::Settled]
}

fn waiting() -> Vec<CandidacyTold> {
    [looking(), vec![seen(OURS, 'a')]].concat()
}

#[test]
fn the_first_announcement() {
    after(&[]).check([
        (CandidacyEvent::Announced, told(1, CandidacyCommand::Settle)),
        (CandidacyEvent::Refused(()), vec![CandidacyCommand::Tell(1, Err(())), CandidacyCommand::Settle]),
        (CandidacyEvent::Contested, vec![announce('a', true)]),
        (CandidacyEvent::Unanswered, vec![announce('a', false)]),
        (CandidacyEvent::Over, vec![]),
        // No reply to it.
        (CandidacyEvent::Settled, vec![]),
        (CandidacyEvent::Changed, vec![]),
    ]);
    after(&[CandidacyEvent::Contested]).check([
        (CandidacyEvent::Announced, told(1, CandidacyCommand::Settle)),
        (CandidacyEvent::Contested, vec![announce('a', false)]),
        (CandidacyEvent::Unanswered, vec![announce('a', true)]),
    ]);
}

#[test]
fn settling() {
    after(&[CandidacyEvent::Announced]).check([
        (CandidacyEvent::Settled, vec![CandidacyCommand::Look(Footing::Unwatched)]),
        (proclaimed(2, 'b'), vec![announce('b', true)]),
        (CandidacyEvent::Over, vec![]),
    ]);
    // It settles on.
    after(&[CandidacyEvent::Announced, proclaimed(2, 'b')])
        .check([(CandidacyEvent::Announced, told(2, CandidacyCommand::Settle))]);
}

#[test]
fn a_look_compares_with_what_was_announced() {
    after(&looking()).check([
        (seen(OURS, 'a'), vec![CandidacyCommand::Wait]),
        (seen(OURS, 'b'), vec![CandidacyCommand::Pause]),
        (seen(7, 'a'), vec![CandidacyCommand::Pause]),
        (CandidacyEvent::Looked(None), vec![CandidacyCommand::Pause]),
        (CandidacyEvent::Hidden, vec![CandidacyCommand::Wait]),
        (CandidacyEvent::Unanswered, vec![CandidacyCommand::Look(Footing::Unwatched)]),
    ]);
}

/// The wait is over because its watch was lost, and the leader proclaims before the candidacy hears of that.
#[test]
fn a_doubt_behind_a_proclamation_is_not_forgotten() {
    let late = [waiting(), vec![proclaimed(2, 'b'), CandidacyEvent::Doubted]].concat();
    after(&late).check([(CandidacyEvent::Announced, told(2, CandidacyCommand::Look(Footing::Unwatched)))]);
}

#[test]
fn waiting_for_news() {
    // A session that may not read it waits as well.
    for waiting in [waiting(), [looking(), vec![CandidacyEvent::Hidden]].concat()] {
        after(&waiting).check([
            (CandidacyEvent::Changed, vec![CandidacyCommand::Look(Footing::Watched)]),
            (CandidacyEvent::Doubted, vec![CandidacyCommand::Look(Footing::Unwatched)]),
            (proclaimed(2, 'b'), vec![announce('b', true)]),
            // It is no newer than the last one.
            (proclaimed(1, 'a'), vec![]),
            (CandidacyEvent::Over, vec![]),
        ]);
        after(&[waiting, vec![proclaimed(2, 'b')]].concat())
            .check([(CandidacyEvent::Announced, told(2, CandidacyCommand::Look(Footing::Watched)))]);
    }
}

#[test]
fn an_announcement_that_is_gone_is_made_again() {
    let pausing = [looking(), vec![CandidacyEvent::Looked(None)]].concat();
    after(&pausing)
        .check([(CandidacyEvent::Paused, vec![announce('a', false)]), (CandidacyEvent::Over, vec![])]);
    let announcing = [pausing.clone(), vec![CandidacyEvent::Paused]].concat();
    let look = CandidacyCommand::Look(Footing::Watched);
    after(&announcing).check([
        (CandidacyEvent::Announced, told(1, look.clone())),
        (CandidacyEvent::Refused(()), vec![CandidacyCommand::Tell(1, Err(())), look]),
        (CandidacyEvent::Contested, vec![announce('a', true)]),
    ]);
    // What was proclaimed meanwhile takes its place.
    let newer = [pausing, vec![proclaimed(2, 'b')]].concat();
    after(&newer).check([(CandidacyEvent::Paused, vec![announce('b', true)])]);
}

#[test]
fn a_proclamation_waits_for_the_reply_to_what_is_out() {
    for (events, reply, commands) in [
        (vec![], CandidacyEvent::Announced, told(1, announce('c', true))),
        (vec![], CandidacyEvent::Refused(()), vec![CandidacyCommand::Tell(1, Err(())), announce('c', true)]),
        // It is the same announcement that is sent again.
        (vec![], CandidacyEvent::Unanswered, vec![announce('a', false)]),
        (looking(), seen(OURS, 'a'), vec![announce('c', true)]),
        (looking(), CandidacyEvent::Hidden, vec![announce('c', true)]),
        (looking(), CandidacyEvent::Looked(None), vec![CandidacyCommand::Pause]),
    ] {
        let events = [events, vec![proclaimed(2, 'b'), proclaimed(3, 'c')]].concat();
        after(&events).check([(reply, commands)]);
    }
}

#[test]
fn the_end_of_the_hold_ends_it() {
    for events in [vec![], vec![CandidacyEvent::Announced], looking(), waiting()] {
        let mut candidacy = after(&events);
        assert!(!candidacy.is_ended());
        assert_eq!(candidacy.handle(CandidacyTold::Over), []);
        assert!(candidacy.is_ended());
        assert_eq!(candidacy.handle(CandidacyTold::Unanswered), []);
    }
}

#[test]
fn only_what_brings_it_on_is_news() {
    for event in [CandidacyTold::Unanswered, CandidacyTold::Contested] {
        assert!(!event.is_news());
    }
    for event in [
        CandidacyTold::Announced,
        CandidacyTold::Refused(()),
        CandidacyTold::Hidden,
        CandidacyTold::Looked(None),
    ] {
        assert!(event.is_news());
    }
}
