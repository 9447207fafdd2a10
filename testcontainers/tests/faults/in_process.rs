//! A simulated server at a real port, for real clients.

use std::io::{Read, Write};
use std::net::TcpStream;
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
async fn a_client_that_does_not_read_is_closed() {
    let server = InProcess::start(TICK).unwrap();
    let patient = Client::connector().with_session_timeout(Duration::from_secs(120));
    let client = patient.connect(&server.address()).await.unwrap();
    let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/a", &[0; 900_000], &mode).await.unwrap();
    let mut silent = TcpStream::connect(server.address()).unwrap();
    let connect = [&[0, 0, 0, 45][..], &[0; 12], &[0, 1, 0, 0], &[0; 9], &[0, 0, 16], &[0; 17]].concat();
    silent.write_all(&connect).unwrap();
    // Replies of 54 MB, which no socket has room for.
    let get = [&[0, 0, 0, 15, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2][..], b"/a", &[0]].concat();
    silent.write_all(&get.repeat(60)).unwrap();
    // The first reply comes behind the session's.
    while silent.peek(&mut [0; 100]).unwrap() < 100 {}
    assert_eq!(client.get_data("/a").await.unwrap().0.len(), 900_000, "the others are served");
    let mut read = Vec::new();
    // It ends or it is reset.
    let _ = silent.read_to_end(&mut read);
    assert!(read.len() < 54_000_000);
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
