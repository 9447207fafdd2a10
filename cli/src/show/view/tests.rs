use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::queue::{Stranger, tests::entry};

const CONNECTED: SessionState = SessionState::Connected;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000_000 + seconds).unwrap()
}

/// A view of so many contenders, from a look at second 0.
fn view(contenders: i32) -> View {
    let mut view = View::new(true);
    view.look(at(0), lock(queue(0, contenders)));
    view
}

fn lock(queue: Vec<Entry>) -> Sight {
    Sight { path: "/lock/orders".to_owned(), queue, ..Sight::default() }
}

fn queue(from: i32, to: i32) -> Vec<Entry> {
    let numbered = |(position, sequence)| Entry {
        position,
        ..entry(&format!("owner {sequence}."), sequence, i64::from(sequence) + 100)
    };
    (0..).zip(from..to).map(numbered).collect()
}

fn drawn_on(view: &mut View, width: u16, height: u16, state: SessionState, now: Timestamp) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame, state, now)).unwrap();
    terminal.backend().to_string()
}

fn drawn(view: &mut View) -> String {
    drawn_on(view, 100, 24, CONNECTED, at(1))
}

#[test]
fn the_holder_is_told_from_those_who_wait() {
    let text = drawn(&mut view(3));
    assert!(text.contains("/lock/orders   connected"), "{text}");
    assert!(text.contains(" owner 0.") && text.contains("token 100   sequence 0"), "{text}");
    assert!(text.contains(" 2 waiting ") && text.contains("owner 2."), "{text}");
    assert!(text.contains("held for ≥ 1s   in the queue since 2001-09-09T01:46:40Z (1s)"), "{text}");
    assert!(text.contains("No handoff since 2001-09-09T01:46:40Z"), "{text}");
    assert!(!text.contains("stale"), "{text}");
}

#[test]
fn contenders_of_other_clients_are_told_of() {
    let mut view = view(1);
    let node = "/lock/orders/x-1-0000000003".to_owned();
    let foreign = vec![Stranger { node, client: "another".to_owned(), session: None }];
    view.look(at(1), Sight { foreign, ..lock(queue(0, 1)) });
    assert!(
        drawn(&mut view)
            .contains("contenders of other clients (1) keep zklock out: x-1-0000000003 (another)")
    );
    view.look(at(1), lock(queue(0, 1)));
    assert!(!drawn(&mut view).contains("other clients"));
}

#[test]
fn readers_that_hold_it_are_told_from_those_that_wait() {
    let mut view = view(0);
    let reader = |name: &str, sequence, holds| Entry {
        position: sequence as usize,
        kind: Kind::Shared,
        holds,
        waits_for: (!holds).then_some(2),
        ..entry(name, sequence, i64::from(sequence) + 100)
    };
    let writer = Entry { position: 2, waits_for: Some(1), ..entry("writer 2.", 2, 102) };
    let queue = vec![reader("one", 0, true), reader("two", 1, true), writer, reader("three", 3, false)];
    view.look(at(0), lock(queue));
    let text = drawn(&mut view);
    assert!(text.contains(" one   a reader, and 1 more"), "{text}");
    assert!(text.contains(" 1 more reader holds it, 2 waiting "), "{text}");
    for (start, rest) in [
        ("holder reader two", " - "),
        ("2      writer writer 2.", " 2 holders "),
        ("3      reader three", " 2 "),
    ] {
        let line =
            text.lines().find(|line| line.contains(start)).unwrap_or_else(|| panic!("{start}: {text}"));
        assert!(line.contains(rest), "{rest}: {line}");
    }
    assert!(!drawn(&mut self::view(3)).contains("KIND"));
}

#[test]
fn a_free_lock_has_no_holder() {
    let text = drawn(&mut view(0));
    assert!(text.contains("nobody holds the lock") && text.contains("Nobody waits"), "{text}");
}

#[test]
fn handoffs_are_listed_the_latest_first() {
    let mut view = view(3);
    view.look(at(1), lock(queue(1, 3)));
    view.look(at(2), lock(queue(2, 3)));
    let text = drawn_on(&mut view, 100, 24, CONNECTED, at(2));
    let latest = text.find("01:46:42Z  owner 1. → owner 2.   held for 1s").expect(&text);
    let earlier = text.find("01:46:41Z  owner 0. → owner 1.   held for ≥ 1s").expect(&text);
    assert!(latest < earlier, "{text}");
}

#[test]
fn what_others_may_have_held_is_left_open() {
    let mut view = view(3);
    view.look(at(1), lock(queue(2, 3)));
    let text = drawn(&mut view);
    assert!(text.contains("owner 0. → … → owner 2."), "{text}");
    view.look(at(2), lock(Vec::new()));
    assert!(drawn(&mut view).contains("owner 2. → nobody   held for 1s"), "{}", drawn(&mut view));
}

#[test]
fn an_old_look_is_said_to_be_stale() {
    let mut view = view(2);
    let text = drawn_on(&mut view, 100, 24, SessionState::Disconnected, at(200));
    assert!(text.contains("disconnected") && text.contains("owner 1."), "{text}");
    assert!(text.contains("stale since 2001-09-09T01:46:40Z (3m 20s): no answer"), "{text}");
    view.failed("the \u{1b}[31mserver".to_owned());
    let text = drawn(&mut view);
    assert!(text.contains(r"stale since 2001-09-09T01:46:40Z (1s): the \u{1b}[31mserver"), "{text}");
    view.look(at(1), lock(queue(0, 2)));
    assert!(!drawn(&mut view).contains("stale"));
}

#[test]
fn the_window_stays_within_the_queue() {
    let mut view = view(1001);
    assert!(drawn(&mut view).contains(" 1000 waiting, 1 to 9 "), "{}", drawn(&mut view));
    view.scroll(Scroll::Up);
    assert!(drawn(&mut view).contains(" 1 to 9 "));
    view.scroll(Scroll::Down);
    view.scroll(Scroll::PageDown);
    assert!(drawn(&mut view).contains(" 11 to 19 "), "{}", drawn(&mut view));
    view.scroll(Scroll::End);
    let text = drawn(&mut view);
    assert!(text.contains(" 992 to 1000 ") && text.contains("owner 1000."), "{text}");
    view.scroll(Scroll::Down);
    view.scroll(Scroll::PageUp);
    assert!(drawn(&mut view).contains(" 983 to 991 "), "{}", drawn(&mut view));
    view.look(at(1), lock(queue(0, 3)));
    assert!(drawn(&mut view).contains(" 2 waiting "));
}

#[test]
fn there_is_no_terminal_too_small() {
    let mut view = view(100);
    view.look(at(1), lock(queue(1, 100)));
    let widths = [0, 1, 2, 3, 8, 30, 100];
    for (width, height) in widths.into_iter().flat_map(|width| (0..16).map(move |height| (width, height))) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame, CONNECTED, at(1))).unwrap();
        view.scroll(Scroll::PageDown);
    }
}
