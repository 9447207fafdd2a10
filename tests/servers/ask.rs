//! Asking a holder to let go.

use std::time::Duration;

use futures::FutureExt;
use support::{
    BOUND, dropped_after, eventually, hide, linked, operator, own_server, queued, server, session, sessions,
    until_nothing_is_left, until_watched, within,
};
use zklock::ask::{Answer, Ask, AskError, Asking, Asks, Request};
use zklock::{AcquireError, Layout, LockOptions, Session};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::family::FAMILY;

const PATH: &str = "/lock/orders";
const ASK: &str = "/lock/orders/ask";
const WITHIN: Duration = Duration::from_secs(300);

fn request(why: &str) -> Request {
    Request::new(why, WITHIN).owner("ops")
}

async fn asking(session: &Session, path: &str, why: &str) -> Asking {
    within("an ask", session.ask(path, request(why))).await.unwrap().expect("somebody holds it")
}

async fn heard(asks: &mut Asks) -> Ask {
    within("an ask", asks.next()).await.expect("it is held")
}

async fn until_no_ask(operator: &Client, path: &str) {
    // An ask may be hidden.
    let (directory, name) = path.rsplit_once('/').unwrap();
    let there =
        async || operator.list_children(directory).await.is_ok_and(|all| all.iter().any(|it| it == name));
    eventually("no ask", async || !there().await).await;
}

#[tokio::test]
async fn each_member_is_asked_and_lets_go() {
    let (server, [holding, ours, next]) = sessions().await;
    let operator = operator(&server).await;
    for member in FAMILY {
        let path = format!("/asked/{}", member.name);
        assert!(ours.ask(&path, request("")).await.unwrap().is_none(), "{}: nobody holds it", member.name);
        let held = within(member.name, member.handle(&holding, &path).acquire()).await.unwrap();
        let (mut asks, mut before) = (held.asks(), held.asks());
        assert!(before.next().now_or_never().is_none(), "it listens before there is an ask");
        let asking = asking(&ours, &path, member.name).await;
        for asks in [&mut asks, &mut before] {
            let ask = heard(asks).await;
            assert_eq!((&*ask.who, &*ask.why), ("ops", member.name));
            assert!((WITHIN / 2..=WITHIN).contains(&ask.within), "it was made: {:?}", ask.within);
            assert!(asks.next().now_or_never().is_none(), "an ask is heard once");
        }
        let asked = asking.holders().iter().map(|holder| holder.path.clone()).collect::<Vec<_>>();
        assert_eq!(asked, held.nodes()[..1], "{}", member.name);
        let mut answer = Box::pin(asking.answer());
        assert!((&mut answer).now_or_never().is_none());
        held.release().await.unwrap();
        assert_eq!(within(member.name, answer).await.unwrap(), Answer::LetGo);
        assert_eq!(within("the end", asks.next()).await, None, "{}", member.name);
        until_no_ask(&operator, &format!("{path}/ask")).await;
        // Nobody took the ask for something of another kind, and it kept nobody out.
        let again = within(member.name, member.handle(&next, &path).try_acquire()).await.unwrap();
        again.expect("it is free").release().await.unwrap();
    }
    until_nothing_is_left(&server).await;
}

/// Elections and pools have their queues at `queue`, and a plain lock may have that name, too.
#[tokio::test]
async fn a_lock_with_the_name_of_a_queue_is_asked() {
    let (_server, [holding, ours]) = sessions().await;
    let held = holding.lock("/jobs/queue").unwrap().acquire().await.unwrap();
    assert!(ours.ask("/jobs", request("above")).await.unwrap().is_none());
    let asking = asking(&ours, "/jobs/queue", "here").await;
    assert_eq!(heard(&mut held.asks()).await.why, "here");
    held.release().await.unwrap();
    assert_eq!(within("the answer", asking.answer()).await.unwrap(), Answer::LetGo);
}

/// Readers are asked together, and one that waits is not asked.
#[tokio::test]
async fn all_holders_are_asked() {
    let (_server, [holding, asking_session]) = sessions().await;
    let prices = holding.rw_lock("/prices").unwrap();
    let (one, two) = (prices.read().await.unwrap(), prices.read().await.unwrap());
    let seen = holding.lock("/prices").unwrap();
    let length = async || seen.contenders().await.unwrap().len();
    let waiter = queued(length, async move { prices.write().await }).await;
    let both = asking(&asking_session, "/prices", "both").await;
    assert_eq!(both.holders().len(), 2);
    for reader in [&one, &two] {
        assert_eq!(heard(&mut reader.asks()).await.why, "both");
    }
    let answer = tokio::spawn(both.answer());
    one.release().await.unwrap();
    two.release().await.unwrap();
    let _writes = within("the writer", waiter).await.unwrap().unwrap();
    assert_eq!(within("the answer", answer).await.unwrap().unwrap(), Answer::LetGo);
}

/// The first asker cannot take its ask back, so the ask's node goes with the session. Once none of the holders that it asks holds, it is
/// in nobody's way.
#[tokio::test]
async fn a_stale_ask_is_not_heard_and_goes_with_its_session() {
    let (server, [holding, next, ours, third]) = sessions().await;
    let (link, away) = linked(&server, Duration::from_secs(4)).await;
    let guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let _stale = asking(&away, PATH, "stale").await;
    link.black_hole();
    // The one who comes second learns who asks already.
    match ours.ask(PATH, request("second")).await.unwrap_err() {
        AskError::Asked { ask, .. } => assert_eq!((&*ask.who, &*ask.why), ("ops", "stale")),
        error => panic!("{error}"),
    }
    guard.release().await.unwrap();
    let guard = within("the lock", next.lock(PATH).unwrap().acquire()).await.unwrap();
    let first = tokio::spawn(guard.asked());
    let operator = operator(&server).await;
    assert!(operator.check_stat(ASK).await.unwrap().is_some(), "it stands");
    until_no_ask(&operator, ASK).await;
    // It stands until it is heard: nobody is told of an ask that was taken back before anybody looked.
    let fresh = asking(&ours, PATH, "fresh").await;
    assert_eq!(within("an ask", first).await.unwrap().unwrap().why, "fresh");
    drop(fresh);
    until_no_ask(&operator, ASK).await;
    let (link, away) = linked(&server, Duration::from_secs(40)).await;
    let _stale = asking(&away, PATH, "stale").await;
    link.black_hole();
    guard.release().await.unwrap();
    let guard = within("the lock", holding.lock(PATH).unwrap().acquire()).await.unwrap();
    let _fresh = asking(&third, PATH, "fresh").await;
    assert_eq!(heard(&mut guard.asks()).await.why, "fresh");
}

#[tokio::test]
async fn no_lost_connection_hides_an_ask_from_either_side() {
    let server = own_server().await;
    let ((back, holding), (front, away)) =
        (linked(&server, Duration::from_secs(20)).await, linked(&server, Duration::from_secs(20)).await);
    let guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let mut asks = guard.asks();
    assert!(asks.next().now_or_never().is_none());
    eventually("a look", async || back.requests_of(RequestKind::AddWatch) > 0).await;
    // It is made while the holder has no connection, and its own reply is lost.
    back.refuse();
    back.cut();
    let lost = front.lose_reply(RequestKind::Create);
    let asking = asking(&away, PATH, "why").await;
    assert!(lost.has_happened());
    back.accept();
    assert_eq!(heard(&mut asks).await.why, "why");
    // The session of the asker is ended. It asks again in the next one.
    let mut answer = tokio::spawn(asking.answer());
    let (operator, first) = (operator(&server).await, away.id());
    server.own().close_session(first).await.unwrap();
    let owner = async || operator.check_stat(ASK).await.unwrap().map(|stat| stat.ephemeral_owner);
    eventually("another ask", async || owner().await.is_some_and(|owner| owner != first)).await;
    assert!(asks.next().now_or_never().is_none(), "it is the same ask");
    // It learns of the release though that comes while it has no connection, and takes the ask back though the reply is lost.
    front.refuse();
    front.cut();
    guard.release().await.unwrap();
    let lost = front.lose_reply(RequestKind::Delete);
    front.accept();
    assert_eq!(within("the answer", &mut answer).await.unwrap().unwrap(), Answer::LetGo);
    lost.happened().await;
    until_no_ask(&operator, ASK).await;
}

#[tokio::test]
async fn an_ask_that_is_dropped_at_any_await_leaves_nothing() {
    let (server, [holding, ours]) = sessions().await;
    let operator = operator(&server).await;
    let guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let (mut steps, mut done) = (0, false);
    while !done {
        let ask = async { ours.ask(PATH, request("why")).await.unwrap().unwrap().answer().now_or_never() };
        done = dropped_after(steps, ask).await;
        steps += 1;
        // The deletion goes out behind the create.
        until_no_ask(&operator, ASK).await;
        drop(asking(&ours, PATH, "the next one").await);
        until_no_ask(&operator, ASK).await;
    }
    assert!(steps > 2 && guard.is_held());
    let over = ours.ask(PATH, Request::new("soon over", Duration::from_millis(50))).await.unwrap().unwrap();
    assert_eq!(within("the answer", over.answer()).await.unwrap(), Answer::TimeOver);
    until_no_ask(&operator, ASK).await;
}

#[tokio::test]
async fn those_who_listen_cost_nothing_while_nobody_asks() {
    const GUARDS: usize = 100;
    let server = server().await;
    let (link, holding) = linked(&server, Duration::from_secs(6)).await;
    let semaphore = holding.semaphore("/convert", 200).unwrap();
    let mut listening = Vec::new();
    for _ in 0..GUARDS {
        listening.push(semaphore.acquire().await.unwrap());
    }
    let mut asks = listening.iter().map(|permit| permit.asks()).collect::<Vec<_>>();
    assert_eq!(link.requests_of(RequestKind::AddWatch), 0, "nobody has listened yet");
    assert!(asks.iter_mut().all(|asks| asks.next().now_or_never().is_none()));
    eventually("the look", async || link.requests_of(RequestKind::AddWatch) == 1).await;
    link.reset_counts();
    eventually("two heartbeats", async || link.requests_of(RequestKind::Sync) >= 2).await;
    assert!(link.counts().requests < GUARDS as u64 / 2, "{:?}", link.counts());
    let ours = session(&server).await;
    let asking = asking(&ours, "/convert", "all").await;
    assert_eq!(asking.holders().len(), GUARDS);
    for asks in &mut asks {
        assert_eq!(heard(asks).await.why, "all");
    }
    assert_eq!(link.requests_of(RequestKind::AddWatch), 0);
    // The pool is looked at, too.
    assert!(link.requests_of(RequestKind::Exists) < 5, "all have it from one look");
    let answer = tokio::spawn(asking.answer());
    drop(listening);
    assert_eq!(within("the answer", answer).await.unwrap().unwrap(), Answer::LetGo);
}

#[tokio::test]
async fn what_cannot_be_asked() {
    let (server, [holding, ours]) = sessions().await;
    let operator = operator(&server).await;
    let shared = LockOptions::new().layout(Layout::Curator).takeover_delay(Duration::ZERO);
    let lock = holding.lock("/shared").unwrap().with_options(shared).unwrap();
    let guard = within("the lock", lock.acquire()).await.unwrap();
    let mut asks = guard.asks();
    assert!(asks.next().now_or_never().is_none());
    let error = ours.ask("/shared", request("why")).await.unwrap_err();
    assert_eq!(error, AskError::Shared { path: "/shared".to_owned() });
    guard.release().await.unwrap();
    assert_eq!(within("the end", asks.next()).await, None);

    let guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let long = ours.ask(PATH, Request::new("x".repeat(1025), BOUND)).await.unwrap_err();
    assert!(matches!(long, AskError::TooLong { what: "reason", length: 1025, .. }), "{long}");
    support::make(&operator, ASK).await;
    let occupied = ours.ask(PATH, request("why")).await.unwrap_err();
    assert_eq!(occupied, AskError::Occupied { path: PATH.to_owned() });
    operator.delete(ASK, None).await.unwrap();
    hide(&operator, &guard.node()).await;
    let hidden = ours.ask(PATH, request("why")).await.unwrap_err();
    assert_eq!(hidden, AskError::NotAuthorized { node: guard.node() });
    assert!(guard.is_held());
}

/// Both need the same node.
#[tokio::test]
async fn an_ask_and_a_lock_at_its_node_refuse_each_other() {
    let (server, [holding, ours]) = sessions().await;
    let _guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let lock = holding.lock(ASK).unwrap();
    let standing = asking(&ours, PATH, "why").await;
    let refused = within("the refusal", lock.acquire()).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    let (path, who) = (ASK.to_owned(), "ops".to_owned());
    let AcquireError::Asked { within: time, .. } = refused else { panic!("{refused}") };
    assert_eq!(refused, AcquireError::Asked { path, who, within: time });
    assert!((WITHIN / 2..=WITHIN).contains(&time), "{time:?}");
    drop(standing);
    until_no_ask(&operator(&server).await, ASK).await;
    let _inner = within("the lock", lock.acquire()).await.unwrap();
    let refused = ours.ask(PATH, request("why")).await.unwrap_err();
    assert_eq!(refused, AskError::Lock { path: PATH.to_owned() });
}

/// Anybody may make a node of that name, again and again.
#[tokio::test]
async fn an_ask_that_no_asker_can_have_made_is_not_heard() {
    let server = server().await;
    let (link, holding) = linked(&server, Duration::from_secs(6)).await;
    let guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let (operator, ours) = (operator(&server).await, session(&server).await);
    let node = guard.node().rsplit('/').next().unwrap().to_owned();
    let made = async |why: usize, more: usize| {
        let (id, why, more) = (uuid::Uuid::nil(), "x".repeat(why), " ".repeat(more));
        let of = guard.token().zxid();
        let data =
            format!(r#"{{"id":"{id}","who":"","why":"{why}","within":1,"of":[["{node}",{of}]]}}{more}"#);
        let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        operator.create(ASK, data.as_bytes(), &ephemeral).await.unwrap();
    };
    let mut asks = guard.asks();
    assert!(asks.next().now_or_never().is_none());
    let (looks, reads) =
        (|| link.requests_of(RequestKind::Exists), || link.requests_of(RequestKind::GetData));
    eventually("a look, and the watch of the holder's node", async || looks() > 0 && reads() > 0).await;
    link.reset_counts();
    // The reply of a read this long delays the heartbeats.
    made(1024, 512 * 1024).await;
    eventually("a look", async || looks() > 0).await;
    operator.delete(ASK, None).await.unwrap();
    // A look begins when the last one is done.
    eventually("another look", async || looks() > 1).await;
    assert_eq!(reads(), 0);
    made(1025, 0).await;
    let occupied = ours.ask(PATH, request("why")).await.unwrap_err();
    assert_eq!(occupied, AskError::Occupied { path: PATH.to_owned() });
    operator.delete(ASK, None).await.unwrap();
    let _asking = asking(&ours, PATH, "a real one").await;
    assert_eq!(heard(&mut asks).await.why, "a real one");
    drop(asks);
    operator.delete(ASK, None).await.unwrap();
    made(1024, 0).await;
    assert_eq!(heard(&mut guard.asks()).await.why.len(), 1024);
}

#[tokio::test]
async fn who_holds_may_be_hidden_or_elsewhere() {
    let (server, [holding, ours, third]) = sessions().await;
    let operator = operator(&server).await;
    let hidden = async |path: &str, node: &str| {
        hide(&operator, node).await;
        let error = ours.ask(path, request("why")).await.unwrap_err();
        assert_eq!(error, AskError::NotAuthorized { node: node.to_owned() });
    };
    let _permit = holding.semaphore("/convert", 2).unwrap().acquire().await.unwrap();
    hidden("/convert", "/convert/permits").await;
    let _leads = holding.election("/feed").unwrap().campaign("one").await.unwrap();
    let inner = ours.ask("/feed/queue", request("why")).await.unwrap_err();
    assert_eq!(inner, AskError::Inner { path: "/feed/queue".to_owned() });
    hidden("/feed", "/feed/queue").await;
    // The ask of somebody else may be hidden, too.
    let prices = holding.rw_lock("/prices").unwrap();
    let _readers = [prices.read().await.unwrap(), prices.read().await.unwrap()];
    let last = holding.lock("/prices").unwrap().contenders().await.unwrap().pop().unwrap();
    let request_to_last = request("why").number(last.number);
    let first = third.ask("/prices", request_to_last).await.unwrap().unwrap();
    assert_eq!(first.holders(), [last]);
    hidden("/prices", "/prices/ask").await;
    // A child that only looks like another client's contender is none.
    let _guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    support::make(&operator, &format!("{PATH}/backup-0000000001")).await;
    let _asking = asking(&ours, PATH, "why").await;
}

/// The open ACL lets everybody write to an ask, hide it, and delete it.
#[tokio::test]
async fn an_ask_that_others_have_touched_goes_with_its_asker() {
    let (server, [holding, ours]) = sessions().await;
    let operator = operator(&server).await;
    let guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let first = asking(&ours, PATH, "why").await;
    operator.set_data(ASK, b"mine", None).await.unwrap();
    drop(first);
    until_no_ask(&operator, ASK).await;
    let second = asking(&ours, PATH, "why").await;
    hide(&operator, ASK).await;
    drop(second);
    until_no_ask(&operator, ASK).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn an_asker_that_is_cut_off_does_not_know() {
    let server = own_server().await;
    let (link, away) = linked(&server, Duration::from_secs(4)).await;
    let (other, there) = linked(&server, Duration::from_secs(40)).await;
    let holding = session(&server).await;
    let _guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let asking = away.ask(PATH, Request::new("soon over", Duration::from_millis(50))).await.unwrap().unwrap();
    link.black_hole();
    let unknown = within("the answer", asking.answer()).await.unwrap_err();
    assert!(unknown.is_retryable() && !unknown.needs_new_session(), "{unknown}");
    // The end of a session of ZooKeeper's is not the end of zklock's.
    let create = other.hold_request(RequestKind::Create);
    let ended = there.id();
    let asked = tokio::spawn(async move { there.ask(PATH, request("why")).await.map(|_| there) });
    within("the create", create.reached()).await;
    server.own().close_session(ended).await.unwrap();
    create.release();
    let lost = within("the error", asked).await.unwrap().unwrap_err();
    assert!(lost.is_retryable() && !lost.needs_new_session(), "{lost}");
}

/// The node of the last session may still be there, and go a moment later.
#[tokio::test]
async fn an_ask_is_made_again_though_that_of_the_last_session_is_there() {
    let server = own_server().await;
    let (link, away) = linked(&server, Duration::from_secs(20)).await;
    let (operator, holding) = (operator(&server).await, session(&server).await);
    let guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let answer = tokio::spawn(asking(&away, PATH, "why").await.answer());
    let (data, stat) = operator.get_data(ASK).await.unwrap();
    link.refuse();
    server.own().close_session(stat.ephemeral_owner).await.unwrap();
    until_no_ask(&operator, ASK).await;
    operator.create(ASK, &data, &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    link.accept();
    let own =
        async || operator.check_stat(ASK).await.unwrap().is_some_and(|it| it.ephemeral_owner == away.id());
    eventually("an ask of the next session", own).await;
    assert_ne!(away.id(), stat.ephemeral_owner);
    guard.release().await.unwrap();
    assert_eq!(within("the answer", answer).await.unwrap().unwrap(), Answer::LetGo);
    until_no_ask(&operator, ASK).await;
}

/// After ten session timeouts. A server withholds events of a node from those who may not read it (ZOOKEEPER-4799).
#[tokio::test]
async fn an_asker_looks_again() {
    let (server, [holding]) = sessions().await;
    let (_link, ours) = linked(&server, Duration::from_secs(2)).await;
    let operator = operator(&server).await;
    let deleted = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let hidden = holding.lock("/lock/bills").unwrap().acquire().await.unwrap();
    let of_deleted = tokio::spawn(asking(&ours, PATH, "why").await.answer());
    let of_hidden = tokio::spawn(asking(&ours, "/lock/bills", "why").await.answer());
    until_watched(&server, 2, 2).await;
    operator.delete(ASK, None).await.unwrap();
    hide(&operator, &hidden.node()).await;
    hidden.release().await.unwrap();
    eventually("another ask", async || operator.check_stat(ASK).await.unwrap().is_some()).await;
    assert_eq!(within("the answer", of_hidden).await.unwrap().unwrap(), Answer::LetGo);
    deleted.release().await.unwrap();
    assert_eq!(within("the answer", of_deleted).await.unwrap().unwrap(), Answer::LetGo);
}

/// A server may carry out a create after its connection is gone.
#[tokio::test]
async fn a_create_that_nobody_answered_is_looked_for_again() {
    let server = server().await;
    let (link, away) = linked(&server, Duration::from_secs(2)).await;
    let holding = session(&server).await;
    let _guard = holding.lock(PATH).unwrap().acquire().await.unwrap();
    let create = link.hold_request(RequestKind::Create);
    let asked = {
        let away = away.clone();
        tokio::spawn(async move { away.ask(PATH, request("why")).await.map(drop) })
    };
    within("the create", create.reached()).await;
    asked.abort();
    link.cut();
    drop(create);
    // One look is behind the create. The others come each session timeout.
    eventually("more looks", async || link.requests_of(RequestKind::GetData) > 3).await;
    until_no_ask(&operator(&server).await, ASK).await;
}
