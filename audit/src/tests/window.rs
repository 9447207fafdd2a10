//! An audit of a window: what lies outside changes nothing, and what may reach into it does.

use zklock_recipe::flight::Header;
use zklock_recipe::{Kind, Own};

use super::scene::*;
use crate::read::Process;
use crate::{Covered, Verdict};

/// A process that holds `/a` from the second instant to the third, and has stamps at these times.
fn holder(name: &str, own: Own, from: i64, to: i64, stamps: &[i64]) -> Writer {
    let mut one = Writer::new(name);
    let (early, late) = stamps.split_at(stamps.partition_point(|at| *at < from));
    one.stamps(early);
    one.holds(0, own, from);
    one.lets_go(0, to);
    one.stamps(late);
    one
}

/// One whose files from before this instant are gone. Then it holds `/a` for a moment.
fn later(first: i64) -> Process {
    let mut one = Writer::new("b");
    one.rotate(first);
    one.stamps(&[first + 10]);
    one.holds(0, node(0, 5_000), 5_000);
    one.lets_go(0, 5_010);
    one.stamps(&[9_000]);
    rotated(one.closed())
}

#[test]
fn a_record_without_its_begin_covers_the_time_behind_its_first_stamp() {
    let verdict = |since| within(vec![later(1_000)], since, None).verdict;
    assert_eq!(verdict(None), Unproven);
    assert_eq!(
        verdict(Some(1_010)),
        Unproven,
        "the leader's clock may have shown this before the first line"
    );
    assert_eq!(verdict(Some(1_011)), Proven);
    let covered = within(vec![later(1_000)], Some(0), None).covered;
    assert_eq!(covered, Some(Covered { from_ms: Some(LEADER + 1_011), to_ms: None }));
}

#[test]
fn a_hold_from_before_the_first_line_counts_if_it_may_reach_into_the_window() {
    let listed = |to| {
        let mut one = Writer::new("a");
        one.rotate(1_000);
        one.lists(0, node(0, 10), 10, 0);
        one.stamps(&[1_010, 2_500]);
        one.lets_go(0, to);
        one.stamps(&[to + 10, 8_000]);
        rotated(one.closed())
    };
    let beside = |to, since| {
        let other = holder("b", node(1, 5_000), 5_000, 5_100, &[1_100, 4_900, 8_000]);
        within(vec![listed(to), other.closed()], Some(since), None)
    };
    assert_eq!(beside(5_050, 2_000).verdict, Overlap);
    assert_eq!(beside(4_000, 2_000).verdict, Proven, "one after the other");
    let audit = beside(4_000, 4_500);
    assert_eq!((audit.verdict, audit.paths[0].holds.len()), (Proven, 1), "it is out of the window");
}

/// Two holds on machines whose clocks nothing relates.
fn two(end: i64, created: i64, stamps: &[i64]) -> Vec<Process> {
    let (first, second) = ((1_000, end), (3_000, 4_000));
    let one = holder("a", node(0, 5), first.0, first.1, stamps).closed();
    let mut other = Writer::new("b");
    other.holds(0, node(1, created), second.0);
    other.lets_go(0, second.1);
    vec![one, other.closed()]
}

#[test]
fn a_hold_that_ended_before_the_window_or_was_granted_behind_it_leaves_nothing_unproven() {
    let verdict = |since, until| within(two(2_000, 8, &[10, 2_010]), since, until).verdict;
    assert_eq!(verdict(None, None), Unproven);
    assert_eq!(verdict(Some(2_010), None), Unproven, "it may have ended in the window");
    assert_eq!(verdict(Some(2_011), None), Proven);
    let late = within(two(2_011, 8, &[10, 2_010]), Some(2_011), None).verdict;
    assert_eq!(late, Unproven, "it ended when the stamp was answered");
    // The second one is in no window: its node was created later than a stamp behind that.
    let verdict = |until| {
        let mut third = Writer::new("c");
        third.stamps(&[2_990]);
        let mut processes = two(2_000, 3_000, &[10]);
        processes.push(third.closed());
        within(processes, None, Some(until)).verdict
    };
    assert_eq!(verdict(2_990), Proven);
    assert_eq!(verdict(2_991), Unproven);
    // By an answer from before the grant.
    let verdict = |granted| {
        let (one, mut other) = (holder("a", node(0, 5), 1_000, 2_000, &[10]).closed(), Writer::new("b"));
        other.stamps(&[2_500]);
        other.holds(0, node(1, 100), granted);
        other.lets_go(0, 4_000);
        within(vec![one, other.closed()], None, Some(2_500)).verdict
    };
    assert_eq!([2_500, 2_501].map(verdict), [Unproven, Proven]);
}

#[test]
fn a_hold_whose_end_is_not_on_record_is_in_each_later_window() {
    let mut one = Writer::new("a");
    one.holds(0, node(0, 5), 100);
    one.stamps(&[9_000]);
    let other = holder("b", node(1, 8), 3_000, 3_100, &[10, 3_200]).closed();
    let audit = within(vec![one.running(), other], Some(3_000), Some(9_000));
    assert_eq!((audit.unseen.len(), audit.verdict, audit.paths[0].unproven_count), (0, Unproven, 1));
}

#[test]
fn an_end_that_is_not_on_record_matters_if_it_is_not_behind_the_window() {
    let running = || holder("a", node(0, 1_000), 1_000, 2_000, &[10, 3_000]).running();
    let audit = |until| within(vec![running()], None, until);
    assert_eq!(audit(None).verdict, Unproven);
    assert_eq!(audit(Some(3_001)).verdict, Unproven);
    assert_eq!(audit(Some(3_000)).verdict, Proven);
    assert_eq!(audit(None).covered, Some(Covered { from_ms: None, to_ms: Some(LEADER + 3_000) }));
    assert_eq!(audit(Some(3_001)).covered, audit(None).covered);
}

#[test]
fn no_time_is_covered_if_one_record_ends_before_another_one_begins() {
    let ends = holder("a", node(9, 500), 500, 600, &[10, 700]).running();
    assert_eq!(within(vec![ends, later(1_000)], Some(800), Some(900)).covered, None);
}

#[test]
fn lines_that_are_missing_matter_until_a_file_says_what_is_open() {
    let verdict = |begins: Option<i64>, since, until| {
        let mut one = Writer::new("a");
        one.stamps(&[10]);
        one.gap();
        begins.into_iter().for_each(|at| one.file(at));
        one.stamps(&[1_000]);
        one.holds(0, node(0, 2_000), 2_000);
        one.lets_go(0, 2_100);
        one.stamps(&[3_000]);
        within(vec![one.closed()], since, until).verdict
    };
    assert_eq!(verdict(Some(500), None, None), Unproven);
    assert_eq!(verdict(Some(500), Some(1_001), None), Proven);
    assert_eq!(
        verdict(Some(500), Some(900), None),
        Unproven,
        "no stamp is between the file's begin and then"
    );
    assert_eq!(verdict(None, Some(1_001), None), Unproven, "a hold from the missing lines may last");
    assert_eq!(verdict(None, None, Some(10)), Proven, "they came later");
}

/// Their guards may outlive the last lines by a lease, which lasts for 1,000 s at most.
#[test]
fn records_of_others_that_were_deleted_matter_in_a_window_into_which_their_guards_may_reach() {
    let deletes = |until| {
        let mut one = holder("a", node(0, 10), 10, 20, &[30]);
        one.deletes(until, 2_000);
        one.stamps(&[1_000_999, 1_001_000, 1_002_000]);
        one.closed()
    };
    let audit = |since| {
        let earlier = deletes(500);
        let earlier = Process { header: Header { boot: "a".to_owned(), ..earlier.header }, ..earlier };
        within(vec![deletes(1_000), earlier, Writer::new("b").closed()], since, None)
    };
    assert_eq!((audit(None).verdict, audit(None).unseen.len()), (Unproven, 1), "{:?}", audit(None).unseen);
    assert_eq!(audit(Some(1_001_000)).verdict, Unproven);
    assert_eq!(audit(Some(1_001_001)).verdict, Proven);
    assert_eq!(audit(None).covered, Some(Covered { from_ms: Some(LEADER + 1_001_001), to_ms: None }));
    // A later file of another process says nothing of it.
    let mut one = Writer::new("a");
    one.deletes(1_000, 2_000);
    one.holds(0, node(0, 3_000), 3_000);
    one.lets_go(0, 3_010);
    assert_eq!(audited(vec![one.closed()]).covered, None, "no stamp came later");
}

/// A contender without a record, with the number 1. Then somebody holds. Sessions last for so many seconds.
fn gap(kind: Kind, second: i64, seconds: u64, lingers: i64) -> Vec<Process> {
    let of = |number, created| Own {
        place: zklock_recipe::Place { kind, ..node(number, 0).place },
        ..node(number, created)
    };
    let mut one = Writer::with_timeout("a", seconds);
    one.stamps(&[5]);
    one.holds(0, of(0, 10), 10);
    one.lets_go(0, 20);
    one.stamps(&[30]);
    one.stamps(&[second - 1]);
    one.holds(1, of(2, second), second);
    one.lets_go(1, second + 10);
    one.stamps(&[second + lingers - 1, second + lingers, second + lingers + 10_000]);
    vec![one.closed()]
}

#[test]
fn a_contender_without_a_record_matters_while_it_may_hold() {
    // A minute, or a session on record if that is longer.
    for (seconds, lingers) in [(40, 60_000), (200, 200_000)] {
        let gap = |kind| gap(kind, 1_000, seconds, lingers);
        let audit = |kind, since, until| within(gap(kind), since, until).paths[0].unknown.len();
        let since = Some(1_000 + lingers);
        assert_eq!(audit(Kind::Exclusive, None, None), 1);
        assert_eq!(
            audit(Kind::Exclusive, since.map(|it| it + 1), None),
            0,
            "somebody held alone long before"
        );
        assert_eq!(audit(Kind::Exclusive, since, None), 1, "a guard may outlive its node");
        assert_eq!(audit(Kind::Shared, since.map(|it| it + 1), None), 1, "a reader waits for no other one");
        assert_eq!(audit(Kind::Exclusive, None, Some(30)), 1, "it may have come before this stamp");
        assert_eq!(audit(Kind::Exclusive, None, Some(5)), 0, "it came behind the window");
    }
    let earlier = gap(Kind::Exclusive, 100_000, 1_000, 60_000);
    let earlier = within(earlier, Some(100_000), None).paths[0].unknown.len();
    assert_eq!(earlier, 1, "the one that held alone came before it");
}

/// Its inputs are in a file before, so no machine shows why it was granted.
#[test]
fn a_listed_hold_does_not_show_that_others_had_gone() {
    let one = holder("a", node(0, 10), 10, 20, &[5, 30]).closed();
    let mut other = Writer::new("b");
    other.rotate(1_100);
    other.lists(0, node(2, 1_000), 1_000, 0);
    other.lets_go(0, 1_200);
    other.stamps(&[70_000, 80_000]);
    let audit = within(vec![one, rotated(other.closed())], Some(80_000), None);
    assert_eq!(audit.paths[0].unknown.len(), 1);
}

#[test]
fn a_leader_whose_clock_was_set_makes_the_window_longer() {
    let verdict = |time| {
        let mut one = holder("a", node(0, 5), 1_000, 2_000, &[10, 2_010]);
        one.write(zklock_recipe::flight::Line::Stamp(zklock_recipe::flight::Stamp {
            time: LEADER + time,
            ..stamp(500)
        }));
        let mut other = Writer::new("b");
        other.holds(0, node(1, 8), 3_000);
        other.lets_go(0, 4_000);
        within(vec![one.closed(), other.closed()], Some(2_011), None).verdict
    };
    assert_eq!(verdict(500), Proven);
    assert_eq!(verdict(2_011), Unproven, "the window may have begun then");
}

#[test]
fn an_overlap_counts_if_it_was_certainly_within_the_window() {
    let audit = |since, until| {
        let one = holder("a", node(0, 100), 100, 1_000, &[10, 400, 800, 1_500]).closed();
        let other = holder("b", node(1, 500), 500, 1_200, &[10, 400, 800, 1_500]).closed();
        let audit = within(vec![one, other], since, until);
        (audit.verdict, audit.paths[0].unproven_count)
    };
    let is = |since, until, verdict: Verdict, doubts| assert_eq!(audit(since, until), (verdict, doubts));
    is(None, None, Overlap, 0);
    is(Some(700), Some(900), Overlap, 0);
    is(Some(300), Some(400), Proven, 0);
    is(Some(1_501), None, Proven, 0);
    is(Some(900), None, Unproven, 1);
    is(None, Some(500), Unproven, 1);
}
