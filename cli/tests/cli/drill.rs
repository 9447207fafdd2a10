//! `zklock drill`, on servers that keep the promise, and where somebody takes a holder's lock.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use zklock_testcontainers::{Ensemble, Link, RequestKind, ZooKeeper};

use crate::support::authority::{Authority, Files};
use crate::support::looker::{has, zklock};
use crate::support::{self, finished, line, lines, lock_of, signal, with_session};
use zklock_test_support::{make, operator, own_server, server, within};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

/// `zklock drill` with short leases, so that a test takes seconds.
fn drill(servers: &str, options: &[&str]) -> Command {
    let mut drill = support::zklock(servers);
    let lengths = ["drill", "-v", "/ops/try", "--session-timeout", "4s"];
    // `-v` says when a fault begins. The library's log would drown that.
    drill.args(lengths).args(options).env("RUST_LOG", "off");
    drill.stdout(Stdio::piped()).stderr(Stdio::piped());
    drill
}

/// Waits until the drill says that this fault begins. What it says later is not kept.
async fn until_begun(drill: &mut Child, fault: &str) {
    let mut said = lines(&mut drill.stderr);
    while !line(&mut said).await.contains(&format!("{fault}: begins")) {}
    let mut rest = BufReader::new(said.into_inner()).lines();
    tokio::spawn(async move { while let Ok(Some(_)) = rest.next_line().await {} });
}

fn fault<'a>(report: &'a Value, name: &str) -> &'a Value {
    let faults = report["faults"].as_array().expect("faults");
    faults.iter().find(|fault| fault["fault"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

#[tokio::test]
async fn a_healthy_ensemble_keeps_the_promise() {
    let ensemble = Ensemble::builder(3).tick_time(Duration::from_millis(500)).start().await.unwrap();
    let servers = ensemble.connect_string();
    let ran = finished(drill(&servers, &["--json"]).spawn().unwrap()).await;
    let report = ran.json();
    has(&report, json!({"verdict": "kept", "session_timeout_ms": 4000.0}));
    for name in ["cut", "black-hole", "late", "to-servers", "to-holder"] {
        let fault = fault(&report, name);
        has(fault, json!({"outcome": "lost-in-time", "reason": "unconfirmed"}));
        assert!(fault["margin_ms"].as_f64().is_some_and(|margin| margin > 0.0), "{report}");
        // A session that ends by itself expires no sooner than its timeout.
        assert!(fault["granted_after_ms"].as_f64().is_some_and(|granted| granted > 2000.0), "{report}");
    }
    for name in ["reconnect", "dead-server"] {
        // On a busy machine the other server may confirm too late. The drill then lets the lock go.
        let outcome = &fault(&report, name)["outcome"];
        assert!(outcome == "survived" || outcome == "lost-in-time", "{report}");
    }
    assert!(ran.stderr.contains("black-hole: guard lost after"), "{ran:?}");
    // Nothing is left, not even the path that was not there before.
    assert_eq!(zklock(&servers, &["show", "/ops"]).await.code, 66);
}

#[tokio::test]
async fn a_lock_that_somebody_takes_is_a_promise_that_is_not_kept() {
    let server = own_server().await;
    let operator = operator(&server).await;
    let mut running = drill(&server.connect_string(), &[]).spawn().unwrap();
    until_begun(&mut running, "black-hole").await;
    let directory = format!("/ops/try/{}/black-hole", operator.list_children("/ops/try").await.unwrap()[0]);
    let mut queue = operator.list_children(&directory).await.unwrap();
    queue.sort();
    operator.delete(&format!("{directory}/{}", queue[0]), None).await.unwrap();
    let ran = finished(running).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("\nNOT KEPT: two guards were valid at once (black-hole)"), "{ran:?}");
}

#[tokio::test]
async fn it_stays_away_from_locks_and_removes_what_it_made() {
    let (server, servers, session) = with_session(server().await).await;
    let guard = lock_of(&session, "/ops/try", "deploy").acquire().await.unwrap();
    let refused = finished(drill(&servers, &[]).spawn().unwrap()).await;
    refused.is(64, "", "/ops/try is in use");
    guard.release().await.unwrap();
    let refused = finished(drill(&servers, &["--max-time", "2s"]).spawn().unwrap()).await;
    refused.is(64, "", "more than --max-time");

    let mut running = drill(&servers, &[]).spawn().unwrap();
    until_begun(&mut running, "to-holder").await;
    signal(&running, Signal::INT);
    assert_eq!(support::ended(&mut running).await.code(), Some(130));
    // ZooKeeper may have removed the path by itself.
    let left = operator(&server).await.list_children("/ops/try").await.unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn what_somebody_else_makes_meanwhile_stays() {
    let server = server().await;
    let (link, operator) = (Link::start(server.address()).await.unwrap(), operator(&server).await);
    // The first node that the drill makes is the one above its path.
    let first = link.hold_request(RequestKind::CreateContainer);
    let mut running = drill(&server.at(link.address()), &[]).spawn().unwrap();
    within("the drill's first node", first.reached()).await;
    make(&operator, "/ops").await;
    first.release();
    until_begun(&mut running, "to-holder").await;
    signal(&running, Signal::TERM);
    assert_eq!(support::ended(&mut running).await.code(), Some(143));
    assert_eq!(operator.list_children("/ops").await.unwrap(), [""; 0]);

    let mut running = drill(&server.at(link.address()), &[]).spawn().unwrap();
    until_begun(&mut running, "to-holder").await;
    let directory = format!("/ops/try/{}", operator.list_children("/ops/try").await.unwrap()[0]);
    make(&operator, &format!("{directory}/theirs/inner")).await;
    signal(&running, Signal::TERM);
    assert_eq!(support::ended(&mut running).await.code(), Some(143));
    assert_eq!(operator.list_children(&directory).await.unwrap(), ["theirs"]);
}

#[tokio::test]
async fn its_proxies_speak_tls_to_servers_whose_names_are_not_theirs() {
    let (authority, files) = (Authority::new("one"), Files::new());
    let identity = authority.certify("server", &["localhost"]).pem();
    let server = ZooKeeper::builder().tls(identity).tls_clients(authority.pem()).start().await.unwrap();
    let port = server.connect_string().rsplit(':').next().unwrap().to_owned();
    // The server accepts clients without TLS, too. Only a client with this certificate may contend there.
    let operator = Client::connect(&format!("127.0.0.1:{port}")).await.unwrap();
    make(&operator, "/ops").await;
    let worker = [Acl::new(Permission::ALL, AuthId::new("x509", "CN=worker"))];
    operator.create("/ops/try", b"", &CreateMode::Persistent.with_acls(Acls::new(&worker))).await.unwrap();

    let (ca, (cert, key)) = (files.write("ca.pem", &authority.pem()), files.certify(&authority, "worker"));
    let options = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
    let mut running = drill(&format!("localhost:{port}"), &options).spawn().unwrap();
    until_begun(&mut running, "black-hole").await;
    signal(&running, Signal::TERM);
    assert_eq!(support::ended(&mut running).await.code(), Some(143));
}
