//! Elections: candidates, their announcements, and what ends them.

use std::time::Duration;

use support::{
    Server, dropped_after, eventually, hide, linked_session, operator, patient, server, session, sessions,
    until_nothing_is_left, within,
};
use zklock::{
    Election, Session,
    election::{AnnounceError, CampaignError, Leader, ProclaimError},
    inspect::Observer,
};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acls, Client, CreateMode};

const PATH: &str = "/service";

const LEADER: &str = "/service/leader";

fn election(session: &Session) -> Election {
    session.election(PATH).unwrap()
}

/// The next value that an observer is told, if anybody leads.
async fn told(leaders: &mut Observer<Leader>) -> Option<String> {
    within("news of the leader", leaders.next())
        .await
        .expect("the session is not over")
        .expect("the data did not go back")
        .map(|leader| leader.value)
}

/// Waits until the observer is told this, and returns what it was told before.
async fn until_told(leaders: &mut Observer<Leader>, value: Option<&str>) -> Vec<Option<String>> {
    let mut before = Vec::new();
    loop {
        let next = told(leaders).await;
        if next.as_deref() == value {
            return before;
        }
        before.push(next);
    }
}

async fn who_leads(election: &Election) -> Option<String> {
    election.leader().await.unwrap().map(|leader| leader.value)
}

/// No announcement, no candidate, and no watch is left.
async fn until_all_is_gone(server: &Server, client: &Client) {
    eventually("no announcement", async || client.check_stat(LEADER).await.unwrap().is_none()).await;
    until_nothing_is_left(server).await;
}

async fn forge(client: &Client, mode: CreateMode, data: &str) {
    client.create(LEADER, data.as_bytes(), &mode.with_acls(Acls::anyone_all())).await.unwrap();
}

#[tokio::test]
async fn a_value_has_a_longest_length() {
    let (_server, [leading, looking]) = sessions().await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    let long = "x".repeat(Election::LONGEST_VALUE + 1);
    let error = leadership.proclaim(long.clone()).await.unwrap_err();
    assert!(
        matches!(&error, ProclaimError::Announce(AnnounceError::TooLong { path, length, .. }) if path == LEADER && *length == long.len())
    );
    let error = election(&looking).campaign(long.clone()).await.unwrap_err();
    assert!(matches!(error, CampaignError::Announce(AnnounceError::TooLong { .. })));
    let longest = &long[1..];
    for value in ["", longest] {
        leadership.proclaim(value).await.unwrap();
        assert_eq!(who_leads(&election(&looking)).await.as_deref(), Some(value));
    }
    leadership.resign().await.unwrap();
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
        matches!(&error, CampaignError::Announce(AnnounceError::Refused { path, .. }) if path == LEADER),
        "{error}"
    );
    assert!(!error.is_retryable() && !error.needs_new_session());
    until_nothing_is_left(&server).await;
    client.delete("/service/leader/child", None).await.unwrap();
    let leadership = within("a campaign", election(&session).campaign("one")).await.unwrap();
    leadership.resign().await.unwrap();
    until_all_is_gone(&server, &client).await;
}

#[tokio::test]
async fn a_proclamation_may_be_dropped_at_every_await() {
    let server = server().await;
    let election = election(&session(&server).await);
    let leadership = election.campaign("one").await.unwrap();
    let mut steps = 0;
    while !dropped_after(steps, leadership.proclaim(steps.to_string())).await {
        if steps > 0 {
            // Once it was polled, it goes on.
            let value = Some(steps.to_string());
            eventually("the value", async || who_leads(&election).await == value).await;
        }
        steps += 1;
    }
    assert!(steps >= 2, "{steps} steps");
    leadership.resign().await.unwrap();
    until_all_is_gone(&server, &operator(&server).await).await;
}

#[tokio::test]
async fn an_operator_who_deletes_the_announcement_has_it_made_again() {
    let (server, [leading, looking]) = sessions().await;
    let (client, election) = (operator(&server).await, election(&looking));
    let leadership = self::election(&leading).campaign("one").await.unwrap();
    let mut leaders = election.observe();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    for _ in 0..3 {
        eventually("the announcement", async || client.delete(LEADER, None).await.is_ok()).await;
    }
    let is_told = async || who_leads(&election).await.as_deref() == Some("one");
    eventually("another announcement", &is_told).await;
    client.set_data(LEADER, b"forged", None).await.unwrap();
    eventually("the leader's announcement", &is_told).await;
    leadership.proclaim("two").await.unwrap();
    let before = until_told(&mut leaders, Some("two")).await;
    assert!(before.iter().all(|told| told.as_deref().is_none_or(|value| value == "one")), "{before:?}");
    leadership.resign().await.unwrap();
    drop(leaders);
    until_all_is_gone(&server, &client).await;
}

/// A server that is behind may show a former leader.
#[tokio::test]
async fn a_lower_token_is_believed_only_behind_a_sync() {
    let (server, link, session) = linked_session(Duration::from_secs(60)).await;
    let client = operator(&server).await;
    let mut leaders = election(&session).observe();
    let leadership = election(&session).campaign("one").await.unwrap();
    until_told(&mut leaders, Some("one")).await;
    leadership.resign().await.unwrap();
    until_told(&mut leaders, None).await;
    let sync = link.hold_request(RequestKind::Sync);
    forge(&client, CreateMode::Ephemeral, r#"{"token":1,"owner":"o","value":"forged","since":0}"#).await;
    tokio::select! {
        () = within("the sync", sync.reached()) => {}
        news = leaders.next() => panic!("{news:?}"),
    }
    sync.release();
    let went_back = within("news", leaders.next()).await.expect("the session is not over").unwrap_err();
    assert_eq!(went_back.now.zxid(), 1);
}

/// An operator deletes the node of a leader that resigns, and nobody answers the resignation.
#[tokio::test]
async fn an_announcement_that_a_resignation_has_missed_is_taken_back() {
    let (server, link, session) = linked_session(Duration::from_secs(20)).await;
    let client = operator(&server).await;
    let leadership = election(&session).campaign("one").await.unwrap();
    let (node, resignation) = (leadership.node(), link.hold_request(RequestKind::Multi));
    let resigning = tokio::spawn(leadership.resign());
    within("the resignation", resignation.reached()).await;
    client.delete(&node, None).await.unwrap();
    link.cut();
    drop(resignation);
    let _outcome = within("the outcome", resigning).await;
    until_all_is_gone(&server, &client).await;
}

/// A server withholds the end of a node from a session that may not read it.
#[tokio::test]
async fn an_announcement_that_was_hidden_and_is_deleted_is_made_again() {
    let server = server().await;
    let leading = patient(server.connect_string(), Duration::from_millis(1_500)).connect().await.unwrap();
    let (looking, client) = (session(&server).await, operator(&server).await);
    // A lease this short is lost if the machine halts for a second. Then it is another leadership's turn.
    loop {
        let leadership = election(&leading).campaign("one").await.unwrap();
        eventually("the watches", async || server.watches().await == 2).await;
        hide(&client, LEADER).await;
        client.delete(LEADER, None).await.unwrap();
        // It looks again after ten to twelve session timeouts.
        eventually("the announcement, or the end", async || {
            who_leads(&election(&looking)).await.as_deref() == Some("one") || !leadership.is_held()
        })
        .await;
        if leadership.resign().await.is_ok() {
            break;
        }
    }
    until_all_is_gone(&server, &client).await;
}
