//! What the guards and handles of one session share.

use std::time::{Duration, Instant};

use support::{
    eventually, linked_session, own_server, session, until_nothing_is_left, until_watched, within,
};
use zklock_testcontainers::{Link, RequestKind};

/// Observers and events do not keep the session open.
#[tokio::test]
async fn the_last_handle_closes_the_session() {
    let server = own_server().await;
    let session = session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let (mut leaders, mut holders) = (session.election("/service").unwrap().observe(), lock.holders());
    assert_eq!(within("news", leaders.next()).await, Some(Ok(None)));
    assert_eq!(within("news", holders.next()).await, Some(Ok(None)));
    let mut events = session.events();
    let sessions = async || support::monitored(&server, "zk_global_sessions").await;
    drop(session);
    let guard = lock.acquire().await.unwrap();
    drop(lock);
    assert_eq!((sessions().await, guard.is_held()), (1, true));
    drop(guard);
    while within("the end", events.next()).await.is_some() {}
    while within("the end", holders.next()).await.is_some() {}
    assert_eq!((within("the end", leaders.next()).await, leaders.next().await), (None, None));
    eventually("the session's end", async || sessions().await == 0).await;
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn twenty_guards_share_one_heartbeat() {
    let (server, link, session) = linked_session(Duration::from_secs(8)).await;
    let mut guards = Vec::new();
    for number in 0..20 {
        guards.push(session.lock(&format!("/lock/orders-{number}")).unwrap().acquire().await.unwrap());
    }
    // Each holder sets its own watch once; then only heartbeats are left.
    until_watched(&server, 20, 0).await;
    beats_by(&link, &[RequestKind::Sync, RequestKind::Multi, RequestKind::MultiRead]).await;
    assert!(guards.iter().all(zklock::Guard::is_held));
    drop(guards);
    until_nothing_is_left(&server).await;
    // Without a guard no quorum need be asked.
    beats_by(&link, &[RequestKind::Sync]).await;
}

/// Waits for some heartbeats: nothing but one request of each of these kinds, each a heartbeat after the other.
async fn beats_by(link: &Link, kinds: &[RequestKind]) {
    const BEATS: u32 = 3;
    let requests = u64::from(BEATS) * kinds.len() as u64;
    // A quarter of 8 s less the lag of 75 ms.
    let heartbeat = Duration::from_micros(1_981_250);
    link.reset_counts();
    let started = Instant::now();
    eventually("the heartbeats", async || link.counts().requests >= requests).await;
    // The first one may have been due, and the last one is seen soon after it was sent.
    assert!(started.elapsed() > heartbeat * (BEATS * 2 - 3) / 2, "{:?}", started.elapsed());
    let before = link.counts().requests;
    let counted = kinds.iter().map(|kind| link.requests_of(*kind)).collect::<Vec<_>>();
    assert!((before..=link.counts().requests).contains(&counted.iter().sum()), "something else: {counted:?}");
    // The first and the last may be counted in part.
    assert!(counted.iter().all(|count| count.abs_diff(u64::from(BEATS)) <= 1), "{counted:?}");
}
