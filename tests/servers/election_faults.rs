//! Elections under faults: lost replies, callers that go, sessions that end, and operators.

use std::time::Duration;

use support::{
    Server, Steps, dropped_after, eventually, hide, linked_session, operator, patient, server, session,
    sessions, until_nothing_is_left, within,
};
use zklock::{LostReason, Session, SessionState, election::ProclaimError};
use zklock_testcontainers::{Link, RequestKind};

use super::election::{LEADER, election, told, until_all_is_gone, until_told, who_leads};

/// A session whose leases end some three seconds before it.
async fn linked_with_a_wide_margin(server: &Server) -> (Link, Session) {
    let link = Link::start(server.address()).await.unwrap();
    let session = patient(server.at(link.address()), Duration::from_secs(12)).clock_drift(240_000);
    (link, session.connect().await.unwrap())
}

#[tokio::test]
async fn a_lost_proclamation_is_made_once() {
    let (server, link, leading) = linked_session(Duration::from_secs(20)).await;
    let looking = session(&server).await;
    let leadership = election(&leading).campaign("zero").await.unwrap();
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("zero"));
    // The reply is lost, and then a request.
    let lost = link.lose_reply(RequestKind::Multi);
    within("the proclamation", leadership.proclaim("one")).await.unwrap();
    assert!(lost.has_happened());
    assert_eq!(until_told(&mut leaders, Some("one")).await, []);
    let held = link.hold_request(RequestKind::Multi);
    let mut proclaiming = Steps::new(leadership.proclaim("two"));
    assert!(proclaiming.poll().is_pending());
    within("the announcement", held.reached()).await;
    link.cut();
    within("the proclamation", proclaiming.finished()).await.unwrap();
    assert_eq!(until_told(&mut leaders, Some("two")).await, []);
    leadership.resign().await.unwrap();
    assert_eq!(told(&mut leaders).await, None);
    drop(leaders);
    until_all_is_gone(&server, &operator(&server).await).await;
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
    let client = operator(&server).await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    for _ in 0..3 {
        eventually("the announcement", async || client.delete(LEADER, None).await.is_ok()).await;
        eventually(
            "another announcement",
            async || matches!(client.check_stat(LEADER).await, Ok(Some(stat)) if stat.version == 0),
        )
        .await;
    }
    client.set_data(LEADER, b"forged", None).await.unwrap();
    eventually("the leader's announcement", async || {
        who_leads(&election(&looking)).await.as_deref() == Some("one")
    })
    .await;
    leadership.proclaim("two").await.unwrap();
    let before = until_told(&mut leaders, Some("two")).await;
    assert!(before.iter().all(|told| told.as_deref().is_none_or(|value| value == "one")), "{before:?}");
    leadership.resign().await.unwrap();
    drop(leaders);
    until_all_is_gone(&server, &client).await;
}

/// No watch tells of the end of a node that its session may not read (ZOOKEEPER-4799). A heartbeat finds it gone.
#[tokio::test]
async fn a_leader_whose_node_is_touched_takes_its_announcement_back() {
    let (server, [leading, looking]) = sessions().await;
    let client = operator(&server).await;
    for touch in ["deleted", "hidden and deleted", "written"] {
        let leadership = election(&leading).campaign("one").await.unwrap();
        // One on its own node, and one on its announcement.
        eventually("the watches", async || server.watches().await == 2).await;
        let mut leaders = election(&looking).observe();
        assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
        let node = leadership.node();
        match touch {
            "deleted" => client.delete(&node, None).await.unwrap(),
            "written" => drop(client.set_data(&node, b"", None).await.unwrap()),
            _ => {
                hide(&client, &node).await;
                client.delete(&node, None).await.unwrap();
            }
        }
        assert_eq!(within("the loss", leadership.lost()).await, LostReason::NodeDeleted, "{touch}");
        assert_eq!(told(&mut leaders).await, None, "though the guard is still there, and nobody is next");
        let error = leadership.proclaim("two").await.unwrap_err();
        assert!(matches!(error, ProclaimError::Lost(lost) if lost.reason == LostReason::NodeDeleted));
        assert!(leadership.resign().await.is_err());
        drop(leaders);
        until_all_is_gone(&server, &client).await;
    }
}

#[tokio::test]
async fn a_lost_leadership_keeps_its_announcement_until_it_is_dropped() {
    let server = server().await;
    let (link, leading) = linked_with_a_wide_margin(&server).await;
    let looking = session(&server).await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    let id = leading.id();
    link.black_hole();
    assert_eq!(within("the loss", leadership.lost()).await, LostReason::Unconfirmed);
    assert_eq!(who_leads(&election(&looking)).await.as_deref(), Some("one"), "its session may go on");
    link.restore();
    eventually("a connection", async || leading.state() == SessionState::Connected).await;
    if leading.id() == id {
        assert!(leadership.proclaim("two").await.is_err());
        assert_eq!(who_leads(&election(&looking)).await.as_deref(), Some("one"));
    }
    drop(leadership);
    until_all_is_gone(&server, &operator(&server).await).await;
}

/// The leader's own node is gone, and the leader has not heard of it: a transaction with the node and the announcement
/// cannot take the announcement back.
#[tokio::test]
async fn a_leadership_that_ends_before_it_hears_of_a_deletion_leaves_no_announcement() {
    let (server, link, leading) = linked_session(Duration::from_secs(20)).await;
    let client = operator(&server).await;
    for resigns in [true, false] {
        let leadership = election(&leading).campaign("one").await.unwrap();
        link.black_hole();
        client.delete(&leadership.node(), None).await.unwrap();
        if resigns {
            let mut resignation = Steps::new(leadership.resign());
            assert!(resignation.poll().is_pending());
            link.restore();
            assert!(within("the resignation", resignation.finished()).await.is_err());
        } else {
            drop(leadership);
            link.restore();
        }
        eventually("no announcement", async || client.check_stat(LEADER).await.unwrap().is_none()).await;
    }
    assert_eq!(leading.requeued(), 0);
    drop(leading);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_lost_leadership_whose_node_is_deleted_takes_its_announcement_back_when_it_is_dropped() {
    let server = server().await;
    let (link, leading) = linked_with_a_wide_margin(&server).await;
    let client = operator(&server).await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    let id = leading.id();
    link.black_hole();
    assert_eq!(within("the loss", leadership.lost()).await, LostReason::Unconfirmed);
    client.delete(&leadership.node(), None).await.unwrap();
    drop(leadership);
    link.restore();
    // Long before the session ends: it goes on, or it has expired by now.
    eventually("no announcement", async || client.check_stat(LEADER).await.unwrap().is_none()).await;
    assert!(leading.id() == id || leading.state() == SessionState::Connected);
    drop(leading);
    until_nothing_is_left(&server).await;
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
