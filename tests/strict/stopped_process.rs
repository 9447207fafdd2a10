//! The holder's whole process is stopped, and continues long after it has lost the lock.

use std::time::Instant;

use zklock::{FenceGate, FencingToken};
use zookeeper_client::{Acls, CreateMode};

use crate::contest::{LONG_TIMEOUT, TIMEOUT, ensemble, path, plain, seconds, session};
use crate::holder::{HELD, Holder, WRITTEN, is_played};
use crate::report::{Margins, repetitions};
use crate::support::{enqueue, granted};

#[tokio::test]
async fn the_holders_process_is_stopped() {
    if is_played().await {
        return;
    }
    let ensemble = ensemble().await;
    let mut margins = Margins::of("its process is stopped (from the stop to the next grant)");
    for repetition in 0..repetitions() {
        let path = path(repetition);
        let test = concat!(module_path!(), "::the_holders_process_is_stopped");
        let (_crate, test) = test.split_once("::").expect("a path");
        let mut holder = Holder::start(test, &ensemble.connect_string(), &path);
        let token: FencingToken = holder.says().await.parse().expect("a token");
        let waiting = session(ensemble.connect_string(), LONG_TIMEOUT).await;
        let waiter = enqueue(&waiting.lock(&path).unwrap()).await;
        holder.command("check").await;
        assert_eq!(holder.says().await, HELD);
        // What the lock protects: a node that is written under the lock only, and a store that compares tokens.
        let store = plain(&ensemble.connect_string(), LONG_TIMEOUT).await;
        let node = format!("{path}-store");
        store.create(&node, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
        let mut gate = FenceGate::new();
        holder.command("write").await;
        assert_eq!(holder.says().await, WRITTEN);
        gate.admit(token).unwrap();

        holder.stop().await;
        let stopped = Instant::now();
        let next = granted(waiter).await;
        margins.record(seconds(stopped, Instant::now()));
        next.transaction().set(node.as_str(), "the next holder's", None).commit().await.unwrap();
        gate.admit(next.token()).unwrap();
        // The next grant may come before the stop is as long as the session timeout.
        tokio::time::sleep_until((stopped + TIMEOUT).into()).await;
        // It waits for the process, which has heard of nothing else by the time it looks at its guard.
        holder.command("check").await;
        holder.resume();
        let answer = holder.says().await;
        println!("a process that was stopped says of its guard: {answer}");
        assert_ne!(answer, HELD, "two guards at once");
        assert!(token < next.token());
        holder.command("write").await;
        assert_ne!(holder.says().await, WRITTEN);
        assert_eq!(store.get_data(&node).await.unwrap().0, b"the next holder's");
        gate.admit(token).unwrap_err();
        assert!(next.is_held());
    }
    margins.print();
}
