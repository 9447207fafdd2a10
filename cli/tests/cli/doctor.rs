//! `zklock doctor`, on healthy servers and on others.

use std::time::Duration;

use serde_json::Value;
use zklock::Session;
use zklock_testcontainers::{Ensemble, Link, ZooKeeper, ZooKeeperBuilder};
use zookeeper_client::{Acls, CreateMode};

use crate::support;
use crate::support::looker::contend_as_kazoo;
use crate::support::program::{Run, codes, run};
use zklock_test_support::{Server, eventually, make, monitored, operator, own_server, server};

async fn ensemble() -> Ensemble {
    Ensemble::start(3).await.expect("an ensemble")
}

/// `zklock doctor --json` with these options.
fn doctor(servers: &str, options: &[&str]) -> Run {
    run(&[&["doctor", "--json", "-s", servers], options].concat())
}

fn modes(report: &Value) -> Vec<&str> {
    let servers = report["servers"].as_array().expect("servers");
    servers.iter().map(|server| server["mode"].as_str().unwrap_or("none")).collect()
}

#[tokio::test]
async fn one_server_of_this_machine_is_reported() {
    let server = ZooKeeper::start().await.unwrap();
    let address = server.connect_string();
    let run = support::program::run(&["doctor", "--servers", &address]);
    // A busy machine makes slow requests, and they are worth a warning.
    assert!(matches!(run.code, Some(0 | 1)), "{run:?}");
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains('\u{1b}'), "colours in a pipe: {run:?}");
    let lines =
        run.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect::<Vec<_>>();
    assert_eq!(lines[0][..4], ["SERVER", "MODE", "VERSION", "READ"]);
    let version = server.admin("srvr").await.unwrap();
    assert_eq!(lines[1][..2], [address.as_str(), "standalone"]);
    assert!(version.contains(&format!("version: {}", lines[1][2])), "{version} {run:?}");
    for line in [
        "Session timeout            10s",
        "Tick reckoned with         2s",
        "A guard stays valid for    2.25s at least, 9.1s at most, once ZooKeeper falls silent",
        "A crash blocks others for  12s at most; if the server goes, too, until it is back and 12s more",
        "NOTE     there is but one server",
        "         -> run three",
    ] {
        assert!(run.stdout.contains(&format!("\n{line}")), "{line}: {run:?}");
    }
}

#[tokio::test]
async fn json_has_the_same() {
    let server = ZooKeeper::start().await.unwrap();
    let run = doctor(&server.connect_string(), &[]);
    let report = run.json();
    assert_eq!(codes(&report), ["single-server"]);
    assert_eq!(report["error"], Value::Null);
    let seen = &report["servers"][0];
    assert_eq!(seen["address"], server.connect_string().as_str());
    assert_eq!((&seen["mode"], &seen["reachable"]), (&"standalone".into(), &true.into()));
    assert_eq!((&seen["tick_ms"], &seen["shortest_timeout_ms"]), (&2000.0.into(), &4000.0.into()));
    assert_eq!(seen["longest_timeout_ms"], 40_000.0);
    for name in ["read_ms", "write_ms"] {
        assert!(seen[name].as_f64().is_some_and(|length| length > 0.0), "{report}");
    }
    // The library says the same of such a session.
    let session = Session::connect(server.connect_string()).await.unwrap();
    let millis = |length: Duration| length.as_micros() as f64 / 1000.0;
    assert_eq!(report["session"]["timeout_ms"], millis(session.timeout()));
    assert_eq!(report["session"]["heartbeat_ms"], millis(session.heartbeat()));
    assert_eq!(report["session"]["longest_stop_margin_ms"], millis(session.longest_stop_margin()));
    assert_eq!(report["session"]["longest_validity_ms"], 9100.0);
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
    let arguments = ["doctor", "--json", "-s", &server.connect_string(), "/lock/orders", "/lock/bills"];
    let report = run(&arguments).json();
    let finding = &report["findings"][0];
    assert_eq!((&finding["code"], &finding["severity"]), (&"foreign-contender".into(), &"danger".into()));
    assert!(finding["what"].as_str().unwrap().contains(&node), "{finding}");
    assert_eq!(report["locks"][0]["foreign"][0]["node"], node);
    assert_eq!(report["locks"][0]["contenders"], 1);
    assert_eq!(
        (&report["locks"][1]["contenders"], report["locks"][1]["foreign"].as_array().unwrap().len()),
        (&0.into(), 1)
    );
    // A latch of Curator ignores zklock's nodes as kazoo does.
    stranger.delete(&node, None).await.unwrap();
    let latch = "/lock/orders/_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-latch-0000000007";
    stranger.create(latch, b"", &options).await.unwrap();
    let finding = &run(&arguments).json()["findings"][0];
    assert_eq!((&finding["code"], &finding["severity"]), (&"foreign-contender".into(), &"danger".into()));
    assert!(finding["what"].as_str().unwrap().contains(latch), "{finding}");
    guard.release().await.unwrap();
    let report = run(&arguments).json();
    let foreign = report["findings"].as_array().unwrap().iter().find(|it| it["code"] == "foreign-contender");
    assert_eq!(foreign.unwrap()["severity"], "warning");
}

#[tokio::test]
async fn a_healthy_ensemble_has_notes_at_most() {
    let ensemble = ensemble().await;
    let run = doctor(&ensemble.connect_string(), &[]);
    let report = run.json();
    // The servers are on one machine here.
    assert_eq!(codes(&report), ["same-host"]);
    let severities = report["findings"].as_array().unwrap().iter().map(|it| &it["severity"]);
    // Older followers forget writes. (Versions of one digit each are in the order of their text.)
    let forgets = report["servers"][0]["version"].as_str().expect("a version") < "3.9.4";
    assert_eq!(severities.filter(|severity| *severity != "note").count(), usize::from(forgets), "{report}");
    assert_eq!(run.code, Some(i32::from(forgets)), "{run:?}");
    let mut modes = modes(&report);
    modes.sort_unstable();
    assert_eq!(modes, ["follower", "follower", "leader"]);
    let leader = ensemble.leader().await.unwrap();
    assert_eq!(report["servers"][leader]["mode"], "leader");
    assert_eq!(report["members"].as_array().map(Vec::len), Some(3));
    // The session timeout, a tick, and half a tick until a follower reports.
    assert_eq!(report["session"]["longest_takeover_ms"], 13_000.0);
}

#[tokio::test]
async fn no_session_is_left() {
    // A session that is not closed would stay for as long as the server allows.
    let server = ZooKeeper::builder().max_session_timeout(Duration::from_secs(600)).start().await.unwrap();
    let server = Server::from(server);
    let run = doctor(&server.connect_string(), &[]);
    assert_eq!(run.json()["servers"][0]["longest_timeout_ms"], 600_000.0);
    eventually("no session", async || monitored(&server, "zk_global_sessions").await == 0).await;
}

#[tokio::test]
async fn a_server_that_is_down_is_told_with_what_remains() {
    let ensemble = ensemble().await;
    let follower = ensemble.followers().await.unwrap()[0];
    ensemble.kill(follower).await.unwrap();
    let run = doctor(&ensemble.connect_string(), &[]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let report = run.json();
    assert_eq!(codes(&report), ["unreachable", "same-host"]);
    assert_eq!(report["servers"][follower]["reachable"], false);
    assert!(report["servers"][follower]["problem"].is_string(), "{report}");
    assert!(report["session"].is_object(), "{report}");
    // The connect string names fewer servers than the ensemble has.
    let leader = ensemble.address(ensemble.leader().await.unwrap());
    let run = doctor(&leader, &[]);
    assert_eq!((run.code, codes(&run.json())), (Some(1), vec!["no-majority", "missing-servers"]));
}

#[tokio::test]
async fn without_a_quorum_there_is_no_session_and_each_server_is_told() {
    let ensemble = ensemble().await;
    ensemble.kill(0).await.unwrap();
    ensemble.kill(1).await.unwrap();
    eventually("a server without a quorum", async || {
        ensemble.admin(2, "srvr").await.is_ok_and(|answer| answer.contains("not currently serving"))
    })
    .await;
    let servers = ensemble.connect_string();
    let run = doctor(&servers, &["--connect-timeout", "5s"]);
    assert_eq!(run.code, Some(69), "{run:?}");
    assert!(run.stderr.starts_with("zklock: no server of"), "{run:?}");
    let report = run.json();
    assert_eq!(modes(&report), ["none", "none", "not-serving"]);
    assert_eq!(report["session"], Value::Null);
    assert_eq!(report["error"]["code"], 69);
    assert_eq!(codes(&report), ["unreachable", "unreachable", "not-serving", "no-leader", "same-host"]);
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
    let ask = || doctor(&servers, &["--connect-timeout", "5s"]);
    // A second of it is for the question why there is no session. A busy server may not answer in time.
    let mut run = ask();
    for _ in 0..3 {
        assert_eq!(run.code, Some(69), "{run:?}");
        if !run.stderr.contains("read-only") {
            run = ask();
        }
    }
    assert_eq!(run.code, Some(69), "{run:?}");
    assert!(run.stderr.contains("read-only"), "{run:?}");
    let report = run.json();
    assert_eq!((modes(&report), codes(&report)), (vec!["read-only"], vec!["read-only", "no-leader"]));
}

#[tokio::test]
async fn the_tick_is_learned_and_a_shorter_one_comes_first() {
    let server = ZooKeeper::builder().tick_time(Duration::from_millis(2500)).start().await.unwrap();
    let servers = server.connect_string();
    let report = doctor(&servers, &[]).json();
    assert_eq!((codes(&report), &report["session"]["tick_ms"]), (vec!["single-server"], &2500.0.into()));
    let report = doctor(&servers, &["--tick", "2s"]).json();
    assert_eq!(codes(&report), ["tick-too-short", "single-server"]);
    assert_eq!(report["findings"][0]["severity"], "danger");
    let text = run(&["doctor", "--tick", "2s", "-s", &servers]).stdout;
    assert!(text.contains("\nDANGER   a server's tick is 2500ms, longer than the 2s"), "{text}");
    assert!(text.contains("--tick 2500ms"), "{text}");
    // The advice helps.
    let report = doctor(&servers, &["--tick", "2500ms"]).json();
    assert_eq!(codes(&report), ["single-server"]);
}

#[tokio::test]
async fn a_longer_tick_than_the_servers_is_worth_a_warning() {
    let server = server().await;
    let servers = server.connect_string();
    let learned = doctor(&servers, &[]).json();
    assert_eq!((codes(&learned), &learned["session"]["tick_ms"]), (vec!["single-server"], &100.0.into()));
    let given = doctor(&servers, &["--tick", "2s"]).json();
    assert_eq!(codes(&given), ["tick-too-long", "single-server"]);
    let margin = |report: &Value| report["session"]["longest_stop_margin_ms"].as_f64().unwrap();
    assert!(margin(&learned) > margin(&given), "{learned}");
}

#[tokio::test]
async fn a_lower_clock_drift_makes_leases_longer() {
    let server = server().await;
    let servers = server.connect_string();
    let report = doctor(&servers, &["--clock-drift", "1000"]).json();
    assert_eq!(report["session"]["longest_validity_ms"], 9990.0);
    let session = Session::builder(servers).clock_drift(1000).connect().await.unwrap();
    let longest = session.longest_stop_margin().as_micros() as f64 / 1000.0;
    assert_eq!(report["session"]["longest_stop_margin_ms"], longest);
}

#[tokio::test]
async fn a_session_timeout_beyond_the_limits_is_told_rather_than_refused() {
    let server = ZooKeeper::start().await.unwrap();
    let run = doctor(&server.connect_string(), &["--session-timeout", "41s"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let report = run.json();
    assert_eq!(codes(&report), ["timeout-adapted", "slow-takeover", "single-server"]);
    assert_eq!(report["session"]["timeout_ms"], 40_000.0);
}

#[tokio::test]
async fn a_session_timeout_that_keeps_no_lease_is_refused_and_the_server_told() {
    let server = server().await;
    let servers = server.connect_string();
    let run = doctor(&servers, &["--session-timeout", "1s", "--tick", "2s"]);
    assert_eq!(run.code, Some(64), "{run:?}");
    let report = run.json();
    assert_eq!(modes(&report), ["standalone"]);
    assert_eq!((&report["session"], &report["error"]["code"]), (&Value::Null, &64.into()));
}

/// A server that answers only the words that servers answer by default.
fn reticent(tick: Duration) -> ZooKeeperBuilder {
    ZooKeeper::builder().property("4lw.commands.whitelist", "srvr").tick_time(tick)
}

#[tokio::test]
async fn a_tick_that_is_not_told_is_learned_by_the_limits() {
    let server = reticent(Duration::from_secs(4)).start().await.unwrap();
    let servers = server.connect_string();
    let report = doctor(&servers, &[]).json();
    assert_eq!(codes(&report), ["tick-unknown", "single-server"]);
    assert_eq!(report["findings"][0]["severity"], "note");
    assert_eq!(
        (&report["servers"][0]["tick_ms"], &report["session"]["tick_ms"]),
        (&Value::Null, &4000.0.into())
    );
    assert_eq!(codes(&doctor(&servers, &["--tick", "4s"]).json()), ["single-server"]);
}

#[tokio::test]
async fn a_tick_that_the_limits_do_not_tell_has_to_be_given() {
    let limit = Duration::from_secs(600);
    let server = reticent(Duration::from_secs(2)).max_session_timeout(limit).start().await.unwrap();
    let servers = server.connect_string();
    let unknown = doctor(&servers, &[]);
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
    assert!(unknown.stderr.contains("a tick of 2s and one of 30s"), "{unknown:?}");
    let report = unknown.json();
    assert_eq!((modes(&report), &report["session"]), (vec!["standalone"], &Value::Null));
    let given = doctor(&servers, &["--tick", "2s"]).json();
    assert_eq!((codes(&given), &given["session"]["tick_ms"]), (vec!["single-server"], &2000.0.into()));
}

#[tokio::test]
async fn a_server_that_hangs_is_told_from_one_that_is_gone() {
    let server = own_server().await;
    server.own().pause().await.unwrap();
    let run = doctor(&server.connect_string(), &["--connect-timeout", "1s"]);
    assert_eq!(run.code, Some(69), "{run:?}");
    let report = run.json();
    assert_eq!((modes(&report), codes(&report)), (vec!["silent"], vec!["silent"]));
}

#[tokio::test]
async fn two_servers_that_do_not_know_each_other_are_dangerous() {
    let (one, other) = (own_server().await, own_server().await);
    let servers = format!("{},{}", one.connect_string(), other.connect_string());
    let run = support::program::run(&["doctor", "--tick", "100ms", "-s", &servers]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stdout.contains("\nDANGER   "), "{run:?}");
    assert!(run.stdout.contains("they are not one ensemble"), "{run:?}");
}

#[tokio::test]
async fn a_long_way_to_the_servers_is_told() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    link.set_round_trip(Duration::from_millis(150));
    let address = server.at(link.address());
    // The heartbeat is 0.48 s.
    let arguments = ["doctor", "--json", "--session-timeout", "2s", "--tick", "100ms", "-s", &address];
    let report = run(&arguments).json();
    assert_eq!(codes(&report), ["slow-round-trip", "single-server"]);
    assert!(report["servers"][0]["read_ms"].as_f64().unwrap() >= 150.0, "{report}");
}

#[test]
fn nobody_is_there() {
    // No server listens on the discard port of this machine.
    let run = doctor("127.0.0.1:9,127.0.0.1:10/app", &[]);
    assert_eq!(run.code, Some(69), "{run:?}");
    assert!(run.took < Duration::from_secs(5), "it need not wait: {run:?}");
    assert!(run.stderr.contains("can be reached"), "{run:?}");
    let report = run.json();
    assert_eq!(modes(&report), ["none", "none"]);
    assert_eq!(report["servers"][1]["address"], "127.0.0.1:10");
    assert_eq!(codes(&report), ["unreachable", "unreachable", "same-host"]);
}

#[tokio::test]
async fn a_closed_pipe_is_no_panic() {
    use std::process::{Command, Stdio};
    let server = server().await;
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("zklock"))
        .args(["doctor", "--tick", "100ms", "-s", &server.connect_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
