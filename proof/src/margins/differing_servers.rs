//! Servers grant different session timeouts. The holder's session moves to one that grants less, which is then cut off:
//! the leader expires the session by the shorter timeout.

use std::time::{Duration, Instant};

use zklock_test_support::{enqueue_behind, eventually};
use zklock_testcontainers::{Ensemble, Link};

use super::contest::{Contest, LONG_TIMEOUT, link, path, repeated, servers, session, without};
use crate::harness::Row;

/// What the holder asks for, and what all servers grant but one.
const ASKED: Duration = Duration::from_secs(16);

/// What that one grants.
const GRANTED: Duration = Duration::from_secs(4);

/// The one. Servers elect the highest number among those that begin.
const MEAGRE: usize = 0;

const LIMIT: &str = "maxSessionTimeout";

fn limit() -> String {
    GRANTED.as_millis().to_string()
}

/// The holder by these servers, the waiter by all but the meagre one.
async fn contest(ensemble: &Ensemble, holder: String, path: &str) -> Contest {
    assert_ne!(ensemble.leader().await.unwrap(), MEAGRE, "the scenario is about a follower");
    let (holding, waiting) =
        (session(holder, ASKED).await, session(without(ensemble, MEAGRE), LONG_TIMEOUT).await);
    let guard = holding.lock(path).unwrap().acquire().await.unwrap();
    let waiter = enqueue_behind(&guard, &waiting.lock(path).unwrap()).await;
    Contest { holding, guard, waiter, waiting }
}

/// The holder's connection leads to the meagre server from now on.
async fn until_moved(contest: &Contest, ensemble: &Ensemble, link: &Link) {
    // A guard that was confirmed longer ago than the shorter timeout is lost by the move.
    eventually("a recent confirmation", async || {
        contest.guard.verify().await.unwrap();
        contest.guard.remaining() > ASKED.mul_f64(0.91) - GRANTED / 3
    })
    .await;
    link.redirect(ensemble.address(MEAGRE));
    link.cut();
    eventually("the shorter timeout", async || contest.holding.timeout() == GRANTED).await;
    // The server before may report a touch with the longer timeout now; then the leader goes by that.
    let moved = Instant::now();
    eventually("touches that the meagre server has reported", async || {
        contest.guard.verify().await.unwrap();
        moved.elapsed() > GRANTED / 2 && contest.guard.remaining() > GRANTED / 2
    })
    .await;
}

pub(super) async fn move_of_the_session(times: usize) -> Vec<Row> {
    let rows = ["its session moves to a server that grants a quarter of its timeout, which is cut off"];
    let servers = servers().property_of(MEAGRE, LIMIT, limit());
    repeated(times, servers, rows, async |ensemble, repetition| {
        let link = link(ensemble, 1).await;
        let mut contest = contest(ensemble, link.address(), &path(repetition)).await;
        until_moved(&contest, ensemble, &link).await;
        ensemble.isolate(MEAGRE).await.unwrap();
        [contest.margin().await]
    })
    .await
}

pub(super) async fn rolling_change(times: usize) -> Vec<Row> {
    let mut margins = Row::of("the same, where that limit was lowered while the session lived");
    for repetition in 0..times {
        let ensemble = servers().start().await.expect("an ensemble");
        let link = link(&ensemble, 1).await;
        let mut contest = contest(&ensemble, link.address(), &path(repetition)).await;
        ensemble.reconfigure(MEAGRE, LIMIT, limit()).await.unwrap();
        ensemble.restart(MEAGRE).await.unwrap();
        ensemble.wait_until_serving().await.unwrap();
        until_moved(&contest, &ensemble, &link).await;
        ensemble.isolate(MEAGRE).await.unwrap();
        margins.record(contest.margin().await);
    }
    vec![margins]
}
