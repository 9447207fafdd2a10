//! `zklock lead` and `zklock leader`.

use std::io::Write;
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use rustix::process::Signal;
use serde_json::{Value, json};
use zklock::{Election, Session};
use zklock_testcontainers::Link;
use zookeeper_client::{Acls, CreateMode};

use crate::support::terminal::Terminal;
use crate::support::{
    Running, at, contend_as_kazoo, count_sessions, ended, has, kill, owner, pid, program_of, with_session,
    zklock,
};
use zklock_test_support::{
    eventually, make, operator, own_server, server, session, until_nothing_is_left, within,
};

const PATH: &str = "/feed";

const WATCH: [&str; 3] = ["leader", "--watch", PATH];

/// `zklock lead` with these options and this script.
fn lead(servers: &str, options: &[&str], script: &str) -> tokio::process::Command {
    program_of(servers, &[&["lead"], options, &[PATH, "--", "sh", "-c", script]].concat())
}

async fn until_candidates(election: &Election, number: usize) {
    eventually("the candidates", async || election.candidates().await.unwrap().len() == number).await;
}

async fn until_led(election: &Election, value: Option<&str>) {
    eventually("the leader", async || {
        election.leader().await.unwrap().map(|leader| leader.value).as_deref() == value
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_while_its_value_is_announced() {
    let (server, servers) = at(server().await);
    let election = Session::connect(servers.clone()).await.unwrap().election(PATH).unwrap();
    zklock(&servers, "leader /feed").await.is(1, "", "nobody leads /feed: /feed does not exist\n");
    zklock(&servers, "leader --json /feed").await.is(1, "null\n", "");

    let script = r#"echo "$ZKLOCK_PATH $ZKLOCK_TOKEN"; read line; exit 3"#;
    let mut first = Running::start(lead(&servers, &["--value", "one:80\u{1b}", "--owner", "alpha"], script));
    let said = first.prints().await;
    // The announcement is made before the command begins.
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!(said, format!("/feed/queue {}", leader.token));
    zklock(&servers, "leader /feed").await.is_silent(0, "one:80\\u{1b}\n");
    let shown = zklock(&servers, "leader --json /feed").await.json();
    assert!(shown["since"].is_string(), "{shown}");
    let session = format!("{:#x}", leader.session);
    assert!(shown["session"].as_str().unwrap().ends_with(&session[2..]), "{shown}");
    has(&shown, json!({"value": "one:80\u{1b}", "token": leader.token.zxid(), "owner": "alpha"}));
    assert_eq!(shown.as_object().map(serde_json::Map::len), Some(5));

    let mut second = Running::start(lead(&servers, &["--value", "two:80"], "exit 0"));
    until_candidates(&election, 2).await;
    // At the end of its standard input the first command ends.
    first.ends_with(3).await;
    second.ends_with(0).await;
    until_led(&election, None).await;
    until_nothing_is_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_printed() {
    let (_server, servers, session) = with_session(server().await).await;
    let election = session.election(PATH).unwrap();
    let mut watching = ["leader --watch /feed", "leader --watch /feed --json"]
        .map(|command| Running::start(program_of(&servers, command)));
    let mut told = async || {
        let [plain, json] = &mut watching;
        [plain.prints().await, json.prints().await]
    };
    assert_eq!(told().await, ["", "null"]);
    let leadership = election.campaign("one").await.unwrap();
    let [plain, json] = told().await;
    assert_eq!(plain, "one");
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["token"], leadership.token().zxid());
    leadership.resign().await.unwrap();
    assert_eq!(told().await, ["", "null"]);
    // It ends with its reader.
    let [Running { mut child, printed, .. }, _json] = watching;
    drop(printed);
    assert_eq!(ended(&mut child).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_ends_by_a_signal_and_with_its_terminal_and_closes_its_session() {
    let (server, servers, session) = with_session(own_server().await).await;
    let _leads = session.election(PATH).unwrap().campaign("one").await.unwrap();
    let before = count_sessions(&server).await;
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131), (Signal::INT, 0)] {
        let mut watcher = Running::start(program_of(&servers, &WATCH));
        assert_eq!(watcher.prints().await, "one");
        watcher.signal(signal);
        watcher.ends_with(code).await;
    }
    // The kernel sends SIGHUP only if it was the controlling terminal.
    for controls in [true, false] {
        let set = |command: &mut CommandBuilder| command.set_controlling_tty(controls);
        let terminal = Terminal::start_with(&servers, &WATCH, set);
        terminal.until("one\r\n").await;
        assert_eq!(terminal.torn().await, 129, "{controls}");
    }
    let ended = Instant::now();
    eventually("the sessions' end", async || count_sessions(&server).await == before).await;
    assert!(ended.elapsed() < Duration::from_secs(5), "not closed, but expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_watcher_though_nobody_reads_what_it_writes() {
    let (_server, servers, session) = with_session(server().await).await;
    let _leads = session.election(PATH).unwrap().campaign("one").await.unwrap();
    let (_unread, mut full) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&full, 4096).unwrap();
    full.write_all(&[b'.'; 4096]).unwrap();
    let mut watcher = program_of(&servers, &WATCH).stdout(full).spawn().unwrap();
    let process = pid(&watcher);
    eventually("a write to its standard output", async || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_pid())).expect("it runs");
        let call = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("syscall"));
        let write = format!("{} 0x1 ", nix::libc::SYS_write);
        threads.flatten().any(|thread| call(thread).is_ok_and(|call| call.starts_with(&write)))
    })
    .await;
    kill(process, Signal::TERM);
    assert_eq!(ended(&mut watcher).await.code(), Some(143));
}

/// Another server takes the place of the one that is observed, as if that one had lost its data.
#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_says_that_the_data_was_lost_and_goes_on() {
    let before = own_server().await;
    let after = own_server().await;
    let former = session(&before).await;
    let present = session(&after).await;
    let election = former.election(PATH).unwrap();
    for _ in 0..10 {
        election.campaign("former").await.unwrap().resign().await.unwrap();
    }
    let _former = election.campaign("one").await.unwrap();
    let _present = present.election(PATH).unwrap().campaign("two").await.unwrap();
    let link = Link::start(before.address()).await.unwrap();
    let watch = "leader --watch /feed --session-timeout 2s --tick 100ms";
    let mut watcher = Running::start(program_of(&before.at(link.address()), watch));
    assert_eq!(watcher.prints().await, "one");
    link.redirect(after.address());
    link.cut();
    let said = watcher.tells().await;
    assert!(said.contains("at /feed/leader after token") && said.contains("its data was lost"), "{said}");
    assert_eq!(watcher.prints().await, "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_election_is_shown_as_one() {
    let (server, servers, session) = with_session(server().await).await;
    let election = session.election(PATH).unwrap().with_options(owner("alpha\u{1b}")).unwrap();
    let leadership = election.campaign("one:80\u{1b}").await.unwrap();
    let next = session.election(PATH).unwrap().with_options(owner("beta")).unwrap();
    let waiter = tokio::spawn(async move { next.campaign("two:80").await });
    until_candidates(&election, 2).await;
    // These are no elections: nobody leads one, and an announcement that somebody made by hand is none.
    let lock = session.lock("/other/queue").unwrap().acquire().await.unwrap();
    let operator = zklock_test_support::operator(&server).await;
    let forged = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    operator.create("/other/leader", b"forged", &forged).await.unwrap();

    let line = "election, led by alpha\\u{1b}: one:80\\u{1b}";
    let led = election.leader().await.unwrap().unwrap();
    let leader = json!({"value": "one:80\u{1b}", "owner": "alpha\u{1b}", "token": led.token.zxid()});
    let election = json!({"path": PATH, "queue": "/feed/queue", "leader": leader});
    for path in [PATH, "/feed/queue"] {
        let shown = zklock(&servers, &["show", "--exit-code", path]).await;
        assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
        let lines = shown.stdout.lines().collect::<Vec<_>>();
        assert_eq!(lines[0], format!("{line}, 2 candidates"));
        assert!(lines[2].contains("alpha") && lines[3].contains("beta") && lines[4].is_empty(), "{lines:?}");
        let shown = zklock(&servers, &["show", "--json", path]).await.json();
        let contenders = json!([{}, {"owner": "beta"}]);
        has(&shown, json!({"path": path, "election": election, "contenders": contenders}));
    }
    let listed = zklock(&servers, "ls").await.stdout;
    assert!(listed.lines().nth(1).unwrap().contains(line), "{listed}");
    let listed = zklock(&servers, "ls --json").await.json();
    let other = json!({"path": "/other/queue", "election": null, "holder": {"node": lock.node()}});
    has(&listed, json!([{"path": "/feed/queue", "election": election}, other]));
    for path in ["/other", "/other/queue"] {
        assert_eq!(zklock(&servers, &["show", "--json", path]).await.json()["election"], Value::Null);
    }

    leadership.resign().await.unwrap();
    let next = within("the next leader", waiter).await.unwrap().unwrap();
    let shown = zklock(&servers, &["show", PATH]).await.stdout;
    assert_eq!(shown.lines().next().unwrap(), "election, led by beta: two:80, 1 candidate");
    next.resign().await.unwrap();
    zklock(&servers, "show --exit-code /feed").await.is(1, "nobody holds /feed\n", "");
}

#[tokio::test]
async fn a_path_that_nobody_leads_is_told_by_its_kind() {
    let (server, servers, session) = with_session(server().await).await;
    let _lock = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let _slot = session.slots("/workers", 1).unwrap().acquire().await.unwrap();
    let _permit = session.semaphore("/convert", 1).unwrap().acquire().await.unwrap();
    let _leads = session.election(PATH).unwrap().campaign("here").await.unwrap();
    let _candidate = session.lock("/other/queue").unwrap().acquire().await.unwrap();
    let operator = operator(&server).await;
    make(&operator, "/empty").await;
    make(&operator, "/el").await;
    contend_as_kazoo(&operator, "/el").await;
    for (path, what) in [
        ("/lock/orders", "is a lock; to see its holder, run `zklock show /lock/orders`\n"),
        ("/workers", "has slots\n"),
        ("/convert", "is a semaphore\n"),
        ("/feed/queue", "is the queue of the election /feed\n"),
        ("/other", "has candidates, and none of them leads yet\n"),
        ("/empty", "exists, and has no candidate\n"),
        ("/el", "has no candidate of zklock's, but 1 contender of other clients or layouts is there\n"),
    ] {
        let said = format!("nobody leads {path}: {path} {what}");
        zklock(&servers, &["leader", path]).await.is(1, "", &said);
    }
    // One that watches is told at first.
    let mut watcher = Running::start(program_of(&servers, "leader --watch /workers"));
    assert_eq!(watcher.tells().await, "zklock: nobody leads /workers: /workers has slots");
}
