//! An operator takes the lock from its holder: no lease foresees that, and for a moment two may believe they hold it.

use std::time::Instant;

use zklock::{Guard, LockOptions, LostReason, Session};
use zklock_testcontainers::Ensemble;

use crate::contest::{Contest, LONG_TIMEOUT, ensemble, path, plain, seconds, without};
use crate::report::{Margins, repetitions};
use crate::support::{eventually, granted, within};

/// How long the holder may take to hear of it, and two may believe they hold the lock: far more than a notification.
const NOTIFICATION: f64 = 1.0;

#[tokio::test]
async fn an_operator_deletes_the_holders_node() {
    take_away("an operator deletes its node", LockOptions::new(), async |ensemble, guard, _| {
        let operator = plain(&ensemble.connect_string(), LONG_TIMEOUT).await;
        let struck = Instant::now();
        operator.delete(&guard.node(), None).await.unwrap();
        struck
    })
    .await;
}

#[tokio::test]
async fn an_operator_closes_the_holders_session() {
    take_away("an operator closes its session", LockOptions::new(), async |ensemble, _, holding| {
        let struck = Instant::now();
        ensemble.close_session(holding.id()).await.unwrap();
        struck
    })
    .await;
}

/// `strike` takes the lock from its holder, and says when it began to.
async fn take_away(
    scenario: &'static str,
    options: LockOptions,
    strike: impl AsyncFn(&Ensemble, &Guard, &Session) -> Instant,
) {
    let ensemble = ensemble().await;
    let mut margins = Margins::of(scenario);
    for repetition in 0..repetitions() {
        let server = ensemble.followers().await.unwrap()[0];
        let (holder, waiter) = (ensemble.address(server), without(&ensemble, server));
        let contest = Contest::start_with(holder, waiter, &path(repetition), options.clone()).await;
        let Contest { holding, guard, waiter, waiting: _waiting } = contest;
        // From then on it is told; before, nobody can.
        eventually("the holder's watch", async || {
            let answer = ensemble.admin(server, "wchs").await.expect("wchs");
            answer.lines().any(|line| line == "Total watches:1")
        })
        .await;
        let (struck, (lost, reason), (next, granted)) = tokio::join!(
            strike(&ensemble, &guard, &holding),
            within("the loss", async {
                let reason = guard.lost().await;
                (Instant::now(), reason)
            }),
            async { (granted(waiter).await, Instant::now()) }
        );
        assert!(matches!(reason, LostReason::NodeDeleted | LostReason::SessionExpired), "{reason}");
        assert!(next.token() > guard.token());
        assert!(!guard.is_held());
        let told = seconds(struck, lost);
        assert!(told < NOTIFICATION, "the holder was told {told} s after it lost the lock");
        let margin = seconds(lost, granted);
        assert!(margin > -NOTIFICATION, "two held the lock for {margin} s");
        margins.record(margin);
    }
    margins.print();
}
