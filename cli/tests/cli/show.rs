//! `zklock show`: the holder and the queue.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use serde_json::json;
use zklock::{Acl, Session};

use crate::support::{
    DIGEST, at, contend_as_kazoo, count_sessions, has, lock_of, owner, rows, with_session, zklock,
};
use zklock_test_support::{
    enqueue, eventually, make, operator, own_server, queue, server, session, sessions,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_and_those_who_wait() {
    let (server, [first, second]) = sessions().await;
    let holder = lock_of(&first, "/lock/orders", "alpha");
    let guard = holder.acquire().await.unwrap();
    // Neither node is a contender, though each takes a number.
    let operator = operator(&server).await;
    make(&operator, "/lock/orders/notes").await;
    make(&operator, "/lock/orders/lock-7").await;
    let _waiter = enqueue(&lock_of(&second, "/lock/orders", "beta")).await;

    let shown = zklock(&server.connect_string(), "show /lock/orders").await;
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    let lines = rows(&shown.stdout);
    assert_eq!(lines[0], ["POSITION", "OWNER", "ARRIVED", "SESSION", "TOKEN", "SEQUENCE"]);
    let ids = [first.id(), second.id()].map(|id| format!("{id:#x}"));
    let expected = [["holder", "alpha", &ids[0], "0"], ["1", "beta", &ids[1], "3"]];
    let cells = lines[1..3].iter().map(|row| [row[0], row[1], row[3], row[5]]).collect::<Vec<_>>();
    assert_eq!(cells, expected);
    assert_eq!(lines[1][4], guard.token().to_string());
    let (since, age) = lines[1][2].split_once(" (").unwrap();
    let age_of = |since: Timestamp| SystemTime::now().duration_since(since.into()).unwrap().as_secs();
    assert!(age_of(since.parse().unwrap()) < 600 && age.ends_with("s)"), "{since} ({age}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_all_of_it() {
    let (_server, servers, session) = with_session(server().await).await;
    let options = owner("a\u{1b}[31m\"b\u{9b}c").data("build 4711");
    let lock = session.lock("/lock/orders").unwrap().with_options(options).unwrap();
    let _guard = lock.acquire().await.unwrap();
    let _waiter = enqueue(&lock_of(&session, "/lock/orders", "beta")).await;
    let seen = queue(&lock).await;

    let shown = zklock(&servers, "show --json /lock/orders").await;
    let since = |position: usize| Timestamp::try_from(seen[position].since.unwrap()).unwrap().to_string();
    let token = |position: usize| seen[position].token.unwrap().zxid();
    let id = format!("{:#x}", session.id());
    let expected = json!({
        "path": "/lock/orders",
        "contenders": [
            {
                "position": 0, "kind": "exclusive", "holds": true, "waits_for": null, "client": null,
                "node": "/lock/orders/lock-0000000000", "owner": "a\u{1b}[31m\"b\u{9b}c",
                "since": since(0), "session": id, "token": token(0), "sequence": 0, "data": "build 4711",
            },
            {
                "position": 1, "kind": "exclusive", "holds": false, "waits_for": 0, "client": null,
                "node": "/lock/orders/lock-0000000001", "owner": "beta",
                "since": since(1), "session": id, "token": token(1), "sequence": 1, "data": null,
            },
        ],
        "foreign": [],
        "once": [],
        "election": null,
        "pool": null,
    });
    let mut json = shown.json();
    // What the servers know of the holder is tested elsewhere.
    assert_eq!(json.as_object_mut().unwrap().remove("holders").unwrap().as_array().unwrap().len(), 1);
    assert_eq!(json, expected);
    assert!(since(0).ends_with('Z'));
    // No character in the output can drive a terminal.
    assert!(!shown.stdout.contains(['\u{1b}', '\u{9b}']), "{}", shown.stdout);

    let shown = zklock(&servers, "show /lock/orders").await;
    assert!(shown.stdout.contains(r#"a\u{1b}[31m"b\u{9b}c"#), "{}", shown.stdout);
    assert!(!shown.stdout.contains(['\u{1b}', '\u{9b}']), "{}", shown.stdout);
    assert!(shown.stdout.contains("DATA") && shown.stdout.contains("build 4711"), "{}", shown.stdout);
}

/// As `grep -q` and `git diff --exit-code` do.
#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_can_be_the_answer() {
    const HELD: [&str; 3] = ["show", "--exit-code", "/lock/orders"];
    let (server, servers) = at(server().await);
    make(&operator(&server).await, "/lock/orders").await;
    zklock(&servers, &HELD).await.is_silent(1, "nobody holds /lock/orders\n");
    // A contender of another client does not hold it.
    let stranger = operator(&server).await;
    let node = contend_as_kazoo(&stranger, "/lock/orders").await;
    assert_eq!(zklock(&servers, &HELD).await.code, 1);
    stranger.delete(&node, None).await.unwrap();

    let session = session(&server).await;
    let guard = lock_of(&session, "/lock/orders", "alpha").acquire().await.unwrap();
    let held = zklock(&servers, &HELD).await;
    assert_eq!((held.code, held.stderr.as_str()), (0, ""));
    assert!(held.stdout.contains("alpha"), "{held:?}");
    let json = zklock(&servers, "show --exit-code --json /lock/orders").await.json();
    assert_eq!(json["contenders"][0]["owner"], "alpha");
    // With --quiet the code is the whole answer.
    let quiet = [&HELD[..], &["--quiet"]].concat();
    zklock(&servers, &quiet).await.is_silent(0, "");
    guard.release().await.unwrap();
    zklock(&servers, &quiet).await.is_silent(1, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_to_read_is_left_open() {
    let server = server().await;
    // Everybody may read the directory, but not the contender's node. The other node has no data.
    make(&operator(&server).await, "/lock/orders").await;
    let session = Session::builder(server.connect_string()).auth("digest", DIGEST).connect().await.unwrap();
    let options = owner("alpha").acl(Acl::creator_only());
    let _guard =
        session.lock("/lock/orders").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    make(&operator(&server).await, "/lock/orders/lock-0000000001").await;

    let servers = server.connect_string();
    let shown = zklock(&servers, "show --json /lock/orders").await.json();
    let expected = json!({
        "position": 0, "kind": "exclusive", "holds": true, "waits_for": null, "client": null,
        "node": "/lock/orders/lock-0000000000", "owner": null,
        "since": null, "session": null, "token": null, "sequence": 0, "data": null,
    });
    assert_eq!(shown["contenders"][0], expected);
    has(&shown["contenders"][1], json!({"owner": null, "session": "0x0"}));
    assert!(shown["contenders"][1]["token"].is_i64(), "{shown}");
    let shown = zklock(&servers, "show /lock/orders").await;
    assert_eq!(rows(&shown.stdout)[1], ["holder", "-", "-", "-", "-", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_lingers() {
    let server = own_server().await;
    let operator = operator(&server).await;
    make(&operator, "/lock/orders").await;
    let before = count_sessions(&server).await;
    for (command, code) in [
        ("show /lock/orders", 0),
        ("show /", 64),
        ("ls", 0),
        ("ls /a/", 64),
        ("verify 1:1:0:/lock/orders", 1),
        ("release --force --yes /lock/orders", 1),
        ("doctor", 0),
    ] {
        let command = format!("{command} --session-timeout 60s");
        zklock(&server.connect_string(), &*command).await.says(code, "");
        let ended = Instant::now();
        eventually("the session's end", async || count_sessions(&server).await == before).await;
        assert!(ended.elapsed() < Duration::from_secs(30), "not closed, but expired: {command}");
    }
}
