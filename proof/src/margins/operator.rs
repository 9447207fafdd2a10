//! An operator takes the lock from its holder: no lease foresees that, and for a moment two may believe they hold it.

use std::time::Duration;

use zklock::{Guard, LockOptions, LostReason, Session};
use zklock_test_support::{eventually, granted, number, within};
use zklock_testcontainers::Ensemble;

use super::contest::{Contest, LONG_TIMEOUT, path, plain, repeated, servers, without};
use crate::harness::{Instant, Row, now};

/// How long the holder may take to hear of it, and two may believe they hold the lock: far more than a notification.
const NOTIFICATION: f64 = 3.0;

/// With this takeover delay there is no overlap: far more than a notification takes, too.
pub(super) const DELAY: Duration = Duration::from_secs(1);

pub(super) async fn deletes_node(ensemble: &Ensemble, guard: &Guard, _: &Session) -> Instant {
    let operator = plain(&ensemble.connect_string(), LONG_TIMEOUT).await;
    let struck = now();
    operator.delete(&guard.node(), None).await.unwrap();
    struck
}

pub(super) async fn closes_session(ensemble: &Ensemble, _: &Guard, holding: &Session) -> Instant {
    let struck = now();
    ensemble.close_session(holding.id()).await.unwrap();
    struck
}

/// `strike` takes the lock from its holder, and says when it began to. The holder tries to write under its lock as soon
/// as the next one has it.
pub(super) async fn takes_the_lock(
    times: usize,
    row: &str,
    delay: Duration,
    strike: impl AsyncFn(&Ensemble, &Guard, &Session) -> Instant,
) -> Vec<Row> {
    let options = LockOptions::new().takeover_delay(delay);
    repeated(times, servers(), [row], async |ensemble, repetition| {
        let server = ensemble.followers().await.unwrap()[0];
        let (holder, waiter) = (ensemble.address(server), without(ensemble, server));
        let contest = Contest::start_with(holder, waiter, &path(repetition), options.clone()).await;
        let Contest { holding, guard, waiter, waiting: _waiting } = contest;
        // From then on both are told; before, nobody can be.
        eventually("the holder's watch and the waiter's", async || watches(ensemble).await == 2).await;
        let stale = format!("{}-stale", path(repetition));
        let (struck, (lost, reason), (next, granted)) = tokio::join!(
            strike(ensemble, &guard, &holding),
            within("the loss", async {
                let reason = guard.lost().await;
                (now(), reason)
            }),
            async {
                let next = granted(waiter).await;
                let granted = now();
                let write = guard.transaction().create(stale.as_str(), "by the old holder");
                write.commit().await.expect_err("a write of two holders");
                (next, granted)
            }
        );
        assert!(matches!(reason, LostReason::NodeDeleted | LostReason::SessionExpired), "{reason}");
        assert!(next.token() > guard.token());
        assert!(!guard.is_held());
        let told = lost.seconds_after(struck);
        assert!(told < NOTIFICATION, "the holder was told {told} s after it lost the lock");
        let margin = granted.seconds_after(lost);
        assert!(margin > -NOTIFICATION, "two held the lock for {margin} s");
        assert!(delay.is_zero() || margin > 0.0, "two held the lock for {margin} s in spite of the delay");
        // It could not if the old holder's write had taken effect.
        next.transaction().create(stale.as_str(), "by the next holder").commit().await.unwrap();
        [margin]
    })
    .await
}

async fn watches(ensemble: &Ensemble) -> u64 {
    let mut watches = 0;
    for server in 0..ensemble.len() {
        watches += number(&ensemble.admin(server, "wchs").await.expect("wchs"), "Total watches:");
    }
    watches
}
