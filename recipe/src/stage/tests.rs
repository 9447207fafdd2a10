//! Exact steps: to whom a hold is offered, for how long, and what becomes of a task that is late.

use Step::*;

use super::*;

/// A stage whose tasks are these, in this order. The process contends.
fn line<const N: usize>(names: [&'static str; N]) -> (Stage<&'static str>, [Ticket; N]) {
    let mut stage = Stage::new(2);
    let tickets = names.map(|name| stage.arrive(name).0);
    (stage, tickets)
}

fn granted(stage: &mut Stage<&'static str>, to: &'static str) -> HoldNumber {
    let (hold, step) = stage.granted(Half::Long);
    assert_eq!(step, Wake(to));
    hold
}

/// The hold ends, and the process contends again.
fn again(stage: &mut Stage<&'static str>, hold: HoldNumber) {
    assert!(stage.over(hold));
}

fn take(stage: &mut Stage<&'static str>, task: Ticket) {
    assert_eq!(stage.poll(task, "taken"), Turned::Yours);
}

#[test]
fn an_offer_for_which_nobody_else_waits_stands_while_time_is_left() {
    let (mut stage, [only]) = line(["only"]);
    let hold = granted(&mut stage, "only");
    for left in [Left::Half, Left::Half, Left::LessThanHalf, Left::LessThanHalf] {
        assert_eq!(stage.look(left, true), Nothing);
    }
    let mut late = stage.clone();
    take(&mut stage, only);
    assert_eq!(stage.passed(hold, true), Release);
    // No time is left, so it is absent, and the process contends once it is polled.
    assert_eq!(late.look(Left::Nothing, true), Release);
    assert!(!late.over(hold) && !late.is_wanted());
    assert_eq!(late.poll(only, "only"), Turned::Contend);
}

#[test]
fn one_that_comes_during_such_an_offer_has_the_hold_at_the_next_look() {
    let (mut stage, [_]) = line(["late"]);
    let _hold = granted(&mut stage, "late");
    assert_eq!([(); 3].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing]);
    let (prompt, contends) = stage.arrive("prompt");
    assert!(!contends);
    assert_eq!(stage.look(Left::Half, true), Wake("prompt"));
    take(&mut stage, prompt);
}

#[test]
fn a_late_task_comes_behind_those_in_time_until_a_hold_opens_with_it() {
    let (mut stage, [late, b, c, _]) = line(["late", "b", "c", "d"]);
    let hold = granted(&mut stage, "late");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b")]);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, true), Wake("c"));
    take(&mut stage, c);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let hold = granted(&mut stage, "late");
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing, Nothing]);
    take(&mut stage, late);
    assert_eq!(stage.passed(hold, true), Wake("d"));
}

/// Its polls fall between the openings, each time.
#[test]
fn a_hold_opens_with_a_late_task_though_that_is_absent() {
    let (mut stage, [late, b, c]) = line(["late", "b", "c"]);
    let hold = granted(&mut stage, "late");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b")]);
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let hold = granted(&mut stage, "late");
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing, Nothing]);
    take(&mut stage, late);
    assert_eq!(stage.passed(hold, true), Wake("c"));
    take(&mut stage, c);
}

/// Each hold has another task that is in time.
#[test]
fn a_task_that_nobody_polls_has_ever_fewer_openings() {
    let (mut stage, _) = line(["dead"]);
    let mut offers = Vec::new();
    for number in 1..=40 {
        let prompt = stage.arrive("prompt").0;
        let (hold, step) = stage.granted(Half::Long);
        if step == Wake("dead") {
            offers.push(number);
            let stands = [Left::Half; 3].iter().filter(|left| stage.look(**left, true) == Nothing).count();
            // The first one is no opening.
            assert_eq!(stands, if number == 1 { 2 } else { 3 });
            assert_eq!(
                stage.look(Left::LessThanHalf, true),
                if number == 1 { Nothing } else { Wake("prompt") }
            );
        }
        take(&mut stage, prompt);
        assert_eq!(stage.passed(hold, false), Release);
        assert!(!stage.over(hold), "nobody is there");
    }
    assert_eq!(offers, [1, 2, 4, 8, 16, 32]);
}

/// From then on it is polled in time.
#[test]
fn a_task_that_missed_its_half_has_another_one() {
    let (mut stage, [late, b]) = line(["late", "b"]);
    let hold = granted(&mut stage, "late");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b")]);
    take(&mut stage, b);
    let (c, _) = stage.arrive("c");
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let hold = granted(&mut stage, "late");
    let looks = [Left::Half, Left::LessThanHalf].map(|left| stage.look(left, true));
    assert_eq!(looks, [Nothing, Wake("c")]);
    take(&mut stage, c);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    let [d, _] = ["d", "e"].map(|name| stage.arrive(name).0);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let hold = granted(&mut stage, "d");
    take(&mut stage, d);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let _hold = granted(&mut stage, "late");
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing, Nothing]);
    take(&mut stage, late);
}

/// At the second look no time is left for the others.
#[test]
fn a_short_hold_opens_with_a_late_task_only_if_that_is_there() {
    let (mut stage, [late, b, c]) = line(["late", "b", "c"]);
    let short = |stage: &mut Stage<_>, to| {
        let (hold, step) = stage.granted(Half::Short);
        assert_eq!(step, Wake(to));
        hold
    };
    let hold = short(&mut stage, "late");
    assert_eq!([Left::Half, Left::Nothing].map(|left| stage.look(left, true)), [Nothing, Release]);
    again(&mut stage, hold);
    let hold = short(&mut stage, "b");
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    let hold = short(&mut stage, "late");
    assert_eq!([Left::Half, Left::Nothing].map(|left| stage.look(left, true)), [Nothing, Release]);
    again(&mut stage, hold);
    let _hold = short(&mut stage, "c");
    take(&mut stage, c);
}

#[test]
fn an_absent_task_has_half_of_the_time_though_those_who_waited_have_left() {
    let (mut stage, [_, b, c]) = line(["dead", "b", "c"]);
    let hold = granted(&mut stage, "dead");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b")]);
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let hold = granted(&mut stage, "dead");
    assert_eq!(stage.leave(c, true), Nothing);
    let looks = [Left::Half, Left::Half, Left::LessThanHalf].map(|left| stage.look(left, true));
    assert_eq!(looks, [Nothing, Nothing, Release]);
    assert!(!stage.over(hold), "nobody is there");
    // It is the last.
    let (d, contends) = stage.arrive("d");
    assert!(contends);
    let _hold = granted(&mut stage, "d");
    take(&mut stage, d);
}

#[test]
fn the_last_task_waits_for_an_absent_one_once() {
    let (mut stage, [last, _, c]) = line(["last", "dead", "c"]);
    let hold = granted(&mut stage, "last");
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("dead"), Nothing, Wake("c")]);
    take(&mut stage, c);
    assert_eq!(stage.passed(hold, true), Release);
    assert!(!stage.over(hold), "both are absent");
    assert_eq!(stage.poll(last, "last"), Turned::Contend);
    let hold = granted(&mut stage, "last");
    let (e, _) = stage.arrive("e");
    assert_eq!([(); 2].map(|()| stage.look(Left::LessThanHalf, true)), [Nothing, Wake("e")]);
    assert_eq!(stage.poll(last, "last"), Turned::Waits);
    take(&mut stage, e);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let _hold = granted(&mut stage, "dead");
    let looks = [Left::Half, Left::Half, Left::LessThanHalf].map(|left| stage.look(left, true));
    assert_eq!(looks, [Nothing, Nothing, Wake("last")]);
    take(&mut stage, last);
}

#[test]
fn a_hold_does_not_open_with_an_absent_task_if_nobody_waits() {
    let (mut stage, [_, b]) = line(["dead", "b"]);
    let hold = granted(&mut stage, "dead");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b")]);
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, false), Release);
    assert!(!stage.over(hold), "nobody is there");
    let (c, contends) = stage.arrive("c");
    assert!(contends);
    assert_eq!(stage.leave(c, true), GiveUp);
    assert_eq!(stage.granted(Half::Long).1, Release);
}

#[test]
fn a_late_task_has_what_is_left_when_nobody_in_time_waits() {
    let (mut stage, [late, b]) = line(["late", "b"]);
    let hold = granted(&mut stage, "late");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b")]);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    // Nobody in time waits behind this one, either.
    assert_eq!([(); 3].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing]);
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, true), Wake("late"));
    assert_eq!([(); 3].map(|()| stage.look(Left::LessThanHalf, true)), [Nothing, Nothing, Nothing]);
    take(&mut stage, late);
}

#[test]
fn one_that_lets_its_half_pass_is_the_last() {
    let (mut stage, [late, b, c]) = line(["late", "b", "c"]);
    let hold = granted(&mut stage, "late");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b")]);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    let hold = granted(&mut stage, "late");
    let looks = [Left::Half, Left::Half, Left::LessThanHalf].map(|left| stage.look(left, true));
    assert_eq!(looks, [Nothing, Nothing, Wake("c")]);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    take(&mut stage, c);
    assert_eq!(stage.passed(hold, false), Release);
    again(&mut stage, hold);
    // Others come first, when a hold begins, too.
    let (e, _) = stage.arrive("e");
    let hold = granted(&mut stage, "e");
    take(&mut stage, e);
    assert_eq!(stage.passed(hold, true), Wake("late"));
    let (f, _) = stage.arrive("f");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("f")]);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    take(&mut stage, f);
    assert_eq!(stage.passed(hold, true), Wake("late"));
    take(&mut stage, late);
}

#[test]
fn of_two_late_tasks_the_first_keeps_the_other_waiting_for_a_half() {
    let (mut stage, [a, b, c]) = line(["a", "b", "c"]);
    let hold = granted(&mut stage, "a");
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b"), Nothing, Wake("c")]);
    take(&mut stage, c);
    assert_eq!(stage.passed(hold, true), Release);
    assert!(!stage.over(hold), "both are absent");
    assert_eq!(stage.poll(b, "b"), Turned::Contend);
    assert_eq!(stage.poll(a, "a"), Turned::Waits);
    let _hold = granted(&mut stage, "a");
    let looks = [Left::Half, Left::Half, Left::LessThanHalf].map(|left| stage.look(left, true));
    assert_eq!(looks, [Nothing, Nothing, Wake("b")]);
    assert_eq!(stage.poll(a, "a"), Turned::Waits);
    assert_eq!([(); 3].map(|()| stage.look(Left::LessThanHalf, true)), [Nothing, Nothing, Nothing]);
    take(&mut stage, b);
}

#[test]
fn without_time_or_a_lease_nothing_is_handed_on() {
    let (mut stage, [a, b, _]) = line(["a", "b", "c"]);
    let hold = granted(&mut stage, "a");
    assert_eq!(stage.leave(a, true), Wake("b"));
    for (left, allowed) in [(Left::Nothing, true), (Left::LessThanHalf, false)] {
        let mut stage = stage.clone();
        assert_eq!([(); 2].map(|()| stage.look(left, allowed)), [Nothing, Release]);
        assert!(stage.over(hold), "c waits");
    }
    assert_eq!(stage.leave(b, false), Release);
    assert!(stage.over(hold), "c waits");
}
