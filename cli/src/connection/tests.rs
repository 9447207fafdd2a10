//! Sessions and clients that the options make, on a real server.

use std::fs;

use clap::Parser;
use zklock_testcontainers::{Link, ZooKeeper};

use super::*;
use crate::closing;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    connection: Connection,
}

fn options(arguments: &[&str]) -> Connection {
    let arguments = ["zklock"].iter().chain(arguments);
    Options::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}")).connection
}

#[tokio::test]
async fn rejected_credentials_are_told_by_both_kinds_of_client() {
    let server = ZooKeeper::builder()
        .java_property("zookeeper.DigestAuthenticationProvider.enabled", "false")
        .start()
        .await
        .unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "alice:wonderland").unwrap();
    let alice = options(&["-s", &server.connect_string(), "--digest-file", file.path().to_str().unwrap()]);
    let codes = [alice.client().await.map(drop), alice.session_to_look().await.map(drop)]
        .map(|connected| connected.map_err(|failure| failure.code));
    assert_eq!(codes, [Err(Code::NotAuthorized); 2]);
}

#[tokio::test]
async fn both_kinds_of_client_are_given_up_in_time() {
    let server = ZooKeeper::start().await.unwrap();
    let link = Link::start(server.connect_string()).await.unwrap();
    link.black_hole();
    let nobody = options(&["-s", &link.address(), "--connect-timeout", "300ms"]);
    let codes = [nobody.client().await.map(drop), nobody.session_to_look().await.map(drop)]
        .map(|connected| connected.map_err(|failure| failure.code));
    assert_eq!(codes, [Err(Code::Unreachable); 2]);
}

#[tokio::test]
async fn a_plain_client_outlasts_a_server_that_is_away_for_longer_than_a_session_timeout() {
    let server = ZooKeeper::start().await.unwrap();
    let link = Link::start(server.connect_string()).await.unwrap();
    link.black_hole();
    let patient = options(&["-s", &link.address(), "--connect-timeout", "40s"]);
    let connecting = tokio::spawn(async move { patient.client().await });
    // The client gives up after 10 s. It tries for 4 s each time.
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let tried = async {
        while link.connections() < 4 {
            looks.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), tried).await.unwrap();
    link.restore();
    link.cut();
    closing::client(connecting.await.unwrap().unwrap()).await;
}
