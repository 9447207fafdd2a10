//! Servers are gone when their test is, however it ends.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use zklock_testcontainers::{Ensemble, ZooKeeper};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn is_gone(address: &str) -> bool {
    TcpStream::connect(address).is_err()
}

#[test]
fn after_a_drop() {
    let runtime = runtime();
    let ensemble = runtime.block_on(Ensemble::start(2)).unwrap();
    let addresses = [ensemble.address(0), ensemble.address(1)];
    let start = Instant::now();
    drop(ensemble);
    println!("two servers were gone after {:?}", start.elapsed());
    assert!(addresses.iter().all(|address| is_gone(address)));
}

#[test]
fn paused_too() {
    let zk = runtime().block_on(async {
        let zk = ZooKeeper::start().await.unwrap();
        zk.pause().await.unwrap();
        zk
    });
    // The runtime that started it is gone by now.
    let address = zk.connect_string();
    drop(zk);
    assert!(is_gone(&address));
}

#[test]
fn but_not_with_the_runtime_that_started_them() {
    let zk = runtime().block_on(ZooKeeper::start()).unwrap();
    runtime().block_on(async {
        zk.admin("srvr").await.unwrap();
        zk.kill().await.unwrap();
        zk.restart().await.unwrap();
    });
    runtime().block_on(zk.admin("srvr")).unwrap();
}

#[test]
fn after_a_start_that_is_cancelled_and_nothing_else_waits_for_that() {
    runtime().block_on(async {
        for patience in [20, 100, 400].map(Duration::from_millis) {
            let start = tokio::time::timeout(patience, ZooKeeper::start()).await;
            assert!(start.is_err(), "a server started within {patience:?}");
        }
        // Containers that were being made are removed, which must not hold up the next one.
        let start = Instant::now();
        ZooKeeper::start().await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(28), "the next server took {:?}", start.elapsed());
    });
}

#[test]
fn after_the_process_is_killed() {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args(["--exact", "gone::child_that_keeps_a_server", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("serving at ").map(|(_, address)| address.to_owned()))
        .expect("the child started a server");
    assert!(!is_gone(&address));
    child.kill().unwrap();
    child.wait().unwrap();
    runtime().block_on(crate::common::eventually("the server's end", Duration::from_secs(60), async || {
        is_gone(&address)
    }));
}

#[test]
#[ignore = "runs as the child of after_the_process_is_killed"]
fn child_that_keeps_a_server() {
    let zk = runtime().block_on(ZooKeeper::start()).unwrap();
    println!("serving at {}", zk.connect_string());
    loop {
        std::thread::park();
    }
}
