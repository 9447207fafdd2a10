//! The image, started by the runners of the `testcontainers` crate, as by a user of that crate.

use std::time::Duration;

use crate::common::{PERSISTENT, connect, connect_for};
use testcontainers::core::{client::docker_client_instance, error::WaitContainerError};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, TestcontainersError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zklock_testcontainers::{Snapshot, ZooKeeper, ZooKeeperImage};

/// Whether containers can be started here. Where the tests' servers are local processes, there may be no engine.
async fn has_engine() -> bool {
    match std::env::var("ZKLOCK_TEST_BACKEND").as_deref() {
        Ok("docker") => return true,
        Ok("local") => {}
        _ => {
            if let Ok(client) = docker_client_instance().await
                && client.inspect_image("zookeeper:3.9").await.is_ok()
            {
                return true;
            }
        }
    }
    eprintln!("no containers here: the image is not tested");
    false
}

async fn address(server: &ContainerAsync<ZooKeeperImage>) -> String {
    let port = server.get_host_port_ipv4(ZooKeeperImage::CLIENT_PORT).await.unwrap();
    format!("{}:{port}", server.get_host().await.unwrap())
}

fn with_property(key: &str, value: &str) -> ZooKeeperImage {
    ZooKeeper::builder().property(key, value).into()
}

/// The answer to `srvr`, asked once.
async fn ask(address: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"srvr").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_serves_once_start_returns_and_once_it_is_started_again() {
    if !has_engine().await {
        return;
    }
    let server = ZooKeeperImage::default().start().await.unwrap();
    let answer = ask(&address(&server).await).await;
    assert!(answer.contains("Mode: standalone"), "{answer}");
    let client = connect(&address(&server).await).await;
    client.create("/kept", b"yes", &PERSISTENT).await.unwrap();

    server.stop().await.unwrap();
    server.start().await.unwrap();
    let answer = ask(&address(&server).await).await;
    assert!(answer.contains("Mode: standalone"), "{answer}");
    let client = connect(&address(&server).await).await;
    assert_eq!(client.get_data("/kept").await.unwrap().0, b"yes");
}

#[tokio::test]
async fn options_reach_the_server() {
    if !has_engine().await {
        return;
    }
    let snapshot = Snapshot::new().node("/prepared", b"yes", 0);
    let options = ZooKeeper::builder()
        .tick_time(Duration::from_millis(200))
        .max_session_timeout(Duration::from_secs(8))
        .property("maxClientCnxns", "1")
        .data_file(Snapshot::FILE, snapshot.encode());
    let server = ZooKeeperImage::from(options).start().await.unwrap();
    let client = connect_for(&address(&server).await, Duration::from_secs(60)).await;
    assert_eq!(client.session_timeout(), Duration::from_secs(8));
    assert_eq!(client.get_data("/prepared").await.unwrap().0, b"yes");
    let mut second = TcpStream::connect(address(&server).await).await.unwrap();
    second.write_all(b"srvr").await.unwrap();
    let read = second.read(&mut [0; 8]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "a second connection was taken: {read:?}");
}

#[test]
fn it_starts_without_async_code_too() {
    use testcontainers::runners::SyncRunner;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if !runtime.block_on(has_engine()) {
        return;
    }
    let server = SyncRunner::start(ZooKeeperImage::default()).unwrap();
    let port = server.get_host_port_ipv4(ZooKeeperImage::CLIENT_PORT).unwrap();
    let answer = runtime.block_on(ask(&format!("{}:{port}", server.get_host().unwrap())));
    assert!(answer.contains("Mode: standalone"), "{answer}");
}

#[tokio::test]
async fn a_line_that_cannot_be_one_of_zoo_cfg_is_refused_by_its_name() {
    if !has_engine().await {
        return;
    }
    let error = with_property("a=b", "c").start().await.unwrap_err();
    assert!(error.to_string().contains("\"a=b\""), "{error}");
}

#[tokio::test]
async fn a_server_that_ends_while_it_starts_is_not_waited_for() {
    if !has_engine().await {
        return;
    }
    let error = with_property("tickTime", "soon").start().await.unwrap_err();
    let is_late = matches!(error, TestcontainersError::WaitContainer(WaitContainerError::StartupTimeout));
    assert!(!is_late, "{error}");
    println!("{error}");
}
