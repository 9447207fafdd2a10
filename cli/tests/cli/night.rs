//! What is asked at 3 a.m.: does the holder live, since when does it hold, and by when is the lock free?

use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};
use zklock_testcontainers::ZooKeeper;

use crate::support::{Running, codes, has, lock_of, run, run_on, with_session, zklock};
use zklock_test_support::{
    acquire, enqueue, eventually, granted, hide, operator, own_server, server, until_queued,
};

/// The severity and the name of the finding about the path.
async fn verdict(servers: &str, path: &str) -> (Value, Value) {
    let report = zklock(servers, &["doctor", "--json", path]).await.report();
    let findings = report["findings"].as_array().expect("findings").clone();
    let about = |finding: &&Value| {
        let code = finding["code"].as_str().expect("a code");
        ["path-", "holder-", "waiter-"].iter().any(|kind| code.starts_with(kind))
    };
    let finding = findings.iter().find(about).unwrap_or_else(|| panic!("{report}"));
    (finding["severity"].clone(), finding["code"].clone())
}

#[tokio::test]
async fn a_holder_that_is_stopped_is_told_from_one_that_works() {
    let (_server, servers, session) = with_session(own_server().await).await;
    let lock = lock_of(&session, "/lock/orders", "waiter");
    let options = ["--owner", "alpha", "--session-timeout", "14s"];
    let holder = Running::start(run(&servers, &options, "/lock/orders", "sleep 600"));
    until_queued(&lock, 1).await;
    let waiter = enqueue(&lock).await;
    assert_eq!(verdict(&servers, "/lock/orders").await, (json!("note"), json!("path-waited-for")));

    // A server that is down has not heard of it, or has since. While the other one has a request of it, nobody says when that was.
    let one_down = format!("{servers},127.0.0.1:1");
    let said = [" answered it ", " Another server may have answered it since (127.0.0.1:1: "];
    eventually("its last answer", async || {
        let shown = zklock(&one_down, "show /lock/orders").await;
        said.iter().all(|said| shown.stdout.contains(said))
    })
    .await;

    holder.signal(Signal::STOP);
    eventually("a warning", async || {
        verdict(&servers, "/lock/orders").await == (json!("warning"), json!("holder-silent"))
    })
    .await;
    let report = zklock(&servers, "show --json /lock/orders").await.json();
    let told = &report["holders"][0];
    has(told, json!({"session": report["contenders"][0]["session"], "session_timeout_ms": 14_000}));
    assert!(told["heard_ago_ms"].as_u64().is_some_and(|ago| ago > 7000), "{report}");
    let free_by = told["free_by"].as_str().and_then(|by| by.parse::<Timestamp>().ok()).expect("a time");
    let shown = zklock(&servers, "show /lock/orders").await;
    assert!(
        shown.stdout.contains(" answered it ") && shown.stdout.contains("the lock is free by "),
        "{shown:?}"
    );
    // It is right. A busy machine may tell the grant late.
    let next = granted(waiter).await;
    assert!(Timestamp::now() <= free_by + Duration::from_secs(2), "later than {free_by}");
    next.release().await.unwrap();
}

#[tokio::test]
async fn one_that_is_stopped_in_a_pool_is_told() {
    let (_server, servers, session) = with_session(own_server().await).await;
    let one = |owner: &str| {
        let options = ["--session-timeout", "14s", "--owner", owner, "--permits", "/convert/2"];
        Running::start(run_on(&servers, &options, "sleep 600"))
    };
    let semaphore = session.semaphore("/convert", 2).unwrap();
    let _permit = semaphore.acquire().await.unwrap();
    assert_eq!(verdict(&servers, "/convert").await, (json!("note"), json!("path-held")));
    let mut holder = one("alpha");
    eventually("two permits", async || semaphore.permits().await.unwrap().permits.len() == 2).await;
    assert_eq!(verdict(&servers, "/convert").await, (json!("note"), json!("path-held")));
    let mut waiter = one("beta");
    let turnstile = session.lock("/convert/queue").unwrap();
    until_queued(&turnstile, 1).await;
    assert_eq!(verdict(&servers, "/convert").await, (json!("note"), json!("path-waited-for")));
    let report = zklock(&servers, "doctor --json /convert").await.report();
    let pool = json!({"kind": "semaphore", "capacity": 2, "held": 2});
    has(&report["locks"], json!([{"waiting": 1, "holders": 2, "pool": pool, "contenders": 0}]));

    for (process, owner, code, holders) in [
        (
            &mut waiter,
            "in the turnstile: beta",
            "waiter-silent",
            "\nOf 2 holders the servers have heard within half",
        ),
        (&mut holder, "is silent: alpha", "holder-silent", "\nalpha with 1 permit: "),
    ] {
        process.signal(Signal::STOP);
        eventually("a warning", async || {
            let report = zklock(&servers, "doctor --json /convert").await.report();
            let mut findings = report["findings"].as_array().expect("findings").iter();
            findings.any(|it| it["code"] == code && it["what"].as_str().is_some_and(|it| it.contains(owner)))
        })
        .await;
        let shown = async || zklock(&servers, "show /convert").await.stdout;
        eventually("what becomes of the holders", async || shown().await.contains(holders)).await;
        process.signal(Signal::KILL);
        process.ended().await;
    }
}

#[tokio::test]
async fn the_queue_shows_since_when_its_first_one_is_the_first() {
    let (server, servers, session) = with_session(server().await).await;
    let lock = lock_of(&session, "/lock/orders", "alpha");
    let guard = lock.acquire().await.unwrap();
    let holder = async || zklock(&servers, "show --json /lock/orders").await.json()["holders"][0].clone();
    let since = async || holder().await["held_since_at_latest"].clone();
    assert!(since().await.is_string(), "it came to an empty queue");
    let waiter = enqueue(&lock).await;
    assert!(since().await.is_string(), "nobody has left");
    guard.release().await.unwrap();
    let guard = granted(waiter).await;
    assert_eq!(since().await, Value::Null, "somebody has left at an unknown time");
    let waiter = acquire(&lock);
    until_queued(&lock, 2).await;
    assert!(since().await.is_string(), "it was the first when the other one came");
    drop(guard);
    let guard = granted(waiter).await;
    assert_eq!(holder().await["clock_ahead_ms"], Value::Null);
    // As if the holder had come by a clock that is an hour behind.
    let client = operator(&server).await;
    let mut data: Value = serde_json::from_slice(&client.get_data(&guard.node()).await.unwrap().0).unwrap();
    data["since"] = json!(data["since"].as_u64().unwrap() - 3_600_000);
    client.set_data(&guard.node(), data.to_string().as_bytes(), None).await.unwrap();
    let ahead = holder().await["clock_ahead_ms"].as_i64();
    assert!(ahead.is_some_and(|ahead| (-3_660_000..-3_540_000).contains(&ahead)), "{ahead:?}");
}

#[tokio::test]
async fn the_doctor_says_what_a_path_is() {
    let (server, servers, session) = with_session(server().await).await;
    let note = |code: &str| (json!("note"), json!(code));
    assert_eq!(verdict(&servers, "/nowhere").await, note("path-missing"));
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    assert_eq!(verdict(&servers, "/lock/orders").await, note("path-held"));
    assert_eq!(verdict(&servers, "/lock").await, note("path-free"));
    let _slot = session.slots("/workers", 2).unwrap().acquire().await.unwrap();
    assert_eq!(verdict(&servers, "/workers").await, note("path-held"));
    let _leading = session.election("/feed").unwrap().campaign("here").await.unwrap();
    assert_eq!(verdict(&servers, "/feed").await, note("path-held"));
    hide(&operator(&server).await, "/lock/orders").await;
    assert_eq!(verdict(&servers, "/lock/orders").await, (json!("warning"), json!("path-forbidden")));
    drop(guard);
}

#[tokio::test]
async fn without_the_word_nobody_claims_to_know() {
    let server = ZooKeeper::builder().property("4lw.commands.whitelist", "srvr").start().await.unwrap();
    let servers = server.connect_string();
    let session = zklock::Session::builder(&servers).tick(Duration::from_secs(2)).connect().await.unwrap();
    let _guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let shown = zklock(&servers, "show --tick 2s /lock/orders").await;
    shown.is(0, &shown.stdout, "");
    assert!(shown.stdout.contains("do not say whether it lives (4lw.commands.whitelist of"), "{shown:?}");
    let report = zklock(&servers, "doctor --tick 2s --json /lock/orders").await.report();
    assert_eq!(codes(&report), ["open-directory", "path-held"]);
}

/// Each age is the difference of two clocks.
#[tokio::test]
async fn an_age_by_a_wrong_clock_is_told_as_such_wherever_it_is_printed() {
    let (server, servers, session) = with_session(server().await).await;
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let slots = session.slots("/workers", 1).unwrap();
    let slot = slots.acquire().await.unwrap();
    let client = operator(&server).await;
    for node in [guard.node(), slot.node()] {
        let mut data: Value = serde_json::from_slice(&client.get_data(&node).await.unwrap().0).unwrap();
        data["since"] = json!(data["since"].as_u64().unwrap() - 3_600_000);
        client.set_data(&node, data.to_string().as_bytes(), None).await.unwrap();
    }
    let wrong = "its clock was 1h 0m behind the servers')";
    for (command, mark) in [
        ("show /lock/orders", "(1h 0m; "),
        ("show /workers", "(1h 0m; "),
        ("ls", "(1h 0m; "),
        ("doctor /lock/orders /workers", "(1h 0m; "),
        ("ask -r deploy -w 10ms /lock/orders", "(1h 0m; "),
        ("run -t 2 /lock/orders -- true", ", who came 1h 0m ago ("),
        ("run -t 2 --slot /workers/1 -- true", ", who came 1h 0m ago ("),
        ("release --force --yes /lock/orders", "(1h 0m; "),
    ] {
        let ran = zklock(&servers, &command.split(' ').collect::<Vec<_>>()).await;
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains(&format!("{mark}{wrong}")), "{command}: {ran:?}");
    }
}
