//! The holder's server is cut off from its ensemble, and goes on serving the holder.

use std::time::Duration;

use zklock_test_support::within;
use zklock_testcontainers::{Ensemble, Link};

use super::contest::{Contest, LONG_TIMEOUT, ensemble, path, plain, recover, servers, without};
use super::peer::Peer;
use crate::harness::Row;

pub(super) async fn the_holders_follower_is_cut_off(repetitions: usize) -> Vec<Row> {
    // It gives up after 10 s, as one with ZooKeeper's defaults does.
    let ensemble = servers().property("syncLimit", "10").start().await.expect("an ensemble");
    let mut margins = Row::of("its follower is cut off from the other servers");
    let mut peers = Row::of("*zookeeper-client:* its follower is cut off from the other servers");
    for repetition in 0..repetitions {
        let alone = ensemble.followers().await.unwrap()[0];
        let link = Link::start(ensemble.address(alone)).await.expect("a link");
        let mut contest = Contest::start(link.address(), without(&ensemble, alone), &path(repetition)).await;
        let peer = rival(&ensemble, alone, repetition).await;
        let reader = plain(&ensemble.address(alone), LONG_TIMEOUT).await;

        ensemble.isolate(alone).await.unwrap();
        let (margin, overlap) = tokio::join!(
            async {
                let outcome = contest.outcome().await;
                // What a client asks that trusts its server: the holder's node is there, the next holder's is not.
                let node = reader.check_stat(&contest.guard.node()).await.expect("an answer");
                assert!(node.is_some(), "the server that is cut off knows of the loss");
                assert_eq!(link.connections(), 1, "the holder was told by the end of its connection");
                outcome.margin
            },
            peer.margin()
        );
        margins.record(margin);
        peers.record(overlap);
        recover(&ensemble).await;
    }
    vec![margins, peers]
}

pub(super) async fn the_holders_server_is_the_leader_and_cut_off(repetitions: usize) -> Vec<Row> {
    let ensemble = ensemble().await;
    let mut margins = Row::of("its server is the leader and is cut off");
    let mut peers = Row::of("*zookeeper-client:* its server is the leader and is cut off");
    for repetition in 0..repetitions {
        let alone = ensemble.leader().await.unwrap();
        let mut contest =
            Contest::start(ensemble.address(alone), without(&ensemble, alone), &path(repetition)).await;
        let peer = rival(&ensemble, alone, repetition).await;
        let reader = plain(&ensemble.address(alone), LONG_TIMEOUT).await;
        let (lost, node) = (contest.guard.lost(), contest.guard.node());

        ensemble.isolate(alone).await.unwrap();
        let (outcome, overlap, ()) = tokio::join!(contest.outcome(), peer.margin(), async {
            within("the loss", lost).await;
            // It takes itself for the leader still: nothing but a write would have told.
            reader.sync(&node).await.expect("an answer");
            assert!(reader.check_stat(&node).await.expect("an answer").is_some());
        });
        margins.record(outcome.margin);
        peers.record(overlap);
        recover(&ensemble).await;
    }
    vec![margins, peers]
}

pub(super) async fn a_holder_that_reconnects_to_a_leader_which_is_cut_off(repetitions: usize) -> Vec<Row> {
    let ensemble = ensemble().await;
    let mut margins = Row::of("the same, and its client reconnects there every half second");
    for repetition in 0..repetitions {
        let alone = ensemble.leader().await.unwrap();
        let link = Link::start(ensemble.address(alone)).await.expect("a link");
        let mut contest = Contest::start(link.address(), without(&ensemble, alone), &path(repetition)).await;

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
        tokio::select! {
            outcome = contest.outcome() => margins.record(outcome.margin),
            () = cuts => unreachable!("it goes on for ever"),
        }
        // A connection that lasts so shortly is pinged once, when the session has been resumed on it.
        assert!(link.counts().pings > pings + 1, "the session was not resumed");
        recover(&ensemble).await;
    }
    vec![margins]
}

/// The peer's recipe, with the same kind of connection to the same server.
async fn rival(ensemble: &Ensemble, alone: usize, repetition: usize) -> Peer {
    let directory = format!("/peer/orders-{repetition}");
    Peer::contend(&ensemble.address(alone), &without(ensemble, alone), &directory).await
}
