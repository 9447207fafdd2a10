use super::*;
use crate::queue::tests::entry;

/// An owner, with a number and a token.
type Who = (&'static str, i32, i64);

/// A look after so many tenths of a second.
type Look<'a> = (i64, &'a [Who]);

fn after(looks: &[Look<'_>]) -> History {
    let mut history = History::default();
    for (tenths, queue) in looks {
        let queue = queue.iter().map(|(owner, sequence, token)| entry(owner, *sequence, *token));
        history.look(at(*tenths), &queue.collect::<Vec<_>>());
    }
    history
}

fn at(tenths: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000_000_000 + tenths * 100).unwrap()
}

fn text(handoff: &Handoff) -> String {
    let name = |owner: &Option<String>| owner.clone().unwrap_or_else(|| "nobody".to_owned());
    let others = if handoff.others { " .." } else { "" };
    let held = handoff.held.map_or_else(String::new, |held| {
        format!(" {}{}", if held.at_least { ">=" } else { "" }, held.seen.as_millis())
    });
    format!("{}{others} {}{held}", name(&handoff.from), name(&handoff.to))
}

fn told(looks: &[Look<'_>]) -> Vec<String> {
    let history = after(looks);
    history.handoffs().map(text).collect()
}

const A: Who = ("a", 0, 10);
const B: Who = ("b", 1, 11);
const C: Who = ("c", 2, 12);
const D: Who = ("d", 3, 13);

#[test]
fn nothing_is_told_of_one_look_or_of_waiters() {
    assert!(told(&[(0, &[A, B])]).is_empty());
    assert!(told(&[(0, &[A]), (5, &[A, B]), (10, &[A, B, C]), (15, &[A, C])]).is_empty());
    assert!(told(&[(0, &[]), (5, &[])]).is_empty());
}

#[test]
fn the_next_one_takes_over() {
    let looks: &[Look<'_>] = &[(0, &[]), (5, &[A, B]), (10, &[A, B]), (15, &[B])];
    assert_eq!(told(looks), ["a b 1000", "nobody a"]);
    assert_eq!(after(looks).handoffs().next().unwrap().at, at(15));
}

#[test]
fn who_was_there_before_the_first_look_has_held_it_for_longer() {
    assert_eq!(told(&[(0, &[A, B]), (5, &[B])]), ["a b >=500"]);
}

#[test]
fn a_release_leaves_nobody() {
    let looks: &[Look<'_>] = &[(0, &[]), (5, &[A]), (10, &[]), (15, &[]), (20, &[B])];
    assert_eq!(told(looks), ["nobody b", "a nobody 500", "nobody a"]);
}

#[test]
fn a_waiter_between_may_have_held_it_or_not() {
    assert_eq!(told(&[(0, &[A, B, C]), (5, &[C])]), ["a .. c >=500"]);
    assert_eq!(told(&[(0, &[A, B]), (5, &[])]), ["a .. nobody >=500"]);
    // It gave up earlier, while another one held the lock.
    assert_eq!(told(&[(0, &[A, B, C]), (5, &[A, C]), (10, &[C])]), ["a c >=1000"]);
}

#[test]
fn whoever_came_and_went_between_two_looks_may_have_held_it() {
    assert_eq!(told(&[(0, &[A]), (5, &[B])]), ["a b >=500"]);
    assert_eq!(told(&[(0, &[A]), (5, &[C])]), ["a .. c >=500"]);
    assert_eq!(told(&[(0, &[A, B]), (5, &[D])]), ["a .. d >=500"]);
    assert_eq!(told(&[(0, &[A]), (5, &[]), (10, &[C])]), ["nobody .. c", "a nobody >=500"]);
}

#[test]
fn numbers_that_begin_anew_tell_no_predecessor() {
    assert_eq!(told(&[(0, &[D]), (5, &[("e", 0, 20)])]), ["d .. e >=500"]);
    // The same number does not make it the same holder.
    assert_eq!(told(&[(0, &[A]), (5, &[("e", 0, 20)])]), ["a .. e >=500"]);
}

#[test]
fn a_look_at_the_past_is_passed_over() {
    assert_eq!(told(&[(0, &[A, B]), (5, &[B]), (10, &[A, B]), (15, &[B])]), ["a b >=500"]);
    assert!(told(&[(0, &[A]), (5, &[]), (10, &[A])]).is_empty());
    let history = after(&[(0, &[]), (5, &[A]), (10, &[]), (15, &[A])]);
    assert_eq!(history.holding(at(20)), Some(Length { seen: Duration::from_millis(1500), at_least: false }));
}

#[test]
fn nothing_is_known_of_the_time_between_distant_looks() {
    // The first held the lock at least until it was seen last, and the next one at least since it was seen first.
    let looks: &[Look<'_>] = &[(0, &[]), (5, &[A, B]), (15, &[A, B]), (600, &[B, C]), (605, &[C])];
    assert_eq!(told(looks), ["b c >=500", "a b >=1000", "nobody a"]);
}

#[test]
fn nodes_that_are_not_ours_to_read_are_told_apart_by_their_numbers() {
    let unreadable = |sequence| Entry { owner: None, token: None, ..entry("", sequence, 0) };
    let mut history = History::default();
    history.look(at(0), &[unreadable(0), unreadable(1)]);
    history.look(at(5), &[unreadable(0), unreadable(1)]);
    history.look(at(10), &[unreadable(1)]);
    assert_eq!(history.handoffs().map(text).collect::<Vec<_>>(), ["- - >=1000"]);
}

#[test]
fn a_clock_that_is_set_back_does_no_harm() {
    assert_eq!(told(&[(50, &[]), (55, &[A, B]), (0, &[B])]), ["a b 0", "nobody a"]);
}

#[test]
fn the_oldest_are_forgotten() {
    let mut history = History::default();
    for (tenths, sequence) in (0..).zip(0..500) {
        history.look(at(tenths), &[entry("x", sequence, i64::from(sequence) + 1)]);
    }
    assert_eq!(history.handoffs().count(), LONGEST);
    assert_eq!(history.handoffs().next().unwrap().at, at(499));
}

/// A reader that holds the lock.
fn reader((owner, sequence, token): Who) -> Entry {
    Entry { kind: zklock::inspect::Kind::Shared, holds: true, ..entry(owner, sequence, token) }
}

#[test]
fn readers_hold_it_together() {
    let mut history = History::default();
    history.look(at(0), &[]);
    history.look(at(5), &[reader(A)]);
    history.look(at(10), &[reader(A), reader(B)]);
    // The first one is gone, and another one has come.
    history.look(at(15), &[reader(B), reader(C)]);
    assert_eq!(history.handoffs().count(), 1);
    assert_eq!(history.holding(at(20)), Some(Length { seen: Duration::from_millis(1500), at_least: false }));
    // A look at the past is passed over.
    history.look(at(20), &[reader(A), reader(B)]);
    let (owner, number, token) = D;
    history.look(at(25), &[reader(B), reader(C), entry(owner, number, token)]);
    history.look(at(30), &[entry(owner, number, token)]);
    let told = history.handoffs().map(text).collect::<Vec<_>>();
    assert_eq!(told, ["a and 2 other readers d 2500", "nobody a"]);
}

#[test]
fn a_writer_hands_over_to_all_readers_behind_it() {
    let mut history = History::default();
    let waiting = |who| Entry { holds: false, ..reader(who) };
    history.look(at(0), &[entry("a", 0, 10), waiting(B), waiting(C)]);
    history.look(at(5), &[reader(B), reader(C)]);
    history.look(at(10), &[]);
    let told = history.handoffs().map(text).collect::<Vec<_>>();
    assert_eq!(told, ["b and another reader nobody 500", "a b and another reader >=500"]);
}
