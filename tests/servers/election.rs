//! Elections: candidates, their announcements, and what ends them.

use std::time::Duration;

use support::{
    Server, Steps, Waiter, eventually, granted, linked_session, operator, own_server, queued, server,
    session, sessions, until_nothing_is_left, within,
};
use zklock::{
    AcquireError, Election, InvalidLock, Leadership, LockOptions, Session,
    election::{AnnounceError, Leader, ProclaimError},
    guard::TransactionError,
    inspect::Observer,
};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acls, Client, CreateMode};

pub(crate) const PATH: &str = "/service";

pub(crate) const QUEUE: &str = "/service/queue";

pub(crate) const LEADER: &str = "/service/leader";

pub(crate) fn election(session: &Session) -> Election {
    session.election(PATH).unwrap()
}

/// The next value that an observer is told, if anybody leads.
pub(crate) async fn told(leaders: &mut Observer<Leader>) -> Option<String> {
    within("news of the leader", leaders.next())
        .await
        .expect("the session is not over")
        .expect("the data did not go back")
        .map(|leader| leader.value)
}

/// Waits until the observer is told this, and returns what it was told before.
pub(crate) async fn until_told(leaders: &mut Observer<Leader>, value: Option<&str>) -> Vec<Option<String>> {
    let mut before = Vec::new();
    loop {
        let next = told(leaders).await;
        if next.as_deref() == value {
            return before;
        }
        before.push(next);
    }
}

pub(crate) async fn who_leads(election: &Election) -> Option<String> {
    election.leader().await.unwrap().map(|leader| leader.value)
}

/// Campaigns in a separate task, and waits until the candidate is in the queue.
pub(crate) async fn candidate(election: &Election, value: &'static str) -> Waiter<Leadership> {
    let candidate = election.clone();
    let length = async || election.candidates().await.unwrap().len();
    queued(length, async move { candidate.campaign(value).await }).await
}

/// No announcement, no candidate, and no watch is left.
pub(crate) async fn until_all_is_gone(server: &Server, client: &Client) {
    eventually("no announcement", async || client.check_stat(LEADER).await.unwrap().is_none()).await;
    until_nothing_is_left(server).await;
}

async fn forge(client: &Client, mode: CreateMode, data: &str) {
    client.create(LEADER, data.as_bytes(), &mode.with_acls(Acls::anyone_all())).await.unwrap();
}

#[tokio::test]
async fn leaders_follow_each_other_and_observers_are_told() {
    let (server, [first, second, third]) = sessions().await;
    let mut leaders = election(&third).observe();
    assert_eq!(told(&mut leaders).await, None, "nobody leads at first");
    assert_eq!(who_leads(&election(&third)).await, None);
    let one = election(&first).campaign("one:1").await.unwrap();
    let leader = within("news", leaders.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((leader.value.as_str(), leader.token, leader.session), ("one:1", one.token(), first.id()));
    assert!(leader.since.is_some() && !leader.owner.is_empty());
    assert_eq!(election(&third).leader().await.unwrap(), Some(leader));
    assert_eq!(one.path(), QUEUE);
    one.verify().await.unwrap();

    let two = candidate(&election(&second), "two:2").await;
    one.resign().await.unwrap();
    let two = granted(two).await;
    // The announcement goes with the first leader's node, and the second one's comes a round trip later.
    assert!(until_told(&mut leaders, Some("two:2")).await.iter().all(Option::is_none));
    let latest = leaders.latest();
    assert_eq!(latest.who.as_ref().map(|leader| leader.token), Some(two.token()));
    assert!(latest.connected && latest.refusal.is_none() && latest.age.is_some());
    drop(two);
    assert_eq!(told(&mut leaders).await, None);
    drop(leaders);
    until_all_is_gone(&server, &operator(&server).await).await;
}

#[tokio::test]
async fn a_leader_proclaims_other_values() {
    let (_server, [leading, looking]) = sessions().await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    for value in ["two", "three", ""] {
        leadership.proclaim(value).await.unwrap();
        assert_eq!(told(&mut leaders).await.as_deref(), Some(value), "a replacement is one transaction");
    }
    let long = "x".repeat(Election::LONGEST_VALUE + 1);
    let error = leadership.proclaim(long.clone()).await.unwrap_err();
    assert!(
        matches!(&error, ProclaimError::Announce(AnnounceError::TooLong { path, length, .. }) if path == LEADER && *length == long.len())
    );
    let error = election(&looking).campaign(long.clone()).await.unwrap_err();
    assert!(matches!(error, AcquireError::Announce(AnnounceError::TooLong { .. })));
    let longest = &long[1..];
    leadership.proclaim(longest).await.unwrap();
    assert_eq!(told(&mut leaders).await.as_deref(), Some(longest));
    leadership.resign().await.unwrap();
    assert_eq!(told(&mut leaders).await, None);
}

#[tokio::test]
async fn of_two_proclamations_at_once_the_last_one_stands() {
    let (_server, [leading]) = sessions().await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    let (two, three) = tokio::join!(leadership.proclaim("two"), leadership.proclaim("three"));
    two.unwrap();
    three.unwrap();
    assert_eq!(who_leads(&election(&leading)).await.as_deref(), Some("three"));
    // A proclamation that nobody awaits goes on.
    assert!(Steps::new(leadership.proclaim("four")).poll().is_pending());
    eventually("the value", async || who_leads(&election(&leading)).await.as_deref() == Some("four")).await;
}

#[tokio::test]
async fn a_campaign_for_a_free_election_takes_two_requests() {
    let (_server, link, session) = linked_session(Duration::from_secs(60)).await;
    let election = election(&session);
    election.campaign("one").await.unwrap().resign().await.unwrap();
    link.reset_counts();
    let leadership = election.campaign("one").await.unwrap();
    assert_eq!(link.requests_of(RequestKind::Multi), 2);
    leadership.resign().await.unwrap();
    assert_eq!(link.requests_of(RequestKind::Multi), 3, "its announcement goes with its node");
}

#[tokio::test]
async fn paths_and_options_are_checked() {
    let server = own_server().await;
    let session = session(&server).await;
    for path in ["", "service", "/", "/zookeeper", "/a/lock-0000000001"] {
        let error = session.election(path).unwrap_err();
        assert!(matches!(&error, InvalidLock::Path { path: named, .. } if named == path), "{error}");
    }
    let error = session
        .election(PATH)
        .and_then(|it| it.with_options(LockOptions::new().data("x".repeat(20_000))))
        .unwrap_err();
    assert!(matches!(error, InvalidLock::TooLong { .. }));
    let election = election(&session);
    assert_eq!((election.path(), election.announcement().as_str()), (PATH, LEADER));
}

#[tokio::test]
async fn a_transaction_leaves_the_elections_own_nodes_alone() {
    let (_server, [session]) = sessions().await;
    let leadership = election(&session).campaign("one").await.unwrap();
    let node = leadership.node();
    let refused = async |transaction: zklock::guard::Transaction<'_>| {
        matches!(transaction.commit().await, Err(TransactionError::Invalid { operation: 0, .. }))
    };
    assert!(refused(leadership.transaction().set(LEADER, "forged", None)).await);
    assert!(refused(leadership.transaction().delete(LEADER, None)).await);
    assert!(refused(leadership.transaction().create(LEADER, "forged")).await);
    assert!(refused(leadership.transaction().set(QUEUE, "", None)).await);
    assert!(refused(leadership.transaction().delete(&node, None)).await);
    leadership.transaction().check(LEADER, Some(0)).create("/service/data", "mine").commit().await.unwrap();
    assert_eq!(who_leads(&election(&session)).await.as_deref(), Some("one"));
}

#[tokio::test]
async fn what_nobody_announced_counts_as_nobody() {
    let (server, [looking]) = sessions().await;
    let client = operator(&server).await;
    support::make(&client, PATH).await;
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await, None);
    let data = r#"{"token":1,"owner":"o","value":"forged","since":0}"#;
    for (mode, data) in [(CreateMode::Persistent, data), (CreateMode::Ephemeral, "no JSON")] {
        forge(&client, mode, data).await;
        assert_eq!(who_leads(&election(&looking)).await, None);
        client.delete(LEADER, None).await.unwrap();
    }
    // Written to, and with a token that no leader can have yet.
    forge(&client, CreateMode::Ephemeral, "").await;
    client.set_data(LEADER, data.as_bytes(), None).await.unwrap();
    assert_eq!(who_leads(&election(&looking)).await, None);
    client.delete(LEADER, None).await.unwrap();
    forge(&client, CreateMode::Ephemeral, &data.replace(":1", ":9000000000")).await;
    assert_eq!(who_leads(&election(&looking)).await, None);
    // A leftover stops nobody.
    let leadership = within("a campaign", election(&looking).campaign("one")).await.unwrap();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"), "it was told of none of the others");
    leadership.resign().await.unwrap();
}

#[tokio::test]
async fn a_leftover_with_children_refuses_the_candidate() {
    let (server, [session]) = sessions().await;
    let client = operator(&server).await;
    support::make(&client, "/service/leader/child").await;
    let error = within("a campaign", election(&session).campaign("one")).await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Announce(AnnounceError::Refused { path, .. }) if path == LEADER),
        "{error}"
    );
    assert!(!error.is_retryable() && !error.is_session_over());
    until_nothing_is_left(&server).await;
    client.delete("/service/leader/child", None).await.unwrap();
    let leadership = within("a campaign", election(&session).campaign("one")).await.unwrap();
    leadership.resign().await.unwrap();
    until_all_is_gone(&server, &client).await;
}

#[tokio::test]
async fn a_new_election_has_the_acl_that_was_asked_for() {
    let server = server().await;
    let owner =
        Session::builder(server.connect_string()).auth("digest", "team:secret").connect().await.unwrap();
    let options = LockOptions::new().acl(zklock::Acl::creator_only());
    let election = owner.election(PATH).unwrap().with_options(options).unwrap();
    let leadership = election.campaign("one").await.unwrap();
    let client = operator(&server).await;
    for path in [PATH, QUEUE, LEADER] {
        assert_eq!(client.get_data(path).await.unwrap_err(), zookeeper_client::Error::NoAuth, "{path}");
    }
    leadership.resign().await.unwrap();
}
