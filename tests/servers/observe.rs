//! Observers: of leaders, and of a lock's holders.

use std::time::{Duration, Instant};

use support::{
    enqueue, eventually, granted, hide, linked, operator, own_server, server, session, sessions,
    until_nothing_is_left, within,
};
use zklock::{
    QueryError,
    election::Leader,
    inspect::{Contender, Observer},
};
use zklock_testcontainers::RequestKind;

const PATH: &str = "/service";
const LEADER: &str = "/service/leader";

async fn news<T>(observer: &mut Observer<T>) -> Option<T> {
    let news = within("news", observer.next()).await.expect("the session is not over");
    news.unwrap_or_else(|went_back| panic!("{went_back}"))
}

async fn value(leaders: &mut Observer<Leader>) -> Option<String> {
    news(leaders).await.map(|leader| leader.value)
}

async fn node(holders: &mut Observer<Contender>) -> Option<String> {
    news(holders).await.map(|holder| holder.path)
}

#[tokio::test]
async fn the_holder_of_a_lock_and_the_next_one() {
    let (server, [first, second, looking]) = sessions().await;
    let (lock, other) = (first.lock("/lock/orders").unwrap(), second.lock("/lock/orders").unwrap());
    let watched = looking.lock("/lock/orders").unwrap();
    // There is no directory yet, and no parent of it.
    let mut holders = watched.holders();
    assert_eq!(watched.holder().await.unwrap(), None);
    assert_eq!(node(&mut holders).await, None);
    for _ in 0..2 {
        let guard = lock.acquire().await.unwrap();
        let holder = news(&mut holders).await.unwrap();
        assert_eq!((&holder.path, holder.token, holder.position), (&guard.node(), Some(guard.token()), 0));
        assert!(holder.owner.as_deref().unwrap().ends_with(&format!(":{}", std::process::id())));
        assert_eq!(watched.holder().await.unwrap(), Some(holder));
        let waiter = enqueue(&other).await;
        guard.release().await.unwrap();
        let guard = granted(waiter).await;
        assert_eq!(node(&mut holders).await, Some(guard.node()));
        guard.release().await.unwrap();
        assert_eq!(node(&mut holders).await, None);
        assert_eq!(watched.holder().await.unwrap(), None);
    }
    drop(holders);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn the_next_holder_costs_a_listing_and_a_read() {
    const WAITERS: usize = 30;
    let server = server().await;
    let contending = session(&server).await;
    let (link, looking) = linked(&server, Duration::from_secs(20)).await;
    let lock = contending.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        waiters.push(enqueue(&lock).await);
    }
    let watched = looking.lock("/lock/orders").unwrap();
    let mut holders = watched.holders();
    assert_eq!(node(&mut holders).await, Some(guard.node()));
    link.reset_counts();
    watched.holder().await.unwrap();
    assert_eq!((link.requests_of(RequestKind::GetChildren), link.requests_of(RequestKind::GetData)), (1, 1));
    guard.release().await.unwrap();
    let next = news(&mut holders).await.unwrap();
    assert_eq!((link.requests_of(RequestKind::GetChildren), link.requests_of(RequestKind::GetData)), (2, 2));
    assert_eq!(link.requests_of(RequestKind::MultiRead), 0);
    let guard = granted(waiters.remove(0)).await;
    assert_eq!(next.token, Some(guard.token()));
    // Waiters that come and go cost nothing.
    waiters.pop().unwrap().abort();
    eventually("the queue", async || lock.contenders().await.unwrap().len() == WAITERS - 1).await;
    assert_eq!((link.requests_of(RequestKind::GetChildren), link.counts().events), (2, 1));
}

#[tokio::test]
async fn a_change_of_the_leader_costs_one_read() {
    let (server, [leading]) = sessions().await;
    let (link, looking) = linked(&server, Duration::from_secs(20)).await;
    let leadership = leading.election(PATH).unwrap().campaign("0").await.unwrap();
    let mut leaders = looking.election(PATH).unwrap().observe();
    assert_eq!(value(&mut leaders).await.as_deref(), Some("0"));
    assert_eq!((link.requests_of(RequestKind::AddWatch), link.requests_of(RequestKind::GetData)), (1, 1));
    link.reset_counts();
    const CHANGES: u64 = 10;
    for number in 1..=CHANGES {
        leadership.proclaim(number.to_string()).await.unwrap();
        assert_eq!(value(&mut leaders).await, Some(number.to_string()));
    }
    let reads = link.requests_of(RequestKind::GetData);
    assert_eq!(link.counts().events, 2 * CHANGES, "a deletion and a creation, in one transaction");
    if support::names_transactions(&server).await {
        assert_eq!(reads, CHANGES);
    }
    assert!(reads <= 2 * CHANGES);
    assert_eq!(link.requests_of(RequestKind::AddWatch), 0);
}

/// Another server takes the place of the one that it observed, as if that one had lost its data.
#[tokio::test]
async fn an_observer_is_told_that_the_data_was_lost_and_begins_anew() {
    let (before, after) = (own_server().await, own_server().await);
    let lock = session(&before).await.lock(PATH).unwrap();
    for _ in 0..10 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let former = lock.acquire().await.unwrap();
    let (link, looking) = linked(&before, Duration::from_secs(2)).await;
    let mut holders = looking.lock(PATH).unwrap().holders();
    assert_eq!(node(&mut holders).await, Some(former.node()));

    let present = session(&after).await.lock(PATH).unwrap().acquire().await.unwrap();
    assert!(present.token() < former.token());
    link.redirect(after.address());
    link.cut();
    let told = within("news of the data", holders.next()).await.unwrap().unwrap_err();
    assert_eq!((told.before, told.now), (former.token(), present.token()));
    assert_eq!(node(&mut holders).await, Some(present.node()));
    // What is there now counts from here on.
    present.release().await.unwrap();
    assert_eq!(node(&mut holders).await, None);
}

#[tokio::test]
async fn what_is_known_is_answered_at_once_while_zookeeper_is_paused() {
    let server = own_server().await;
    let (leading, looking) = (session(&server).await, session(&server).await);
    let leadership = leading.election(PATH).unwrap().campaign("one").await.unwrap();
    let watched = looking.lock("/service/queue").unwrap();
    let (mut leaders, mut holders) = (looking.election(PATH).unwrap().observe(), watched.holders());
    assert_eq!(value(&mut leaders).await.as_deref(), Some("one"));
    assert_eq!(node(&mut holders).await, Some(leadership.node()));
    // Each heartbeat makes the answer young again.
    let heartbeat = looking.heartbeat();
    eventually("an older answer", async || holders.latest().age.unwrap() > heartbeat * 3 / 4).await;
    eventually("a younger one", async || holders.latest().age.unwrap() < heartbeat / 2).await;
    server.own().pause().await.unwrap();
    eventually("an old answer", async || leaders.latest().age.unwrap() > heartbeat * 3 / 2).await;
    let began = Instant::now();
    let (leader, holder) = (leaders.latest(), holders.latest());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(leader.who.unwrap().token, leadership.token());
    assert_eq!(holder.who.unwrap().token, Some(leadership.token()));
    assert!(holder.age.unwrap() > heartbeat);
    server.own().unpause().await.unwrap();
    eventually("a young answer", async || holders.latest().age.unwrap() < heartbeat / 2).await;
}

#[tokio::test]
async fn a_node_that_may_not_be_read_is_a_refusal() {
    let (server, [leading, looking]) = sessions().await;
    let client = operator(&server).await;
    let leadership = leading.election(PATH).unwrap().campaign("one").await.unwrap();
    hide(&client, LEADER).await;
    let election = looking.election(PATH).unwrap();
    let mut leaders = election.observe();
    eventually("the refusal", async || leaders.latest().refusal.is_some()).await;
    assert_eq!(leaders.latest().who, None);
    assert!(matches!(election.leader().await, Err(QueryError::NotAuthorized { path }) if path == LEADER));
    // The next announcement can be read. The watch stands, though the server does not report the end of the hidden one.
    leadership.resign().await.unwrap();
    let _next = leading.election(PATH).unwrap().campaign("two").await.unwrap();
    while value(&mut leaders).await.as_deref() != Some("two") {}
    assert_eq!(leaders.latest().refusal, None);
    assert!(leaders.latest().connected);
}

/// A server withholds events of a node from those who may not read it (ZOOKEEPER-4799).
#[tokio::test]
async fn an_observer_whose_node_was_hidden_looks_again() {
    let (server, [leading]) = sessions().await;
    let (_link, looking) = linked(&server, Duration::from_secs(1)).await;
    let leadership = leading.election(PATH).unwrap().campaign("one").await.unwrap();
    let mut leaders = looking.election(PATH).unwrap().observe();
    let mut holders = looking.lock("/service/queue").unwrap().holders();
    assert_eq!(value(&mut leaders).await.as_deref(), Some("one"));
    assert_eq!(node(&mut holders).await, Some(leadership.node()));
    let client = operator(&server).await;
    hide(&client, LEADER).await;
    hide(&client, &leadership.node()).await;
    leadership.resign().await.unwrap();
    // At once, or after ten session timeouts.
    assert_eq!(value(&mut leaders).await, None);
    assert_eq!(node(&mut holders).await, None);
}
