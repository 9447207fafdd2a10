//! The holder's client is cut off from every server.

use zklock_testcontainers::Link;

use super::contest::{Contest, behind, ensemble, links, path};
use crate::harness::Row;

pub(super) async fn the_holders_client_is_cut_off_from_every_server(repetitions: usize) -> Vec<Row> {
    let ensemble = ensemble().await;
    let mut margins = Row::of("its client is cut off from every server");
    for repetition in 0..repetitions {
        let links = links(&ensemble).await;
        let mut contest = Contest::start(behind(&links), ensemble.connect_string(), &path(repetition)).await;
        // Nothing passes, and nothing is closed, so that nothing tells the client.
        links.iter().for_each(Link::black_hole);
        margins.record(contest.outcome().await.margin);
    }
    vec![margins]
}
