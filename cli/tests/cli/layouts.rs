//! Commands in the queues of other clients.

use std::time::Duration;

use crate::support::{
    KAZOO, at, codes, contend_as, contend_as_kazoo, has, output, rows, run, with_session, zklock,
};
use serde_json::{Value, json};
use zklock::{Layout, LockOptions};
use zklock_test_support::{acquire, eventually, granted, make, operator, queue, server};
use zookeeper_client::{Acls, CreateMode};

const OPTIONS: [&str; 6] = ["--layout", "kazoo", "--takeover-delay", "10ms", "--timeout", "6s"];

#[tokio::test]
async fn a_command_waits_for_kazoo_and_is_seen_beside_it() {
    let (server, servers) = at(server().await);
    let operator = operator(&server).await;
    make(&operator, "/lock").await;
    let node = contend_as_kazoo(&operator, "/lock").await;
    let taken = output(run(&servers, &[&OPTIONS[..4], &["-t", "0"]].concat(), "/lock", "true")).await;
    taken.is(75, "", "/lock is not free");
    // Without the layout, zklock does not contend there.
    output(run(&servers, &["-t", "6s"], "/lock", "true")).await.is(75, "", "kazoo");
    let shown = zklock(&servers, "show --json --layout kazoo /lock").await.json();
    assert_eq!(shown["contenders"][0]["node"], node);
    assert_eq!(shown["foreign"].as_array().map(Vec::len), Some(0));
    operator.delete(&node, None).await.unwrap();
    let script = "printf %s \"$ZKLOCK_SEQUENCER\" | cut -d: -f3";
    output(run(&servers, &OPTIONS, "/lock", script)).await.is_silent(0, "k3\n");
}

/// Each layout, a path, the option's value that names its queue, and what the other client names its nodes.
const QUEUES: [(Layout, &str, &str, &str); 3] = [
    (Layout::Curator, "/q/curator", "curator", "_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-lock-"),
    (Layout::Go, "/q/go", "curator", "_c_1ef3b5a40e4f4cd59a397a9d3a6b7f10-lock-"),
    (Layout::Kazoo, "/q/kazoo", "kazoo", KAZOO),
];

fn finding<'a>(report: &'a Value, code: &str) -> &'a Value {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().find(|finding| finding["code"] == code).expect(code)
}

#[tokio::test]
async fn a_shared_queue_is_known_by_the_nodes_of_zklock_in_it() {
    let (server, servers, session) = with_session(server().await).await;
    let operator = operator(&server).await;
    let paths = QUEUES.map(|(_, path, ..)| path);
    let mut theirs = Vec::new();
    let mut waiters = Vec::new();
    for (layout, path, _, name) in QUEUES {
        make(&operator, path).await;
        theirs.push(contend_as(&operator, path, name).await);
        let options = LockOptions::new().owner("ours").layout(layout).takeover_delay(Duration::ZERO);
        let lock = session.lock(path).unwrap().with_options(options).unwrap();
        waiters.push(acquire(&lock));
        eventually("the waiter", async || queue(&lock).await.len() == 2).await;
        contend_as(&operator, path, name).await;
    }

    let listed = zklock(&servers, "ls --json").await.json();
    let held = QUEUES.map(|(_, path, layout, _)| {
        json!({"path": path, "layout": layout, "zklock": 1, "holders": 1, "waiting": 2, "foreign": 0, "holder": {"owner": null}})
    });
    has(&listed, held.into());
    let listed = zklock(&servers, "ls").await.stdout;
    let lines = rows(&listed);
    assert_eq!(lines[0], ["PATH", "HOLDER", "ARRIVED", "WAITING", "LAYOUT", "ZKLOCK"]);
    assert_eq!(lines[3], ["/q/kazoo", "kazoo (Python)", "-", "2", "kazoo", "1"]);
    for ((_, path, layout, _), theirs) in QUEUES.iter().zip(&theirs) {
        let shown = zklock(&servers, &["show", "--json", path]).await.json();
        let ours = json!({"owner": "ours", "client": null});
        has(&shown, json!({"foreign": [], "contenders": [{"node": theirs, "owner": null}, ours, {}]}));
        assert!(shown["contenders"][0]["client"].is_string(), "{shown}");
        // The other client does not notice a deletion.
        zklock(&servers, &["release", "--force", "--yes", path]).await.is(1, "", "does not notice");
        assert!(operator.check_stat(theirs).await.unwrap().is_some(), "{layout}");
    }
    let report = zklock(&servers, &[&["doctor", "--json"][..], &paths].concat()).await.report();
    let found = codes(&report);
    assert_eq!(found.iter().filter(|code| **code == "shared-queue").count(), 3, "{report:#}");
    assert!(!found.contains(&"foreign-contender"), "{report:#}");
    let seen = QUEUES.map(|(_, path, layout, _)| {
        json!({"path": path, "layout": layout, "contenders": 1, "theirs": 2, "waiting": 2, "foreign": []})
    });
    has(&report["locks"], seen.into());
    assert!(!report.to_string().contains("release --force"), "{report:#}");

    // Once zklock holds the lock, an operator can take it.
    for ((_, path, ..), (theirs, waiter)) in QUEUES.iter().zip(theirs.iter().zip(waiters)) {
        operator.delete(theirs, None).await.unwrap();
        let guard = granted(waiter).await;
        has(&zklock(&servers, &["ls", "--json", path]).await.json(), json!([{"holder": {"owner": "ours"}}]));
        zklock(&servers, &["release", "--force", "--yes", path]).await.is(0, "", "was taken from the holder");
        guard.lost().await;
    }
}

#[tokio::test]
async fn a_queue_without_zklock_is_known_if_its_client_is_named() {
    let (server, servers) = at(server().await);
    let operator = operator(&server).await;
    for (_, path, _, name) in QUEUES {
        make(&operator, path).await;
        contend_as(&operator, path, name).await;
    }
    zklock(&servers, "ls").await.is_silent(0, "");
    for (option, expected) in [
        ("curator", &["/q/curator", "/q/go"][..]),
        ("go", &["/q/curator", "/q/go"]),
        ("kazoo", &["/q/kazoo"]),
    ] {
        let listed = zklock(&servers, &["ls", "--json", "--layout", option]).await.json();
        let expected = expected.iter().map(|path| json!({"path": path, "zklock": 0, "waiting": 0}));
        has(&listed, expected.collect());
        for (_, path, layout, _) in QUEUES.iter().filter(|(_, _, layout, _)| *layout == option) {
            // Without the option, zklock would not contend there.
            let report = zklock(&servers, &["doctor", "--json", path]).await.report();
            let warned = finding(&report, "foreign-contender");
            assert_eq!(warned["severity"], "warning");
            assert!(warned["advice"].as_str().unwrap().contains(&format!("--layout {layout}")), "{warned}");
            let report = zklock(&servers, &["doctor", "--json", "--layout", option, path]).await.report();
            assert!(!codes(&report).contains(&"foreign-contender"), "{report:#}");
            has(finding(&report, "shared-queue"), json!({"severity": "note"}));
        }
    }
}

#[tokio::test]
async fn a_stranger_in_a_shared_queue_is_a_danger() {
    let (server, servers, session) = with_session(server().await).await;
    let operator = operator(&server).await;
    let options = LockOptions::new().layout(Layout::Kazoo).takeover_delay(Duration::ZERO);
    let lock = session.lock("/lock").unwrap().with_options(options).unwrap();
    let _guard = lock.acquire().await.unwrap();
    let stranger = contend_as(&operator, "/lock", QUEUES[0].3).await;
    let report = zklock(&servers, "doctor --json /lock").await.report();
    let danger = finding(&report, "foreign-contender");
    assert_eq!(danger["severity"], "danger");
    assert!(danger["what"].as_str().unwrap().contains(&stranger), "{danger}");
    has(&report["locks"], json!([{"layout": "kazoo", "contenders": 1, "theirs": 0}]));
    let listed = zklock(&servers, "ls --json").await.json();
    has(&listed, json!([{"path": "/lock", "layout": "kazoo", "zklock": 1, "foreign": 1}]));
    operator.delete(&stranger, None).await.unwrap();
    // A contender of zklock's with another layout refuses the queue. A reader of kazoo's waits for zklock's nodes, unless its number
    // is from before 3.9 and negative.
    for (name, severity) in [
        ("_c_7a6b6c6f-636b-4000-8000-000000000000-lock-0000000007", "warning"),
        ("1ef3b5a40e4f4cd59a397a9d3a6b7f10__rlock__0000000008", "warning"),
        ("1ef3b5a40e4f4cd59a397a9d3a6b7f10__rlock__-000000009", "danger"),
    ] {
        let node = format!("/lock/{name}");
        operator.create(&node, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
        let report = zklock(&servers, "doctor --json --layout kazoo /lock").await.report();
        let told = finding(&report, "foreign-contender");
        assert_eq!(told["severity"], severity, "{told}");
        assert!(told["what"].as_str().unwrap().contains(&node), "{told}");
        operator.delete(&node, None).await.unwrap();
    }
}

/// zklock's own queue is no queue of theirs, and is not free.
#[tokio::test]
async fn a_queue_of_another_layout_is_told_where_nobody_of_the_one_that_was_asked_for_is() {
    let (server, servers, session) = with_session(server().await).await;
    let _guard = session.lock("/lock").unwrap().acquire().await.unwrap();
    for layout in ["kazoo", "curator", "go"] {
        let shown = zklock(&servers, &["show", "--exit-code", "--layout", layout, "/lock"]).await;
        let said = format!(
            "nobody holds /lock in a queue of {layout}, but 1 contender of other clients or layouts is there\n"
        );
        assert!(shown.code == 0 && shown.stdout.starts_with(&said), "{shown:?}");
        assert!(shown.stdout.contains("lock-0000000000    zklock, with another layout"), "{shown:?}");
        let options = ["--layout", layout, "--takeover-delay", "10ms", "-t", "6s"];
        output(run(&servers, &options, "/lock", "true")).await.is(75, "", "zklock, with another layout");
    }
    // Without a layout, the other clients' queues are not zklock's.
    let operator = operator(&server).await;
    make(&operator, "/theirs").await;
    contend_as_kazoo(&operator, "/theirs").await;
    let beside = "no contender of zklock holds /theirs, but 1 contender of other clients or layouts is there";
    let shown = zklock(&servers, "show --exit-code /theirs").await;
    assert!(shown.code == 1 && shown.stdout.starts_with(beside), "{shown:?}");
    let command = ["release", "--force", "--yes", "/theirs"];
    zklock(&servers, &command).await.is(1, "", beside);
    zklock(&servers, "ask -r deploy -w 1s /theirs").await.is(64, "", "cannot be asked");
}
