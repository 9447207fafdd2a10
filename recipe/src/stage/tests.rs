//! Exact steps: to whom a hold is offered, for how long, and what becomes of a task that is late.

use Step::*;

use super::*;

type Tasks = Stage<&'static str, HoldNumber, char>;

/// A stage whose tasks are these, in this order. The process contends. A hold may be passed on twice.
fn line<const N: usize>(names: [&'static str; N]) -> (Tasks, [Ticket; N]) {
    let mut stage = Stage::new(2);
    let tickets = names.map(|name| {
        let ticket = stage.arrive();
        let turned = stage.poll(ticket, name);
        assert_eq!(turned, if ticket == Ticket(1) { Turned::Contend } else { Turned::Waits });
        ticket
    });
    (stage, tickets)
}

/// A line whose hold is offered to its first task. The guard of a hold is its number.
fn offered<const N: usize>(names: [&'static str; N]) -> (Tasks, [Ticket; N]) {
    let (mut stage, tickets) = line(names);
    granted(&mut stage, names[0]);
    (stage, tickets)
}

fn granted(stage: &mut Tasks, to: &'static str) {
    assert_eq!(stage.granted(HoldNumber(stage.hold.0 + 1)), (stage.hold, Wake(to)));
}

fn take(stage: &mut Tasks, task: Ticket) {
    assert_eq!(stage.poll(task, "taken"), Turned::Yours(stage.hold));
}

/// The present turn is over, and the hold may be passed on.
fn passed(stage: &mut Tasks) -> Step<&'static str, HoldNumber> {
    stage.passed(stage.hold, stage.hold, true)
}

/// So many looks while time is left, and the lease lasts.
fn looks<const N: usize>(stage: &mut Tasks) -> [Step<&'static str, HoldNumber>; N] {
    [(); N].map(|()| stage.look(true, true))
}

#[test]
fn tasks_are_served_in_their_order_as_often_as_the_budget_allows() {
    let (mut stage, [a, b, c, d]) = offered(["a", "b", "c", "d"]);
    for (task, step) in [(a, Wake("b")), (b, Wake("c")), (c, Release(HoldNumber(1)))] {
        take(&mut stage, task);
        assert_eq!(passed(&mut stage), step);
    }
    assert_eq!(stage.over(), (true, None));
    // Each hold has the whole budget.
    granted(&mut stage, "d");
    take(&mut stage, d);
    let e = stage.arrive();
    assert_eq!(stage.poll(e, "e"), Turned::Waits);
    assert_eq!(passed(&mut stage), Wake("e"));
    take(&mut stage, e);
    assert_eq!(passed(&mut stage), Release(HoldNumber(2)));
    assert_eq!(stage.over(), (false, None));
    assert!(stage.is_free());
}

#[test]
fn a_hold_is_not_passed_on_if_time_or_the_lease_forbids_it() {
    let (mut stage, [a, _]) = offered(["a", "b"]);
    take(&mut stage, a);
    assert_eq!(stage.passed(stage.hold, stage.hold, false), Release(stage.hold));
    assert_eq!(stage.over(), (true, None));
}

#[test]
fn a_late_task_is_passed_over_at_the_second_look() {
    let (mut stage, [_, b, c]) = offered(["a", "b", "c"]);
    assert_eq!(looks(&mut stage), [Nothing, Wake("b"), Nothing]);
    take(&mut stage, b);
    assert_eq!(looks(&mut stage), [Nothing]);
    assert_eq!(passed(&mut stage), Wake("c"));
    take(&mut stage, c);
    assert_eq!(passed(&mut stage), Release(stage.hold));
}

#[test]
fn a_late_task_that_is_polled_again_is_as_any_other_in_its_old_place() {
    let (mut stage, [a, b, _]) = offered(["a", "b", "c"]);
    assert_eq!(looks(&mut stage), [Nothing, Wake("b")]);
    take(&mut stage, b);
    assert_eq!(stage.poll(a, "a, polled again"), Turned::Waits);
    assert_eq!(passed(&mut stage), Wake("a, polled again"));
    assert_eq!(looks(&mut stage), [Nothing, Wake("c")]);
}

#[test]
fn a_hold_that_nobody_takes_is_released_and_contended_for_at_the_next_poll() {
    let (mut stage, [a, _]) = offered(["a", "b"]);
    assert_eq!(looks(&mut stage), [Nothing, Wake("b"), Nothing, Nothing]);
    assert_eq!(stage.look(false, true), Release(stage.hold));
    assert_eq!(stage.over(), (false, None));
    assert!(!stage.is_free());
    assert_eq!(stage.poll(a, "a"), Turned::Contend);
    granted(&mut stage, "a");
    // The other one is late still, so this one is alone.
    assert_eq!(looks(&mut stage), [Nothing, Nothing, Nothing]);
    take(&mut stage, a);
}

#[test]
fn a_task_that_comes_has_the_offer_for_which_nobody_else_waited() {
    let (mut stage, [_]) = offered(["late"]);
    assert_eq!(looks(&mut stage), [Nothing, Nothing, Nothing]);
    let prompt = stage.arrive();
    assert_eq!(stage.poll(prompt, "prompt"), Turned::Waits);
    assert_eq!(looks(&mut stage), [Wake("prompt")]);
    take(&mut stage, prompt);
}

#[test]
fn without_time_or_a_lease_nothing_is_handed_on() {
    for (time_is_left, lasts) in [(false, true), (true, false)] {
        let (mut stage, [..]) = offered(["a", "b"]);
        let looks = [(); 2].map(|()| stage.look(time_is_left, lasts));
        assert_eq!(looks, [Nothing, Release(stage.hold)]);
        assert_eq!(stage.over(), (true, None), "b waits");
    }
    // A lone task keeps the offer without a lease to hand it on, and after two looks not without time.
    let (mut stage, [_]) = offered(["a"]);
    assert_eq!([(); 3].map(|()| stage.look(true, false)), [Nothing, Nothing, Nothing]);
    assert_eq!(stage.look(false, true), Release(stage.hold));
}

#[test]
fn a_task_that_leaves_hands_on_what_it_was_offered_if_that_is_allowed() {
    let (mut stage, [a, b, c]) = offered(["a", "b", "c"]);
    assert_eq!(stage.leave(c, true), Nothing);
    assert_eq!(stage.leave(a, true), Wake("b"));
    assert_eq!(stage.clone().leave(b, true), Release(stage.hold), "nobody is left");
    let d = stage.arrive();
    assert_eq!(stage.poll(d, "d"), Turned::Waits);
    assert_eq!(stage.leave(b, false), Release(stage.hold));
    assert_eq!(stage.over(), (true, None));
}

#[test]
fn the_process_leaves_the_queue_once_nobody_is_wanted() {
    let (mut stage, [a, b]) = line(["a", "b"]);
    assert_eq!([stage.leave(a, true), stage.leave(b, true)], [Nothing, GiveUp]);
    let mut raced = stage.clone();
    assert!(stage.retire() && stage.is_free());
    let c = raced.arrive();
    assert_eq!(raced.poll(c, "c"), Turned::Waits);
    assert!(!raced.retire(), "somebody has come");
    // Granted before it has left.
    assert_eq!(raced.leave(c, true), GiveUp);
    assert_eq!(raced.granted(HoldNumber(1)), (HoldNumber(1), Release(HoldNumber(1))));
    assert_eq!(raced.over(), (false, None));
}

#[test]
fn a_try_succeeds_beside_nobody_or_is_not_passed_on() {
    let (mut stage, [a]) = line(["a"]);
    assert!(!stage.is_free());
    assert_eq!(stage.tried(), None);
    let mut free = Tasks::new(2);
    assert!(free.is_free());
    assert_eq!(free.tried(), Some(HoldNumber(1)));
    assert!(!free.is_free());
    assert_eq!(free.poll(a, "a"), Turned::Waits);
    assert_eq!(passed(&mut free), Wake("a"));
}

#[test]
fn a_hold_that_is_lost_while_it_is_offered_is_withdrawn() {
    let (mut stage, [only]) = offered(["only"]);
    assert_eq!(stage.offered(), Some(&stage.hold));
    assert_eq!(stage.over(), (true, Some(stage.hold)));
    assert_eq!(stage.offered(), None);
    assert_eq!(stage.poll(only, "only"), Turned::Waits);
}

#[test]
fn a_task_that_took_a_lost_hold_goes_back_to_its_place() {
    let (mut stage, [a, b]) = offered(["a", "b"]);
    take(&mut stage, a);
    let mut alone = stage.clone();
    assert_eq!(alone.leave(b, true), Nothing);
    assert_eq!((alone.over(), alone.poll(a, "a")), ((false, None), Turned::Contend));
    assert_eq!((stage.over(), stage.poll(a, "a")), ((true, None), Turned::Waits));
    assert_eq!(passed(&mut stage.clone()), Release(stage.hold), "it contends");
    granted(&mut stage, "a");
    take(&mut stage, a);
    // What it lets go late is no hold of the present.
    assert_eq!(stage.passed(HoldNumber(1), HoldNumber(1), true), Release(HoldNumber(1)));
    assert_eq!(passed(&mut stage), Wake("b"));
}

#[test]
fn each_task_is_told_of_a_failure_once() {
    let (mut stage, [a, b, c]) = line(["a", "b", "c"]);
    assert_eq!(stage.fail(&'f'), (vec!["a", "b", "c"], None));
    assert_eq!(stage.leave(c, true), Nothing);
    assert_eq!(stage.poll(b, "b"), Turned::Failed('f'));
    // Those that come later wait for another contender.
    let d = stage.arrive();
    assert_eq!(stage.poll(d, "d"), Turned::Contend);
    assert_eq!(stage.poll(a, "a"), Turned::Failed('f'));
    assert_eq!(stage.fail(&'g'), (vec!["d"], None));
    assert_eq!(stage.poll(d, "d"), Turned::Failed('g'));
    assert!(stage.is_free() && stage.failed.is_empty());
    let (mut stage, [_]) = offered(["a"]);
    assert_eq!(stage.fail(&'f'), (vec!["a"], Some(stage.hold)));
}
