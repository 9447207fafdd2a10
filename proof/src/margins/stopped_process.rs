//! The holder's whole process is stopped, and continues long after it has lost the lock.

use zklock::{FenceGate, FencingToken};
use zklock_test_support::{enqueue, granted, until_queued};
use zookeeper_client::{Acls, CreateMode};

use super::contest::{LONG_TIMEOUT, TIMEOUT, path, plain, repeated, servers, session};
use crate::harness::{Row, now};
use crate::peers::{Contestant, Program};

pub(super) async fn and_continues(times: usize) -> Vec<Row> {
    let rows = ["its process is stopped (from the stop to the next grant)"];
    repeated(times, servers(), rows, async |ensemble, repetition| {
        let path = path(repetition);
        let servers = [ensemble.connect_string()];
        let mut holder = Program::start(Contestant::Zklock, &servers, &path, TIMEOUT).await.unwrap();
        holder.asks("acquire", "waiting").await.unwrap();
        holder.hears("acquired").await.unwrap();
        let token: FencingToken = holder.asks("write", "writes").await.unwrap().parse().expect("a token");
        let waiting = session(ensemble.connect_string(), LONG_TIMEOUT).await;
        let lock = waiting.lock(&path).unwrap();
        until_queued(&lock, 1).await;
        let waiter = enqueue(&lock).await;
        holder.asks("check", "held").await.unwrap();
        // What the lock protects: a node that is written under the lock only, and a store that compares tokens.
        let store = plain(&ensemble.connect_string(), LONG_TIMEOUT).await;
        let node = format!("{path}-store");
        store.create(&node, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
        let mut gate = FenceGate::new();
        let commit = format!("commit {node}");
        holder.asks(&commit, "committed").await.unwrap();
        gate.admit(token).unwrap();

        holder.process.stop().await.unwrap();
        let stopped = now();
        let next = granted(waiter).await;
        let seconds = now().seconds_after(stopped);
        next.transaction().set(node.as_str(), "the next holder's", None).commit().await.unwrap();
        gate.admit(next.token()).unwrap();
        // The next grant may come before the stop is as long as the session timeout.
        tokio::time::sleep((stopped + TIMEOUT).since(now())).await;
        // The order waits for the process, which has heard of nothing else by the time it looks at its guard.
        holder.tell("check").await.unwrap();
        holder.process.resume().unwrap();
        holder.hears("lost").await.expect("two guards at once");
        assert!(token < next.token());
        holder.asks(&commit, "failed").await.expect("a write of two holders");
        assert_eq!(store.get_data(&node).await.unwrap().0, b"the next holder's");
        gate.admit(token).unwrap_err();
        assert!(next.is_held());
        [seconds]
    })
    .await
}
