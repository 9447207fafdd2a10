//! Exact steps: to whom a hold is offered, for how long, and what becomes of a task that is late.

use Step::*;

use super::*;

type Tasks = Stage<&'static str, HoldNumber, char>;

/// A stage whose tasks are these, in this order. The process contends.
fn line<const N: usize>(names: [&'static str; N]) -> (Tasks, [Ticket; N]) {
    let mut stage = Stage::new(2);
    let tickets = names.map(|name| arrive(&mut stage, name).0);
    (stage, tickets)
}

/// Returns whether the process is to contend.
fn arrive(stage: &mut Tasks, name: &'static str) -> (Ticket, bool) {
    let ticket = stage.arrive();
    let turned = stage.poll(ticket, name);
    assert!(matches!(turned, Turned::Contend | Turned::Waits));
    (ticket, turned == Turned::Contend)
}

/// The guard of a hold is its number.
fn begun(stage: &mut Tasks, half: Half) -> (HoldNumber, Step<&'static str, HoldNumber>) {
    let hold = stage.begin();
    (hold, stage.granted(hold, half))
}

fn granted(stage: &mut Tasks, to: &'static str) -> HoldNumber {
    let (hold, step) = begun(stage, Half::Long);
    assert_eq!(step, Wake(to));
    hold
}

/// The hold ends, and is not offered by then. Returns whether the process contends again.
fn over(stage: &mut Tasks, hold: HoldNumber) -> bool {
    let (again, withdrawn) = stage.over(hold);
    assert_eq!(withdrawn, None);
    again
}

/// The hold ends, and the process contends again.
fn again(stage: &mut Tasks, hold: HoldNumber) {
    assert!(over(stage, hold));
}

/// It is offered a hold, and does not take it in time. So the next one is offered the hold.
fn passed_over(stage: &mut Tasks, late: &'static str, next: &'static str) -> HoldNumber {
    let hold = granted(stage, late);
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake(next)]);
    hold
}

fn take(stage: &mut Tasks, task: Ticket) {
    let hold = stage.hold;
    assert_eq!(stage.poll(task, "taken"), Turned::Yours(hold));
}

/// A hold opens with the task, so the offer stands for half of the time.
fn opened(stage: &mut Tasks, task: &'static str) -> HoldNumber {
    let hold = granted(stage, task);
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing, Nothing]);
    hold
}

fn half_missed(stage: &mut Tasks) -> [Step<&'static str, HoldNumber>; 3] {
    [Left::Half, Left::Half, Left::LessThanHalf].map(|left| stage.look(left, true))
}

/// The task has its turn, and the hold ends with it. Returns whether the process contends again.
fn turn(stage: &mut Tasks, task: Ticket) -> bool {
    let hold = stage.hold;
    take(stage, task);
    assert_eq!(stage.passed(hold, hold, false), Release(hold));
    over(stage, hold)
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
    assert_eq!(stage.passed(hold, hold, true), Release(hold));
    // No time is left, so it is absent, and the process contends once it is polled.
    assert_eq!(late.look(Left::Nothing, true), Release(hold));
    assert!(!over(&mut late, hold) && !late.is_wanted());
    assert_eq!(late.poll(only, "only"), Turned::Contend);
}

#[test]
fn one_that_comes_during_such_an_offer_has_the_hold_at_the_next_look() {
    let (mut stage, [_]) = line(["late"]);
    granted(&mut stage, "late");
    assert_eq!([(); 3].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing]);
    let (prompt, contends) = arrive(&mut stage, "prompt");
    assert!(!contends);
    assert_eq!(stage.look(Left::Half, true), Wake("prompt"));
    take(&mut stage, prompt);
}

/// Also if its polls fall between the openings, each time.
#[test]
fn a_late_task_comes_behind_those_in_time_until_a_hold_opens_with_it() {
    for is_there in [true, false] {
        let (mut stage, [late, b, c, _]) = line(["late", "b", "c", "d"]);
        let hold = passed_over(&mut stage, "late", "b");
        assert!(!is_there || stage.poll(late, "late") == Turned::Waits);
        take(&mut stage, b);
        assert_eq!(stage.passed(hold, hold, true), Wake("c"));
        assert!(turn(&mut stage, c));
        let hold = opened(&mut stage, "late");
        take(&mut stage, late);
        assert_eq!(stage.passed(hold, hold, true), Wake("d"));
    }
}

/// Each hold has another task that is in time.
#[test]
fn a_task_that_nobody_polls_has_ever_fewer_openings() {
    let (mut stage, _) = line(["dead"]);
    let mut offers = Vec::new();
    for number in 1..=40 {
        let prompt = arrive(&mut stage, "prompt").0;
        let (_, step) = begun(&mut stage, Half::Long);
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
        assert!(!turn(&mut stage, prompt), "nobody is there");
    }
    assert_eq!(offers, [1, 2, 4, 8, 16, 32]);
}

/// From then on it is polled in time.
#[test]
fn a_task_that_missed_its_half_has_another_one() {
    let (mut stage, [late, b]) = line(["late", "b"]);
    let hold = passed_over(&mut stage, "late", "b");
    take(&mut stage, b);
    let (c, _) = arrive(&mut stage, "c");
    assert_eq!(stage.passed(hold, hold, false), Release(hold));
    again(&mut stage, hold);
    let hold = granted(&mut stage, "late");
    let looks = [Left::Half, Left::LessThanHalf].map(|left| stage.look(left, true));
    assert_eq!(looks, [Nothing, Wake("c")]);
    take(&mut stage, c);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    let [d, _] = ["d", "e"].map(|name| arrive(&mut stage, name).0);
    assert_eq!(stage.passed(hold, hold, false), Release(hold));
    again(&mut stage, hold);
    granted(&mut stage, "d");
    assert!(turn(&mut stage, d));
    opened(&mut stage, "late");
    take(&mut stage, late);
}

/// At the second look no time is left for the others.
#[test]
fn a_short_hold_opens_with_a_late_task_only_if_that_is_there() {
    let (mut stage, [late, b, c]) = line(["late", "b", "c"]);
    let short = |stage: &mut Tasks, to| {
        let (hold, step) = begun(stage, Half::Short);
        assert_eq!(step, Wake(to));
        hold
    };
    let hold = short(&mut stage, "late");
    assert_eq!([Left::Half, Left::Nothing].map(|left| stage.look(left, true)), [Nothing, Release(hold)]);
    again(&mut stage, hold);
    short(&mut stage, "b");
    assert!(turn(&mut stage, b));
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    let hold = short(&mut stage, "late");
    assert_eq!([Left::Half, Left::Nothing].map(|left| stage.look(left, true)), [Nothing, Release(hold)]);
    again(&mut stage, hold);
    short(&mut stage, "c");
    take(&mut stage, c);
}

#[test]
fn an_absent_task_has_half_of_the_time_though_those_who_waited_have_left() {
    let (mut stage, [_, b, c]) = line(["dead", "b", "c"]);
    passed_over(&mut stage, "dead", "b");
    assert!(turn(&mut stage, b));
    let hold = granted(&mut stage, "dead");
    assert_eq!(stage.leave(c, Left::Half, true), Nothing);
    assert_eq!(half_missed(&mut stage), [Nothing, Nothing, Release(hold)]);
    assert!(!over(&mut stage, hold), "nobody is there");
    // It is the last.
    let (d, contends) = arrive(&mut stage, "d");
    assert!(contends);
    granted(&mut stage, "d");
    take(&mut stage, d);
}

#[test]
fn the_last_task_waits_for_an_absent_one_once() {
    let (mut stage, [last, _, c]) = line(["last", "dead", "c"]);
    let hold = granted(&mut stage, "last");
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("dead"), Nothing, Wake("c")]);
    take(&mut stage, c);
    assert_eq!(stage.passed(hold, hold, true), Release(hold));
    assert!(!over(&mut stage, hold), "both are absent");
    assert_eq!(stage.poll(last, "last"), Turned::Contend);
    granted(&mut stage, "last");
    let (e, _) = arrive(&mut stage, "e");
    assert_eq!([(); 2].map(|()| stage.look(Left::LessThanHalf, true)), [Nothing, Wake("e")]);
    assert_eq!(stage.poll(last, "last"), Turned::Waits);
    assert!(turn(&mut stage, e));
    granted(&mut stage, "dead");
    assert_eq!(half_missed(&mut stage), [Nothing, Nothing, Wake("last")]);
    take(&mut stage, last);
}

#[test]
fn a_hold_does_not_open_with_an_absent_task_if_nobody_waits() {
    let (mut stage, [_, b]) = line(["dead", "b"]);
    passed_over(&mut stage, "dead", "b");
    assert!(!turn(&mut stage, b), "nobody is there");
    let (c, contends) = arrive(&mut stage, "c");
    assert!(contends);
    assert_eq!(stage.leave(c, Left::Half, true), GiveUp);
    let (hold, step) = begun(&mut stage, Half::Long);
    assert_eq!(step, Release(hold));
}

#[test]
fn a_late_task_has_what_is_left_when_nobody_in_time_waits() {
    let (mut stage, [late, b]) = line(["late", "b"]);
    let hold = passed_over(&mut stage, "late", "b");
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    // Nobody in time waits behind this one, either.
    assert_eq!([(); 3].map(|()| stage.look(Left::Half, true)), [Nothing, Nothing, Nothing]);
    take(&mut stage, b);
    assert_eq!(stage.passed(hold, hold, true), Wake("late"));
    assert_eq!([(); 3].map(|()| stage.look(Left::LessThanHalf, true)), [Nothing, Nothing, Nothing]);
    take(&mut stage, late);
}

#[test]
fn one_that_lets_its_half_pass_is_the_last() {
    let (mut stage, [late, b, c]) = line(["late", "b", "c"]);
    passed_over(&mut stage, "late", "b");
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    assert!(turn(&mut stage, b));
    granted(&mut stage, "late");
    assert_eq!(half_missed(&mut stage), [Nothing, Nothing, Wake("c")]);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    assert!(turn(&mut stage, c));
    // Others come first, when a hold begins, too.
    let (e, _) = arrive(&mut stage, "e");
    let hold = granted(&mut stage, "e");
    take(&mut stage, e);
    assert_eq!(stage.passed(hold, hold, true), Wake("late"));
    let (f, _) = arrive(&mut stage, "f");
    assert_eq!([(); 2].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("f")]);
    assert_eq!(stage.poll(late, "late"), Turned::Waits);
    take(&mut stage, f);
    assert_eq!(stage.passed(hold, hold, true), Wake("late"));
    take(&mut stage, late);
}

#[test]
fn of_two_late_tasks_the_first_keeps_the_other_waiting_for_a_half() {
    let (mut stage, [a, b, c]) = line(["a", "b", "c"]);
    let hold = granted(&mut stage, "a");
    assert_eq!([(); 4].map(|()| stage.look(Left::Half, true)), [Nothing, Wake("b"), Nothing, Wake("c")]);
    take(&mut stage, c);
    assert_eq!(stage.passed(hold, hold, true), Release(hold));
    assert!(!over(&mut stage, hold), "both are absent");
    assert_eq!(stage.poll(b, "b"), Turned::Contend);
    assert_eq!(stage.poll(a, "a"), Turned::Waits);
    granted(&mut stage, "a");
    assert_eq!(half_missed(&mut stage), [Nothing, Nothing, Wake("b")]);
    assert_eq!(stage.poll(a, "a"), Turned::Waits);
    assert_eq!([(); 3].map(|()| stage.look(Left::LessThanHalf, true)), [Nothing, Nothing, Nothing]);
    take(&mut stage, b);
}

#[test]
fn without_time_or_a_lease_nothing_is_handed_on() {
    let (mut stage, [a, b, _]) = line(["a", "b", "c"]);
    let hold = granted(&mut stage, "a");
    assert_eq!(stage.leave(a, Left::LessThanHalf, true), Wake("b"));
    for (left, lasts) in [(Left::Nothing, true), (Left::LessThanHalf, false)] {
        let mut late = stage.clone();
        assert_eq!([(); 2].map(|()| late.look(left, lasts)), [Nothing, Release(hold)]);
        assert!(over(&mut late, hold), "c waits");
        let mut left_behind = stage.clone();
        assert_eq!(left_behind.leave(b, left, lasts), Release(hold));
        assert!(over(&mut left_behind, hold), "c waits");
    }
}

#[test]
fn a_hold_that_is_lost_while_it_is_offered_is_withdrawn() {
    let (mut stage, [only]) = line(["only"]);
    let hold = granted(&mut stage, "only");
    assert_eq!(stage.offered(), Some(&hold));
    assert_eq!(stage.over(hold), (true, Some(hold)));
    assert_eq!(stage.offered(), None);
    assert_eq!((stage.poll(only, "only"), stage.over(hold)), (Turned::Waits, (false, None)));
}

#[test]
fn a_task_that_took_a_lost_hold_goes_back_to_its_place() {
    let (mut stage, [a, _]) = line(["a", "b"]);
    let hold = granted(&mut stage, "a");
    take(&mut stage, a);
    assert!(over(&mut stage, hold), "b waits");
    assert_eq!(stage.poll(a, "a"), Turned::Waits);
    granted(&mut stage, "a");
    take(&mut stage, a);
    // What it lets go late is no hold of the present.
    assert_eq!(stage.passed(hold, hold, true), Release(hold));
}

#[test]
fn each_task_is_told_of_a_failure_once() {
    let (mut stage, [a, b, c]) = line(["a", "b", "c"]);
    assert_eq!(stage.fail(&'f'), (vec!["a", "b", "c"], None));
    assert_eq!(stage.leave(c, Left::Half, true), Nothing);
    assert_eq!(stage.poll(b, "b"), Turned::Failed('f'));
    // Those that come later wait for another contender.
    let (d, contends) = arrive(&mut stage, "d");
    assert!(contends);
    assert_eq!(stage.poll(a, "a"), Turned::Failed('f'));
    assert_eq!(stage.fail(&'g'), (vec!["d"], None));
    assert_eq!(stage.poll(d, "d"), Turned::Failed('g'));
    assert!(stage.is_free() && stage.failed.is_empty());
    let (mut offered, _) = line(["a"]);
    let hold = granted(&mut offered, "a");
    assert_eq!(offered.fail(&'f'), (vec!["a"], Some(hold)));
}
