//! Running the program as a person does who looks at queues.

use std::time::Duration;

use serde_json::Value;
use zklock::LockOptions;
use zklock_test_support::{Server, monitored};
use zklock_testcontainers::ZooKeeper;
use zookeeper_client::{Acl, Acls, Client, CreateMode};

use super::Ran;

/// Credentials in the form of ZKLOCK_DIGEST.
pub(crate) const DIGEST: &str = "operator:secret";

/// Runs the program on these servers, without a terminal.
pub(crate) async fn zklock(servers: &str, arguments: &[&str]) -> Ran {
    zklock_as(servers, "", arguments).await
}

/// As [`zklock`], with credentials.
pub(crate) async fn zklock_as(servers: &str, digest: &str, arguments: &[&str]) -> Ran {
    let mut command = super::zklock(servers);
    command.env("ZKLOCK_DIGEST", digest).args(arguments);
    super::output(command).await
}

/// Runs these command lines, whose arguments stand between single blanks. Asserts how each ends, what it prints, and what it
/// says among others.
pub(crate) async fn answers(servers: &str, lines: &[(&str, i32, &str, &str)]) {
    for (line, code, stdout, said) in lines {
        println!("zklock {line}");
        zklock(servers, &line.split(' ').collect::<Vec<_>>()).await.is(*code, stdout, said);
    }
}

/// Runs these command lines, which are refused with 64, and asserts what the program says of each.
pub(crate) async fn are_refused(servers: &str, refused: &[(&str, &str)]) {
    let refused = refused.iter().map(|(line, said)| (*line, 64, "", *said)).collect::<Vec<_>>();
    answers(servers, &refused).await;
}

/// An address on which no server listens. No program gets this port by chance.
pub(crate) const NOBODY: &str = "127.0.0.1:1";

pub(crate) fn owner(text: &str) -> LockOptions {
    LockOptions::new().owner(text)
}

/// A plain client with credentials.
pub(crate) async fn authorized(server: &Server) -> Client {
    let connector = Client::connector().with_auth("digest", DIGEST.as_bytes());
    connector.connect(&server.connect_string()).await.expect("a client")
}

/// What kazoo's lock names its nodes, without the number.
pub(crate) const KAZOO: &str = "1ef3b5a40e4f4cd59a397a9d3a6b7f10__lock__";

/// Joins a lock's queue as kazoo does. Returns the path of the node.
pub(crate) async fn contend_as_kazoo(client: &Client, path: &str) -> String {
    contend_as(client, path, KAZOO).await
}

/// Joins a lock's queue as a client does that names its nodes so. Returns the path of the node.
pub(crate) async fn contend_as(client: &Client, path: &str, name: &str) -> String {
    let prefix = format!("{path}/{name}");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = client.create(&prefix, b"", &options).await.expect("a node");
    format!("{prefix}{sequence}")
}

/// The findings of `zklock doctor --json`, the worst first. It leaves out servers that forget writes: they depend on the version
/// that the tests run on.
pub(crate) fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    let codes = findings.iter().map(|finding| finding["code"].as_str().expect("a code"));
    codes.filter(|code| *code != "forgets-writes").collect()
}

/// Sets a node's ACL.
pub(crate) async fn set_acl(client: &Client, path: &str, acls: &[Acl]) {
    client.set_acl(path, acls, None).await.expect("the ACL is set");
}

/// Asserts that the JSON has these members, and more at most in its objects.
#[track_caller]
pub(crate) fn has(json: &Value, expected: Value) {
    fn is_in(expected: &Value, json: &Value) -> bool {
        match (expected, json) {
            (Value::Object(some), Value::Object(all)) => {
                some.iter().all(|(name, value)| all.get(name).is_some_and(|json| is_in(value, json)))
            }
            (Value::Array(expected), Value::Array(items)) => {
                expected.len() == items.len()
                    && expected.iter().zip(items).all(|(one, item)| is_in(one, item))
            }
            _ => expected == json,
        }
    }
    assert!(is_in(&expected, json), "{expected:#} is not in {json:#}");
}

/// The rows of a printed table, with the cells of the header first. Two blanks stand between two cells.
pub(crate) fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect()
}

/// A server that does not say its tick. No tick fits its limits of session timeouts with which a session of 10 s has a lease.
pub(crate) async fn of_unknown_tick() -> ZooKeeper {
    let server =
        ZooKeeper::builder().tick_time(Duration::from_secs(2)).property("4lw.commands.whitelist", "srvr");
    server.min_session_timeout(Duration::from_secs(20)).start().await.expect("a ZooKeeper server")
}

/// How many sessions the servers keep.
pub(crate) async fn sessions(server: &Server) -> u64 {
    monitored(server, "zk_global_sessions").await
}
