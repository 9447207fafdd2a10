//! `zklock show --watch`: the queue as it changes, on a terminal, and as a log.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::io::{BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use zklock_testcontainers::Link;
use zookeeper_client::Acls;

use crate::support;
use crate::support::looker::{NOBODY, authorized, owner, sessions, set_acl};
use crate::support::terminal::Terminal;
use crate::support::{at, lock_of, with_session};
use zklock_test_support::{enqueue, eventually, granted, make, own_server, server, session, until_queued};

const WATCH: [&str; 3] = ["show", "--watch", "/lock/orders"];

/// Watches on a terminal of 24 lines, and waits for the first drawing.
async fn watch(servers: &str) -> Terminal {
    let terminal = Terminal::start(servers, &WATCH);
    is_drawn(&terminal).await;
    terminal
}

/// A drawing ends with hiding the cursor.
async fn is_drawn(terminal: &Terminal) {
    terminal.shows("q quits").await;
    eventually("a drawing", async || terminal.on_screen(vt100::Screen::hide_cursor)).await;
}

/// The line under the one with this title.
fn below<'a>(screen: &'a str, title: &str) -> &'a str {
    let mut lines = screen.lines().skip_while(|line| !line.contains(title));
    lines.nth(1).unwrap_or_default().trim()
}

#[tokio::test(flavor = "multi_thread")]
async fn handoffs_are_seen_as_they_happen() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let alpha = lock_of(&first, "/lock/orders", "alpha");
    let guard = alpha.acquire().await.unwrap();
    let mut terminal = watch(&server.connect_string()).await;
    assert!(terminal.on_screen(vt100::Screen::alternate_screen));
    assert!(terminal.text().contains("   connected"), "{}", terminal.text());
    assert!(terminal.text().contains("Nobody waits"), "{}", terminal.text());
    assert_eq!(below(&terminal.text(), " Holder "), "alpha");
    assert!(terminal.text().contains(&format!("token {}", guard.token())), "{}", terminal.text());
    assert!(terminal.text().contains(&format!("session {:#x}", first.id())), "{}", terminal.text());

    let waiter = enqueue(&lock_of(&second, "/lock/orders", "beta")).await;
    terminal.shows(" 1 waiting ").await;
    // The waiter's line is under the header.
    terminal.becomes("the waiter", |screen| below(screen, "OWNER").starts_with("1      beta")).await;
    assert!(terminal.text().contains("No handoff"), "{}", terminal.text());

    guard.release().await.unwrap();
    let guard = granted(waiter).await;
    terminal.shows("alpha → beta   held for ≥ ").await;
    assert_eq!(below(&terminal.text(), " Holder "), "beta");
    guard.release().await.unwrap();
    terminal.shows("beta → nobody   held for ").await;
    assert_eq!(below(&terminal.text(), " Holder "), "nobody holds the lock");
    assert!(below(&terminal.text(), " Handoffs ").contains("beta → nobody"), "the latest is the first");

    let guard = alpha.acquire().await.unwrap();
    terminal.shows("nobody → alpha").await;
    // Ages grow.
    let is_older = |line: &str| {
        let age = line.trim().strip_prefix("held for ").map(|age| age.trim_start_matches("≥ "));
        let seconds = age.and_then(|age| age.split_once("s   in the queue since"));
        seconds.and_then(|(seconds, _)| seconds.parse::<u32>().ok()).is_some_and(|seconds| seconds >= 2)
    };
    terminal.becomes("an age of seconds", |screen| screen.lines().any(is_older)).await;
    drop(guard);
    terminal.press_to_end("q", 0).await;
    terminal.is_restored().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_it_restores_the_terminal() {
    let server = own_server().await;
    let session = session(&server).await;
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let before = sessions(&server).await;
    let servers = server.connect_string();
    // The sequences of other keys begin with Escape. Here it comes alone.
    for keys in ["q", "\u{1b}", "\u{3}"] {
        let mut terminal = watch(&servers).await;
        terminal.press_to_end(keys, 0).await;
        terminal.is_restored().await;
        assert_eq!(terminal.text(), "", "{keys:?}");
    }
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::INT, 0)] {
        let mut terminal = watch(&servers).await;
        terminal.signal(signal);
        assert_eq!(terminal.ended().await, code, "{signal:?}");
        terminal.is_restored().await;
        assert_eq!(terminal.text(), "", "{signal:?}");
    }
    let ended = Instant::now();
    eventually("the sessions' end", async || sessions(&server).await == before).await;
    assert!(ended.elapsed() < Duration::from_secs(5), "not closed, but expired");
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_draws_everything_again_after_it_was_stopped() {
    let server = server().await;
    let mut terminal = Terminal::bash(&server.connect_string()).await;
    terminal.press("zklock show --watch /lock/orders\n");
    is_drawn(&terminal).await;
    let watcher = support::child_of(terminal.pid(), "zklock").await;
    rustix::process::kill_process(watcher, Signal::STOP).unwrap();
    terminal.shows("Stopped").await;
    terminal.press("fg\n");
    terminal
        .becomes("a new drawing", |screen| screen.contains("q quits") && !screen.contains("Stopped"))
        .await;
    is_drawn(&terminal).await;
    terminal.press("q");
    eventually("its end", async || support::children_of(terminal.pid()).is_empty()).await;
    terminal.press("echo status $?\n");
    terminal.until("status 0").await;
    assert!(!terminal.on_screen(vt100::Screen::alternate_screen));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_terminal() {
    let (server, servers) = at(server().await);
    // The age of this holder is written every second.
    let _guard = session(&server).await.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let terminal = watch(&servers).await;
    assert_eq!(terminal.torn().await, 129);
    // The kernel sends SIGHUP only if it was the controlling terminal.
    let terminal = Terminal::start_with(&servers, &WATCH, |command| command.set_controlling_tty(false));
    is_drawn(&terminal).await;
    assert_eq!(terminal.torn().await, 129);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_zookeeper_the_last_queue_stays() {
    let (server, _, session) = with_session(server().await).await;
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let waiter = enqueue(&lock_of(&session, "/lock/orders", "beta")).await;
    let link = Link::start(server.address()).await.unwrap();
    let mut terminal = watch(&server.at(link.address())).await;
    terminal.becomes("a fresh queue", |screen| screen.contains("beta") && !screen.contains("stale")).await;

    // No answer comes.
    link.black_hole();
    terminal.shows("stale since ").await;
    assert_eq!(below(&terminal.text(), " Holder "), "alpha");
    assert!(terminal.text().contains("beta"), "{}", terminal.text());
    link.restore();
    terminal.becomes("a fresh queue", |screen| !screen.contains("stale")).await;

    // The connection is gone.
    link.refuse();
    link.cut();
    terminal.shows("disconnected").await;
    terminal.shows("stale since ").await;
    guard.release().await.unwrap();
    let _next = granted(waiter).await;
    assert_eq!(below(&terminal.text(), " Holder "), "alpha");
    link.accept();
    terminal.shows("alpha → beta").await;
    terminal
        .becomes("a fresh queue", |screen| !screen.contains("stale") && !screen.contains("disconnected"))
        .await;

    // The watcher ends though it cannot close its session.
    link.refuse();
    link.cut();
    terminal.shows("disconnected").await;
    let pressed = Instant::now();
    terminal.press_to_end("q", 0).await;
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    terminal.is_restored().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_longer_than_the_screen() {
    let (_server, servers, session) = with_session(server().await).await;
    let named = |text: String| lock_of(&session, "/lock/orders", &text);
    let mut tasks = Vec::new();
    for number in 0..41 {
        let lock = named(format!("owner {number}."));
        tasks.push(zklock_test_support::acquire(&lock));
        until_queued(&lock, number + 1).await;
    }
    let mut terminal = watch(&servers).await;
    terminal.shows(" 40 waiting, 1 to 9 ").await;
    terminal.press_to_show("\u{1b}[B", " 40 waiting, 2 to 10 ").await;
    let rows = |screen: &str| screen.contains("owner 10.") && !screen.contains("owner 1.");
    terminal.becomes("the rows below the title", rows).await;
    terminal.press_to_show("\u{1b}[6~", " 40 waiting, 11 to 19 ").await;
    terminal.press_to_show("\u{1b}[A", " 40 waiting, 10 to 18 ").await;
    terminal.press_to_show("\u{1b}[5~", " 40 waiting, 1 to 9 ").await;
    terminal.press_to_show("\u{1b}[F", " 40 waiting, 32 to 40 ").await;
    terminal.shows("owner 40.").await;
    // A larger terminal shows more of the queue at once.
    terminal.resize(80);
    terminal.shows(" 40 waiting ").await;
    terminal.becomes("all of them", |screen| (0..=40).all(|n| screen.contains(&format!("owner {n}.")))).await;
    terminal.press_to_end("q", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_strangers_do_nothing_to_the_terminal() {
    let (_server, servers, session) = with_session(server().await).await;
    let evil = "\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[?1049l\u{9b}31m\r\nx";
    let lock = session.lock("/lock/orders").unwrap().with_options(owner(evil).data(evil)).unwrap();
    let _guard = lock.acquire().await.unwrap();
    let _waiter = enqueue(&lock).await;
    let coloured = |screen: &vt100::Screen| {
        let cells = (0..24).flat_map(|row| (0..100).map(move |column| (row, column)));
        let mut cells = cells.filter_map(|(row, column)| screen.cell(row, column));
        cells.any(|cell| cell.fgcolor() != vt100::Color::Default)
    };
    for no_color in [false, true] {
        let mut terminal = Terminal::start_with(&servers, &WATCH, |command| {
            if no_color {
                command.env("NO_COLOR", "1");
            }
        });
        is_drawn(&terminal).await;
        let text = terminal.text();
        assert_eq!(text.matches(r"\u{1b}]0;title\u{7}\u{1b}[2J").count(), 3, "{text}");
        assert!(terminal.on_screen(vt100::Screen::alternate_screen));
        assert_eq!(terminal.on_screen(coloured), !no_color);
        terminal.press_to_end("q", 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_watched_opens_no_screen() {
    let arguments = [&WATCH[..], &["--connect-timeout", "300ms"]].concat();
    let mut terminal = Terminal::start(NOBODY, &arguments);
    assert_eq!(terminal.ended().await, 69);
    terminal.shows(" (--connect-timeout is 300ms)").await;

    let (server, servers) = at(server().await);
    let mut terminal = Terminal::start(&servers, &["show", "--watch", "/lock/"]);
    assert_eq!(terminal.ended().await, 64);
    terminal.shows("it ends with '/'").await;

    let operator = authorized(&server).await;
    make(&operator, "/lock/orders").await;
    set_acl(&operator, "/lock/orders", &Acls::creator_all()).await;
    let mut terminal = Terminal::start(&servers, &WATCH);
    assert_eq!(terminal.ended().await, 77);
    terminal.shows("an ACL does not allow this session to read /lock/orders").await;
    assert!(!terminal.on_screen(vt100::Screen::alternate_screen));

    // Once the watcher draws, it goes on, and says why it shows nothing new.
    set_acl(&operator, "/lock/orders", &Acls::anyone_all()).await;
    let mut terminal = watch(&servers).await;
    set_acl(&operator, "/lock/orders", &Acls::creator_all()).await;
    terminal.shows("stale since ").await;
    terminal.shows("an ACL does not allow this session to read /lock/orders").await;
    terminal.press_to_end("q", 0).await;
}

/// A watcher without a terminal, and its log.
fn log(servers: &str, path: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut watcher = support::zklock(servers);
    let mut watcher = watcher.args(["show", "--watch", path]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = support::lines(&mut watcher.stdout);
    (watcher, lines)
}

/// The next line of a log, without its time.
async fn logged(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = support::line(lines).await;
    let (time, rest) = line.split_once(' ').expect("a time");
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
    rest.to_owned()
}

#[tokio::test]
async fn without_a_terminal_it_is_a_log() {
    let (server, servers, session) = with_session(server().await).await;
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let token = guard.token();
    let (mut watcher, mut lines) = log(&servers, "/lock/orders");
    let expected = format!("/lock/orders held by alpha, token {token}; 0 waiting");
    assert_eq!(logged(&mut lines).await, expected);
    let other = zklock_test_support::session(&server).await;
    let waiter = enqueue(&lock_of(&other, "/lock/orders", "beta")).await;
    assert_eq!(logged(&mut lines).await, "/lock/orders 1 came to wait, 0 wait no more; 1 waiting");
    guard.release().await.unwrap();
    let guard = granted(waiter).await;
    assert_eq!(logged(&mut lines).await, format!("/lock/orders left by alpha, token {token}"));
    assert_eq!(logged(&mut lines).await, format!("/lock/orders granted to beta, token {}", guard.token()));
    support::signal(&watcher, Signal::TERM);
    assert_eq!(support::ended(&mut watcher).await.code(), Some(143));

    // Slots, and a reader that goes.
    let slots = session.slots("/workers", 2).unwrap();
    let slot = slots.acquire().await.unwrap();
    let (mut watcher, mut lines) = log(&servers, "/workers");
    assert!(logged(&mut lines).await.contains("slot 0, token"));
    slot.release().await.unwrap();
    assert!(logged(&mut lines).await.starts_with("/workers left by "));
    // Nothing changes any more.
    drop(lines);
    assert_eq!(support::ended(&mut watcher).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_follows_what_comes_to_the_path() {
    let (server, servers, session) = with_session(server().await).await;
    let operator = authorized(&server).await;
    let (mut watcher, mut lines) = log(&servers, "/feed");
    let mut terminal = Terminal::start(&servers, &["show", "--watch", "/feed"]);
    assert_eq!(logged(&mut lines).await, "/feed held by nobody; 0 waiting");
    terminal.shows("nobody holds the lock").await;

    let slots = session.slots("/feed", 2).unwrap();
    let slot = slots.acquire().await.unwrap();
    assert_eq!(logged(&mut lines).await, "/feed has slots now");
    assert!(logged(&mut lines).await.contains(", slot 0, token "));
    terminal.shows(" 1 of 2 slots held, nobody waits ").await;
    let both = slots.acquire().await.unwrap();
    assert!(logged(&mut lines).await.contains(", slot 1, token "));
    terminal.shows("granted to ").await;
    assert_eq!(below(&terminal.text(), " 2 of 2 slots held").split_whitespace().next(), Some("SLOT"));
    slot.release().await.unwrap();
    both.release().await.unwrap();
    for _ in 0..2 {
        assert!(logged(&mut lines).await.starts_with("/feed left by "));
    }
    terminal.shows(" 0 of 2 slots held").await;

    // Nobody uses the slots any more, and somebody removes them.
    for node in ["/feed/permits", "/feed/queue", "/feed"] {
        operator.delete(node, None).await.unwrap();
    }
    let guard = lock_of(&session, "/feed", "alpha").acquire().await.unwrap();
    assert_eq!(logged(&mut lines).await, "/feed is a lock now");
    assert!(logged(&mut lines).await.starts_with("/feed granted to alpha"));
    terminal.becomes("its holder", |screen| below(screen, " Holder ") == "alpha").await;
    guard.release().await.unwrap();
    assert!(logged(&mut lines).await.starts_with("/feed left by alpha"));

    let election = session.election("/feed").unwrap().with_options(owner("beta")).unwrap();
    let leading = election.campaign("here").await.unwrap();
    assert_eq!(logged(&mut lines).await, "/feed/queue is the queue of an election now");
    assert!(logged(&mut lines).await.starts_with("/feed/queue granted to beta"));
    terminal.becomes("the leader", |screen| below(screen, " Holder ") == "beta").await;
    // Between two leaders nothing announces one. The candidates are in the same queue.
    set_acl(&operator, "/feed/leader", &Acls::creator_all()).await;
    let next = election.clone();
    let _candidate = tokio::spawn(async move { next.campaign("there").await });
    assert_eq!(logged(&mut lines).await, "/feed/queue 1 came to wait, 0 wait no more; 1 waiting");
    terminal.shows(" 1 waiting ").await;
    drop(leading);
    support::signal(&watcher, Signal::INT);
    assert_eq!(support::ended(&mut watcher).await.code(), Some(0));
    terminal.press_to_end("q", 0).await;
}

/// Waits until a thread of this process is in a call to `write` to its standard output.
async fn until_it_writes(process: Pid) {
    eventually("a write", async || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_pid())).expect("it runs");
        let call = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("syscall"));
        let write = format!("{} 0x1 ", nix::libc::SYS_write);
        threads.flatten().any(|thread| call(thread).is_ok_and(|call| call.starts_with(&write)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_though_nobody_reads_what_it_writes() {
    let (_server, servers, session) = with_session(server().await).await;
    let _leading = session.election("/feed").unwrap().campaign("here").await.unwrap();
    for command in ["show", "leader"] {
        let (_reader, full) = rustix::pipe::pipe().unwrap();
        let flags = rustix::fs::fcntl_getfl(&full).unwrap();
        rustix::fs::fcntl_setfl(&full, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        while rustix::io::write(&full, &[b'x'; 4096]).is_ok() {}
        rustix::fs::fcntl_setfl(&full, flags).unwrap();
        let mut watcher = support::zklock(&servers);
        let mut watcher = watcher.args([command, "--watch", "/feed"]).stdout(full).spawn().unwrap();
        until_it_writes(support::pid(&watcher)).await;
        support::signal(&watcher, Signal::TERM);
        assert_eq!(support::ended(&mut watcher).await.code(), Some(143), "{command}");
    }

    let mut terminal = watch(&servers).await;
    terminal.hold_output();
    // The keeper of the screen blocks at the next drawing.
    let _guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    until_it_writes(terminal.pid()).await;
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.ended().await, 143);
}
