//! Servers that are cut off from their ensemble: no two valid guards, whatever such a server still says.

mod support;

use std::time::{Duration, Instant};

use support::{enqueue, granted, within};
use zklock::{Guard, LostReason, Session};
use zklock_testcontainers::{Ensemble, Link};

const TIMEOUT: Duration = Duration::from_secs(4);

/// Three servers that agree on a new leader within seconds.
async fn ensemble() -> Ensemble {
    let ensemble = Ensemble::builder(3).tick_time(Duration::from_secs(1)).max_session_timeout(TIMEOUT * 10);
    ensemble.start().await.expect("an ensemble")
}

/// The holder's session.
async fn session(address: String) -> Session {
    Session::builder(address).session_timeout(TIMEOUT).connect().await.expect("a session")
}

/// The next contender's session, by the other servers; it outlives their election of a leader.
async fn elsewhere(ensemble: &Ensemble, holders_server: usize) -> Session {
    let others = (0..ensemble.len()).filter(|server| *server != holders_server);
    let others = others.map(|server| ensemble.address(server)).collect::<Vec<_>>().join(",");
    Session::builder(others).session_timeout(TIMEOUT * 10).connect().await.expect("a session")
}

/// A guard of a holder, and how long it had been invalid when the next contender was granted.
async fn invalid_before(guard: &Guard, next: impl Future<Output = Guard>) -> Duration {
    let lost = async {
        assert_eq!(guard.lost().await, LostReason::Unconfirmed);
        Instant::now()
    };
    let (lost, granted) = tokio::join!(within("the loss", lost), async {
        let next = next.await;
        let granted = Instant::now();
        assert!(!guard.is_held(), "two guards at once");
        assert!(next.is_held() && next.token() > guard.token());
        granted
    });
    granted.checked_duration_since(lost).expect("the loss comes first")
}

async fn cut_off(holders_server: impl AsyncFnOnce(&Ensemble) -> usize) {
    let ensemble = ensemble().await;
    let alone = holders_server(&ensemble).await;
    // The link is never touched: the holder stays connected to the server that is cut off.
    let link = Link::start(ensemble.address(alone)).await.expect("a link");
    let (holding, waiting) = (session(link.address()).await, elsewhere(&ensemble, alone).await);
    let guard = holding.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue(&waiting.lock("/lock/orders").unwrap()).await;
    ensemble.isolate(alone).await.unwrap();
    let margin = invalid_before(&guard, granted(waiter)).await;
    println!("margin: {margin:?}");
}

#[tokio::test]
async fn the_holders_follower_is_cut_off() {
    cut_off(async |ensemble| ensemble.followers().await.unwrap()[0]).await;
}

#[tokio::test]
async fn the_holders_server_is_the_leader_and_cut_off() {
    cut_off(async |ensemble| ensemble.leader().await.unwrap()).await;
}

#[tokio::test]
async fn a_holder_that_reconnects_to_a_leader_which_is_cut_off() {
    let ensemble = ensemble().await;
    let alone = ensemble.leader().await.unwrap();
    let link = Link::start(ensemble.address(alone)).await.expect("a link");
    let (holding, waiting) = (session(link.address()).await, elsewhere(&ensemble, alone).await);
    let guard = holding.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue(&waiting.lock("/lock/orders").unwrap()).await;
    ensemble.isolate(alone).await.unwrap();
    // It still takes itself for the leader, and resumes the session: that must not extend the lease.
    let cuts = async {
        let mut cuts = tokio::time::interval(Duration::from_millis(500));
        loop {
            cuts.tick().await;
            link.cut();
        }
    };
    tokio::select! {
        margin = invalid_before(&guard, granted(waiter)) => println!("margin: {margin:?}"),
        () = cuts => unreachable!("it goes on for ever"),
    }
}

#[tokio::test]
async fn the_holders_client_is_cut_off_from_every_server() {
    let ensemble = ensemble().await;
    let link = Link::start(ensemble.address(0)).await.expect("a link");
    let (holding, waiting) = (session(link.address()).await, elsewhere(&ensemble, 0).await);
    let guard = holding.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue(&waiting.lock("/lock/orders").unwrap()).await;
    link.black_hole();
    let margin = invalid_before(&guard, granted(waiter)).await;
    println!("margin: {margin:?}");
}

#[tokio::test]
async fn the_holders_server_is_paused() {
    let ensemble = ensemble().await;
    let paused = ensemble.followers().await.unwrap()[0];
    let (holding, waiting) = (session(ensemble.address(paused)).await, elsewhere(&ensemble, paused).await);
    let guard = holding.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue(&waiting.lock("/lock/orders").unwrap()).await;
    ensemble.pause(paused).await.unwrap();
    let margin = invalid_before(&guard, granted(waiter)).await;
    println!("margin: {margin:?}");
    ensemble.unpause(paused).await.unwrap();
    assert!(!guard.is_held());
}
