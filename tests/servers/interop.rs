//! Locks in the queues of other clients ([`Layout`]), with real contenders of theirs.

use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{
    enqueue, eventually, granted, linked, operator, queue, server, session, until_watched, within,
};
use zklock::election::CampaignError;
use zklock::inspect::ForeignClient;
use zklock::{
    Access, AcquireError, Guard, InvalidLock, Layout, Lock, LockOptions, LocksOptions, LostReason,
    OnceOptions, Session,
};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acls, CreateMode};

use super::peers::{Client, Peer};

const PATH: &str = "/lock/orders";

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// The mutexes of other clients, each with the layout of its queue.
const MUTEXES: [(Client, Layout); 3] =
    [(Client::Curator, Layout::Curator), (Client::Kazoo, Layout::Kazoo), (Client::Go, Layout::Go)];

fn options(layout: Layout, delay: Duration) -> LockOptions {
    LockOptions::new().layout(layout).takeover_delay(delay)
}

fn lock(session: &Session, layout: Layout, delay: Duration) -> Lock {
    session.lock(PATH).unwrap().with_options(options(layout, delay)).unwrap()
}

/// Waits until so many contend, of any client.
async fn until_queued(lock: &Lock, contenders: usize) {
    eventually("the queue", async || queue(lock).await.len() == contenders).await;
}

async fn acquired(lock: &Lock) -> Guard {
    within("acquire", lock.acquire()).await.unwrap()
}

#[tokio::test]
async fn all_are_served_in_the_order_in_which_they_came() {
    const DELAY: Duration = Duration::from_secs(1);
    join_all(MUTEXES.map(async |(client, layout)| {
        let server = server().await;
        let lock = lock(&session(&server).await, layout, DELAY);
        let mut peer = Peer::start(client, &server, PATH, &["mutex"]).await;
        let first = acquired(&lock).await;
        assert_eq!(peer.ask("acquire").await, "waiting");
        until_queued(&lock, 2).await;
        let (third, fourth) = (support::acquire(&lock), Peer::start(client, &server, PATH, &["mutex"]));
        until_queued(&lock, 3).await;
        let mut fourth = fourth.await;
        assert_eq!(fourth.ask("acquire").await, "waiting");
        until_queued(&lock, 4).await;
        let shown = queue(&lock).await;
        assert_eq!(shown[0].path, first.node());
        assert_eq!(shown[1].session, Some(peer.session));
        first.release().await.unwrap();
        assert_eq!(peer.said().await, "acquired");
        assert!(!third.is_finished());
        let began = Instant::now();
        peer.release().await;
        let third = granted(third).await;
        assert!(began.elapsed() >= DELAY, "{client:?}: {:?}", began.elapsed());
        third.release().await.unwrap();
        assert_eq!(fourth.said().await, "acquired");
        // A crash of theirs is survived by the delay.
        let (last, node) = (enqueue(&lock).await, queue(&lock).await[0].path.clone());
        fourth.kill().await;
        eventually("the end of its session", async || queue(&lock).await.iter().all(|it| it.path != node))
            .await;
        let gone = Instant::now();
        granted(last).await.release().await.unwrap();
        // The deletion was seen a little after it was.
        assert!(gone.elapsed() >= DELAY - Duration::from_millis(200), "{client:?}: {:?}", gone.elapsed());
    }))
    .await;
}

#[tokio::test]
async fn our_holder_is_lost_before_theirs_is_granted() {
    join_all(MUTEXES.map(async |(client, layout)| {
        let server = server().await;
        let (link, unlucky) = linked(&server, Duration::from_secs(3)).await;
        let lock = lock(&unlucky, layout, Duration::ZERO);
        let guard = acquired(&lock).await;
        let waiter = enqueue(&lock).await;
        let mut peer = Peer::start(client, &server, PATH, &["mutex"]).await;
        assert_eq!(peer.ask("acquire").await, "waiting");
        until_queued(&lock, 3).await;
        // A waiter between them gives up.
        waiter.abort();
        until_queued(&lock, 2).await;
        link.black_hole();
        assert_eq!(peer.said().await, "acquired");
        assert!(!guard.is_held(), "{client:?}: two hold the lock");
        assert_eq!(guard.lost().await, LostReason::Unconfirmed);
        link.restore();
    }))
    .await;
}

/// Curator asks a holder to let go by a write to its node.
#[tokio::test]
async fn a_revocation_takes_the_lock_or_the_place_in_the_queue() {
    let server = server().await;
    let lock = lock(&session(&server).await, Layout::Curator, Duration::ZERO);
    let mut peer = Peer::start(Client::Curator, &server, PATH, &["mutex"]).await;
    let holder = acquired(&lock).await;
    let (second, third) = (enqueue(&lock).await, enqueue(&lock).await);
    let waiting = queue(&lock).await[1].path.clone();
    assert_eq!(peer.ask(&format!("revoke {waiting}")).await, "revoked");
    assert!(holder.verify().await.is_ok() && !second.is_finished() && !third.is_finished());
    // A holder watches its node soon after the grant.
    within("the loss", async {
        assert_eq!(peer.ask(&format!("revoke {}", holder.node())).await, "revoked");
        holder.lost().await
    })
    .await;
    assert!(!second.is_finished(), "the node is there until the loser has finished");
    drop(holder);
    // The waiter that was asked has come again, at the end.
    let third = granted(third).await;
    assert!(!second.is_finished());
    third.release().await.unwrap();
    let second = granted(second).await;
    assert!(second.verify().await.is_ok() && second.node() != waiting);
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_kazoo_contender_that_is_not_ephemeral_is_waited_for() {
    let server = server().await;
    let lock = lock(&session(&server).await, Layout::Kazoo, Duration::ZERO);
    let mut peer = Peer::start(Client::Kazoo, &server, PATH, &["mutex"]).await;
    assert_eq!(peer.ask("persist").await, "acquired");
    let waiter = enqueue(&lock).await;
    peer.kill().await;
    assert!(!waiter.is_finished());
    let node = queue(&lock).await[0].path.clone();
    operator(&server).await.delete(&node, None).await.unwrap();
    granted(waiter).await.release().await.unwrap();
}

/// Its lock makes the directory once, and fails if that goes.
#[tokio::test]
async fn a_directory_that_zklock_makes_lasts_as_kazoos_does() {
    let server = server().await;
    let lock = lock(&session(&server).await, Layout::Kazoo, Duration::ZERO);
    acquired(&lock).await.release().await.unwrap();
    let stat = operator(&server).await.check_stat(PATH).await.unwrap().expect("the directory");
    assert_eq!(stat.ephemeral_owner, 0, "a container");
}

/// The other way: zklock's own queue, which Curator's mutex honours.
#[tokio::test]
async fn curator_waits_for_zklocks_own_names() {
    let server = server().await;
    let lock = session(&server).await.lock(PATH).unwrap();
    let mut peer = Peer::start(Client::Curator, &server, PATH, &["mutex"]).await;
    let guard = acquired(&lock).await;
    assert_eq!(peer.ask("acquire").await, "waiting");
    // It watches the holder's node, and so does the holder.
    until_watched(&server, 1, 1).await;
    guard.release().await.unwrap();
    assert_eq!(peer.said().await, "acquired");
}

/// kazoo has to be told to honour it.
#[tokio::test]
async fn kazoo_waits_for_zklocks_own_names_if_it_is_told_to() {
    let server = server().await;
    let lock = session(&server).await.lock(PATH).unwrap();
    let mut peer = Peer::start(Client::Kazoo, &server, PATH, &["mutex", "lock-"]).await;
    let guard = acquired(&lock).await;
    assert_eq!(peer.ask("try 300").await, "busy");
    assert_eq!(peer.ask("acquire").await, "waiting");
    eventually("its node", async || lock.foreign_contenders().await.unwrap().len() == 1).await;
    assert!(guard.verify().await.is_ok());
    guard.release().await.unwrap();
    assert_eq!(peer.said().await, "acquired");
}

/// Without its layout, an election queues elsewhere, and would lead beside the lock's holder.
#[tokio::test]
async fn an_election_does_not_lead_beside_a_queue_of_another_client_at_its_path() {
    let server = server().await;
    let session = session(&server).await;
    // A candidate that has entered before does not look again.
    let election = || session.election(PATH).unwrap();
    for (_, layout) in MUTEXES {
        let lock = || lock(&session, layout, Duration::ZERO);
        let guard = acquired(&lock()).await;
        let refused = within("a refusal", election().campaign("ours")).await;
        assert!(
            matches!(refused, Err(CampaignError::Acquire(AcquireError::OtherKind { .. }))),
            "{layout}: {refused:?}"
        );
        guard.release().await.unwrap();
        let leadership = within("the leadership", election().campaign("ours")).await.unwrap();
        let refused = within("a refusal", lock().acquire()).await;
        assert!(matches!(refused, Err(AcquireError::OtherKind { .. })), "{layout}: {refused:?}");
        assert!(leadership.verify().await.is_ok());
        leadership.resign().await.unwrap();
    }
}

/// Any client may write to its own node what zklock writes.
#[tokio::test]
async fn the_data_of_theirs_is_never_zklocks() {
    let server = server().await;
    let lock = lock(&session(&server).await, Layout::Kazoo, Duration::ZERO);
    acquired(&lock).await.release().await.unwrap();
    let data = br#"{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","owner":"ours","for":"slots"}"#;
    let node = format!("{PATH}/1ef3b5a40e4f4cd59a397a9d3a6b7f10__lock__");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let operator = operator(&server).await;
    let (_, number) = operator.create(&node, data, &options).await.unwrap();
    let waiter = enqueue(&lock).await;
    assert_eq!(queue(&lock).await[0].owner, None);
    operator.delete(&format!("{node}{number}"), None).await.unwrap();
    granted(waiter).await.release().await.unwrap();
}

/// kazoo's `Lock` waits for no reader, and so a queue of both has no order.
#[tokio::test]
async fn a_kazoo_reader_waits_for_zklock_and_zklock_does_not_contend_beside_it() {
    let server = server().await;
    let lock = lock(&session(&server).await, Layout::Kazoo, Duration::ZERO);
    let mut reader = Peer::start(Client::Kazoo, &server, PATH, &["read"]).await;
    let guard = acquired(&lock).await;
    assert_eq!(reader.ask("acquire").await, "waiting");
    eventually("its node", async || lock.foreign_contenders().await.unwrap().len() == 1).await;
    assert!(guard.verify().await.is_ok());
    guard.release().await.unwrap();
    assert_eq!(reader.said().await, "acquired");
    let node = lock.foreign_contenders().await.unwrap()[0].path.clone();
    let refused = || AcquireError::ForeignContender {
        path: PATH.to_owned(),
        node: node.clone(),
        client: ForeignClient::Kazoo,
        session: Some(reader.session),
    };
    assert_eq!(within("a refusal", lock.acquire()).await.unwrap_err(), refused());
    assert_eq!(within("a refusal", lock.try_acquire()).await.unwrap_err(), refused());
    assert!(queue(&lock).await.is_empty());
    reader.release().await;
    acquired(&lock).await.release().await.unwrap();
}

#[tokio::test]
async fn only_a_single_lock_that_is_held_alone_has_a_layout() {
    const LAYOUT: Layout = Layout::Kazoo;
    let server = server().await;
    let session = session(&server).await;
    let bare = LockOptions::new().layout(LAYOUT);
    let error = session.lock(PATH).unwrap().with_options(bare).unwrap_err();
    assert_eq!(error, InvalidLock::NoDelay { path: PATH.to_owned(), layout: LAYOUT });
    let options = || options(LAYOUT, FOR_EVER);
    let several =
        |paths: &[Access]| session.lock_all(paths.to_vec()).unwrap().with_options(options()).map(drop);
    assert_eq!(several(&[Access::from(PATH)]), Ok(()));
    let refused = || InvalidLock::Layout { path: PATH.to_owned(), layout: LAYOUT };
    assert_eq!(several(&[Access::shared(PATH)]), Err(refused().into()));
    assert_eq!(several(&[Access::from(PATH), Access::from("/lock/other")]), Err(refused().into()));
    let read = session.rw_lock(PATH).unwrap().with_options(options());
    assert_eq!(read.map(drop), Err(refused()));
    let election = session.election(PATH).unwrap().with_options(options());
    assert_eq!(election.map(drop), Err(refused()));
    let semaphore = session.semaphore(PATH, 2).unwrap().with_options(options());
    assert_eq!(semaphore.map(drop), Err(refused().into()));
    let slots = session.slots(PATH, 2).unwrap().with_options(options());
    assert_eq!(slots.map(drop), Err(refused().into()));
    let once = session.once(PATH).unwrap().with_options(OnceOptions::new().lock(options()));
    assert_eq!(once.map(drop), Err(refused().into()));
    let locks = session.locks(PATH).unwrap().with_options(LocksOptions::new().lock(options()));
    assert_eq!(locks.map(drop), Err(refused()));
}

/// A holder's own writes, and others', during a hold.
#[tokio::test]
async fn what_is_written_to_the_directory_stays() {
    let server = server().await;
    let (session, operator) = (session(&server).await, operator(&server).await);
    for (number, (_, layout)) in MUTEXES.into_iter().enumerate() {
        let path = format!("/service/{number}");
        let lock = |delay| session.lock(&path).unwrap().with_options(options(layout, delay)).unwrap();
        acquired(&lock(Duration::from_millis(1))).await.release().await.unwrap();
        let (mine, other) = (lock(FOR_EVER), lock(FOR_EVER));
        // A waiter's release leaves a trace behind its predecessor's one.
        let first = acquired(&mine).await;
        let second = enqueue(&other).await;
        first.release().await.unwrap();
        granted(second).await.release().await.unwrap();
        let guard = within("a try", mine.try_acquire()).await.unwrap().expect("it is free");
        operator.set_data(&path, b"theirs", None).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(operator.get_data(&path).await.unwrap().0, b"theirs", "{layout}");
        // Nothing shows that release.
        assert!(within("a try", mine.try_acquire()).await.unwrap().is_none(), "{layout}");
        assert_eq!(operator.get_data(&path).await.unwrap().0, b"theirs", "{layout}");
    }
}

/// A path of the name that an election or a pool would use is looked at once.
#[tokio::test]
async fn the_path_above_is_looked_at_once() {
    let server = server().await;
    let (link, session) = linked(&server, Duration::from_secs(20)).await;
    let options = options(Layout::Curator, Duration::ZERO);
    let lock = session.lock("/service/leader").unwrap().with_options(options).unwrap();
    acquired(&lock).await.release().await.unwrap();
    let looks = link.requests_of(RequestKind::MultiRead);
    assert!(looks > 0);
    for _ in 0..3 {
        acquired(&lock).await.release().await.unwrap();
    }
    assert_eq!(link.requests_of(RequestKind::MultiRead), looks);
}
