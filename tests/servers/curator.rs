//! A real Curator mutex at the path of a lock.

use std::sync::atomic::{AtomicUsize, Ordering};

use support::{enqueue, eventually, granted, make, operator, queue, server, session, sessions, within};
use zklock::{AcquireError, Lock, inspect::ForeignClient};

use super::peers::{Client, Peer};

const PATH: &str = "/lock/orders";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_inside_together() {
    const ROUNDS: usize = 30;
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    make(&operator(&server).await, PATH).await;
    let mut curator = Peer::start(Client::Curator, &server, PATH, &["mutex"]).await;
    let (inside, refusals) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let enter = || assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "somebody is inside already");
    let leave = || assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1, "somebody came in");
    let ours = async |lock: Lock| {
        let mut rounds = 0;
        while rounds < ROUNDS {
            match within("acquire", lock.acquire()).await {
                Ok(guard) => {
                    enter();
                    guard.verify().await.unwrap();
                    leave();
                    guard.release().await.unwrap();
                    rounds += 1;
                }
                Err(AcquireError::ForeignContender { client: ForeignClient::Curator, .. }) => {
                    refusals.fetch_add(1, Ordering::SeqCst);
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    // Ours may be done before a cold Java machine has begun.
    curator.acquire().await;
    let theirs = async {
        for round in 0..ROUNDS {
            if round > 0 {
                curator.acquire().await;
            }
            enter();
            tokio::task::yield_now().await;
            leave();
            if round == 0 {
                eventually("a meeting", async || refusals.load(Ordering::SeqCst) > 0).await;
            }
            assert_eq!(curator.ask("release").await, "released");
        }
    };
    let (first, second) = (first.lock(PATH).unwrap(), second.lock(PATH).unwrap());
    tokio::join!(ours(first), ours(second), theirs);
}

#[tokio::test]
async fn a_revoker_that_writes_to_a_waiter_grants_nobody() {
    let (server, [holder, waiters]) = sessions().await;
    let mut curator = Peer::start(Client::Curator, &server, PATH, &["mutex"]).await;
    let guard = holder.lock(PATH).unwrap().acquire().await.unwrap();
    let lock = waiters.lock(PATH).unwrap();
    let (second, third) = (enqueue(&lock).await, enqueue(&lock).await);
    let node = queue(&lock).await[1].path.clone();
    assert_eq!(curator.ask(&format!("revoke {node}")).await, "revoked");
    // The notification is before the first of these answers, and what it leads to before the others.
    for _ in 0..10 {
        assert_eq!(queue(&lock).await.len(), 3);
    }
    assert!(!second.is_finished() && !third.is_finished(), "the write granted somebody");
    guard.verify().await.unwrap();
    guard.release().await.unwrap();
    let guard = granted(second).await;
    assert!(guard.is_held() && !third.is_finished(), "two hold the lock");
    guard.release().await.unwrap();
    granted(third).await.release().await.unwrap();
}
