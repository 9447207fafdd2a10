//! Elections: candidates, their announcements, and what ends them.

use zklock_test_support as support;

use std::task::Poll;
use std::time::Duration;

use support::{
    Steps, dropped_after, eventually, linked, monitored, operator, patient, server, session,
    until_nothing_is_left, within,
};
use zklock::{
    AcquireError, AnnounceError, CampaignError, Election, InvalidLock, Latest, Leader, Leadership,
    LockOptions, LostReason, Observer, ProclaimError, Session, SessionState, TransactionError,
};
use zklock_testcontainers::{Link, RequestKind, ZooKeeper};
use zookeeper_client::{Acls, Client, CreateMode};

const PATH: &str = "/service";
const QUEUE: &str = "/service/queue";
const LEADER: &str = "/service/leader";

fn election(session: &Session) -> Election {
    session.election(PATH).unwrap()
}

/// The next value that an observer is told, if anybody leads.
async fn told(leaders: &mut Observer<Leader>) -> Option<String> {
    within("news of the leader", leaders.next())
        .await
        .expect("the session is not over")
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

fn campaign(
    election: &Election,
    value: &'static str,
) -> tokio::task::JoinHandle<Result<Leadership, CampaignError>> {
    let election = election.clone();
    tokio::spawn(async move { election.campaign(value).await })
}

async fn elected(task: tokio::task::JoinHandle<Result<Leadership, CampaignError>>) -> Leadership {
    within("the leadership", task).await.expect("no panic").expect("a leadership")
}

/// Campaigns in a separate task, and waits until the candidate is in the queue.
async fn candidate(
    election: &Election,
    value: &'static str,
) -> tokio::task::JoinHandle<Result<Leadership, CampaignError>> {
    candidate_seen_by(election, election, value).await
}

/// As [`candidate`], but it looks at the queue through `observer`.
async fn candidate_seen_by(
    observer: &Election,
    election: &Election,
    value: &'static str,
) -> tokio::task::JoinHandle<Result<Leadership, CampaignError>> {
    let before = observer.candidates().await.unwrap().len();
    let task = campaign(election, value);
    until_candidates(observer, before + 1).await;
    task
}

async fn until_candidates(election: &Election, count: usize) {
    eventually("the candidates", async || election.candidates().await.is_ok_and(|it| it.len() == count))
        .await;
}

/// A session whose leases end some three seconds before it.
async fn linked_with_a_wide_margin(server: &ZooKeeper) -> (Link, Session) {
    let link = Link::start(server.connect_string()).await.unwrap();
    let session = patient(link.address(), Duration::from_secs(12)).clock_drift(240_000);
    (link, session.connect().await.unwrap())
}

/// No announcement, no candidate, and no watch is left.
async fn until_all_is_gone(server: &ZooKeeper, client: &Client) {
    eventually("no announcement", async || client.check_stat(LEADER).await.unwrap().is_none()).await;
    until_nothing_is_left(server).await;
}

async fn forge(client: &Client, mode: CreateMode, data: &str) {
    client.create(LEADER, data.as_bytes(), &mode.with_acls(Acls::anyone_all())).await.unwrap();
}

#[tokio::test]
async fn leaders_follow_each_other_and_observers_are_told() {
    let server = server().await;
    let (first, second, third) = (session(&server).await, session(&server).await, session(&server).await);
    let mut leaders = election(&third).observe();
    assert_eq!(told(&mut leaders).await, None, "nobody leads at first");
    assert_eq!(who_leads(&election(&third)).await, None);
    let one = election(&first).campaign("one:1").await.unwrap();
    let leader = within("news", leaders.next()).await.unwrap().unwrap();
    assert_eq!((leader.value.as_str(), leader.token, leader.session), ("one:1", one.token(), first.id()));
    assert!(leader.since.is_some() && !leader.owner.is_empty());
    assert_eq!(election(&third).leader().await.unwrap(), Some(leader));
    assert_eq!(one.path(), QUEUE);
    one.verify().await.unwrap();

    let two = candidate(&election(&second), "two:2").await;
    one.resign().await.unwrap();
    let two = elected(two).await;
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
    let server = server().await;
    let (leading, looking) = (session(&server).await, session(&server).await);
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
    assert!(matches!(error, CampaignError::Announce(AnnounceError::TooLong { .. })));
    let longest = &long[1..];
    leadership.proclaim(longest).await.unwrap();
    assert_eq!(told(&mut leaders).await.as_deref(), Some(longest));
    leadership.resign().await.unwrap();
    assert_eq!(told(&mut leaders).await, None);
}

#[tokio::test]
async fn of_two_proclamations_at_once_the_last_one_stands() {
    let server = server().await;
    let leading = session(&server).await;
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
async fn try_and_timeout() {
    let server = server().await;
    let (first, second) = (session(&server).await, session(&server).await);
    let one = election(&first).try_campaign("one").await.unwrap().unwrap();
    assert!(election(&second).try_campaign("two").await.unwrap().is_none());
    let short = Duration::from_millis(300);
    assert!(election(&second).campaign_timeout("two", short).await.unwrap().is_none());
    assert_eq!(
        who_leads(&election(&second)).await.as_deref(),
        Some("one"),
        "who gives up takes nothing along"
    );
    one.resign().await.unwrap();
    let two = within("a campaign", election(&second).campaign_timeout("two", support::BOUND))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(who_leads(&election(&first)).await.as_deref(), Some("two"));
    drop(two);
    until_all_is_gone(&server, &operator(&server).await).await;
}

#[tokio::test]
async fn a_campaign_for_a_free_election_takes_two_requests() {
    let server = server().await;
    let (link, session) = linked(&server, Duration::from_secs(60)).await;
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
    let server = server().await;
    let session = session(&server).await;
    for path in ["", "service", "/", "/zookeeper", "/a/lock-0000000001"] {
        let error = session.election(path).unwrap_err();
        assert!(matches!(&error, InvalidLock::Path { path: named, .. } if named == path), "{error}");
    }
    let error = session.election_with(PATH, LockOptions::new().data("x".repeat(20_000))).unwrap_err();
    assert!(matches!(error, InvalidLock::TooLong { .. }));
    let election = election(&session);
    assert_eq!((election.path(), election.announcement().as_str()), (PATH, LEADER));
}

#[tokio::test]
async fn a_transaction_leaves_the_elections_own_nodes_alone() {
    let server = server().await;
    let session = session(&server).await;
    let leadership = election(&session).campaign("one").await.unwrap();
    let node = leadership.node();
    let refused = async |transaction: zklock::Transaction<'_>| {
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
async fn observers_are_told_of_a_crash_when_the_session_ends() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(6)).await;
    let (other, looking) = (session(&server).await, session(&server).await);
    let one = election(&unlucky).campaign("one").await.unwrap();
    let two = candidate(&election(&other), "two").await;
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    link.black_hole();
    // Once an observer is told of the second leader, the guard of the first one is over.
    assert!(until_told(&mut leaders, Some("two")).await.iter().all(Option::is_none));
    assert!(!one.is_held());
    let two = elected(two).await;
    assert!(two.token() > one.token());
    let told = leaders.latest().who.unwrap();
    assert_eq!(told.token, two.token());
    drop((one, leaders));
    two.resign().await.unwrap();
    link.restore();
    until_all_is_gone(&server, &operator(&server).await).await;
}

#[tokio::test]
async fn an_expired_candidate_campaigns_again() {
    let server = server().await;
    let (link, unlucky) = linked(&server, Duration::from_secs(6)).await;
    let other = session(&server).await;
    let one = election(&other).campaign("one").await.unwrap();
    let two = candidate_seen_by(&election(&other), &election(&unlucky), "two").await;
    let id = unlucky.id();
    link.black_hole();
    // With the end of the session.
    until_candidates(&election(&other), 1).await;
    link.restore();
    until_candidates(&election(&other), 2).await;
    one.resign().await.unwrap();
    let two = elected(two).await;
    assert_ne!(unlucky.id(), id);
    assert_eq!(who_leads(&election(&other)).await.as_deref(), Some("two"));
    two.resign().await.unwrap();
    until_all_is_gone(&server, &operator(&server).await).await;
}

#[tokio::test]
async fn an_announcement_whose_reply_was_lost_stands_once() {
    let server = server().await;
    let (link, leading) = linked(&server, Duration::from_secs(20)).await;
    let looking = session(&server).await;
    let election = election(&leading);
    election.campaign("zero").await.unwrap().resign().await.unwrap();
    let mut leaders = self::election(&looking).observe();
    assert_eq!(told(&mut leaders).await, None);
    // The first transaction queues, the second one announces.
    let held = link.hold_reply(RequestKind::Multi);
    let campaign = campaign(&election, "one");
    within("the entry", held.reached()).await;
    held.release();
    let lost = link.lose_reply(RequestKind::Multi);
    let leadership = elected(campaign).await;
    assert!(leadership.is_held());
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    let lost_one = lost.has_happened();
    let lost = link.lose_reply(RequestKind::Multi);
    leadership.proclaim("two").await.unwrap();
    assert!(lost.has_happened() || lost_one);
    assert_eq!(until_told(&mut leaders, Some("two")).await, []);
    let lost = link.lose_reply(RequestKind::Multi);
    within("the release", leadership.resign()).await.unwrap();
    within("the lost reply", lost.happened()).await;
    assert_eq!(told(&mut leaders).await, None);
    drop(leaders);
    until_all_is_gone(&server, &operator(&server).await).await;
}

#[tokio::test]
async fn an_announcement_that_never_arrived_is_sent_again() {
    let server = server().await;
    let (link, leading) = linked(&server, Duration::from_secs(20)).await;
    let election = election(&leading);
    let leadership = election.campaign("one").await.unwrap();
    let held = link.hold_request(RequestKind::Multi);
    let mut proclaiming = Steps::new(leadership.proclaim("two"));
    assert!(proclaiming.poll().is_pending());
    within("the announcement", held.reached()).await;
    link.cut();
    within("the proclamation", proclaiming.finished()).await.unwrap();
    assert_eq!(who_leads(&election).await.as_deref(), Some("two"));
    drop(held);
    leadership.resign().await.unwrap();
    until_all_is_gone(&server, &operator(&server).await).await;
}

#[tokio::test]
async fn a_campaign_may_be_dropped_at_every_await() {
    let server = server().await;
    let (session, other) = (session(&server).await, session(&server).await);
    let client = operator(&server).await;
    for waits in [false, true] {
        let mut steps = 0;
        loop {
            let before = match waits {
                true => Some(election(&other).campaign("before").await.unwrap()),
                false => None,
            };
            let mut resign = before.map(|before| async || before.resign().await.unwrap());
            let campaigning = election(&session);
            let mut campaign = Steps::new(campaigning.campaign("dropped"));
            let mut done = false;
            for _ in 0..steps {
                if campaign.poll().is_ready() {
                    done = true;
                    break;
                }
                campaign.woken_by(&mut resign).await;
            }
            drop(campaign);
            let before = resign.is_some();
            drop(resign);
            // The next one leads, and nothing of the dropped one is left.
            let next = within("the next leader", election(&other).campaign("next")).await.unwrap();
            assert_eq!(
                who_leads(&election(&other)).await.as_deref(),
                Some("next"),
                "after {steps} steps, {before}"
            );
            next.resign().await.unwrap();
            until_all_is_gone(&server, &client).await;
            if done {
                break;
            }
            steps += 1;
        }
        assert!(steps >= 3, "enter, announce: {steps} steps");
    }
}

#[tokio::test]
async fn a_proclamation_and_a_resignation_may_be_dropped_at_every_await() {
    let server = server().await;
    let session = session(&server).await;
    let client = operator(&server).await;
    let election = election(&session);
    let mut steps = 0;
    loop {
        let leadership = election.campaign("one").await.unwrap();
        let proclaimed = dropped_after(steps, leadership.proclaim("two")).await;
        if steps > 0 {
            // Once it was polled, it goes on.
            eventually("the value", async || who_leads(&election).await.as_deref() == Some("two")).await;
        }
        let resigned = dropped_after(steps, leadership.resign()).await;
        until_all_is_gone(&server, &client).await;
        if proclaimed && resigned {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 2, "{steps} steps");
}

#[tokio::test]
async fn a_campaign_may_be_dropped_with_its_announcement_on_its_way() {
    let server = server().await;
    let (link, leading) = linked(&server, Duration::from_secs(20)).await;
    let client = operator(&server).await;
    let election = election(&leading);
    election.campaign("zero").await.unwrap().resign().await.unwrap();
    for lost in [false, true] {
        let entering = link.hold_reply(RequestKind::Multi);
        let task = campaign(&election, "one");
        within("the entry", entering.reached()).await;
        let announcing = link.hold_request(RequestKind::Multi);
        entering.release();
        within("the announcement", announcing.reached()).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        if lost {
            link.cut();
        }
        announcing.release();
        until_all_is_gone(&server, &client).await;
    }
}

#[tokio::test]
async fn an_operator_who_deletes_the_announcement_has_it_made_again() {
    let server = server().await;
    let (leading, looking) = (session(&server).await, session(&server).await);
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

#[tokio::test]
async fn what_nobody_announced_counts_as_nobody() {
    let server = server().await;
    let looking = session(&server).await;
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
    let server = server().await;
    let session = session(&server).await;
    let client = operator(&server).await;
    support::make(&client, "/service/leader/child").await;
    let error = within("a campaign", election(&session).campaign("one")).await.unwrap_err();
    assert!(
        matches!(&error, CampaignError::Announce(AnnounceError::Refused { path, .. }) if path == LEADER),
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
async fn a_leader_whose_node_is_deleted_takes_its_announcement_back() {
    let server = server().await;
    let (leading, looking) = (session(&server).await, session(&server).await);
    let client = operator(&server).await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    client.delete(&leadership.node(), None).await.unwrap();
    assert_eq!(within("the loss", leadership.lost()).await, LostReason::NodeDeleted);
    assert_eq!(told(&mut leaders).await, None, "though the guard is still there, and nobody is next");
    let error = leadership.proclaim("two").await.unwrap_err();
    assert!(matches!(error, ProclaimError::Lost(lost) if lost.reason == LostReason::NodeDeleted));
    assert!(leadership.resign().await.is_err());
    drop(leaders);
    until_all_is_gone(&server, &client).await;
}

#[tokio::test]
async fn a_leader_whose_node_is_deleted_leaves_the_next_announcement_alone() {
    let server = server().await;
    let (first, second, looking) = (session(&server).await, session(&server).await, session(&server).await);
    let client = operator(&server).await;
    let one = election(&first).campaign("one").await.unwrap();
    let two = candidate(&election(&second), "two").await;
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    client.delete(&one.node(), None).await.unwrap();
    let two = elected(two).await;
    drop(one);
    until_told(&mut leaders, Some("two")).await;
    // Whatever the loser does about its own announcement, the second one's stands in the end.
    eventually("the announcement", async || who_leads(&election(&looking)).await.as_deref() == Some("two"))
        .await;
    two.resign().await.unwrap();
    drop(leaders);
    until_all_is_gone(&server, &client).await;
}

#[tokio::test]
async fn an_operator_who_writes_to_the_leaders_node_ends_its_leadership() {
    let server = server().await;
    let leading = session(&server).await;
    let client = operator(&server).await;
    let leadership = election(&leading).campaign("one").await.unwrap();
    // One on its own node, and one on its announcement, which the server counts for data and for children.
    eventually("the watches", async || monitored(&server, "zk_watch_count").await == 3).await;
    client.set_data(&leadership.node(), b"", None).await.unwrap();
    assert_eq!(within("the loss", leadership.lost()).await, LostReason::NodeDeleted);
    eventually("no announcement", async || who_leads(&election(&leading)).await.is_none()).await;
    assert!(leadership.proclaim("two").await.is_err());
    drop(leadership);
    until_all_is_gone(&server, &client).await;
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
    let server = server().await;
    let (link, leading) = linked(&server, Duration::from_secs(20)).await;
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
        eventually("the watches", async || monitored(&server, "zk_watch_count").await == 3).await;
        support::hide(&client, LEADER).await;
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

#[tokio::test]
async fn a_new_election_has_the_acl_that_was_asked_for() {
    let server = server().await;
    let owner =
        Session::builder(server.connect_string()).auth("digest", "team:secret").connect().await.unwrap();
    let options = LockOptions::new().acl(zklock::Acl::creator_only());
    let election = owner.election_with(PATH, options).unwrap();
    let leadership = election.campaign("one").await.unwrap();
    let client = operator(&server).await;
    for path in [PATH, QUEUE, LEADER] {
        assert_eq!(client.get_data(path).await.unwrap_err(), zookeeper_client::Error::NoAuth, "{path}");
    }
    leadership.resign().await.unwrap();
}

#[tokio::test]
async fn a_closed_session_takes_the_announcement_along() {
    let server = server().await;
    let (leading, looking) = (session(&server).await, session(&server).await);
    let mut leaders = election(&looking).observe();
    assert_eq!(told(&mut leaders).await, None);
    let leadership = election(&leading).campaign("one").await.unwrap();
    assert_eq!(told(&mut leaders).await.as_deref(), Some("one"));
    leading.close().await.unwrap();
    assert_eq!(told(&mut leaders).await, None);
    assert!(!leadership.is_held());
    let error = election(&leading).campaign("two").await.unwrap_err();
    assert!(matches!(error, CampaignError::Acquire(AcquireError::SessionClosed { .. })));
    assert!(error.is_session_over());
    let Latest { who, age, connected, .. } = leaders.latest();
    assert!(who.is_none() && age.is_some() && connected);
}

#[tokio::test]
async fn a_candidate_that_gives_up_leaves_the_leaders_announcement_alone() {
    let server = server().await;
    let session = session(&server).await;
    let leadership = election(&session).campaign("one").await.unwrap();
    // A candidate of the same session waits, and gives up: the leader's announcement is not its.
    let waiting = election(&session);
    let mut waiting = Steps::new(waiting.campaign("two"));
    assert!(matches!(waiting.poll(), Poll::Pending));
    eventually("the candidate", async || {
        let _more = waiting.poll();
        election(&session).candidates().await.unwrap().len() == 2
    })
    .await;
    drop(waiting);
    eventually("its end", async || election(&session).candidates().await.unwrap().len() == 1).await;
    assert_eq!(who_leads(&election(&session)).await.as_deref(), Some("one"));
    leadership.resign().await.unwrap();
}
