//! Commands in the queues of other clients.

use std::process::Stdio;

use zklock_test_support::{make, operator, server};

use crate::support::looker::{contend_as_kazoo, zklock as look};
use crate::support::{at, ended, line, lines, output, run, zklock};

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
    let shown = look(&servers, &["show", "--json", "--layout", "kazoo", "/lock"]).await.json();
    assert_eq!(shown["contenders"][0]["node"], node);
    assert_eq!(shown["foreign"].as_array().map(Vec::len), Some(0));
    operator.delete(&node, None).await.unwrap();
    let script = "printf %s \"$ZKLOCK_SEQUENCER\" | cut -d: -f3";
    output(run(&servers, &OPTIONS, "/lock", script)).await.is_silent(0, "k3\n");
}

/// The leader is the first in the queue, whoever that is.
#[tokio::test]
async fn a_leader_in_kazoos_queue_is_found_by_its_layout() {
    let (server, servers) = at(server().await);
    let operator = operator(&server).await;
    let leader = async || look(&servers, &["leader", "--layout", "kazoo", "/lock"]).await;
    leader().await.is(1, "", "nobody leads /lock");
    let mut leading = zklock(&servers);
    let command = ["--value", "ours:80", "/lock", "--", "sh", "-c", "echo begun; read line"];
    leading.arg("lead").args(OPTIONS).args(command).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut leading = leading.spawn().unwrap();
    assert_eq!(line(&mut lines(&mut leading.stdout)).await, "begun");
    let node = contend_as_kazoo(&operator, "/lock").await;
    leader().await.is_silent(0, "ours:80\n");
    look(&servers, &["leader", "/lock"]).await.is(1, "", "nobody leads /lock");
    drop(leading.stdin.take());
    assert_eq!(ended(&mut leading).await.code(), Some(1));
    let theirs = look(&servers, &["leader", "--json", "--layout", "kazoo", "/lock"]).await.json();
    let (data, stat) = operator.get_data(&node).await.unwrap();
    assert_eq!(theirs["value"], String::from_utf8(data).unwrap());
    assert_eq!(theirs["token"], stat.czxid);
}

#[tokio::test]
async fn a_layout_needs_a_delay_and_a_lock_that_the_client_has() {
    let (_server, servers) = at(server().await);
    for (options, said) in [
        (&["--layout", "kazoo"][..], "--takeover-delay"),
        (&["--layout", "go", "--shared", "--takeover-delay", "1s"], "cannot share a queue of go-zookeeper"),
    ] {
        output(run(&servers, options, "/lock", "true")).await.is(64, "", said);
    }
}
