//! Exact steps: to whom a hold is offered, for how long, and what becomes of a task that is late.

use Step::*;

use super::*;

type Tasks = LineMachine<&'static str, HoldNumber, char>;

/// A line whose tasks are these, in this order. The process contends. A hold may be passed on twice.
fn line<const N: usize>(names: [&'static str; N]) -> (Tasks, [Ticket; N]) {
    let mut machine = LineMachine::new(2);
    let tickets = names.map(|name| {
        let ticket = machine.arrive();
        let turned = machine.poll(ticket, name);
        assert_eq!(turned, if ticket == Ticket(1) { Turned::Contend } else { Turned::Waits });
        ticket
    });
    (machine, tickets)
}

/// A line whose hold is offered to its first task. The guard of a hold is its number.
fn offered<const N: usize>(names: [&'static str; N]) -> (Tasks, [Ticket; N]) {
    let (mut machine, tickets) = line(names);
    granted(&mut machine, names[0]);
    (machine, tickets)
}

fn granted(machine: &mut Tasks, to: &'static str) {
    assert_eq!(machine.granted(HoldNumber(machine.hold.0 + 1)), (machine.hold, Wake(to)));
}

fn take(machine: &mut Tasks, task: Ticket) {
    assert_eq!(machine.poll(task, "taken"), Turned::Yours(machine.hold));
}

/// The present turn is over, and the hold may be passed on.
fn passed(machine: &mut Tasks) -> Step<&'static str, HoldNumber> {
    machine.passed(machine.hold, machine.hold, true)
}

/// So many looks while time is left, and the lease lasts.
fn looks<const N: usize>(machine: &mut Tasks) -> [Step<&'static str, HoldNumber>; N] {
    [(); N].map(|()| machine.look_at_offer(true, true))
}

#[test]
fn tasks_are_served_in_their_order_as_often_as_the_budget_allows() {
    let (mut machine, [a, b, c, d]) = offered(["a", "b", "c", "d"]);
    for (task, step) in [(a, Wake("b")), (b, Wake("c")), (c, Release(HoldNumber(1)))] {
        take(&mut machine, task);
        assert_eq!(passed(&mut machine), step);
    }
    assert_eq!(machine.over(), (true, None));
    // Each hold has the whole budget.
    granted(&mut machine, "d");
    take(&mut machine, d);
    let e = machine.arrive();
    assert_eq!(machine.poll(e, "e"), Turned::Waits);
    assert_eq!(passed(&mut machine), Wake("e"));
    take(&mut machine, e);
    assert_eq!(passed(&mut machine), Release(HoldNumber(2)));
    assert_eq!(machine.over(), (false, None));
    assert!(machine.is_free());
}

#[test]
fn a_hold_is_not_passed_on_if_time_or_the_lease_forbids_it() {
    let (mut machine, [a, _]) = offered(["a", "b"]);
    take(&mut machine, a);
    assert_eq!(machine.passed(machine.hold, machine.hold, false), Release(machine.hold));
    assert_eq!(machine.over(), (true, None));
}

#[test]
fn a_late_task_is_passed_over_at_the_second_look() {
    let (mut machine, [_, b, c]) = offered(["a", "b", "c"]);
    assert_eq!(looks(&mut machine), [Nothing, Wake("b"), Nothing]);
    take(&mut machine, b);
    assert_eq!(looks(&mut machine), [Nothing]);
    assert_eq!(passed(&mut machine), Wake("c"));
    take(&mut machine, c);
    assert_eq!(passed(&mut machine), Release(machine.hold));
}

#[test]
fn a_late_task_that_is_polled_again_is_as_any_other_in_its_old_place() {
    let (mut machine, [a, b, _]) = offered(["a", "b", "c"]);
    assert_eq!(looks(&mut machine), [Nothing, Wake("b")]);
    take(&mut machine, b);
    assert_eq!(machine.poll(a, "a, polled again"), Turned::Waits);
    assert_eq!(passed(&mut machine), Wake("a, polled again"));
    assert_eq!(looks(&mut machine), [Nothing, Wake("c")]);
}

#[test]
fn a_hold_that_nobody_takes_is_released_and_contended_for_at_the_next_poll() {
    let (mut machine, [a, _]) = offered(["a", "b"]);
    assert_eq!(looks(&mut machine), [Nothing, Wake("b"), Nothing, Nothing]);
    assert_eq!(machine.look_at_offer(false, true), Release(machine.hold));
    assert_eq!(machine.over(), (false, None));
    assert!(!machine.is_free());
    assert_eq!(machine.poll(a, "a"), Turned::Contend);
    granted(&mut machine, "a");
    // The other one is late still, so this one is alone.
    assert_eq!(looks(&mut machine), [Nothing, Nothing, Nothing]);
    take(&mut machine, a);
}

#[test]
fn a_task_that_comes_has_the_offer_for_which_nobody_else_waited() {
    let (mut machine, [_]) = offered(["late"]);
    assert_eq!(looks(&mut machine), [Nothing, Nothing, Nothing]);
    let prompt = machine.arrive();
    assert_eq!(machine.poll(prompt, "prompt"), Turned::Waits);
    assert_eq!(looks(&mut machine), [Wake("prompt")]);
    take(&mut machine, prompt);
}

#[test]
fn without_time_or_a_lease_nothing_is_handed_on() {
    for (time_is_left, lasts) in [(false, true), (true, false)] {
        let (mut machine, [..]) = offered(["a", "b"]);
        let looks = [(); 2].map(|()| machine.look_at_offer(time_is_left, lasts));
        assert_eq!(looks, [Nothing, Release(machine.hold)]);
        assert_eq!(machine.over(), (true, None), "b waits");
    }
    // A lone task keeps the offer without a lease to hand it on, and after two looks not without time.
    let (mut machine, [_]) = offered(["a"]);
    assert_eq!([(); 3].map(|()| machine.look_at_offer(true, false)), [Nothing, Nothing, Nothing]);
    assert_eq!(machine.look_at_offer(false, true), Release(machine.hold));
}

#[test]
fn a_task_that_leaves_hands_on_what_it_was_offered_if_that_is_allowed() {
    let (mut machine, [a, b, c]) = offered(["a", "b", "c"]);
    assert_eq!(machine.leave(c, true), Nothing);
    assert_eq!(machine.leave(a, true), Wake("b"));
    assert_eq!(machine.clone().leave(b, true), Release(machine.hold), "nobody is left");
    let d = machine.arrive();
    assert_eq!(machine.poll(d, "d"), Turned::Waits);
    assert_eq!(machine.leave(b, false), Release(machine.hold));
    assert_eq!(machine.over(), (true, None));
}

#[test]
fn the_process_leaves_the_queue_once_nobody_is_wanted() {
    let (mut machine, [a, b]) = line(["a", "b"]);
    assert_eq!([machine.leave(a, true), machine.leave(b, true)], [Nothing, GiveUp]);
    let mut raced = machine.clone();
    assert!(machine.retire() && machine.is_free());
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
    let (mut machine, [a]) = line(["a"]);
    assert!(!machine.is_free());
    assert_eq!(machine.tried(), None);
    let mut free = Tasks::new(2);
    assert!(free.is_free());
    assert_eq!(free.tried(), Some(HoldNumber(1)));
    assert!(!free.is_free());
    assert_eq!(free.poll(a, "a"), Turned::Waits);
    assert_eq!(passed(&mut free), Wake("a"));
}

#[test]
fn a_hold_that_is_lost_while_it_is_offered_is_withdrawn() {
    let (mut machine, [only]) = offered(["only"]);
    assert_eq!(machine.offered(), Some(&machine.hold));
    assert_eq!(machine.over(), (true, Some(machine.hold)));
    assert_eq!(machine.offered(), None);
    assert_eq!(machine.poll(only, "only"), Turned::Waits);
}

#[test]
fn a_task_that_took_a_lost_hold_goes_back_to_its_place() {
    let (mut machine, [a, b]) = offered(["a", "b"]);
    take(&mut machine, a);
    let mut alone = machine.clone();
    assert_eq!(alone.leave(b, true), Nothing);
    assert_eq!((alone.over(), alone.poll(a, "a")), ((false, None), Turned::Contend));
    assert_eq!((machine.over(), machine.poll(a, "a")), ((true, None), Turned::Waits));
    assert_eq!(passed(&mut machine.clone()), Release(machine.hold), "it contends");
    granted(&mut machine, "a");
    take(&mut machine, a);
    // What it lets go late is no hold of the present.
    assert_eq!(machine.passed(HoldNumber(1), HoldNumber(1), true), Release(HoldNumber(1)));
    assert_eq!(passed(&mut machine), Wake("b"));
}

#[test]
fn each_task_is_told_of_a_failure_once() {
    let (mut machine, [a, b, c]) = line(["a", "b", "c"]);
    assert_eq!(machine.fail(&'f'), (vec!["a", "b", "c"], None));
    assert_eq!(machine.leave(c, true), Nothing);
    assert_eq!(machine.poll(b, "b"), Turned::Failed('f'));
    // Those that come later wait for another contender.
    let d = machine.arrive();
    assert_eq!(machine.poll(d, "d"), Turned::Contend);
    assert_eq!(machine.poll(a, "a"), Turned::Failed('f'));
    assert_eq!(machine.fail(&'g'), (vec!["d"], None));
    assert_eq!(machine.poll(d, "d"), Turned::Failed('g'));
    assert!(machine.is_free() && machine.failed.is_empty());
    let (mut machine, [_]) = offered(["a"]);
    assert_eq!(machine.fail(&'f'), (vec!["a"], Some(machine.hold)));
}
