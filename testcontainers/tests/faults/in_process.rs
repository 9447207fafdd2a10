//! A simulated server at a real port, for real clients.

use std::time::{Duration, Instant};

use zklock_testcontainers::{InProcess, Link};
use zookeeper_client::{Acls, Client, CreateMode, Error};

const TICK: Duration = Duration::from_millis(100);

async fn client(address: &str) -> Client {
    Client::connector().with_session_timeout(Duration::from_secs(4)).connect(address).await.unwrap()
}

#[tokio::test]
async fn it_serves_and_expires_a_session_at_once() {
    let server = InProcess::start(TICK).unwrap();
    let [leader, other] = [client(&server.address()).await, client(&server.connect_string()).await];
    assert_eq!(leader.session_timeout(), Duration::from_secs(4));
    let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    leader.create("/leader", b"one", &mode).await.unwrap();
    let (data, _, watcher) = other.get_and_watch_data("/leader").await.unwrap();
    assert_eq!(data, b"one");
    let began = Instant::now();
    server.expire_session(leader.session_id().0);
    watcher.changed().await;
    assert!(began.elapsed() < Duration::from_secs(2), "a session of 4 s would have expired by itself");
    let lost = loop {
        match leader.get_data("/leader").await {
            Err(Error::ConnectionLoss) => {}
            Err(error) => break error,
            Ok(_) => panic!("the session is over"),
        }
    };
    assert_eq!(lost, Error::SessionExpired);
}

#[tokio::test]
async fn sessions_and_data_outlive_a_restart() {
    let server = InProcess::start(TICK).unwrap();
    let client = client(&server.address()).await;
    let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    client.create("/leader", b"one", &mode).await.unwrap();
    server.restart();
    let data = loop {
        match client.get_data("/leader").await {
            Ok((data, _)) => break data,
            Err(error) => assert_eq!(error, Error::ConnectionLoss),
        }
    };
    assert_eq!(data, b"one");
}

#[tokio::test]
async fn a_link_stands_in_front_of_it() {
    let server = InProcess::start(TICK).unwrap();
    let link = Link::start(server.address()).await.unwrap();
    let [near, far] = [client(&server.address()).await, client(&link.address()).await];
    let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    far.create("/leader", b"one", &mode).await.unwrap();
    let (_, _, watcher) = near.get_and_watch_data("/leader").await.unwrap();
    link.black_hole();
    watcher.changed().await;
    assert_eq!(near.check_stat("/leader").await.unwrap(), None);
}

#[tokio::test]
async fn it_ends_when_it_is_dropped() {
    let server = InProcess::start(TICK).unwrap();
    let client = client(&server.address()).await;
    let address = server.address();
    drop(server);
    let mut states = client.state_watcher();
    while states.changed().await != zookeeper_client::SessionState::Disconnected {}
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
