//! What the leader sends to the holder's server comes late; then nothing that this server sends arrives any more.

use std::time::{Duration, Instant};

use zklock::Session;
use zklock_test_support::{acquire, enqueue, eventually, granted, until_queued};
use zklock_testcontainers::RequestKind;

use super::contest::{Contest, LONG_TIMEOUT, link, path, repeated, servers, session, without};
use crate::harness::Row;

/// So long that a heartbeat more or less is more than the tick by which the leader rounds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A quarter of the session timeout, less the lag of three quarters of a tick.
const HEARTBEAT: Duration = Duration::from_micros(4_812_500);

/// Longer than the lag.
const SILENCE: Duration = Duration::from_secs(1);

/// A touch counts once the leader has heard of it: after the follower has answered a ping. A quorum write that was sent
/// long after the touch does not prove that, because the pings may come as late as the write's acknowledgement, and the way
/// to the leader end before the answers arrive.
pub(super) async fn follower_hears_late(times: usize) -> Vec<Row> {
    let rows = ["its follower hears the leader late, and is then cut off"];
    // Else the leader may delete the empty directory between its release and the create behind the silence.
    let servers = servers().java_property("znode.container.checkIntervalMs", "3600000");
    repeated(times, servers.property("syncLimit", "10"), rows, async |ensemble, repetition| {
        let (leader, late) = (ensemble.leader().await.unwrap(), ensemble.followers().await.unwrap()[0]);
        let path = path(repetition);
        let waiting = session(without(ensemble, late), LONG_TIMEOUT).await;
        // The directory is there, so that a contender enters with its first write.
        waiting.lock(&path).unwrap().acquire().await.unwrap().release().await.unwrap();
        let link = link(ensemble, late).await;
        let holding = Session::builder(link.address())
            .session_timeout(TIMEOUT)
            .tick(Duration::from_secs(1))
            .connect()
            .await
            .expect("a session");
        let connected = Instant::now();
        eventually("the session's first requests", async || connected.elapsed() > HEARTBEAT / 2).await;
        let syncs = link.requests_of(RequestKind::Sync);

        // A heartbeat is answered that no ping has asked for yet.
        eventually("a heartbeat", async || link.requests_of(RequestKind::Sync) > syncs).await;
        ensemble.stall(leader, late).await.unwrap();
        tokio::time::sleep(SILENCE).await;
        let acquisition = acquire(&holding.lock(&path).unwrap());
        // Its node is there, though it has not been told.
        let lock = waiting.lock(&path).unwrap();
        until_queued(&lock, 1).await;
        let waiter = enqueue(&lock).await;
        ensemble.stall(late, leader).await.unwrap();
        ensemble.flow(leader, late).await.unwrap();
        let guard = granted(acquisition).await;
        // What the leader says of the session's end must not tell.
        ensemble.isolate(late).await.unwrap();

        let mut contest = Contest { holding, guard, waiter, waiting };
        [contest.margin().await]
    })
    .await
}
