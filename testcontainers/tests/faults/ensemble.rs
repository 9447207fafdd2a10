//! Several servers: kill, restart, election, isolation.

use std::time::{Duration, Instant};

use crate::common::{PERSISTENT, connect, connect_for, eventually};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};
use zklock_testcontainers::{Ensemble, Error};
use zookeeper_client::{Acls, CreateMode, SessionState};

/// Servers that notice a partition within 5 x 1 s instead of 10 s.
async fn quick() -> Ensemble {
    let ensemble = Ensemble::builder(3).tick_time(Duration::from_secs(1)).start().await.unwrap();
    assert_eq!(ensemble.len(), 3);
    ensemble
}

async fn mode(ensemble: &Ensemble, index: usize) -> Option<String> {
    let answer = ensemble.admin(index, "srvr").await.ok()?;
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(String::from)
}

#[tokio::test]
async fn all_servers_serve_once_start_returns() {
    let start = Instant::now();
    let ensemble = Ensemble::start(3).await.unwrap();
    println!("three servers in {:?} on {}", start.elapsed(), ensemble.backend());
    let leader = ensemble.leader().await.unwrap();
    // One that takes long to answer is passed over.
    eventually("two followers", Duration::from_secs(20), async || {
        let mut all = ensemble.followers().await.unwrap_or_default();
        all.push(leader);
        all.sort_unstable();
        all == [0, 1, 2]
    })
    .await;
    assert_eq!(ensemble.connect_string().split(',').count(), 3);
    assert!(matches!(ensemble.kill(3).await, Err(Error::NoSuchServer { index: 3, len: 3 })));
}

#[tokio::test]
async fn killing_the_leader_elects_another_and_a_restart_brings_it_back() {
    let ensemble = quick().await;
    let client = connect(&ensemble.connect_string()).await;
    client.create("/node", b"kept", &PERSISTENT).await.unwrap();
    let old = ensemble.leader().await.unwrap();
    ensemble.kill(old).await.unwrap();
    let new = ensemble.leader().await.unwrap();
    assert_ne!(old, new);
    ensemble.wait_until_serving().await.unwrap();

    ensemble.restart(old).await.unwrap();
    assert_eq!(mode(&ensemble, old).await.unwrap(), "follower");
    let client = connect(&ensemble.address(old)).await;
    assert_eq!(client.get_data("/node").await.unwrap().0, b"kept");
}

#[tokio::test]
async fn without_a_quorum_a_restart_waits_for_the_process_only() {
    let ensemble = quick().await;
    for index in 0..3 {
        ensemble.kill(index).await.unwrap();
    }
    ensemble.restart(0).await.unwrap();
    assert_eq!(mode(&ensemble, 0).await, None);
    ensemble.restart(1).await.unwrap();
    ensemble.restart(2).await.unwrap();
    ensemble.wait_until_serving().await.unwrap();
}

#[tokio::test]
async fn an_isolated_follower_stops_serving_while_its_clients_stay_connected() {
    let ensemble = quick().await;
    let follower = ensemble.followers().await.unwrap()[0];
    isolate_and_heal(&ensemble, follower).await;
}

#[tokio::test]
async fn an_isolated_leader_is_replaced_while_its_clients_stay_connected() {
    let ensemble = quick().await;
    let leader = ensemble.leader().await.unwrap();
    isolate_and_heal(&ensemble, leader).await;
}

async fn isolate_and_heal(ensemble: &Ensemble, server: usize) {
    let start = Instant::now();
    let before = ensemble.leader().await.unwrap();
    let client = connect(&ensemble.address(server)).await;
    client.create("/before", b"", &PERSISTENT).await.unwrap();
    let mut raw = TcpStream::connect(ensemble.address(server)).await.unwrap();

    ensemble.isolate(server).await.unwrap();
    // The server goes on answering reads, and takes writes it cannot commit.
    assert!(client.check_stat("/before").await.unwrap().is_some());
    assert!(timeout(Duration::from_millis(100), raw.read_u8()).await.is_err(), "isolation cut a client off");

    let leader = ensemble.leader().await.unwrap();
    assert_ne!(leader, server);
    eventually("the isolated server to stop serving", Duration::from_secs(20), async || {
        mode(ensemble, server).await.is_none()
    })
    .await;
    println!("server {server} (leader {before}) stopped serving {:?} after isolation", start.elapsed());
    // The others commit without it.
    let others: Vec<_> = (0..3).filter(|it| *it != server).map(|it| ensemble.address(it)).collect();
    ensemble.wait_until_serving().await.unwrap();
    let other = connect(&others.join(",")).await;
    other.create("/meanwhile", b"", &PERSISTENT).await.unwrap();
    assert_eq!(mode(ensemble, server).await, None);

    let healing = Instant::now();
    ensemble.heal().await.unwrap();
    ensemble.wait_until_serving().await.unwrap();
    println!("all serve {:?} after healing", healing.elapsed());
    let client = connect(&ensemble.address(server)).await;
    client.sync("/").await.unwrap();
    assert!(client.check_stat("/meanwhile").await.unwrap().is_some());
}

#[tokio::test]
async fn a_paused_leader_is_replaced_and_follows_when_it_goes_on() {
    let ensemble = quick().await;
    let old = ensemble.leader().await.unwrap();
    ensemble.pause(old).await.unwrap();
    assert_ne!(ensemble.leader().await.unwrap(), old);
    ensemble.unpause(old).await.unwrap();
    eventually("the old leader to follow", Duration::from_secs(30), async || {
        mode(&ensemble, old).await.as_deref() == Some("follower")
    })
    .await;
}

#[tokio::test]
async fn an_isolation_shorter_than_the_limits_only_delays() {
    let ensemble = Ensemble::start(3).await.unwrap();
    let leader = ensemble.leader().await.unwrap();
    let follower = ensemble.followers().await.unwrap()[0];
    let client = connect(&ensemble.address(follower)).await;

    ensemble.isolate(follower).await.unwrap();
    let request = client.create("/delayed", b"", &PERSISTENT);
    tokio::pin!(request);
    assert!(timeout(Duration::from_millis(500), &mut request).await.is_err(), "committed without a quorum");
    ensemble.heal().await.unwrap();
    crate::common::soon("the commit", request).await.unwrap();
    assert_eq!(ensemble.leader().await.unwrap(), leader);
}

async fn longest_session(ensemble: &Ensemble, index: usize) -> Duration {
    let longest = connect_for(&ensemble.address(index), Duration::from_secs(15)).await;
    longest.session_timeout()
}

#[tokio::test]
async fn servers_differ_and_one_is_reconfigured_by_a_restart() {
    let ensemble = Ensemble::builder(3)
        .tick_time(Duration::from_millis(500))
        .max_session_timeout(Duration::from_secs(20))
        .property_of(1, "maxSessionTimeout", "8000")
        .start()
        .await
        .unwrap();
    assert_eq!(longest_session(&ensemble, 0).await, Duration::from_secs(15));
    assert_eq!(longest_session(&ensemble, 1).await, Duration::from_secs(8));

    ensemble.reconfigure(0, "maxSessionTimeout", "5000").await.unwrap();
    assert_eq!(longest_session(&ensemble, 0).await, Duration::from_secs(15), "a running server changed");
    ensemble.restart(0).await.unwrap();
    ensemble.reconfigure(1, "maxSessionTimeout", "6000").await.unwrap();
    // A server that is down finds its new line, too, and one setting leaves another alone.
    ensemble.kill(1).await.unwrap();
    ensemble.reconfigure(1, "minSessionTimeout", "3000").await.unwrap();
    ensemble.restart(1).await.unwrap();
    assert_eq!(longest_session(&ensemble, 0).await, Duration::from_secs(5));
    assert_eq!(longest_session(&ensemble, 1).await, Duration::from_secs(6));
    assert!(ensemble.admin(1, "conf").await.unwrap().contains("minSessionTimeout=3000"));
    assert_eq!(longest_session(&ensemble, 2).await, Duration::from_secs(15));

    let broken = ensemble.reconfigure(0, "a=b", "c").await;
    assert!(matches!(broken, Err(Error::InvalidOption(_))), "{broken:?}");
    let nobody = Ensemble::builder(3).property_of(3, "maxSessionTimeout", "8000").start().await;
    assert!(matches!(nobody, Err(Error::NoSuchServer { index: 3, len: 3 })), "{nobody:?}");
}

#[tokio::test]
async fn a_session_ends_as_by_an_operator() {
    let ensemble = quick().await;
    // One client at each server: the one that is asked first must not be the client's own.
    for server in 0..3 {
        let client = connect(&ensemble.address(server)).await;
        let mut states = client.state_watcher();
        let node = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        client.create("/node", b"", &node).await.unwrap();
        let id = client.session_id().0;
        ensemble.close_session(id).await.unwrap();
        crate::common::soon("the expiry", async { while states.changed().await != SessionState::Expired {} })
            .await;
        let other = connect(&ensemble.address(server)).await;
        other.sync("/").await.unwrap();
        assert_eq!(other.check_stat("/node").await.unwrap(), None);
        assert!(matches!(ensemble.close_session(id).await, Err(Error::NoSuchSession { id: it }) if it == id));
    }
}
