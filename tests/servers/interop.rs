//! Locks in the queues of other clients ([`Layout`]), with real contenders of theirs.

use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{enqueue, eventually, granted, linked, operator, queue, server, session, within};
use zklock::inspect::ForeignClient;
use zklock::once::OnceOptions;
use zklock::{
    Access, AcquireError, Guard, InvalidLock, Layout, Lock, LockOptions, LocksOptions, LostReason, Session,
};
use zklock_testcontainers::RequestKind;
use zookeeper_client::{Acls, CreateMode};

use super::peers::{Client, Peer};

const PATH: &str = "/lock/orders";

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// The mutexes of other clients, each with the layout of its queue.
pub(super) const MUTEXES: [(Client, Layout); 3] =
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

/// Adds one to the number in a node, by a read and a write.
async fn add(client: &zookeeper_client::Client, node: &str) {
    let (data, _) = client.get_data(node).await.unwrap();
    let number = std::str::from_utf8(&data).unwrap().parse::<u32>().unwrap();
    client.set_data(node, (number + 1).to_string().as_bytes(), None).await.unwrap();
}

/// Two contenders of ours and two of another client's add to one number.
async fn adds_up(client: Client, layout: Layout, what: &'static str) {
    const TIMES: u32 = 50;
    let server = server().await;
    let operator = operator(&server).await;
    operator.create("/number", b"0", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let ours = async || {
        let session = session(&server).await;
        for _ in 0..TIMES {
            let guard = acquired(&lock(&session, layout, Duration::ZERO)).await;
            add(&operator, "/number").await;
            guard.release().await.unwrap();
        }
    };
    let theirs = async || {
        let mut peer = Peer::start(client, &server, PATH, &[what]).await;
        assert_eq!(peer.ask(&format!("add {TIMES} /number")).await, "added");
    };
    tokio::join!(ours(), ours(), theirs(), theirs());
    let (number, _) = operator.get_data("/number").await.unwrap();
    assert_eq!(number, (4 * TIMES).to_string().as_bytes(), "{client:?}, {what}");
}

#[tokio::test]
async fn four_who_add_to_one_number_lose_nothing() {
    join_all(MUTEXES.map(|(client, layout)| adds_up(client, layout, "mutex"))).await;
    // Its nodes have the names of the mutex.
    adds_up(Client::Kazoo, Layout::Kazoo, "write").await;
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
        fourth.release().await;
        assert!(queue(&lock).await.is_empty());
    }))
    .await;
}

#[tokio::test]
async fn only_their_ends_cost_a_delay() {
    join_all(MUTEXES.map(async |(client, layout)| {
        let server = server().await;
        let session = session(&server).await;
        // Nobody knows who was there before the directory was made.
        acquired(&lock(&session, layout, Duration::from_millis(1))).await.release().await.unwrap();
        let lock = lock(&session, layout, FOR_EVER);
        // A newcomer after a release of ours, a waiter, and one that tries.
        let first = acquired(&lock).await;
        let second = enqueue(&lock).await;
        first.release().await.unwrap();
        granted(second).await.release().await.unwrap();
        let third = within("a try", lock.try_acquire()).await.unwrap().expect("it is free");
        third.release().await.unwrap();
        let mut peer = Peer::start(client, &server, PATH, &["mutex"]).await;
        peer.acquire().await;
        peer.release().await;
        assert!(within("a try", lock.try_acquire()).await.unwrap().is_none(), "{client:?}");
        assert!(within("the delay", lock.acquire_timeout(Duration::from_secs(1))).await.unwrap().is_none());
        until_queued(&lock, 0).await;
    }))
    .await;
}

#[tokio::test]
async fn a_crash_of_theirs_is_survived_by_the_delay() {
    const DELAY: Duration = Duration::from_secs(1);
    join_all(MUTEXES.map(async |(client, layout)| {
        let server = server().await;
        let lock = lock(&session(&server).await, layout, DELAY);
        let mut peer = Peer::start(client, &server, PATH, &["mutex"]).await;
        peer.acquire().await;
        let waiter = enqueue(&lock).await;
        let operator = operator(&server).await;
        let node = queue(&lock).await[0].path.clone();
        peer.kill().await;
        eventually("the end of its session", async || operator.check_stat(&node).await.unwrap().is_none())
            .await;
        let gone = Instant::now();
        granted(waiter).await.release().await.unwrap();
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

#[tokio::test]
async fn a_lost_reply_leaves_one_contender() {
    join_all(MUTEXES.map(async |(client, layout)| {
        let server = server().await;
        let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
        let lock = lock(&unlucky, layout, Duration::ZERO);
        let mut peer = Peer::start(client, &server, PATH, &["mutex"]).await;
        peer.acquire().await;
        let lost = link.lose_reply(RequestKind::Create);
        let waiter = support::acquire(&lock);
        within("the loss", lost.happened()).await;
        until_queued(&lock, 2).await;
        peer.release().await;
        let guard = granted(waiter).await;
        let lost = link.lose_reply(RequestKind::Multi);
        tokio::join!(lost.happened(), async { guard.release().await.unwrap() });
        assert!(queue(&lock).await.is_empty());
        peer.acquire().await;
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

/// The other way: zklock's own queue, which kazoo is told to honour.
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

#[tokio::test]
async fn contenders_of_two_layouts_refuse_each_other() {
    let server = server().await;
    let session = session(&server).await;
    let locks =
        [Layout::Zklock, Layout::Curator, Layout::Kazoo].map(|layout| lock(&session, layout, Duration::ZERO));
    for holder in &locks {
        let guard = acquired(holder).await;
        for other in locks.iter().filter(|other| !std::ptr::eq(*other, holder)) {
            match within("a refusal", other.acquire()).await {
                Err(AcquireError::ForeignContender { node, client: ForeignClient::Zklock, .. }) => {
                    assert_eq!(node, guard.node());
                }
                result => panic!("{result:?}"),
            }
        }
        assert!(guard.verify().await.is_ok());
        guard.release().await.unwrap();
    }
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
        assert!(matches!(refused, Err(AcquireError::OtherKind { .. })), "{layout}: {refused:?}");
        guard.release().await.unwrap();
        let leadership = within("the leadership", election().campaign("ours")).await.unwrap();
        let refused = within("a refusal", lock().acquire()).await;
        assert!(matches!(refused, Err(AcquireError::OtherKind { .. })), "{layout}: {refused:?}");
        assert!(leadership.verify().await.is_ok());
        leadership.resign().await.unwrap();
    }
    join_all(MUTEXES.map(async |(client, layout)| {
        let server = support::server().await;
        let session = support::session(&server).await;
        let mut peer = Peer::start(client, &server, PATH, &["mutex"]).await;
        peer.acquire().await;
        let refused = within("a refusal", session.election(PATH).unwrap().campaign("ours")).await;
        assert!(matches!(refused, Err(AcquireError::OtherKind { .. })), "{layout}: {refused:?}");
    }))
    .await;
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

/// Contenders of other recipes, in front of zklock and behind it.
#[tokio::test]
async fn a_shared_queue_has_contenders_of_its_mutex_only() {
    let server = server().await;
    let (session, operator) = (session(&server).await, operator(&server).await);
    let id = "1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10";
    let names = [
        (format!("_c_{id}-__READ__"), ForeignClient::CuratorReadWrite),
        (format!("_c_{id}-__WRIT__"), ForeignClient::CuratorReadWrite),
        (format!("_c_{id}-latch-"), ForeignClient::Curator),
        (format!("{}__rlock__", id.replace('-', "")), ForeignClient::Kazoo),
    ];
    for layout in [Layout::Curator, Layout::Kazoo] {
        let lock = lock(&session, layout, Duration::ZERO);
        for (name, client) in &names {
            let guard = acquired(&lock).await;
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let (_, number) = operator.create(&format!("{PATH}/{name}"), b"", &options).await.unwrap();
            let stranger = format!("{PATH}/{name}{number}");
            for _ in 0..2 {
                match within("a refusal", lock.acquire()).await {
                    Err(AcquireError::ForeignContender { node, client: found, .. }) => {
                        assert_eq!((&node, found), (&stranger, *client), "{layout}");
                    }
                    result => panic!("{layout}, {name}: {result:?}"),
                }
            }
            guard.release().await.unwrap();
            assert!(within("a refusal", lock.acquire()).await.is_err(), "{layout}, {name}");
            operator.delete(&stranger, None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn only_a_single_lock_that_is_held_alone_has_a_layout() {
    let server = server().await;
    let session = session(&server).await;
    let bare = LockOptions::new().layout(Layout::Kazoo);
    let error = session.lock(PATH).unwrap().with_options(bare).unwrap_err();
    assert_eq!(error, InvalidLock::NoDelay { path: PATH.to_owned(), layout: Layout::Kazoo });
    for layout in [Layout::Curator, Layout::Go, Layout::Kazoo] {
        let options = || options(layout, FOR_EVER);
        let several =
            |paths: &[Access]| session.lock_all(paths.to_vec()).unwrap().with_options(options()).map(drop);
        assert_eq!(several(&[Access::from(PATH)]), Ok(()));
        for refused in [
            several(&[Access::shared(PATH)]),
            several(&[Access::from(PATH), Access::from("/lock/other")]),
            session.rw_lock(PATH).unwrap().with_options(options()).map(drop),
            session.election(PATH).unwrap().with_options(options()).map(drop),
            session.semaphore(PATH, 2).unwrap().with_options(options()).map(drop),
            session.slots(PATH, 2).unwrap().with_options(options()).map(drop),
            session.once(PATH).unwrap().with_options(OnceOptions::new().lock(options())).map(drop),
            session.locks(PATH).unwrap().with_options(LocksOptions::new().lock(options())).map(drop),
        ] {
            assert_eq!(refused, Err(InvalidLock::Layout { path: PATH.to_owned(), layout }));
        }
    }
    let error = InvalidLock::Layout { path: PATH.to_owned(), layout: Layout::Curator }.to_string();
    assert_eq!(
        error,
        "/lock/orders cannot share a queue of Curator's mutex: only a single lock that is held alone can; leave the layout out"
    );
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
