//! Observers: of leaders, and of a lock's holders.

use std::time::{Duration, Instant};

use support::{
    enqueue, eventually, granted, hide, linked, linked_session, operator, own_server, patient, server,
    session, sessions, until_nothing_is_left, within,
};
use zklock::{
    Acl, LockOptions, QueryError, Session, SessionState,
    election::Leader,
    inspect::{Contender, Observer},
};
use zklock_testcontainers::{Ensemble, RequestKind};
use zookeeper_client::{Acls, CreateMode};

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

#[tokio::test]
async fn several_observers_of_one_session() {
    let (server, [leading, looking]) = sessions().await;
    let election = looking.election(PATH).unwrap();
    let (mut one, mut two) = (election.observe(), election.observe());
    assert_eq!((value(&mut one).await, value(&mut two).await), (None, None));
    let leadership = leading.election(PATH).unwrap().campaign("one").await.unwrap();
    assert_eq!(value(&mut one).await.as_deref(), Some("one"));
    // The server knows one watch for both.
    drop(one);
    let mut three = election.observe();
    assert_eq!(value(&mut three).await.as_deref(), Some("one"));
    leadership.proclaim("two").await.unwrap();
    assert_eq!(value(&mut three).await.as_deref(), Some("two"));
    loop {
        if value(&mut two).await.as_deref() == Some("two") {
            break;
        }
    }
    drop((two, three));
    leadership.resign().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn an_observer_survives_its_connection() {
    let (server, [leading]) = sessions().await;
    let (link, looking) = linked(&server, Duration::from_secs(20)).await;
    let leadership = leading.election(PATH).unwrap().campaign("one").await.unwrap();
    let watched = looking.lock("/service/queue").unwrap();
    let (mut leaders, mut holders) = (looking.election(PATH).unwrap().observe(), watched.holders());
    assert_eq!(value(&mut leaders).await.as_deref(), Some("one"));
    assert_eq!(node(&mut holders).await, Some(leadership.node()));
    link.refuse();
    link.cut();
    leadership.proclaim("two").await.unwrap();
    leadership.resign().await.unwrap();
    let leadership = leading.election(PATH).unwrap().campaign("three").await.unwrap();
    eventually("the loss", async || !leaders.latest().connected).await;
    assert_eq!(leaders.latest().who.unwrap().value, "one", "the last answer");
    link.accept();
    assert_eq!(value(&mut leaders).await.as_deref(), Some("three"));
    assert_eq!(node(&mut holders).await, Some(leadership.node()));
    // A connection that nothing changed on tells nothing, and the watches stand on the next one.
    link.cut();
    eventually("the reconnection", async || leaders.latest().connected && link.connections() == 1).await;
    leadership.proclaim("four").await.unwrap();
    assert_eq!(value(&mut leaders).await.as_deref(), Some("four"));
}

#[tokio::test]
async fn an_observer_survives_its_session() {
    let (server, [leading]) = sessions().await;
    let (link, looking) = linked(&server, Duration::from_secs(6)).await;
    let election = leading.election(PATH).unwrap();
    let leadership = election.campaign("one").await.unwrap();
    let watched = looking.lock("/service/queue").unwrap();
    let (mut leaders, mut holders) = (looking.election(PATH).unwrap().observe(), watched.holders());
    assert_eq!(value(&mut leaders).await.as_deref(), Some("one"));
    assert_eq!(node(&mut holders).await, Some(leadership.node()));
    let (id, mut events) = (looking.id(), looking.events());
    link.black_hole();
    while within("an event", events.next()).await.unwrap().state != SessionState::Expired {}
    let latest = leaders.latest();
    assert_eq!(latest.who.as_ref().map(|leader| leader.value.as_str()), Some("one"));
    assert!(!latest.connected && latest.age.unwrap() > Duration::from_secs(1), "{latest:?}");
    leadership.resign().await.unwrap();
    link.restore();
    assert_eq!(value(&mut leaders).await, None);
    assert_eq!(node(&mut holders).await, None);
    assert_ne!(looking.id(), id);
    let leadership = election.campaign("two").await.unwrap();
    assert_eq!(value(&mut leaders).await.as_deref(), Some("two"));
    assert_eq!(node(&mut holders).await, Some(leadership.node()));
}

/// Another server takes the place of the one that they observed, as if that one had lost its data.
#[tokio::test]
async fn observers_are_told_that_the_data_was_lost_and_begin_anew() {
    let (before, after) = (own_server().await, own_server().await);
    let election = session(&before).await.election(PATH).unwrap();
    for _ in 0..10 {
        election.campaign("former").await.unwrap().resign().await.unwrap();
    }
    let former = election.campaign("one").await.unwrap();
    let (link, looking) = linked(&before, Duration::from_secs(2)).await;
    let watched = looking.lock("/service/queue").unwrap();
    let (mut leaders, mut holders) = (looking.election(PATH).unwrap().observe(), watched.holders());
    assert_eq!(value(&mut leaders).await.as_deref(), Some("one"));
    assert_eq!(node(&mut holders).await, Some(former.node()));

    let election = session(&after).await.election(PATH).unwrap();
    let present = election.campaign("two").await.unwrap();
    assert!(present.token() < former.token());
    link.redirect(after.address());
    link.cut();
    let told = within("news of the data", leaders.next()).await.unwrap().unwrap_err();
    assert_eq!((told.before, told.now, &*told.path), (former.token(), present.token(), LEADER));
    assert_eq!(leaders.latest().who.unwrap().value, "two");
    assert_eq!(value(&mut leaders).await.as_deref(), Some("two"));
    let told = within("news of the data", holders.next()).await.unwrap().unwrap_err();
    assert_eq!((told.before, told.now), (former.token(), present.token()));
    assert_eq!(node(&mut holders).await, Some(present.node()));
    // What is there now counts from here on.
    present.resign().await.unwrap();
    assert_eq!((value(&mut leaders).await, node(&mut holders).await), (None, None));
    let _next = election.campaign("three").await.unwrap();
    assert_eq!(value(&mut leaders).await.as_deref(), Some("three"));
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
async fn observers_and_events_do_not_keep_a_session_open() {
    let server = own_server().await;
    let session = session(&server).await;
    let mut leaders = session.election(PATH).unwrap().observe();
    let mut holders = session.lock("/lock/orders").unwrap().holders();
    assert_eq!(value(&mut leaders).await, None);
    assert_eq!(node(&mut holders).await, None);
    let mut events = session.events();
    assert_eq!(events.next().await.unwrap().state, SessionState::Connected);
    drop(session);
    while within("the end", events.next()).await.is_some() {}
    assert_eq!(within("the end", leaders.next()).await, None);
    assert_eq!(within("the end", holders.next()).await, None);
    assert_eq!(leaders.next().await, None);
    eventually("the session's end", async || support::monitored(&server, "zk_global_sessions").await == 0)
        .await;
}

#[tokio::test]
async fn an_observer_of_a_lazy_session_waits_for_it() {
    let (server, link, _session) = linked_session(Duration::from_secs(20)).await;
    link.refuse();
    let lazy = patient(server.at(link.address()), Duration::from_secs(20)).connect_lazy().unwrap();
    let mut leaders = lazy.election(PATH).unwrap().observe();
    let latest = leaders.latest();
    assert!(latest.who.is_none() && latest.age.is_none() && !latest.connected);
    link.accept();
    assert_eq!(value(&mut leaders).await, None);
    assert!(leaders.latest().connected);
    lazy.close().await.unwrap();
    assert_eq!(within("the end", leaders.next()).await, None);
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

#[tokio::test]
async fn the_next_holder_behind_one_that_may_not_be_read() {
    let server = server().await;
    let team =
        Session::builder(server.connect_string()).auth("digest", "team:secret").connect().await.unwrap();
    let looking = session(&server).await;
    support::make(&operator(&server).await, "/lock/orders").await;
    let lock =
        team.lock("/lock/orders").unwrap().with_options(LockOptions::new().acl(Acl::creator_only())).unwrap();
    let watched = looking.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let mut holders = watched.holders();
    let hidden = news(&mut holders).await.unwrap();
    assert_eq!((&hidden.path, &hidden.owner, hidden.token), (&guard.node(), &None, None));
    assert_eq!(watched.holder().await.unwrap(), Some(hidden));
    // A contender that comes is no news.
    let waiter = enqueue(&lock).await;
    guard.release().await.unwrap();
    let guard = granted(waiter).await;
    assert_eq!(node(&mut holders).await, Some(guard.node()));
    guard.release().await.unwrap();
    assert_eq!(node(&mut holders).await, None);
    let guard = watched.acquire().await.unwrap();
    assert_eq!(news(&mut holders).await.unwrap().token, Some(guard.token()));
    assert_eq!(holders.latest().refusal, None);
}

#[tokio::test]
async fn other_children_of_a_queue_are_no_holders() {
    let (server, [looking]) = sessions().await;
    let client = operator(&server).await;
    support::make(&client, "/lock/orders").await;
    let mut holders = looking.lock("/lock/orders").unwrap().holders();
    assert_eq!(node(&mut holders).await, None);
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    for name in ["config", "_c_x-lock-0000000000"] {
        client.create(&format!("/lock/orders/{name}"), b"", &options).await.unwrap();
    }
    client.delete("/lock/orders/_c_x-lock-0000000000", None).await.unwrap();
    let guard = looking.lock("/lock/orders").unwrap().acquire().await.unwrap();
    assert_eq!(node(&mut holders).await, Some(guard.node()));
}

/// The leader's server is partitioned from its ensemble: its guard is over before anybody is told of the next leader.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_of_the_next_leader_before_the_last_ones_guard_is_over() {
    const TIMEOUT: Duration = Duration::from_secs(6);
    let ensemble = Ensemble::builder(3).tick_time(Duration::from_millis(500)).start().await.unwrap();
    let follower = ensemble.followers().await.unwrap()[0];
    let others = (0..3).filter(|index| *index != follower).map(|index| ensemble.address(index));
    let others = others.collect::<Vec<_>>().join(",");
    let connect = async |servers: String| {
        let builder = Session::builder(servers).session_timeout(TIMEOUT).connect_timeout(support::BOUND);
        builder.connect().await.unwrap()
    };
    let (cut_off, other, looking) =
        (connect(ensemble.address(follower)).await, connect(others.clone()).await, connect(others).await);
    let one = cut_off.election(PATH).unwrap().campaign("one").await.unwrap();
    let next = other.election(PATH).unwrap();
    let two = tokio::spawn(async move { next.campaign("two").await });
    let election = looking.election(PATH).unwrap();
    eventually("the candidate", async || election.candidates().await.is_ok_and(|it| it.len() == 2)).await;
    let mut leaders = election.observe();
    assert_eq!(value(&mut leaders).await.as_deref(), Some("one"));
    // An observer at the server that is cut off hears nothing, and knows how old its answer is.
    let mut stale = cut_off.election(PATH).unwrap().observe();
    assert_eq!(value(&mut stale).await.as_deref(), Some("one"));
    ensemble.isolate(follower).await.unwrap();
    while value(&mut leaders).await.as_deref() != Some("two") {}
    assert!(!one.is_held(), "two leaders at once");
    let latest = stale.latest();
    if latest.who.is_some_and(|leader| leader.value == "one") {
        assert!(latest.age.unwrap() > Duration::from_secs(1), "{:?}", latest.age);
    }
    let two = within("the next leader", two).await.unwrap().unwrap();
    assert!(two.token() > one.token());
    ensemble.heal().await.unwrap();
    while value(&mut stale).await.as_deref() != Some("two") {}
}
