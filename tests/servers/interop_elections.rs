//! Elections in the queues of other clients ([`Layout`]), with real candidates of theirs.

use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{eventually, linked, operator, server, session, within};
use tokio::task::JoinHandle;
use zklock::election::{AnnounceError, Leader, ProclaimError};
use zklock::inspect::Observer;
use zklock::{Acl, AcquireError, Election, Layout, Leadership, LockOptions, Session};

use super::peers::{Client, Peer};

const PATH: &str = "/service";

const DELAY: Duration = Duration::from_secs(1);

/// The elections of other clients, each with the layout of its queue.
const ELECTIONS: [(Client, &str, Layout); 3] = [
    (Client::Curator, "latch", Layout::CuratorLatch),
    (Client::Curator, "selector", Layout::Curator),
    (Client::Kazoo, "election", Layout::Kazoo),
];

fn election(session: &Session, layout: Layout, delay: Duration) -> Election {
    let options = LockOptions::new().owner("ours").layout(layout).takeover_delay(delay);
    session.election(PATH).unwrap().with_options(options).unwrap()
}

async fn until_queued(election: &Election, candidates: usize) {
    eventually("the queue", async || election.candidates().await.unwrap().len() == candidates).await;
}

/// A candidate that waits in the queue.
async fn campaign(election: &Election, value: &'static str) -> JoinHandle<Leadership> {
    let before = election.candidates().await.unwrap().len();
    let candidate = election.clone();
    let waiting = tokio::spawn(async move { candidate.campaign(value).await.unwrap() });
    until_queued(election, before + 1).await;
    waiting
}

async fn elected(candidate: JoinHandle<Leadership>) -> Leadership {
    within("the leadership", candidate).await.unwrap()
}

/// Waits until an observer is told of this one.
async fn told(value: &str, leaders: &mut Observer<Leader>) {
    within("the observer", async {
        while leaders.next().await.expect("it is open").map(|leader| leader.value).unwrap_or_default()
            != value
        {}
    })
    .await;
}

/// Everybody says that this one leads: who observes, who asks, and the other client.
async fn all_say(value: &str, election: &Election, leaders: &mut Observer<Leader>, peer: &mut Peer) {
    told(value, leaders).await;
    both_say(value, election, peer).await;
}

async fn both_say(value: &str, election: &Election, peer: &mut Peer) {
    let leader = election.leader().await.unwrap();
    assert_eq!(leader.map(|leader| leader.value).unwrap_or_default(), value);
    assert_eq!(peer.ask("leader").await, format!("leader {value}"));
}

#[tokio::test]
async fn candidates_of_both_lead_in_the_order_in_which_they_came() {
    join_all(ELECTIONS.map(async |(client, what, layout)| {
        let server = server().await;
        let session = session(&server).await;
        let election = election(&session, layout, DELAY);
        let mut leaders = election.observe();
        let mut peer = Peer::start(client, &server, PATH, &[what, "theirs"]).await;
        let first = within("the first", election.campaign("first")).await.unwrap();
        assert_eq!(peer.ask("acquire").await, "waiting");
        until_queued(&election, 2).await;
        let third = campaign(&election, "third").await;
        all_say("first", &election, &mut leaders, &mut peer).await;
        let leader = election.leader().await.unwrap().expect("a leader");
        assert_eq!(
            (leader.owner.as_str(), leader.session, leader.token),
            ("ours", session.id(), first.token())
        );
        assert!(leader.since.is_some());
        let error = first.proclaim("another").await.unwrap_err();
        assert_eq!(error, ProclaimError::Announce(AnnounceError::Layout { path: PATH.to_owned(), layout }));
        first.resign().await.unwrap();

        assert_eq!(peer.said().await, "acquired");
        all_say("theirs", &election, &mut leaders, &mut peer).await;
        let leader = election.leader().await.unwrap().expect("a leader");
        assert_eq!((leader.owner.as_str(), leader.session, leader.since), ("", peer.session, None));
        let began = Instant::now();
        peer.release().await;
        let third = elected(third).await;
        assert!(began.elapsed() >= DELAY, "{what}: {:?}", began.elapsed());
        all_say("third", &election, &mut leaders, &mut peer).await;
        // The other client has room for a value of its own only.
        assert!(operator(&server).await.list_children(PATH).await.unwrap().len() == 1);
        third.into_any().release().await.unwrap();
        all_say("", &election, &mut leaders, &mut peer).await;
        // It leads again, and so it can still be told.
        peer.acquire().await;
        all_say("theirs", &election, &mut leaders, &mut peer).await;
    }))
    .await;
}

/// The latch watches our node, and looks at nothing but its deletion.
#[tokio::test]
async fn each_end_of_ours_wakes_theirs() {
    join_all(ELECTIONS.map(async |(client, what, layout)| {
        let server = server().await;
        let (link, unlucky) = linked(&server, Duration::from_secs(3)).await;
        let (session, mut peer) =
            (session(&server).await, Peer::start(client, &server, PATH, &[what, "theirs"]).await);
        let election = election(&session, layout, Duration::ZERO);
        let mut leaders = election.observe();
        // A waiter that gives up, and a holder that crashes.
        let crashing = self::election(&unlucky, layout, Duration::ZERO);
        let leadership = within("the first", crashing.campaign("crashes")).await.unwrap();
        let waiter = campaign(&election, "gives up").await;
        assert_eq!(peer.ask("acquire").await, "waiting");
        until_queued(&election, 3).await;
        waiter.abort();
        until_queued(&election, 2).await;
        all_say("crashes", &election, &mut leaders, &mut peer).await;
        link.black_hole();
        assert_eq!(peer.said().await, "acquired");
        assert!(!leadership.is_held(), "{what}: two lead");
        all_say("theirs", &election, &mut leaders, &mut peer).await;
        link.restore();
    }))
    .await;
}

#[tokio::test]
async fn a_crash_of_theirs_is_survived_by_the_delay() {
    join_all(ELECTIONS.map(async |(client, what, layout)| {
        let server = server().await;
        let election = election(&session(&server).await, layout, DELAY);
        let mut leaders = election.observe();
        let mut peer = Peer::start(client, &server, PATH, &[what, "theirs"]).await;
        let mut witness = Peer::start(client, &server, PATH, &[what, "witness"]).await;
        peer.acquire().await;
        let waiter = campaign(&election, "ours").await;
        all_say("theirs", &election, &mut leaders, &mut witness).await;
        peer.kill().await;
        // It is first in the queue, and so everybody takes it for the leader before it leads.
        told("ours", &mut leaders).await;
        let gone = Instant::now();
        both_say("ours", &election, &mut witness).await;
        elected(waiter).await.resign().await.unwrap();
        // Those who observed were told a little after the session's end.
        assert!(gone.elapsed() >= DELAY - Duration::from_millis(200), "{what}: {:?}", gone.elapsed());
    }))
    .await;
}

/// As Curator's mutex and its selector.
#[tokio::test]
async fn a_lock_and_an_election_are_in_one_queue() {
    let server = server().await;
    let session = session(&server).await;
    let election = election(&session, Layout::Curator, Duration::ZERO);
    let options = LockOptions::new().owner("a lock").layout(Layout::Curator).takeover_delay(Duration::ZERO);
    let lock = session.lock(PATH).unwrap().with_options(options).unwrap();
    let guard = within("the lock", lock.acquire()).await.unwrap();
    assert!(within("a try", election.try_campaign("ours")).await.unwrap().is_none());
    let leader = election.leader().await.unwrap().expect("the first in the queue");
    assert_eq!((leader.value.as_str(), leader.owner.as_str()), ("", "a lock"));
    guard.release().await.unwrap();
    let leadership = within("a try", election.try_campaign("ours")).await.unwrap().expect("it is free");
    assert!(within("a try", lock.try_acquire()).await.unwrap().is_none());
    leadership.resign().await.unwrap();
    let long = "x".repeat(Election::LONGEST_VALUE + 1);
    assert!(election.campaign(long).await.is_err());
}

/// One whose layout was forgotten queues elsewhere, and would lead beside the others.
#[tokio::test]
async fn candidates_with_and_without_a_layout_refuse_each_other() {
    let server = server().await;
    let session = session(&server).await;
    for (.., layout) in ELECTIONS {
        // One that has entered before does not look again.
        let plain = || session.election(PATH).unwrap();
        let shared = || election(&session, layout, Duration::ZERO);
        for [first, second] in [[plain(), shared()], [shared(), plain()]] {
            let leadership = within("the first", first.campaign("first")).await.unwrap();
            let refused = within("a refusal", second.campaign("second")).await;
            assert!(matches!(refused, Err(AcquireError::OtherKind { .. })), "{layout}: {refused:?}");
            assert!(leadership.verify().await.is_ok());
            leadership.resign().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_candidate_without_a_layout_does_not_lead_beside_another_client() {
    join_all(ELECTIONS.map(async |(client, what, layout)| {
        let server = server().await;
        let session = session(&server).await;
        let mut peer = Peer::start(client, &server, PATH, &[what, "theirs"]).await;
        peer.acquire().await;
        let refused = within("a refusal", session.election(PATH).unwrap().campaign("ours")).await;
        assert!(matches!(refused, Err(AcquireError::OtherKind { .. })), "{layout}: {refused:?}");
    }))
    .await;
}

/// Any client may call itself what zklock writes.
#[tokio::test]
async fn an_id_of_theirs_is_no_data_of_zklocks() {
    let id = r#"{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","owner":"ours","for":"slots"}"#;
    join_all(ELECTIONS.map(async |(client, what, layout)| {
        let server = server().await;
        let election = election(&session(&server).await, layout, Duration::ZERO);
        let mut leaders = election.observe();
        let mut peer = Peer::start(client, &server, PATH, &[what, id]).await;
        peer.acquire().await;
        all_say(id, &election, &mut leaders, &mut peer).await;
        let leader = election.leader().await.unwrap().expect("a leader");
        assert_eq!((leader.owner.as_str(), leader.since), ("", None));
        let waiter = campaign(&election, "ours").await;
        assert_eq!(election.candidates().await.unwrap()[0].owner, None, "{what}");
        peer.release().await;
        elected(waiter).await.resign().await.unwrap();
    }))
    .await;
}

#[tokio::test]
async fn an_observer_that_may_not_read_the_next_leader_forgets_the_last_one() {
    let server = server().await;
    let (ours, team) = (
        session(&server).await,
        Session::builder(server.connect_string()).auth("digest", "team:secret").connect().await.unwrap(),
    );
    let open = election(&ours, Layout::Curator, Duration::ZERO);
    let options = LockOptions::new().layout(Layout::Curator).takeover_delay(Duration::ZERO);
    let closed = team.election(PATH).unwrap().with_options(options.acl(Acl::creator_only())).unwrap();
    let mut leaders = open.observe();
    let mut told = async || within("news", leaders.next()).await.unwrap().map(|leader| leader.value);
    assert_eq!(told().await, None);
    let first = within("the first", open.campaign("first")).await.unwrap();
    assert_eq!(told().await.as_deref(), Some("first"));
    let second = campaign(&closed, "second").await;
    let third = campaign(&closed, "third").await;
    first.resign().await.unwrap();
    assert_eq!(told().await, None);
    elected(second).await.resign().await.unwrap();
    let third = elected(third).await;
    assert!(open.leader().await.is_err(), "it is hidden");
    third.resign().await.unwrap();
    let _again = within("the first", open.campaign("first")).await.unwrap();
    assert_eq!(told().await.as_deref(), Some("first"));
}

#[tokio::test]
async fn a_leader_that_is_lost_hears_that_before_it_hears_of_the_layout() {
    let server = server().await;
    let election = election(&session(&server).await, Layout::Curator, Duration::ZERO);
    let leadership = within("the first", election.campaign("first")).await.unwrap();
    operator(&server).await.delete(&leadership.node(), None).await.unwrap();
    within("the loss", leadership.lost()).await;
    let error = leadership.proclaim("another").await.unwrap_err();
    assert!(matches!(error, ProclaimError::Lost(_)), "{error:?}");
}

#[tokio::test]
async fn a_value_in_a_shared_queue_is_one_line() {
    let server = server().await;
    let session = session(&server).await;
    for (.., layout) in ELECTIONS {
        let election = election(&session, layout, Duration::ZERO);
        for value in ["two\nlines", "two\rlines", "\n"] {
            let error = within("a refusal", election.campaign(value)).await.unwrap_err();
            let expected = AnnounceError::LineBreak { path: PATH.to_owned(), layout };
            assert_eq!(error, AcquireError::Announce(expected));
        }
    }
    assert!(operator(&server).await.check_stat(PATH).await.unwrap().is_none(), "something was sent");
}
