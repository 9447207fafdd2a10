//! When holds begin and end, and what proves their order.

use std::time::Duration;

use zklock_recipe::acquisition::Input;
use zklock_recipe::flight::{Evidence, Line, Over, Stamp};
use zklock_recipe::{Kind, Own, SessionEnd};

use super::scene::*;
use crate::Audit;

/// The first one releases, and writes to these nodes. The second one waits behind it. No clock relates the two.
fn handover(written: &[(Own, i32)], over: i64) -> Audit {
    let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
    let (first, second) = (node(0, 10), node(1, 20));
    one.holds(0, first, 10);
    other.waits(0, second, first, 20);
    one.lets_go(0, over);
    one.releases(0, written, 100);
    other.takes_over(0, 110);
    other.lets_go(0, 200);
    audited(vec![one.closed(), other.closed()])
}

#[test]
fn a_release_proves_the_order_for_the_very_node_that_it_removed() {
    let (first, second) = (node(0, 10), node(1, 20));
    assert_eq!(handover(&[(first, 1)], 100).verdict, Proven);
    assert_eq!(handover(&[(second, 1)], 100).verdict, Unproven, "another one of that name");
    assert_eq!(handover(&[(first, 2)], 100).verdict, Unproven, "somebody else has written to it");
    assert_eq!(handover(&[], 100).verdict, Unproven, "it was gone");
    assert_eq!(
        handover(&[(first, 1)], 101).verdict,
        Unproven,
        "the guard was valid when the release was sent"
    );
}

#[test]
fn each_queue_has_a_release_of_its_own() {
    let paths = |created: i64, written: &[usize]| {
        let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
        let nodes = [node(0, 10), node(5, created)];
        let queues = ["/a", "/b"].map(|path| queue(path, Kind::Exclusive));
        one.begins(0, queues.to_vec(), 10);
        one.enters(0, &nodes.map(|own| (own, &[][..])), 12);
        for (place, next) in [node(1, 20), node(6, 21)].into_iter().enumerate() {
            let acquisition = place as u64;
            other.begins(acquisition, vec![queues[place].clone()], 20);
            other.enters(acquisition, &[(next, &[nodes[place].place])], 22);
            other.watches(acquisition, 22);
        }
        one.lets_go(0, 100);
        one.releases(0, &written.iter().map(|it| (nodes[*it], 1)).collect::<Vec<_>>(), 100);
        (0..2).for_each(|it| other.takes_over(it, 110));
        (0..2).for_each(|it| other.lets_go(it, 200));
        audited(vec![one.closed(), other.closed()]).paths.iter().map(|path| path.verdict).collect::<Vec<_>>()
    };
    assert_eq!(paths(11, &[0]), [Proven, Unproven]);
    assert_eq!(paths(11, &[1]), [Unproven, Proven]);
    assert_eq!(paths(10, &[0, 1]), [Proven, Proven]);
    assert_eq!(paths(10, &[0]), [Unproven, Unproven], "one transaction created both, and one is gone");
}

/// Two hold at once, by all clocks.
fn both(change: impl FnOnce(&mut Writer)) -> Audit {
    let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
    one.stamps(&[1]);
    other.stamps(&[2]);
    one.holds(0, node(0, 10), 10);
    change(&mut one);
    other.holds(0, node(1, 500), 500);
    other.lets_go(0, 900);
    one.lets_go(0, 1_000);
    one.stamps(&[2_000]);
    other.stamps(&[2_001]);
    audited(vec![one.closed(), other.closed()])
}

#[test]
fn two_that_hold_at_once_by_the_leaders_clock_overlap() {
    let audit = both(|_| {});
    assert_eq!((audit.verdict, audit.paths[0].overlap_count), (Overlap, 1));
    let least = audit.paths[0].overlaps[0].least_ms.unwrap();
    assert!((380.0..=400.0).contains(&least), "{least}");
}

#[test]
fn an_overlap_is_told_though_there_may_be_several_ensembles() {
    let audit =
        both(|one| one.write(Line::Stamp(Stamp { time: LEADER - 70_000, zxid: 2 << 32, ..stamp(300) })));
    let path = &audit.paths[0];
    assert_eq!((audit.verdict, path.overlap_count, path.unknown.len()), (Overlap, 1, 1));
}

/// One of its two clocks stands still meanwhile, and nobody knows which one its lease saw.
#[test]
fn a_machine_that_was_suspended_shows_no_overlap() {
    let suspended = |from| {
        both(move |one| {
            one.evidence(Evidence::Disconnected(at(from, from)));
            one.evidence(Evidence::AttemptFailed(at(from + 30_000, from + 1)));
        })
    };
    assert_eq!(suspended(300).verdict, Unproven);
    // Two clocks may part by what NTP slews.
    let slewed = both(|one| {
        one.evidence(Evidence::Disconnected(moment(300)));
        one.evidence(Evidence::AttemptFailed(at(340, 301)));
    });
    assert_eq!(slewed.verdict, Overlap);
}

/// The machine would wait. The record says that the caller got its guard, and that is what counts.
#[test]
fn a_hold_begins_by_the_outcome_on_record() {
    let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
    one.stamps(&[1]);
    other.stamps(&[2]);
    let (first, second) = (node(0, 10), node(1, 20));
    one.holds(0, first, 10);
    other.waits(0, second, first, 20);
    other.is_granted(0, second, 100);
    other.lets_go(0, 900);
    one.lets_go(0, 1_000);
    one.stamps(&[2_000]);
    other.stamps(&[2_001]);
    let audit = audited(vec![one.closed(), other.closed()]);
    assert_eq!((audit.verdict, audit.paths[0].holds.len()), (Overlap, 2));
    assert!(audit.unseen[0].contains("why b:1 decided as it did at /a"), "{:?}", audit.unseen);
}

#[test]
fn a_release_proves_nothing_for_one_whom_the_machine_would_not_grant() {
    let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
    let (first, second) = (node(0, 10), node(1, 20));
    one.holds(0, first, 10);
    other.waits(0, second, first, 20);
    one.lets_go(0, 100);
    one.releases(0, &[(first, 1)], 100);
    other.is_granted(0, second, 110);
    other.lets_go(0, 200);
    assert_eq!(audited(vec![one.closed(), other.closed()]).paths[0].verdict, Unproven);
}

/// The second one may have been granted too early. That it released in the end says nothing of the first one.
#[test]
fn a_release_proves_nothing_for_one_that_came_before() {
    let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
    let (first, second) = (node(0, 10), node(1, 20));
    one.holds(0, first, 10);
    other.waits(0, second, first, 20);
    other.takes_over(0, 110);
    other.lets_go(0, 200);
    other.releases(0, &[(second, 1)], 200);
    one.lets_go(0, 210);
    assert_eq!(audited(vec![one.closed(), other.closed()]).verdict, Unproven);
}

#[test]
fn a_node_that_was_created_behind_a_later_request_came_later() {
    let verdict = |created| {
        let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
        one.holds(0, node(0, 10), 10);
        one.lets_go(0, 100);
        one.stamps(&[100]);
        other.holds(0, node(1, created), 120);
        other.lets_go(0, 200);
        audited(vec![one.closed(), other.closed()]).verdict
    };
    assert_eq!([99, 100, 101].map(verdict), [Unproven, Unproven, Proven]);
}

/// The acquisitions of one process have one clock.
#[test]
fn a_suspension_leaves_open_until_when_a_guard_was_valid() {
    let verdict = |boot| {
        let mut one = Writer::new("a");
        one.holds(0, node(0, 10), 10);
        one.evidence(Evidence::Confirmed(0, moment(200), at(300, 300)));
        one.evidence(Evidence::Confirmed(0, moment(200), at(boot, 301)));
        one.holds(1, node(1, 20), 500);
        one.lets_go(1, 900);
        one.lets_go(0, 1_000);
        audited(vec![one.closed()]).verdict
    };
    assert_eq!([301, 30_301].map(verdict), [Overlap, Unproven]);
}

#[test]
fn a_guard_that_its_caller_never_got_ends_at_once() {
    let mut one = Writer::new("a");
    one.holds(0, node(0, 10), 10);
    one.hears(0, Input::GiveUp, 20);
    one.holds(1, node(1, 30), 30);
    one.lets_go(1, 40);
    let audit = audited(vec![one.closed()]);
    assert_eq!((audit.verdict, audit.paths[0].holds[0].held_ms), (Proven, Some(10.0)));
}

/// How long the first hold of this process lasted, which was killed.
fn held(one: Writer) -> Option<f64> {
    audited(vec![one.killed()]).paths[0].holds[0].held_ms
}

#[test]
fn a_hold_without_its_lines_has_no_end() {
    let mut one = Writer::with_timeout("a", 40);
    one.holds(0, node(0, 10), 0);
    one.gap();
    assert_eq!(held(one), None);
}

#[test]
fn a_hold_whose_end_is_missing_is_over_when_a_file_does_not_list_it() {
    let mut one = Writer::new("a");
    one.holds(0, node(0, 10), 10);
    one.gap();
    one.file(100);
    one.holds(1, node(1, 150), 150);
    one.lets_go(1, 200);
    one.evidence(Evidence::Ended(SessionEnd::Closed, moment(300)));
    let audit = audited(vec![one.closed()]);
    assert_eq!((audit.paths[0].verdict, audit.paths[0].holds[0].held_ms), (Proven, Some(90.0)));
}

/// It may have ended at any time since the last line before those that are missing.
#[test]
fn a_hold_whose_end_is_missing_shows_no_overlap() {
    let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
    one.stamps(&[1]);
    other.stamps(&[2]);
    one.holds(0, node(0, 10), 10);
    one.gap();
    one.file(1_000);
    one.evidence(Evidence::Ended(SessionEnd::Closed, moment(1_100)));
    other.holds(0, node(1, 500), 500);
    other.lets_go(0, 900);
    one.stamps(&[2_000]);
    other.stamps(&[2_001]);
    assert_eq!(audited(vec![one.closed(), other.closed()]).verdict, Unproven);
}

/// Nobody has asked its guard since, so its end is on no line.
#[test]
fn a_listed_hold_whose_lease_has_ended_shows_no_overlap() {
    let verdict = |is_of_the_present_lease: bool| {
        let (mut one, mut other) = (Writer::new("a"), Writer::new("b"));
        one.holds(0, node(0, 10), 10);
        for it in [&mut one, &mut other] {
            it.lapses(20);
        }
        one.term = one.term.filter(|_| !is_of_the_present_lease);
        let at = 10_600_000;
        one.rotate(at);
        one.stamps(&[at + 1]);
        other.stamps(&[at + 2]);
        one.lists(0, node(0, 10), 10, 0);
        other.holds(0, node(1, at + 100), at + 100);
        other.lets_go(0, at + 900);
        one.lets_go(0, at + 1_000);
        one.stamps(&[at + 2_000]);
        other.stamps(&[at + 2_001]);
        audited(vec![one.closed(), other.closed()]).verdict
    };
    assert_eq!([true, false].map(verdict), [Overlap, Unproven]);
}

#[test]
fn a_guard_that_was_told_its_end_ends_then() {
    let mut one = Writer::with_timeout("a", 40);
    one.holds(0, node(0, 10), 0);
    let (reason, from, at) = ("its lease ends".to_owned(), moment(20_000), moment(10_000));
    one.write(Line::Over(Over { acquisition: 0, reason, from, lets_go: false, at }));
    assert_eq!(held(one), Some(20_000.0));
}

#[test]
fn a_lease_that_is_valid_again_revives_no_guard() {
    let mut one = Writer::with_timeout("a", 40);
    one.holds(0, node(0, 10), 0);
    for sent in (50_000..100_000).step_by(5_000) {
        one.evidence(Evidence::Confirmed(0, moment(sent), moment(sent + 10)));
    }
    assert_eq!(held(one), Some(36_400.0));
}

/// The inputs that it has had are in a file before.
#[test]
fn an_acquisition_that_began_in_an_earlier_file_is_not_replayed() {
    let mut one = Writer::new("a");
    let (first, second) = (node(0, 10), node(1, 20));
    one.waits(0, second, first, 20);
    one.rotate(100);
    one.lists_waiting(0, second, 20);
    one.takes_over(0, 200);
    one.lets_go(0, 300);
    let audit = audited(vec![one.closed()]);
    assert_eq!((audit.verdict, audit.paths[0].holds.len()), (Proven, 1), "{:?}", audit.unseen);
}

/// The process is killed in the end, and its lease is that of 40 s.
fn moved(saw: &[(u64, i64)]) -> f64 {
    let mut one = Writer::with_timeout("a", 40);
    one.holds(0, node(0, 10), 10);
    let mut connection = 0;
    for at in [2_000, 5_000] {
        connection += 1;
        one.evidence(Evidence::Disconnected(moment(at)));
        one.evidence(Evidence::Attempting(Duration::from_secs(40), moment(at + 1_000)));
        one.evidence(Evidence::Resumed(Duration::from_secs(40), moment(at + 1_001)));
        one.evidence(Evidence::Confirmed(connection, moment(at + 1_002), moment(at + 1_010)));
    }
    saw.iter().for_each(|(connection, at)| one.write(Line::Saw(0, *connection, moment(*at))));
    for at in [10_000, 15_000, 20_000, 25_000, 30_000] {
        one.evidence(Evidence::Confirmed(connection, moment(at), moment(at + 10)));
    }
    let audit = audited(vec![one.killed()]);
    audit.paths[0].holds[0].held_ms.unwrap() + 10.0
}

#[test]
fn a_guard_ends_with_the_lease_of_the_connection_on_which_its_nodes_were_last_seen() {
    // The lease lasts for 36.4 s from the last touch that the leader has heard of.
    assert_eq!(moved(&[]), 36_400.0, "the first connection");
    assert_eq!(moved(&[(1, 6_020)]), 3_000.0 + 36_400.0, "a line that comes late: that one was lost by then");
    assert_eq!(moved(&[(2, 6_020), (1, 6_030)]), moved(&[(2, 6_020)]), "an older one changes nothing");
    assert!(moved(&[(2, 6_020)]) > 50_000.0, "the present one");
}

/// The file begins behind the loss of the connection. Nobody knows when the guard was to end by then.
#[test]
fn a_listed_hold_whose_connection_was_lost_unseen_shows_no_overlap() {
    let listed = |seen| {
        let mut one = Writer::new("a");
        one.rotate(0);
        one.lists(0, node(0, 10), 10, seen);
        one
    };
    let beside = |mut one: Writer| {
        let mut other = Writer::new("b");
        one.stamps(&[1]);
        other.stamps(&[2]);
        other.holds(0, node(1, 500), 500);
        other.lets_go(0, 900);
        one.lets_go(0, 1_000);
        one.stamps(&[2_000]);
        other.stamps(&[2_001]);
        audited(vec![one.closed(), other.closed()]).verdict
    };
    assert_eq!(beside(listed(0)), Overlap);
    assert_eq!(beside(listed(9)), Unproven);
}

/// Wall clocks are labels.
#[test]
fn a_wall_clock_that_is_an_hour_off_changes_nothing() {
    let audit = |off: u64| {
        let mut audit = both(|one| one.set_wall(off));
        audit.processes.clear();
        serde_json::to_string(&audit).unwrap()
    };
    assert_eq!(audit(0), audit(3_600_000));
}
