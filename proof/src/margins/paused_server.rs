//! The holder's server is paused, and goes on as if no time had passed.

use std::time::Instant;

use zklock::QueryError;
use zklock_test_support::eventually;

use super::contest::{Contest, TIMEOUT, path, recover, repeated, servers, without};
use crate::harness::Row;

pub(super) async fn past_its_timeout(times: usize) -> Vec<Row> {
    let rows = ["its server is paused for longer than the session timeout"];
    repeated(times, servers(), rows, async |ensemble, repetition| {
        let paused = ensemble.followers().await.unwrap()[0];
        let path = path(repetition);
        let mut contest = Contest::start(ensemble.address(paused), without(ensemble, paused), &path).await;
        ensemble.pause(paused).await.unwrap();
        let since = Instant::now();
        let outcome = contest.outcome().await;
        // The next grant may come before the pause is as long as the session timeout.
        tokio::time::sleep_until((since + TIMEOUT).into()).await;
        ensemble.unpause(paused).await.unwrap();

        // The server's first answers are from before; whatever it says, the old guard stays lost.
        let lock = contest.holding.lock(&path).unwrap();
        eventually("the server's answer to the old holder", async || {
            assert!(!contest.guard.is_held(), "a lost guard came back");
            matches!(lock.contenders().await, Ok(_) | Err(QueryError::SessionOver { .. }))
        })
        .await;
        recover(ensemble).await;
        assert!(!contest.guard.is_held(), "a lost guard came back");
        assert!(outcome.next.is_held());
        [outcome.margin]
    })
    .await
}
