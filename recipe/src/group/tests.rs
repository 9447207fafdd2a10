//! Exact outputs: what a group parks, what it sends for all, and how it ends.

use alloc::vec;

use super::Report::*;
use super::{Alone as A, Command as C, Output as O, Together as T, *};
use crate::contender::{QueuePlace, Sequence};
use crate::event::Event as E;
use crate::lease::SessionEnd;
use crate::machine::{Arrival, Patience, Takeover};
use crate::path_kind::{OtherKind, PathKind, Stranger};

mod leaving;
mod whole;

const CZXID: i64 = 70;
pub(crate) const REFUSAL: Refusal = Refusal::NotAuthorized;

/// The first member's node: alone in its queue, when it enters.
pub(crate) const FIRST: Own = Own { place: QueuePlace::exclusive(6), czxid: CZXID };
/// The second member's node: behind one other contender.
pub(crate) const SECOND: Own = Own { place: QueuePlace::exclusive(5), czxid: CZXID };
pub(crate) const AHEAD: QueuePlace = QueuePlace::exclusive(4);

fn group(patience: [Patience; 2]) -> Group {
    Group::new(patience.map(|patience| Machine::new(patience, Takeover::AtOnce, Arrival::New)))
}

fn pair() -> Group {
    group([Patience::Wait; 2])
}

/// What the inputs lead to, each with its outputs.
fn after(mut group: Group, inputs: Vec<Report>) -> Group {
    inputs.into_iter().for_each(|input| drop(group.handle(input)));
    group
}

fn begin() -> Report {
    All(E::Begin)
}

pub(crate) fn alone(own: Own) -> (Own, Sight) {
    (own, Sight::Children(vec![own.place.name()]))
}

pub(crate) fn behind(own: Own) -> (Own, Sight) {
    (own, Sight::Children(vec![AHEAD.name(), own.place.name()]))
}

fn watch_own(member: usize, own: Own) -> Output {
    O::One(member, A::WatchOwn(own))
}

fn watch_ahead(member: usize, own: Own) -> Output {
    O::One(member, A::WatchPredecessor(AHEAD, own))
}

fn delete(member: usize, own: Own) -> Output {
    O::One(member, A::Delete(own))
}

fn release(member: usize, own: Own) -> Output {
    O::One(member, A::Release(own))
}

fn recover(member: usize, own: Own) -> Output {
    O::One(member, A::Recover(own))
}

fn find(member: usize) -> Output {
    O::One(member, A::Find)
}

fn granted() -> Output {
    O::Tell(Outcome::Granted(vec![FIRST, SECOND], Term::FIRST))
}

fn ended(member: usize, end: End) -> Output {
    O::Tell(Outcome::Ended(member, end))
}

fn enter() -> Output {
    O::All(T::Enter)
}

/// `Enter` is out for both.
fn entering() -> Group {
    after(pair(), vec![begin()])
}

/// The first member is first in its queue and watches its own node, the second one waits.
fn half() -> Group {
    let entered = Entered(vec![alone(FIRST), behind(SECOND)]);
    after(entering(), vec![entered, One(0, E::OwnWatched(true)), One(1, E::PredecessorWatched(true))])
}

/// `Confirm` is out for both.
fn confirming() -> Group {
    after(entering(), vec![Entered(vec![alone(FIRST), alone(SECOND)])])
}

fn held() -> Group {
    after(confirming(), vec![All(E::Confirmed(Term::FIRST))])
}

/// `Release` is out for both.
fn releasing() -> Group {
    after(held(), vec![All(E::Release)])
}

fn stranger() -> Stranger {
    Stranger::Kind(OtherKind { found: PathKind::Election, at: "/feed".into() })
}

#[test]
fn a_group_enters_is_confirmed_and_is_released_in_one_request_each() {
    let mut group = pair();
    assert_eq!(group.handle(begin()), [enter()]);
    assert_eq!(group.own(0), None);
    assert_eq!(group.handle(Entered(vec![alone(FIRST), alone(SECOND)])), [O::All(T::Confirm)]);
    assert_eq!((group.own(0), group.own(1), group.own(2)), (Some(FIRST), Some(SECOND), None));
    assert_eq!(group.handle(All(E::Confirmed(Term::FIRST))), [granted()]);
    assert_eq!(group.handle(All(E::Settled)), [watch_own(0, FIRST), watch_own(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::OwnWatched(true))), []);
    assert_eq!(group.handle(One(0, E::OwnWatched(true))), []);
    assert_eq!(group.handle(All(E::Release)), [O::All(T::Release)]);
    assert!(group.nodes().eq([FIRST, SECOND]));
    assert!(!group.is_ended());
    assert_eq!(group.handle(All(E::Released(true))), [ended(0, End::Released)]);
    assert!(group.is_ended());
    assert_eq!(group.handle(All(E::GiveUp)), []);
}

/// Each member waits by itself, and the last one's turn is the turn of all.
#[test]
fn a_member_that_is_first_waits_for_the_others() {
    let mut group = entering();
    let entered = Entered(vec![behind(FIRST), behind(SECOND)]);
    assert_eq!(group.handle(entered), [watch_ahead(0, FIRST), watch_ahead(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::PredecessorWatched(true))), []);
    assert_eq!(group.handle(One(1, E::PredecessorReleased)), [watch_own(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::OwnWatched(true))), []);
    assert_eq!(group.handle(One(0, E::PredecessorWatched(true))), []);
    assert_eq!(group.handle(One(0, E::PredecessorReleased)), [O::All(T::Confirm)]);
}

#[test]
fn directories_are_created_for_all_and_then_all_enter_again() {
    let mut group = entering();
    assert_eq!(group.handle(All(E::NoDirectory)), [O::All(T::CreateDirectory)]);
    assert_eq!(group.handle(All(E::Unanswered)), [O::All(T::CreateDirectory)]);
    assert_eq!(group.handle(All(E::DirectoryReady)), [enter()]);
}

#[test]
fn an_own_watch_is_asked_for_once_and_again_whenever_it_says_nothing() {
    let mut group = half();
    for event in [E::WatchLost, E::Unanswered, E::OwnTouched] {
        assert_eq!(group.handle(One(0, event)), [watch_own(0, FIRST)]);
        // It was only written to, or was not touched at all.
        assert_eq!(group.handle(One(0, E::OwnWatched(true))), []);
    }
    // The confirmation will show whether the node exists.
    assert_eq!(group.handle(One(0, E::Refused(REFUSAL))), []);
    // Other members' news change nothing for it.
    assert_eq!(group.handle(One(1, E::WatchLost)), [watch_ahead(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::PredecessorWatched(true))), []);
    assert_eq!(group.handle(One(1, E::PredecessorReleased)), [O::All(T::Confirm)]);
}

/// The request for all has taken the place of the watch, and shows more.
#[test]
fn news_of_own_nodes_are_passed_over_while_all_are_confirmed() {
    for event in [E::OwnTouched, E::OwnWatched(true), E::OwnWatched(false), E::WatchLost] {
        let mut group = confirming();
        assert_eq!(group.handle(One(0, event)), []);
        assert_eq!(group.handle(All(E::Confirmed(Term::FIRST))), [granted()]);
    }
}

/// A guard of several locks is lost once.
#[test]
fn a_guard_is_lost_with_its_first_node() {
    assert_eq!(held().handle(All(E::OwnTouched)), [O::Tell(Outcome::Lost(Breach::Touched))]);
    let guarded = vec![All(E::Settled), One(0, E::OwnWatched(true)), One(1, E::OwnWatched(true))];
    let mut group = after(held(), guarded);
    assert_eq!(group.handle(One(1, E::OwnTouched)), [O::Tell(Outcome::Lost(Breach::Touched))]);
    assert_eq!(group.handle(One(0, E::OwnTouched)), []);
    assert_eq!(group.handle(All(E::Forfeit)), [recover(0, FIRST), recover(1, SECOND)]);
    assert_eq!(group.handle(One(1, E::Recovered(None))), []);
    assert_eq!(group.handle(One(0, E::Recovered(Some(FIRST)))), [delete(0, FIRST)]);
    assert_eq!(group.handle(One(0, E::Deleted)), [ended(1, End::NodeDeleted)]);
}

#[test]
fn the_end_of_the_session_is_that_of_all() {
    for mut group in [pair(), entering(), half(), confirming(), held(), releasing()] {
        let over = E::SessionOver(SessionEnd::Expired);
        let end = End::SessionOver(SessionEnd::Expired);
        assert_eq!(group.handle(All(over)), [ended(0, end)]);
        assert!(group.is_ended());
    }
}
