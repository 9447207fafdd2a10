//! `zklock doctor`, on healthy servers and on others.

use std::time::Duration;

use serde_json::{Value, json};
use zklock::Session;
use zklock_testcontainers::{Ensemble, ZooKeeper, ZooKeeperBuilder};
use zookeeper_client::{Acls, CreateMode};

use crate::support::{Ran, Running, at, codes, contend_as_kazoo, ended, has, program_of, zklock};
use zklock_test_support::{Server, eventually, make, operator, own_server, server, within};

/// `zklock doctor --json` with these options.
async fn doctor(servers: &str, options: &[&str]) -> Ran {
    zklock(servers, &[&["doctor", "--json"], options].concat()).await
}

fn modes(report: &Value) -> Vec<&str> {
    let servers = report["servers"].as_array().expect("servers");
    servers.iter().map(|server| server["mode"].as_str().unwrap_or("none")).collect()
}

#[tokio::test]
async fn one_server_of_this_machine_is_reported() {
    let server = ZooKeeper::start().await.unwrap();
    let address = server.connect_string();
    let run = zklock(&address, "doctor").await.says(0, "");
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains('\u{1b}'), "colours in a pipe: {run:?}");
    let lines =
        run.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect::<Vec<_>>();
    assert_eq!(lines[0][..4], ["SERVER", "MODE", "VERSION", "TICK"]);
    let version = server.admin("srvr").await.unwrap();
    assert_eq!(lines[1][..2], [address.as_str(), "standalone"]);
    assert!(version.contains(&format!("version: {}", lines[1][2])), "{version} {run:?}");
    for line in [
        "Session timeout            10s",
        "Tick used for leases       2s",
        "A guard stays valid for    2.25s to 9.1s after ZooKeeper stops answering",
        "doctor found no problem.",
    ] {
        assert!(run.stdout.contains(&format!("\n{line}")), "{line}: {run:?}");
    }
    let report = doctor(&address, &[]).await.report();
    assert_eq!(codes(&report), [""; 0]);
    let seen = json!({
        "address": address, "mode": "standalone", "reachable": true,
        "tick_ms": 2000.0, "shortest_timeout_ms": 4000.0, "longest_timeout_ms": 40_000.0,
    });
    let lengths = json!({
        "timeout_ms": 10_000.0, "tick_ms": 2000.0, "longest_stop_margin_ms": 2250.412, "longest_validity_ms": 9100.0,
    });
    has(&report, json!({"error": null, "servers": [seen], "session": lengths}));
    // The verdict is not given before an error.
    let failed = zklock(&address, "doctor nosuch").await;
    assert!(failed.code == 64 && failed.stdout.starts_with("SERVER"), "{failed:?}");
    assert!(failed.stderr.contains("\"nosuch\"") && !failed.stdout.contains("no problem"), "{failed:?}");
}

#[tokio::test]
async fn contenders_of_other_clients_are_warned_of() {
    let server = Server::from(ZooKeeper::start().await.unwrap());
    let stranger = operator(&server).await;
    make(&stranger, "/lock/orders").await;
    let session = Session::connect(server.connect_string()).await.unwrap();
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let node = contend_as_kazoo(&stranger, "/lock/orders").await;
    // This node has a name like zklock's, and is alone.
    make(&stranger, "/lock/bills").await;
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    stranger.create("/lock/bills/lock-0000000000", b"theirs", &options).await.unwrap();
    let servers = server.connect_string();
    let paths = ["/lock/orders", "/lock/bills"];
    let report = doctor(&servers, &paths).await.report();
    let danger = json!({"code": "foreign-contender", "severity": "danger"});
    has(&report["findings"][0], danger.clone());
    assert!(report["findings"][0]["what"].as_str().unwrap().contains(&node), "{report}");
    let orders = json!({"foreign": [{"node": node}], "contenders": 1});
    has(&report["locks"], json!([orders, {"foreign": [{}], "contenders": 0}]));
    for remedy in [r#"extra_lock_patterns=["lock-"]"#, "--layout kazoo"] {
        assert!(report["findings"][0]["advice"].as_str().unwrap().contains(remedy), "{report}");
    }
    // A latch of Curator ignores zklock's nodes as kazoo does.
    stranger.delete(&node, None).await.unwrap();
    let latch = "/lock/orders/_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-latch-0000000007";
    stranger.create(latch, b"", &options).await.unwrap();
    let finding = &doctor(&servers, &paths).await.report()["findings"][0];
    has(finding, danger);
    assert!(finding["what"].as_str().unwrap().contains(latch), "{finding}");
    guard.release().await.unwrap();
    let report = doctor(&servers, &paths).await.report();
    let foreign = report["findings"].as_array().unwrap().iter().find(|it| it["code"] == "foreign-contender");
    assert_eq!(foreign.unwrap()["severity"], "warning");
    assert!(codes(&report).contains(&"open-directory"), "{report}");
}

#[tokio::test]
async fn an_ensemble_is_healthy_and_loses_a_server_and_then_its_quorum() {
    let ensemble = Ensemble::start(3).await.expect("an ensemble");
    let servers = ensemble.connect_string();
    let run = doctor(&servers, &[]).await;
    let report = run.report();
    assert_eq!(codes(&report), [""; 0]);
    // Older followers forget writes. (Versions of one digit each are in the order of their text.)
    let forgets = report["servers"][0]["version"].as_str().expect("a version") < "3.9.4";
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(usize::from(forgets)), "{report}");
    assert_eq!(run.code, i32::from(forgets), "{run:?}");
    let leader = ensemble.leader().await.unwrap();
    let mut expected = ["follower"; 3];
    expected[leader] = "leader";
    assert_eq!(modes(&report), expected);

    // What remains is told, too.
    let follower = ensemble.followers().await.unwrap()[0];
    ensemble.kill(follower).await.unwrap();
    let report = doctor(&servers, &[]).await.finds(1, &["unreachable"]);
    assert_eq!(report["servers"][follower]["reachable"], false);
    assert!(report["servers"][follower]["problem"].is_string(), "{report}");
    assert!(report["session"].is_object(), "{report}");
    // The connect string names fewer servers than the ensemble has. Another one may have the holder's connection.
    let session = Session::connect(servers.clone()).await.unwrap();
    let _guard = session.lock("/lock").unwrap().acquire().await.unwrap();
    let expected = ["no-majority", "members-missing", "open-directory", "path-held"];
    let report = doctor(&ensemble.address(leader), &["/lock"]).await.finds(1, &expected);
    let held = report["findings"].as_array().unwrap().last().unwrap();
    assert!(held["what"].as_str().unwrap().contains("names 1 of the 3 servers"), "{report}");

    // Without a quorum there is no session, and each server is told.
    ensemble.kill(leader).await.unwrap();
    let last = 3 - leader - follower;
    eventually("a server without a quorum", async || {
        ensemble.admin(last, "srvr").await.is_ok_and(|answer| answer.contains("not currently serving"))
    })
    .await;
    let servers = [leader, follower, last].map(|server| ensemble.address(server)).join(",");
    let run = doctor(&servers, &["--connect-timeout", "5s"]).await;
    assert!(run.stderr.starts_with("zklock: no server of"), "{run:?}");
    assert!(run.stderr.contains("it runs, but has no quorum"), "{run:?}");
    let report = run.finds(69, &["unreachable", "unreachable", "not-serving", "no-leader"]);
    assert_eq!(modes(&report), ["none", "none", "not-serving"]);
    has(&report, json!({"session": null, "error": {"code": 69}}));
}

#[tokio::test]
async fn a_read_only_server_is_told() {
    let ensemble = Ensemble::builder(3).java_property("readonlymode.enabled", "true").start().await.unwrap();
    ensemble.kill(0).await.unwrap();
    ensemble.kill(1).await.unwrap();
    eventually("a read-only server", async || {
        ensemble.admin(2, "isro").await.is_ok_and(|answer| answer.trim() == "ro")
    })
    .await;
    let servers = ensemble.address(2);
    let ask = async || doctor(&servers, &["--connect-timeout", "5s"]).await;
    // A second of it is for the question why there is no session. A busy server may not answer in time.
    let mut run = ask().await;
    for _ in 0..3 {
        assert_eq!(run.code, 69, "{run:?}");
        if !run.stderr.contains("read-only") {
            run = ask().await;
        }
    }
    assert!(run.stderr.contains("read-only"), "{run:?}");
    assert_eq!(modes(&run.finds(69, &["read-only", "no-leader"])), ["read-only"]);
}

/// The options, the tick that leases are reckoned with, and the findings.
type Reckoned<'a> = (&'a [&'a str], f64, &'a [&'a str]);

#[tokio::test]
async fn the_tick_is_told_by_a_server_or_learned_by_the_limits_or_given() {
    let telling = |millis| ZooKeeper::builder().tick_time(Duration::from_millis(millis));
    // It answers only the words that servers answer by default.
    let reticent = |millis| telling(millis).property("4lw.commands.whitelist", "srvr");
    // What the server tells, and its reports.
    let cases: [(ZooKeeperBuilder, Value, &[Reckoned<'_>]); 3] = [
        (
            telling(2500),
            2500.0.into(),
            &[
                (&[], 2500.0, &[]),
                (&["--tick", "2s"], 2000.0, &["tick-too-short"]),
                (&["--tick", "2500ms"], 2500.0, &[]),
                (&["--tick", "4s"], 4000.0, &["tick-too-long"]),
            ],
        ),
        (reticent(4000), Value::Null, &[(&[], 4000.0, &["tick-unknown"]), (&["--tick", "4s"], 4000.0, &[])]),
        (
            reticent(2000).max_session_timeout(Duration::from_secs(600)),
            Value::Null,
            &[(&["--tick", "2s"], 2000.0, &[])],
        ),
    ];
    for (server, told, reports) in cases {
        let server = server.start().await.unwrap();
        for (options, reckoned, found) in reports {
            let report = doctor(&server.connect_string(), options).await.report();
            assert_eq!(report["servers"][0]["tick_ms"], told, "{options:?}");
            assert_eq!(
                (codes(&report), &report["session"]["tick_ms"]),
                (found.to_vec(), &(*reckoned).into())
            );
        }
    }
    // The limits of this server fit two ticks.
    let server = reticent(2000).max_session_timeout(Duration::from_secs(600)).start().await.unwrap();
    let unknown = doctor(&server.connect_string(), &[]).await;
    let report = unknown.says(64, "tick is 2s or 30s").report();
    assert_eq!((modes(&report), &report["session"]), (vec!["standalone"], &Value::Null));
}

#[tokio::test]
async fn a_session_timeout_that_is_not_granted_is_told() {
    let server = ZooKeeper::start().await.unwrap();
    let run = doctor(&server.connect_string(), &["--session-timeout", "41s"]).await;
    assert_eq!(run.finds(1, &["timeout-adapted"])["session"]["timeout_ms"], 40_000.0);
    // One that keeps no lease is refused, and the server is told.
    let (_server, servers) = at(zklock_test_support::server().await);
    let report = doctor(&servers, &["--session-timeout", "1s", "--tick", "2s"]).await.says(64, "").report();
    assert_eq!(modes(&report), ["standalone"]);
    has(&report, json!({"session": null, "error": {"code": 64}}));
}

#[tokio::test]
async fn two_servers_that_do_not_know_each_other_are_dangerous() {
    let one = own_server().await;
    let other = own_server().await;
    let servers = format!("{},{}", one.connect_string(), other.connect_string());
    let run = zklock(&servers, "doctor --tick 100ms").await.says(1, "");
    assert!(run.stdout.contains("\nDANGER   "), "{run:?}");
    assert!(run.stdout.contains("they are not one ensemble"), "{run:?}");
}

#[tokio::test]
async fn a_server_has_as_many_connections_of_this_machine_as_it_may_have() {
    let server = Server::from(ZooKeeper::builder().property("maxClientCnxns", "1").start().await.unwrap());
    let _only = operator(&server).await;
    let run = doctor(&server.connect_string(), &["--connect-timeout", "2s"]).await;
    run.finds(69, &["closes-connections"]);
    assert!(run.stderr.contains("perhaps its limit maxClientCnxns is reached for this machine"), "{run:?}");
}

#[tokio::test]
async fn nobody_is_there() {
    // No server listens on the discard port of this machine.
    let run = doctor("127.0.0.1:9,127.0.0.1:10/app", &[]).await;
    assert!(run.took < Duration::from_secs(5), "it need not wait: {run:?}");
    assert!(run.stderr.contains("can be reached"), "{run:?}");
    let report = run.finds(69, &["unreachable", "unreachable"]);
    assert_eq!(modes(&report), ["none", "none"]);
    assert_eq!(report["servers"][1]["address"], "127.0.0.1:10");
    // A server that hangs is told from one that is gone.
    let server = own_server().await;
    server.own().pause().await.unwrap();
    let run = doctor(&server.connect_string(), &["--connect-timeout", "1s"]).await;
    assert_eq!(modes(&run.finds(69, &["silent"])), ["silent"]);
}

#[tokio::test]
async fn a_closed_pipe_is_no_panic() {
    let (_server, servers) = at(server().await);
    let mut doctor = Running::start(program_of(&servers, "doctor --tick 100ms"));
    drop(doctor.printed);
    assert!(matches!(ended(&mut doctor.child).await.code(), Some(0 | 1)));
    assert_eq!(within("the end", doctor.told.recv()).await, None);
}
