//! The holder's whole process is stopped, and continues long after it has lost the lock.

use zklock::{FenceGate, FencingToken};
use zklock_test_support::{enqueue, granted, until_queued};
use zookeeper_client::{Acls, CreateMode};

use super::contest::{LONG_TIMEOUT, TIMEOUT, path, plain, repeated, servers, session};
use super::holder::{HELD, Holder, Order, WRITTEN};
use crate::harness::{Row, now};

pub(super) async fn and_continues(times: usize) -> Vec<Row> {
    let rows = ["its process is stopped (from the stop to the next grant)"];
    repeated(times, servers(), rows, async |ensemble, repetition| {
        let path = path(repetition);
        let mut holder = Holder::start(&ensemble.connect_string(), &path);
        let token: FencingToken = holder.says().await.parse().expect("a token");
        let waiting = session(ensemble.connect_string(), LONG_TIMEOUT).await;
        let lock = waiting.lock(&path).unwrap();
        until_queued(&lock, 1).await;
        let waiter = enqueue(&lock).await;
        assert_eq!(holder.answers(Order::Check).await, HELD);
        // What the lock protects: a node that is written under the lock only, and a store that compares tokens.
        let store = plain(&ensemble.connect_string(), LONG_TIMEOUT).await;
        let node = format!("{path}-store");
        store.create(&node, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
        let mut gate = FenceGate::new();
        assert_eq!(holder.answers(Order::Write).await, WRITTEN);
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
        holder.process.tell(&Order::Check).await.unwrap();
        holder.process.resume().unwrap();
        let answer = holder.says().await;
        eprintln!("a process that was stopped says of its guard: {answer}");
        assert_ne!(answer, HELD, "two guards at once");
        assert!(token < next.token());
        assert_ne!(holder.answers(Order::Write).await, WRITTEN);
        assert_eq!(store.get_data(&node).await.unwrap().0, b"the next holder's");
        gate.admit(token).unwrap_err();
        assert!(next.is_held());
        [seconds]
    })
    .await
}
