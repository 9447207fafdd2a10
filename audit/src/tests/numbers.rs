//! Contenders without a record, by their numbers and directories.

use zklock_recipe::acquisition::Input;
use zklock_recipe::flight::{Asked, Line};
use zklock_recipe::{Event, Input as Reply, Kind, Place};

use super::scene::*;
use crate::Verdict;
use crate::read::Process;

/// A node, when it was created, and when its directory was, if the record has that.
type Node = (i32, i64, Option<i64>);

/// A process that holds `/a` with these nodes for 5 ms each.
fn holder(name: &str, nodes: &[Node]) -> Process {
    let mut one = Writer::new(name);
    for (acquisition, (number, created, directory)) in (0..).zip(nodes) {
        one.directory = *directory;
        one.holds(acquisition, node(*number, *created), *created);
        one.lets_go(acquisition, created + 5);
        one.stamps(&[created + 6]);
    }
    one.closed()
}

fn judged(processes: Vec<Process>) -> (Verdict, String) {
    let audit = audited(processes);
    (audit.verdict, audit.paths[0].unknown.join(", "))
}

const PROVEN: (Verdict, &str) = (Proven, "");
const NUMBER_0: (Verdict, &str) = (Unproven, "contender number 0 has no record");

fn is((verdict, unknown): (Verdict, String), expected: (Verdict, &str), why: &str) {
    assert_eq!((verdict, unknown.as_str()), expected, "{why}");
}

#[test]
fn a_directory_that_was_made_again_counts_from_0_again() {
    let one = || holder("a", &[(0, 10, Some(5)), (1, 1_000, Some(900))]);
    is(judged(vec![one()]), NUMBER_0, "somebody made the second directory");
    is(judged(vec![one(), holder("b", &[(0, 950, Some(900))])]), PROVEN, "it is on record");
    is(judged(vec![one(), holder("b", &[(0, 30, Some(25))])]), NUMBER_0, "that is a third directory");
    let rising = [(0, 10, Some(5)), (1, 1_000, Some(5))];
    is(judged(vec![holder("a", &rising)]), PROVEN, "one directory");
    let each = [(0, 10, Some(5)), (0, 100, Some(90)), (0, 200, Some(190))];
    is(judged(vec![holder("a", &each)]), PROVEN, "each use has a directory of its own");
}

#[test]
fn a_node_in_an_unknown_directory_is_in_that_of_the_nodes_around_it() {
    let beside = |nodes: &[Node], other: Node| judged(vec![holder("a", nodes), holder("b", &[other])]);
    let around = [(0, 10, Some(5)), (2, 1_000, Some(5))];
    is(beside(&around, (1, 500, None)), PROVEN, "the directory was there before and after");
    is(beside(&[(0, 10, Some(5))], (1, 500, None)), NUMBER_0, "it may be another directory");
    let again = [(0, 10, Some(5)), (0, 1_000, Some(900))];
    is(beside(&again, (1, 500, None)), NUMBER_0, "before the second one");
    is(beside(&again, (1, 1_500, None)), NUMBER_0, "behind the second one");
    is(beside(&[(1, 1_000, Some(900))], (0, 500, None)), NUMBER_0, "it fills no gap");
}

#[test]
fn asks_and_directories_below_take_numbers_as_well() {
    let asked = |nodes: &[Node], path: &str, czxids: &[i64]| {
        let mut other = Writer::new("b");
        other.directory = None;
        for czxid in czxids {
            let (path, at) = (path.to_owned(), moment(czxid + 1));
            other.write(Line::Asked(Asked { session: 0, path, czxid: zxid(*czxid), at }));
        }
        judged(vec![holder("a", nodes), other.closed()])
    };
    let number = |unknown| (Unproven, unknown);
    let nodes = [(0, 10, Some(5)), (2, 1_000, Some(5))];
    is(asked(&nodes, "/a", &[]), number("contender number 1 has no record"), "nobody asked");
    is(asked(&nodes, "/a", &[500]), PROVEN, "somebody asked");
    is(asked(&nodes, "/a", &[500, 500]), PROVEN, "two heard of it");
    for (path, asks, why) in
        [("/b", 500, "elsewhere"), ("/a", 8, "before both"), ("/a", 1_500, "behind both")]
    {
        is(asked(&nodes, path, &[asks]), number("contender number 1 has no record"), why);
    }
    let far = [(0, 10, Some(5)), (3, 1_000, Some(5))];
    is(asked(&far, "/a", &[500]), number("contenders number 1 to 2 have no record"), "one of two asked");
    is(asked(&far, "/a", &[500, 600]), PROVEN, "both asked");
    let second = [(0, 10, Some(5)), (1, 1_000, Some(900))];
    is(asked(&second, "/a", &[950]), PROVEN, "the first one in a directory asked");
    is(asked(&second, "/a", &[500]), NUMBER_0, "it asked in the directory before");
    is(
        asked(&[(0, 10, Some(5)), (1, 1_000, None)], "/a", &[500]),
        NUMBER_0,
        "nobody knows in which directory",
    );

    let restored = [(0, 10, Some(5)), (1, 2_000, Some(5)), (3, 1_000, Some(5))];
    let (verdict, unknown) = asked(&restored, "/a", &[1_500]);
    assert!(verdict == Unproven && unknown.contains("contender number 2 has no record"), "{unknown}");

    // The first contender at `/a/b` created that directory.
    let mut below = Writer::new("b");
    below.directory = Some(500);
    below.begins(0, vec![queue("/a/b", Kind::Exclusive)], 501);
    below.enters(0, &[(node(0, 502), &[])], 502);
    below.lets_go(0, 505);
    below.stamps(&[506]);
    is(judged(vec![holder("a", &nodes), below.closed()]), PROVEN, "the directory took the number");
}

/// The first one to be seen has released before a record began.
#[test]
fn a_directory_that_is_older_than_all_records_may_have_had_contenders_before() {
    let after = |stamps: &[i64]| {
        let mut other = Writer::new("b");
        other.stamps(stamps);
        judged(vec![holder("a", &[(2, 10, Some(5))]), other.closed()])
    };
    is(after(&[]), PROVEN, "it is older");
    is(after(&[4]), (Unproven, "contenders number 0 to 1 have no record"), "it is younger");
    // A file begins with holds from before.
    let mut one = Writer::new("a");
    for (acquisition, number, created) in [(0, 0, 10), (1, 1, 1_000)] {
        one.directory = Some(created - 5);
        one.holds(acquisition, node(number, created), created);
        one.lets_go(acquisition, created + 5);
    }
    is(judged(vec![one.closed()]), NUMBER_0, "another one came before");
}

#[test]
fn a_number_counts_in_the_directory_of_who_saw_it() {
    let sees = |directory| {
        let mut one = Writer::new("b");
        one.directory = directory;
        one.begins(0, vec![queue("/a", Kind::Exclusive)], 1_000);
        one.enters(0, &[(node(0, 1_000), &[Place::exclusive(1)])], 1_000);
        one.lets_go(0, 1_005);
        let first = holder("a", &[(0, 10, Some(5)), (1, 20, Some(5))]);
        judged(vec![first, one.closed()])
    };
    let number_1 = (Unproven, "contender number 1 has no record");
    is(sees(Some(900)), number_1, "a number of another directory");
    is(sees(None), number_1, "a directory of its own");
}

/// Somebody deleted the directory, and somebody made it again.
#[test]
fn a_listing_may_be_of_another_directory_than_the_own_node() {
    let sees = |others: &[Node], is_shown| {
        let mut one = Writer::new("b");
        one.directory = Some(5);
        one.waits(0, node(1, 20), node(0, 10), 20);
        one.hears(0, Input::Watch(0, Event::PredecessorDeleted), 50);
        // A file that begins here says nothing of the next listing.
        one.lists_waiting(0, node(1, 20), 20);
        if is_shown {
            one.shows(0, node(1, 20), 50);
        }
        one.hears(0, Input::Reply(Reply::One(0, Event::Listed(vec![Place::exclusive(0).name()])), 0), 50);
        one.stamps(&[60]);
        judged(vec![holder("a", others), one.closed()])
    };
    let first = (0, 10, Some(5));
    let (verdict, unknown) = sees(&[first], false);
    assert_eq!(verdict, Unproven);
    assert!(unknown.starts_with("whether contender number 0 has a record"), "{unknown}");
    assert_eq!(sees(&[first, (2, 55, Some(5))], false).0, Unproven, "the directory may have gone after that");
    is(sees(&[first, (2, 70, Some(5))], false), PROVEN, "it was still there behind a later transaction");
    is(sees(&[first], true), PROVEN, "its stat says so");
}

/// Both were created at once, and the second one is found first.
#[test]
fn a_node_that_was_found_again_is_in_its_own_queue() {
    let mut one = Writer::new("b");
    one.begins(0, ["/a", "/b"].map(|path| queue(path, Kind::Exclusive)).to_vec(), 20);
    one.hears(0, Input::Reply(Reply::All(Event::Unanswered), 0), 21);
    one.hears(0, Input::Reply(Reply::One(1, Event::Recovered(Some(node(1, 20)))), 0), 22);
    let other = holder("a", &[(0, 10, Some(5)), (2, 30, Some(5))]);
    is(judged(vec![other, one.closed()]), (Unproven, "contender number 1 has no record"), "that of /b");
}

/// A file begins with what was known of an acquisition that waits.
#[test]
fn a_listed_acquisition_has_its_number_and_its_directory() {
    let listed = |directory| {
        let mut one = Writer::new("b");
        one.rotate(500);
        one.directory = directory;
        one.lists_waiting(0, node(1, 20), 20);
        judged(vec![holder("a", &[(0, 10, Some(0)), (2, 1_000, Some(0))]), one.closed()])
    };
    is(listed(Some(0)), PROVEN, "its number");
    is(listed(None), (Unproven, "contender number 1 has no record"), "nothing says its number");
}

#[test]
fn contenders_without_a_record_came_behind_their_directory() {
    let unknown = |until| {
        let mut other = Writer::new("b");
        other.stamps(&[500]);
        let one = holder("a", &[(0, 10, Some(5)), (1, 1_000, Some(900))]);
        within(vec![one, other.closed()], None, Some(until)).paths[0].unknown.len()
    };
    assert_eq!([500, 501].map(unknown), [0, 1]);
}
