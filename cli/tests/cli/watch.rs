//! `zklock show --watch`: a line for each change, on a terminal as in a pipe.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use zklock_testcontainers::Link;
use zookeeper_client::Acls;

use crate::support::terminal::Terminal;
use crate::support::{
    NOBODY, Running, at, authorized, count_sessions, ended, kill, lock_of, owner, pid, program_of, set_acl,
    with_session, zklock,
};
use zklock_test_support::{enqueue, eventually, granted, make, own_server, server};

const WATCH: [&str; 3] = ["show", "--watch", "/lock/orders"];

/// Watches on a terminal, and waits for the first line.
async fn watch(servers: &str) -> Terminal {
    is_begun(Terminal::start(servers, &WATCH)).await
}

async fn is_begun(terminal: Terminal) -> Terminal {
    terminal.until(" waiting\r\n").await;
    terminal
}

/// A watcher whose output is a pipe.
fn log(servers: &str, path: &str) -> Running {
    Running::start(program_of(servers, &["show", "--watch", path]))
}

/// The next line of a log, without its time.
async fn logged(watcher: &mut Running) -> String {
    let line = watcher.prints().await;
    let (time, rest) = line.split_once(' ').expect("a time");
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
    rest.to_owned()
}

#[tokio::test]
async fn each_change_is_a_line() {
    let (server, servers, session) = with_session(server().await).await;
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let token = guard.token();
    let mut watcher = log(&servers, "/lock/orders");
    let expected = format!("/lock/orders held by alpha, token {token}; 0 waiting");
    assert_eq!(logged(&mut watcher).await, expected);
    let other = zklock_test_support::session(&server).await;
    let waiter = enqueue(&lock_of(&other, "/lock/orders", "beta")).await;
    assert_eq!(logged(&mut watcher).await, "/lock/orders 1 came to wait, 0 wait no more; 1 waiting");
    guard.release().await.unwrap();
    let guard = granted(waiter).await;
    assert_eq!(logged(&mut watcher).await, format!("/lock/orders left by alpha, token {token}"));
    assert_eq!(logged(&mut watcher).await, format!("/lock/orders granted to beta, token {}", guard.token()));
    watcher.signal(Signal::TERM);
    watcher.ends_with(143).await;

    // A reader of the lock, whose owner would drive a terminal, and a reader of the log that goes.
    let prices = session.rw_lock("/lock/prices").unwrap().with_options(owner("\u{9b}31m\r\nx")).unwrap();
    let reader = prices.read().await.unwrap();
    let mut watcher = log(&servers, "/lock/prices");
    let expected = r"/lock/prices held by \u{9b}31m\r\nx, a reader, token ";
    assert!(logged(&mut watcher).await.starts_with(expected));
    reader.release().await.unwrap();
    assert!(logged(&mut watcher).await.starts_with("/lock/prices left by "));
    // Nothing changes any more.
    drop(watcher.printed);
    assert_eq!(ended(&mut watcher.child).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_and_its_session() {
    let server = own_server().await;
    let before = count_sessions(&server).await;
    let servers = server.connect_string();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::INT, 0)] {
        let mut watcher = log(&servers, "/lock/orders");
        logged(&mut watcher).await;
        watcher.signal(signal);
        assert_eq!(watcher.ended().await, Some(code), "{signal:?}");
    }
    let ended = Instant::now();
    eventually("the sessions' end", async || count_sessions(&server).await == before).await;
    assert!(ended.elapsed() < Duration::from_secs(5), "not closed, but expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_terminal() {
    let (_server, servers) = at(server().await);
    assert_eq!(watch(&servers).await.torn().await, 129);
    // The kernel sends SIGHUP only if it was the controlling terminal.
    let terminal = Terminal::start_with(&servers, &WATCH, |command| command.set_controlling_tty(false));
    assert_eq!(is_begun(terminal).await.torn().await, 129);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_zookeeper_it_says_so_and_looks_again() {
    let (server, _, session) = with_session(server().await).await;
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let waiter = enqueue(&lock_of(&session, "/lock/orders", "beta")).await;
    let link = Link::start(server.address()).await.unwrap();
    let mut watcher = log(&server.at(link.address()), "/lock/orders");
    assert!(logged(&mut watcher).await.starts_with("/lock/orders held by alpha, "));

    // No answer comes.
    link.black_hole();
    assert!(logged(&mut watcher).await.starts_with("/lock/orders cannot look: "));
    link.restore();
    assert_eq!(logged(&mut watcher).await, "/lock/orders can look again");
    guard.release().await.unwrap();
    let guard = granted(waiter).await;
    assert!(logged(&mut watcher).await.starts_with("/lock/orders left by alpha, "));
    assert!(logged(&mut watcher).await.starts_with("/lock/orders granted to beta, "));

    // The connection is gone.
    link.refuse();
    link.cut();
    assert!(logged(&mut watcher).await.starts_with("/lock/orders cannot look: "));
    link.accept();
    assert_eq!(logged(&mut watcher).await, "/lock/orders can look again");
    guard.release().await.unwrap();
    assert!(logged(&mut watcher).await.starts_with("/lock/orders left by beta, "));

    // The watcher ends though it cannot close its session.
    link.refuse();
    link.cut();
    let told = Instant::now();
    watcher.signal(Signal::TERM);
    watcher.ends_with(143).await;
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_watched_is_told_at_once() {
    let unreachable = "show --watch --connect-timeout 300ms /lock/orders";
    zklock(NOBODY, unreachable).await.is(69, "", " (--connect-timeout is 300ms)");
    let (server, servers) = at(server().await);
    let operator = authorized(&server).await;
    make(&operator, "/lock/orders").await;
    set_acl(&operator, "/lock/orders", &Acls::creator_all()).await;
    let hidden = "an ACL does not allow this session to read /lock/orders";
    zklock(&servers, "show --watch /lock/").await.is(64, "", "it ends with '/'");
    zklock(&servers, "show --watch /lock/orders").await.is(77, "", hidden);

    // Once the watcher has seen the path, it goes on, and says why it shows nothing new.
    set_acl(&operator, "/lock/orders", &Acls::anyone_all()).await;
    let mut watcher = log(&servers, "/lock/orders");
    assert_eq!(logged(&mut watcher).await, "/lock/orders held by nobody; 0 waiting");
    set_acl(&operator, "/lock/orders", &Acls::creator_all()).await;
    let line = logged(&mut watcher).await;
    assert!(line.starts_with("/lock/orders cannot look: ") && line.contains(hidden), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_follows_what_comes_to_the_path() {
    let (server, servers, session) = with_session(server().await).await;
    let operator = authorized(&server).await;
    let mut watcher = log(&servers, "/feed");
    assert_eq!(logged(&mut watcher).await, "/feed held by nobody; 0 waiting");

    let slots = session.slots("/feed", 2).unwrap();
    let slot = slots.acquire().await.unwrap();
    assert_eq!(logged(&mut watcher).await, "/feed has slots now");
    assert!(logged(&mut watcher).await.contains(", slot 0, token "));
    let both = slots.acquire().await.unwrap();
    assert!(logged(&mut watcher).await.contains(", slot 1, token "));
    slot.release().await.unwrap();
    both.release().await.unwrap();
    for _ in 0..2 {
        assert!(logged(&mut watcher).await.starts_with("/feed left by "));
    }

    // Nobody uses the slots any more, and somebody removes them.
    for node in ["/feed/permits", "/feed/queue", "/feed"] {
        operator.delete(node, None).await.unwrap();
    }
    let guard = lock_of(&session, "/feed", "alpha").acquire().await.unwrap();
    assert_eq!(logged(&mut watcher).await, "/feed is a lock now");
    assert!(logged(&mut watcher).await.starts_with("/feed granted to alpha"));
    guard.release().await.unwrap();
    assert!(logged(&mut watcher).await.starts_with("/feed left by alpha"));

    let election = session.election("/feed").unwrap().with_options(owner("beta")).unwrap();
    let leading = election.campaign("here").await.unwrap();
    assert_eq!(logged(&mut watcher).await, "/feed/queue is the queue of an election now");
    assert!(logged(&mut watcher).await.starts_with("/feed/queue granted to beta"));
    // Between two leaders nothing announces one. The candidates are in the same queue.
    set_acl(&operator, "/feed/leader", &Acls::creator_all()).await;
    let next = election.clone();
    let _candidate = tokio::spawn(async move { next.campaign("there").await });
    assert_eq!(logged(&mut watcher).await, "/feed/queue 1 came to wait, 0 wait no more; 1 waiting");
    drop(leading);
    watcher.signal(Signal::INT);
    watcher.ends_with(0).await;
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
        let mut watcher = program_of(&servers, &[command, "--watch", "/feed"]).stdout(full).spawn().unwrap();
        until_it_writes(pid(&watcher)).await;
        kill(pid(&watcher), Signal::TERM);
        assert_eq!(ended(&mut watcher).await.code(), Some(143), "{command}");
    }

    let mut terminal = watch(&servers).await;
    terminal.hold_output();
    // The next line blocks.
    let _guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    until_it_writes(terminal.pid()).await;
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.ended().await, 143);
}
