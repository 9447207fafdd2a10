//! Every transition of an observer, and the instructions that follow from it.

use super::Footing::*;
use super::Instruction::*;
use super::Observation as E;
use super::*;

const FIRST: Stamp = Stamp { token: 10, zxid: 11 };
const SECOND: Stamp = Stamp { token: 20, zxid: 25 };
/// The state of a look behind a sync, which a lower stamp led to.
const CONFIRMING: ObserverState = ObserverState::Looking { cause: Cause::LowerStamp, outdated: false };

type ObserverRow = (Observation<char>, ObserverState, Vec<Instruction<char>>);

fn looking(cause: Option<i64>, outdated: bool) -> ObserverState {
    ObserverState::Looking { cause: cause.map_or(Cause::Unknown, Cause::Change), outdated }
}

fn seen(stamp: Stamp, what: char) -> Observation<char> {
    E::Seen(Some((Some(stamp), what)))
}

/// A node that the observer may not read.
fn hidden(what: char) -> Observation<char> {
    E::Seen(Some((None, what)))
}

/// An observer after these events, that was told of the first leader.
fn after(events: &[Observation<char>]) -> ObserverMachine<char> {
    let mut observer = ObserverMachine::default();
    for event in [E::Connected, seen(FIRST, 'a')].iter().chain(events) {
        observer.handle(event.clone());
    }
    observer
}

impl ObserverMachine<char> {
    fn check<const N: usize>(&self, rows: [ObserverRow; N]) {
        for (event, state, instructions) in rows {
            let mut observer = self.clone();
            let found = (observer.handle(event.clone()), observer.state);
            assert_eq!(found, (instructions, state), "{self:?}, {event:?}");
        }
    }
}

#[test]
fn away() {
    after(&[E::Disconnected]).check([
        (E::Connected, looking(None, false), vec![Look(Unwatched)]),
        (seen(SECOND, 'b'), ObserverState::Away, vec![]),
        (E::Changed(Some(25)), ObserverState::Away, vec![]),
        (E::Doubted, ObserverState::Away, vec![]),
        (E::Refused, ObserverState::Away, vec![]),
        (E::Unanswered, ObserverState::Away, vec![]),
        (E::Disconnected, ObserverState::Away, vec![]),
    ]);
}

#[test]
fn watching() {
    after(&[]).check([
        (E::Connected, ObserverState::Watching, vec![]),
        (seen(SECOND, 'b'), ObserverState::Watching, vec![]),
        (E::Changed(Some(25)), looking(Some(25), false), vec![Look(Watched)]),
        (E::Changed(None), looking(None, false), vec![Look(Watched)]),
        (E::Doubted, looking(None, false), vec![Look(Unwatched)]),
        (E::Refused, ObserverState::Watching, vec![]),
        (E::Unanswered, ObserverState::Watching, vec![]),
        (E::Disconnected, ObserverState::Away, vec![]),
    ]);
}

#[test]
fn looking_for_the_cause_of_a_change() {
    after(&[E::Changed(Some(25))]).check([
        (E::Connected, looking(Some(25), false), vec![]),
        (seen(SECOND, 'b'), ObserverState::Watching, vec![Tell(Some('b'))]),
        (E::Seen(None), ObserverState::Watching, vec![Tell(None)]),
        (hidden('b'), ObserverState::Watching, vec![Tell(Some('b'))]),
        (hidden('a'), ObserverState::Watching, vec![]),
        // The same leader, who has announced the same again.
        (seen(Stamp { token: 10, zxid: 25 }, 'a'), ObserverState::Watching, vec![]),
        (seen(Stamp { token: 10, zxid: 25 }, 'A'), ObserverState::Watching, vec![Tell(Some('A'))]),
        // From the past: an earlier leader, and an earlier announcement of this one.
        (seen(Stamp { token: 9, zxid: 26 }, 'z'), CONFIRMING, vec![SyncAndLook]),
        (seen(Stamp { token: 10, zxid: 10 }, 'z'), CONFIRMING, vec![SyncAndLook]),
        // One transaction deletes the announcement and creates the next one.
        (E::Changed(Some(25)), looking(Some(25), false), vec![]),
        (E::Changed(Some(26)), looking(Some(25), true), vec![]),
        (E::Changed(None), looking(Some(25), true), vec![]),
        (E::Doubted, looking(Some(25), false), vec![]),
        (E::Refused, ObserverState::Refused, vec![]),
        (E::Unanswered, looking(None, false), vec![Look(Unwatched)]),
        (E::Disconnected, ObserverState::Away, vec![]),
    ]);
}

#[test]
fn looking_for_a_cause_that_the_server_did_not_name() {
    after(&[E::Changed(None)]).check([
        (E::Changed(None), looking(None, true), vec![]),
        (E::Changed(Some(25)), looking(None, true), vec![]),
    ]);
}

#[test]
fn looking_while_something_changes_again() {
    after(&[E::Changed(Some(25)), E::Changed(Some(26))]).check([
        (seen(SECOND, 'b'), looking(None, false), vec![Tell(Some('b')), Look(Watched)]),
        (seen(FIRST, 'a'), looking(None, false), vec![Look(Watched)]),
        (E::Changed(Some(25)), looking(Some(25), true), vec![]),
        (E::Unanswered, looking(None, false), vec![Look(Unwatched)]),
        // What may be read may have been made meanwhile.
        (E::Refused, looking(None, false), vec![Look(Watched)]),
    ]);
}

#[test]
fn looking_whether_a_lower_stamp_is_the_truth() {
    let lower = Stamp { token: 9, zxid: 26 };
    let went_back = || TellWentBack { before: FIRST, now: lower };
    let outdated = ObserverState::Looking { cause: Cause::LowerStamp, outdated: true };
    let confirming = after(&[E::Changed(None), seen(lower, 'z')]);
    confirming.check([
        (E::Connected, CONFIRMING, vec![]),
        // The server was behind.
        (seen(FIRST, 'a'), ObserverState::Watching, vec![]),
        (seen(SECOND, 'b'), ObserverState::Watching, vec![Tell(Some('b'))]),
        (E::Seen(None), ObserverState::Watching, vec![Tell(None)]),
        (hidden('h'), ObserverState::Watching, vec![Tell(Some('h'))]),
        // The data went back.
        (seen(lower, 'z'), ObserverState::Watching, vec![went_back(), Tell(Some('z'))]),
        (seen(lower, 'a'), ObserverState::Watching, vec![went_back(), Tell(Some('a'))]),
        (E::Changed(Some(26)), outdated, vec![]),
        (E::Changed(None), outdated, vec![]),
        (E::Doubted, CONFIRMING, vec![]),
        (E::Refused, ObserverState::Refused, vec![]),
        (E::Unanswered, looking(None, false), vec![Look(Unwatched)]),
        (E::Disconnected, ObserverState::Away, vec![]),
    ]);
    let mut changed = confirming.clone();
    changed.handle(E::Changed(None));
    changed.check([
        (seen(lower, 'z'), looking(None, false), vec![went_back(), Tell(Some('z')), Look(Watched)]),
        (E::Refused, looking(None, false), vec![Look(Watched)]),
    ]);
}

#[test]
fn an_observer_begins_anew_after_the_data_went_back() {
    let mut observer = after(&[E::Changed(None), seen(SECOND, 'b'), E::Disconnected, E::Connected]);
    assert_eq!(observer.handle(seen(FIRST, 'a')), [SyncAndLook]);
    let went_back = TellWentBack { before: SECOND, now: FIRST };
    assert_eq!(observer.handle(seen(FIRST, 'a')), [went_back, Tell(Some('a'))]);
    observer.handle(E::Changed(None));
    let next = Stamp { token: 15, zxid: 16 };
    assert_eq!(observer.handle(seen(next, 'c')), [Tell(Some('c'))]);
}

#[test]
fn refused() {
    after(&[E::Changed(None), E::Refused]).check([
        (E::Connected, ObserverState::Refused, vec![]),
        (seen(SECOND, 'b'), ObserverState::Refused, vec![]),
        (E::Changed(Some(25)), looking(Some(25), false), vec![Look(Watched)]),
        (E::Doubted, looking(None, false), vec![Look(Unwatched)]),
        (E::Disconnected, ObserverState::Away, vec![]),
    ]);
}

#[test]
fn the_first_look_tells_that_nobody_leads() {
    let mut observer = ObserverMachine::<char>::default();
    assert_eq!(observer.told, None);
    assert_eq!(observer.handle(E::Connected), [Look(Unwatched)]);
    assert!(!observer.is_watching());
    assert_eq!(observer.handle(E::Seen(None)), [Tell(None)]);
    assert!(observer.is_watching());
    assert_eq!(observer.told, Some(None));
    observer.handle(E::Disconnected);
    observer.handle(E::Connected);
    assert_eq!(observer.handle(E::Seen(None)), [], "it was told so before");
}

#[test]
fn a_hidden_one_neither_raises_nor_lowers_what_was_seen() {
    let mut observer = after(&[E::Changed(None), seen(SECOND, 'b'), E::Changed(None)]);
    assert_eq!(observer.handle(hidden('h')), [Tell(Some('h'))]);
    observer.handle(E::Changed(None));
    assert_eq!(observer.handle(seen(FIRST, 'a')), [SyncAndLook]);
    assert_eq!(observer.handle(seen(SECOND, 'b')), [Tell(Some('b'))]);

    let mut observer = ObserverMachine::default();
    assert_eq!(observer.handle(E::Connected), [Look(Unwatched)]);
    assert_eq!(observer.handle(hidden('h')), [Tell(Some('h'))]);
}
