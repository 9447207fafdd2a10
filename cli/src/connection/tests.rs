//! Clients that the options make, on a real server.

use clap::Parser;
use zklock::SessionState;
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
    // The client gives up after 10 s. It tries for 4 s each time.
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let tried = async {
        while link.connections() < before + 4 {
            looks.tick().await;
        }
    };
    let restored = async {
        tokio::time::timeout(Duration::from_secs(30), tried).await.unwrap();
        link.restore();
        link.cut();
    };
    let (client, ()) = tokio::join!(patient.client(), restored);
    closing::close_client(client.unwrap()).await;
}

#[tokio::test]
async fn a_digest_file_that_is_renewed_is_read_before_the_next_connection() {
    let server = ZooKeeper::start().await.unwrap();
    let link = Link::start(server.connect_string()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("digest");
    std::fs::write(&file, "alice:wonderland").unwrap();
    let options = options(&["-s", &link.address(), "--digest-file", file.to_str().unwrap()]);
    let session = options.session_within(Duration::MAX, false).await.unwrap();
    // A file that is being written is no reason to lose the session.
    for (text, user) in [("", "digest:alice"), ("bob:builder", "digest:bob")] {
        std::fs::write(&file, text).unwrap();
        let mut events = session.events();
        link.cut();
        while events.next().await.unwrap().state != SessionState::Disconnected {}
        let known = session.identities().await.unwrap();
        assert!(known.iter().any(|identity| identity == user), "{known:?}");
    }
}
