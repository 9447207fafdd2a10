//! The holder's server is cut off from its ensemble, and goes on serving the holder; or its client is cut off from every server.

use std::time::Duration;

use zklock_test_support::within;
use zklock_testcontainers::{Ensemble, Link};

use super::contest::{Contest, LONG_TIMEOUT, behind, link, links, path, plain, repeated, servers, without};
use super::peer::Peer;
use crate::harness::Row;

pub(super) async fn follower(times: usize) -> Vec<Row> {
    let rows = [
        "its follower is cut off from the other servers",
        "*zookeeper-client:* its follower is cut off from the other servers",
    ];
    // It gives up after 10 s, as one with ZooKeeper's defaults does.
    repeated(times, servers().property("syncLimit", "10"), rows, async |ensemble, repetition| {
        let alone = ensemble.followers().await.unwrap()[0];
        let link = link(ensemble, alone).await;
        let mut contest = Contest::start(link.address(), without(ensemble, alone), &path(repetition)).await;
        let peer = rival(ensemble, alone, repetition).await;
        let reader = plain(&ensemble.address(alone), LONG_TIMEOUT).await;

        ensemble.isolate(alone).await.unwrap();
        let margin = async {
            let margin = contest.margin().await;
            // What a client asks that trusts its server: the holder's node is there, the next holder's is not.
            let node = reader.check_stat(&contest.guard.node()).await.expect("an answer");
            assert!(node.is_some(), "the server that is cut off knows of the loss");
            assert_eq!(link.connections(), 1, "the holder was told by the end of its connection");
            margin
        };
        tokio::join!(margin, peer.margin()).into()
    })
    .await
}

pub(super) async fn leader(times: usize) -> Vec<Row> {
    let rows = [
        "its server is the leader and is cut off",
        "*zookeeper-client:* its server is the leader and is cut off",
    ];
    repeated(times, servers(), rows, async |ensemble, repetition| {
        let alone = ensemble.leader().await.unwrap();
        let mut contest =
            Contest::start(ensemble.address(alone), without(ensemble, alone), &path(repetition)).await;
        let peer = rival(ensemble, alone, repetition).await;
        let reader = plain(&ensemble.address(alone), LONG_TIMEOUT).await;
        let (lost, node) = (contest.guard.lost(), contest.guard.node());

        ensemble.isolate(alone).await.unwrap();
        let (margin, overlap, ()) = tokio::join!(contest.margin(), peer.margin(), async {
            within("the loss", lost).await;
            // It takes itself for the leader still: nothing but a write would have told.
            reader.sync(&node).await.expect("an answer");
            assert!(reader.check_stat(&node).await.expect("an answer").is_some());
        });
        [margin, overlap]
    })
    .await
}

pub(super) async fn leader_and_reconnects(times: usize) -> Vec<Row> {
    let rows = ["the same, and its client reconnects there every half second"];
    repeated(times, servers(), rows, async |ensemble, repetition| {
        let alone = ensemble.leader().await.unwrap();
        let link = link(ensemble, alone).await;
        let mut contest = Contest::start(link.address(), without(ensemble, alone), &path(repetition)).await;

        ensemble.isolate(alone).await.unwrap();
        let pings = link.counts().pings;
        // It still takes itself for the leader, and resumes the session: that must not extend the lease.
        let cuts = async {
            let mut cuts = tokio::time::interval(Duration::from_millis(500));
            loop {
                cuts.tick().await;
                link.cut();
            }
        };
        let margin = tokio::select! {
            margin = contest.margin() => margin,
            () = cuts => unreachable!("it goes on for ever"),
        };
        // A connection that lasts so shortly is pinged once, when the session has been resumed on it.
        assert!(link.counts().pings > pings + 1, "the session was not resumed");
        [margin]
    })
    .await
}

pub(super) async fn client(times: usize) -> Vec<Row> {
    let rows = ["its client is cut off from every server"];
    repeated(times, servers(), rows, async |ensemble, repetition| {
        let links = links(ensemble).await;
        let mut contest = Contest::start(behind(&links), ensemble.connect_string(), &path(repetition)).await;
        // Nothing passes, and nothing is closed, so that nothing tells the client.
        links.iter().for_each(Link::black_hole);
        [contest.margin().await]
    })
    .await
}

/// The peer's recipe, with the same kind of connection to the same server.
async fn rival(ensemble: &Ensemble, alone: usize, repetition: usize) -> Peer {
    let directory = format!("/peer/orders-{repetition}");
    Peer::contend(&ensemble.address(alone), &without(ensemble, alone), &directory).await
}
