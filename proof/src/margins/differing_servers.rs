//! Servers grant different session timeouts. The holder's session moves to one that grants less, which is then cut off:
//! the leader expires the session by the shorter timeout.

use std::time::{Duration, Instant};

use zklock::LockOptions;
use zklock_test_support::{enqueue_behind, eventually};
use zklock_testcontainers::{Ensemble, Link};

use super::contest::{Contest, LONG_TIMEOUT, path, recover, resumptions, servers, session, without};
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
    let lock =
        |session: &zklock::Session| session.lock(path).unwrap().with_options(LockOptions::new()).unwrap();
    let guard = lock(&holding).acquire().await.unwrap();
    let waiter = enqueue_behind(&guard, &lock(&waiting)).await;
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

pub(super) async fn the_holders_session_moves_to_a_server_with_a_lower_limit(repetitions: usize) -> Vec<Row> {
    let ensemble = servers().property_of(MEAGRE, LIMIT, limit()).start().await.expect("an ensemble");
    let mut margins =
        Row::of("its session moves to a server that grants a quarter of its timeout, which is cut off");
    for repetition in 0..repetitions {
        let link = Link::start(ensemble.address(1)).await.expect("a link");
        let mut contest = contest(&ensemble, link.address(), &path(repetition)).await;
        until_moved(&contest, &ensemble, &link).await;
        ensemble.isolate(MEAGRE).await.unwrap();
        margins.record(contest.outcome().await.margin);
        recover(&ensemble).await;
    }
    vec![margins]
}

pub(super) async fn the_limit_is_lowered_by_a_rolling_change(repetitions: usize) -> Vec<Row> {
    let mut margins = Row::of("the same, where that limit was lowered while the session lived");
    for repetition in 0..repetitions {
        let ensemble = servers().start().await.expect("an ensemble");
        let link = Link::start(ensemble.address(1)).await.expect("a link");
        let mut contest = contest(&ensemble, link.address(), &path(repetition)).await;
        ensemble.reconfigure(MEAGRE, LIMIT, limit()).await.unwrap();
        ensemble.restart(MEAGRE).await.unwrap();
        ensemble.wait_until_serving().await.unwrap();
        until_moved(&contest, &ensemble, &link).await;
        ensemble.isolate(MEAGRE).await.unwrap();
        margins.record(contest.outcome().await.margin);
    }
    vec![margins]
}

/// The request to resume reaches the server, which shortens the session's life, and the holder is not told.
pub(super) async fn the_answer_of_a_server_with_a_lower_limit_is_lost(repetitions: usize) -> Vec<Row> {
    let ensemble = servers().property_of(MEAGRE, LIMIT, limit()).start().await.expect("an ensemble");
    let mut margins = Row::of("the answer of a server that grants a quarter of its timeout is lost");
    for repetition in 0..repetitions {
        let ample = Link::start(ensemble.address(1)).await.expect("a link");
        let meagre = Link::start(ensemble.address(MEAGRE)).await.expect("a link");
        let holder = format!("{},{}", ample.address(), meagre.address());
        let mut contest = contest(&ensemble, holder, &path(repetition)).await;
        // It does not stay there, as it has asked for more.
        assert_eq!(contest.holding.timeout(), ASKED);
        ample.refuse();
        meagre.refuse();
        ample.cut();
        let away = Instant::now();
        eventually("the last report of the server before", async || away.elapsed() > GRANTED / 2).await;
        let resumed = resumptions(&ensemble, MEAGRE).await;
        meagre.accept();
        meagre.lose_handshakes();
        eventually("a request to resume", async || resumptions(&ensemble, MEAGRE).await > resumed).await;
        meagre.refuse();
        margins.record(contest.outcome().await.margin);
        recover(&ensemble).await;
    }
    vec![margins]
}
