//! `zklock run --slot` and `--permits`, and what the other commands say of slots and semaphores.

use rustix::process::Signal;
use serde_json::json;
use zklock::{Session, semaphore::PoolError};
use zklock_test_support::{eventually, make, operator, server, session, until_nothing_is_left, within};
use zookeeper_client::{Acls, CreateMode};

use crate::support::terminal::Terminal;
use crate::support::{
    Running, answers, are_refused, at, contend_as_kazoo, has, output, owner, rows, run_on, until_queued,
    with_session, zklock,
};

/// A command that prints its slot and runs until its standard input ends.
fn worker(servers: &str, options: &[&str]) -> Running {
    Running::start(run_on(servers, options, r#"echo "$ZKLOCK_SLOT"; read go; exit 0"#))
}

/// One that waits for a slot with so many in the queue, and what it says of that. It looks once, 300 ms after it began to wait. On
/// a busy machine its own node may not be there by then, so it is started again.
async fn waiting(servers: &str, owner: &str, session: &Session, waiting: usize) -> (Running, String) {
    loop {
        let mut worker = worker(servers, &["--slot", "/workers/2", "--owner", owner]);
        until_queued(session, "/workers/queue", waiting).await;
        let message = worker.tells().await;
        if message.contains(&format!("; {waiting} waiting")) {
            return (worker, message);
        }
        worker.signal(Signal::TERM);
        worker.ended().await;
        until_queued(session, "/workers/queue", waiting - 1).await;
    }
}

#[tokio::test]
async fn the_third_of_two_slots_waits_for_one_that_is_freed() {
    let (server, servers, session) = with_session(server().await).await;
    let mut first = worker(&servers, &["--slot", "/workers/2", "--owner", "alpha"]);
    assert_eq!(first.prints().await, "0");
    let mut second = worker(&servers, &["--slot", "/workers/2", "--owner", "beta"]);
    assert_eq!(second.prints().await, "1");
    let (mut third, message) = waiting(&servers, "gamma", &session, 1).await;
    let (said, rest) = message.split_once(" ago").expect("an age");
    assert!(
        said.starts_with("zklock: waiting for a slot of /workers, 2 of 2 held, by alpha, who came "),
        "{said}"
    );
    assert_eq!(rest, ", and 1 other; 1 waiting");
    let (mut fourth, message) = waiting(&servers, "delta", &session, 2).await;
    assert!(message.ends_with(", and 1 other; 2 waiting, the first is gamma"), "{message}");

    second.ends_with(0).await;
    assert_eq!(third.prints().await, "1");
    first.ends_with(0).await;
    assert_eq!(fourth.prints().await, "0");
    third.ends_with(0).await;
    fourth.ends_with(0).await;
    let slots = session.slots("/workers", 2).unwrap();
    assert_eq!(slots.slots().await.unwrap().slots, []);
    until_nothing_is_left(&server).await;
}

/// Several commands may start at the same instant, though none waits for a holder.
#[tokio::test]
async fn those_who_only_pass_the_turnstile_keep_nobody_out() {
    let (server, servers, session) = with_session(server().await).await;
    session.slots("/workers", 2).unwrap().acquire().await.unwrap().release().await.unwrap();
    let other = operator(&server).await;
    let data = br#"{"id":"00000000-0000-4000-8000-000000000000","for":"slots"}"#;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, number) = other.create("/workers/queue/lock-", data, &options).await.unwrap();
    let mut worker = worker(&servers, &["--slot", "/workers/2", "-t", "0"]);
    until_queued(&session, "/workers/queue", 2).await;
    other.delete(&format!("/workers/queue/lock-{number}"), None).await.unwrap();
    assert_eq!(worker.prints().await, "0");
    worker.ends_with(0).await;
}

#[tokio::test]
async fn the_command_finds_what_it_holds() {
    let (server, servers) = at(server().await);
    let script = r#"printf '%s\n' "$ZKLOCK_PATH" "${ZKLOCK_SLOT-none}" "${ZKLOCK_PERMITS-none}" "${ZKLOCK_ACCESS-none}" "${ZKLOCK_SEQUENCER-none}" "$ZKLOCK_TOKEN""#;
    for (options, expected) in [
        (["--slot", "/workers/8"], ["/workers", "0", "none", "none", "none"]),
        (["--slot", "/workers/8:5"], ["/workers", "5", "none", "none", "none"]),
        (["--permits", "/convert/8"], ["/convert", "none", "1", "none", "none"]),
        (["--permits", "/convert/8:3"], ["/convert", "none", "3", "none", "none"]),
    ] {
        let mut program = run_on(&servers, &options, script);
        // Of another `zklock run` around this one.
        program.env("ZKLOCK_SEQUENCER", "7:a:1:/lock").env("ZKLOCK_ACCESS", "exclusive");
        let ran = output(program).await;
        let lines = ran.stdout.lines().collect::<Vec<_>>();
        assert_eq!(lines[..5], expected, "{ran:?}");
        assert!(lines[5].parse::<i64>().is_ok_and(|token| token > 0), "{ran:?}");
    }
    // An index that is taken is not waited for.
    let session = session(&server).await;
    let _taken = session.slots("/workers", 8).unwrap().preferring(5).acquire().await.unwrap();
    for timeout in ["0", "1m"] {
        let ran =
            output(run_on(&servers, &["--slot", "/workers/8:5", "-t", timeout], "echo $ZKLOCK_SLOT")).await;
        assert_eq!(ran.stdout, "0\n", "{ran:?}");
    }
    // The lock of a worker leaves the worker its slot.
    let inner = format!(
        r#"'{}' run -q /lock -- sh -c 'echo "$ZKLOCK_SLOT $ZKLOCK_PATH"'"#,
        env!("CARGO_BIN_EXE_zklock")
    );
    let ran = output(run_on(&servers, &["--slot", "/workers/8"], &inner)).await;
    assert_eq!(ran.stdout, "0 /lock\n", "{ran:?}");
}

#[tokio::test]
async fn another_number_than_zookeeper_keeps_is_64() {
    let (_server, servers, session) = with_session(server().await).await;
    session.slots("/workers", 8).unwrap().acquire().await.unwrap().release().await.unwrap();
    session.semaphore("/convert", 8).unwrap().acquire().await.unwrap().release().await.unwrap();
    let capacity = "the semaphore at /convert has a capacity of 8, but --permits states 4. If the capacity was changed to 8, state 8. ";
    let slots = "/workers has 8 slots, but --slot states 4. If the number was changed to 8, state 8. ";
    let refused = [
        ("run --slot /workers/4 -- true", slots),
        ("run --slot /workers/4 -t 0 -E 9 -- true", slots),
        ("run --permits /convert/4 -- true", capacity),
        ("run --permits /convert/4 -t 0 -E 9 -- true", capacity),
    ];
    are_refused(&servers, &refused).await;
    for path in ["/workers/queue", "/convert/queue"] {
        until_queued(&session, path, 0).await;
    }
}

#[tokio::test]
async fn slots_are_shown_and_listed() {
    let (_server, servers, session) = with_session(server().await).await;
    zklock(&servers, "show --exit-code /workers").await.is(66, "", "");
    zklock(&servers, "show /workers/2").await.is(66, "", "ZooKeeper has removed it");
    let slots = |text| session.slots("/workers", 2).unwrap().with_options(owner(text)).unwrap();
    let high = slots("beta\u{1b}[31m").preferring(1).acquire().await.unwrap();
    let low = slots("alpha").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let slots = slots("gamma");
        async move { slots.acquire().await }
    });
    until_queued(&session, "/workers/queue", 1).await;

    let shown = zklock(&servers, "show /workers").await;
    let lines = rows(&shown.stdout);
    assert_eq!(lines[0], ["2 of 2 slots held, 1 waiting"]);
    let starts = lines[1..5].iter().map(|cells| [cells[0], cells[1]]).collect::<Vec<_>>();
    assert_eq!(starts, [["SLOT", "OWNER"], ["0", "alpha"], ["1", r"beta\u{1b}[31m"], ["next", "gamma"]]);
    for command in [
        "show /workers/2",
        "ask -r why -w 1s /workers/2",
        "release --force --yes /workers/2",
        "resize /workers/2 3",
    ] {
        let said = "/workers/2 does not exist, but /workers has slots; leave out /2";
        zklock(&servers, command).await.is(66, "", said);
    }
    let session_and_token = [format!("{:#x}", session.id()), low.token().to_string()];
    assert_eq!(lines[2][3..5], session_and_token);
    assert_eq!(lines[3][4], high.token().to_string());

    let json = zklock(&servers, "show --json --exit-code /workers").await.json();
    let first = json!({"index": 0, "owner": "alpha", "kind": "slot", "token": low.token().zxid(), "node": low.node()});
    let second = json!({"index": 1, "owner": "beta\u{1b}[31m"});
    let queue = json!([{"owner": "gamma", "holds": false}]);
    let pool = json!({"kind": "slots", "count": 2, "held": 2, "holders": [first, second], "waiting": queue});
    has(&json, json!({"contenders": [], "pool": pool}));

    // The turnstile is no lock of its own.
    let listed = zklock(&servers, "ls").await;
    assert_eq!(listed.stdout.lines().count(), 2, "{}", listed.stdout);
    let line = listed.stdout.lines().nth(1).unwrap();
    assert!(
        line.starts_with(r"/workers  2 of 2 slots: beta\u{1b}[31m, …  ") && line.ends_with("  1"),
        "{line}"
    );
    let listed = zklock(&servers, "ls --json").await.json();
    let pool = json!({"kind": "slots", "count": 2, "held": 2});
    let holder = json!({"kind": "slot"});
    has(&listed, json!([{"path": "/workers", "holders": 2, "waiting": 1, "pool": pool, "holder": holder}]));

    drop((high, low));
    within("the slot", waiting).await.unwrap().unwrap().release().await.unwrap();
    eventually("nobody there", async || {
        zklock(&servers, "show /workers").await.stdout == "0 of 2 slots held, nobody waits\n"
    })
    .await;
    assert_eq!(zklock(&servers, "show --exit-code -q /workers").await.code, 1);
    assert_eq!(zklock(&servers, "ls").await.stdout, "");
}

#[tokio::test]
async fn a_semaphore_is_shown_and_listed_beside_locks() {
    let (server, servers, session) = with_session(server().await).await;
    let options = owner("alpha").data("build 7");
    let semaphore = session.semaphore("/a/convert", 8).unwrap().with_options(options).unwrap();
    let small = semaphore.acquire().await.unwrap();
    let large = semaphore.acquire_many(4).await.unwrap();
    let _before = session.lock("/a/b").unwrap().acquire().await.unwrap();
    let _after = session.lock("/a/queue").unwrap().acquire().await.unwrap();
    let shown = zklock(&servers, "show /a/convert").await.stdout;
    let cells = |line: usize| shown.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(cells(0).join(" "), "5 of 8 permits held, nobody waits");
    assert_eq!((cells(1)[0], cells(2)[0], cells(3)[0]), ("PERMITS", "1", "4"));
    let json = zklock(&servers, "show --json /a/convert").await.json();
    let first = json!({"weight": 1, "kind": "permit", "data": "build 7"});
    let holders = json!([first, {"weight": 4, "kind": "permit"}]);
    let pool = json!({"kind": "semaphore", "capacity": 8, "held": 5, "holders": holders});
    has(&json, json!({"pool": pool}));
    let listed = zklock(&servers, "ls --json").await.json();
    let pool = json!({"path": "/a/convert", "pool": {"kind": "semaphore", "capacity": 8, "held": 5}});
    has(&listed, json!([{"path": "/a/b"}, pool, {"path": "/a/queue", "pool": null}]));
    small.release().await.unwrap();
    let listed = zklock(&servers, "ls /a/convert").await.stdout;
    assert!(listed.contains("/a/convert  4 of 8 permits: alpha  "), "{listed}");

    // Contenders of other clients in the turnstile keep everybody out.
    let stranger = operator(&server).await;
    let foreign = contend_as_kazoo(&stranger, "/a/convert/queue").await;
    let json = zklock(&servers, "show --json /a/convert").await.json();
    let session = format!("{:#x}", stranger.session_id().0);
    assert_eq!(json["foreign"], json!([{"node": foreign, "client": "kazoo (Python)", "session": session}]));
    assert_eq!(zklock(&servers, "ls --json /a/convert").await.json()[0]["foreign"], 1);
    large.release().await.unwrap();
    // A directory of this name is not always that of a semaphore.
    make(&stranger, "/other/permits/permit-1-0000000000").await;
    assert!(zklock(&servers, "show /other").await.stdout.starts_with("nobody holds /other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_changed_and_holders_keep_what_they_have() {
    let (_server, servers, session) = with_session(server().await).await;
    let semaphore = session.semaphore("/convert", 4).unwrap();
    let held = semaphore.acquire_many(3).await.unwrap();
    let slots = session.slots("/workers", 2).unwrap();
    let low = slots.acquire().await.unwrap();
    let high = slots.acquire().await.unwrap();
    low.release().await.unwrap();
    answers(
        &servers,
        &[
            ("resize /convert 8", 0, "", "the capacity of /convert is 8; it was 4. "),
            ("resize /convert 3", 0, "", "the capacity of /convert is 3; it was 8. "),
            ("resize /convert 2", 64, "", "give --yes"),
            ("resize /workers 1", 64, "", "give --yes"),
            ("resize /workers 0", 64, "", "invalid value '0'"),
            ("resize /workers 10001", 64, "", "from 1 to 10000"),
            (
                "resize /workers 1 --yes",
                0,
                "",
                "it was 2. Now 1 slot has an index of 1 or above: the holders keep",
            ),
            ("resize /nowhere 2", 66, "", "/nowhere does not exist"),
            ("resize / 2", 64, "", ""),
        ],
    )
    .await;
    let mut terminal = Terminal::start(&servers, &["resize", "/convert", "2"]);
    terminal.until("3 of 3 permits held; more than 2 is held: the holders keep what they have").await;
    terminal.until("Change it to 2? [y/N]").await;
    terminal.press_to_end("n\r", 1).await;
    assert_eq!(semaphore.permits().await.unwrap().capacity, Some(3));
    // What somebody else has changed meanwhile stays.
    for (meanwhile, code, left) in [(Some(5), 1, 5), (None, 0, 2)] {
        let mut terminal = Terminal::start(&servers, &["resize", "/convert", "2"]);
        terminal.until("Change it to 2? [y/N]").await;
        if let Some(capacity) = meanwhile {
            session.semaphore("/convert", 3).unwrap().set_capacity(capacity).await.unwrap();
        }
        terminal.press_to_end("y\r", code).await;
        assert_eq!(semaphore.permits().await.unwrap().capacity, Some(left));
    }
    // Those that wait state the old number.
    let semaphore = session.semaphore("/convert", 2).unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    until_queued(&session, "/convert/queue", 1).await;
    zklock(&servers, "resize /convert 8").await.is(64, "", "give --yes");
    let mut terminal = Terminal::start(&servers, &["resize", "/convert", "8"]);
    terminal.until("1 contender waits with --permits /convert/2").await;
    terminal.until("Change it to 8? [y/N]").await;
    terminal.press_to_end("y\r", 0).await;
    let refused = within("the refusal", waiting).await.unwrap().unwrap_err();
    assert!(matches!(refused, PoolError::Capacity { stated: 2, found: 8, .. }), "{refused}");
    assert_eq!(slots.slots().await.unwrap().count, Some(1));
    assert!(held.is_held() && high.is_held());
    let _guard = session.lock("/lock").unwrap().acquire().await.unwrap();
    zklock(&servers, "resize /lock 2").await.is(64, "", "/lock is neither a semaphore nor slots");
}
