//! Clients that the options make, on a real server.

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
async fn a_plain_client_outlasts_a_server_that_is_away_for_longer_than_a_session_timeout() {
    let server = ZooKeeper::start().await.unwrap();
    let link = Link::start(server.connect_string()).await.unwrap();
    link.black_hole();
    let hasty = options(&["-s", &link.address(), "--connect-timeout", "300ms"]);
    assert_eq!(hasty.client().await.err().map(|failure| failure.code), Some(Code::Unreachable));
    let patient = options(&["-s", &link.address(), "--connect-timeout", "40s"]);
    let before = link.connections();
    let connecting = tokio::spawn(async move { patient.client().await });
    // The client gives up after 10 s. It tries for 4 s each time.
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let tried = async {
        while link.connections() < before + 4 {
            looks.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), tried).await.unwrap();
    link.restore();
    link.cut();
    closing::client(connecting.await.unwrap().unwrap()).await;
}
