//! Watches that nobody needs any more.

use std::time::Duration;

use support::{eventually, granted, linked_session, operator, session, within};
use zklock_testcontainers::{Link, RequestKind};

/// The next reader sets its watches on the holder's node while the first reader leaves. Then the release fires two events.
#[tokio::test]
async fn none_is_removed_while_another_one_is_being_set() {
    let (server, link, readers) = linked_session(Duration::from_secs(20)).await;
    let writer = session(&server).await;
    let lock = readers.rw_lock("/lock/orders").unwrap();
    let guard = writer.rw_lock("/lock/orders").unwrap().write().await.unwrap();
    let read = |lock: &zklock::RwLock| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.read().await })
    };
    let first = read(&lock);
    // It lists the queue, and sets its watches by a read and a listing.
    eventually("the first reader's watches", async || {
        let asked = [RequestKind::GetData, RequestKind::GetChildren].map(|kind| link.requests_of(kind));
        asked == [1, 2] && link.counts().requests == link.counts().replies
    })
    .await;
    let held = link.hold_request(RequestKind::GetData);
    let second = read(&lock);
    within("the second reader's watches", held.reached()).await;
    let events = link.counts().events;
    let turns = link.requests_of(RequestKind::Exists);
    first.abort();
    guard.release().await.unwrap();
    eventually("the events of the release", async || link.counts().events == events + 2).await;
    held.release();
    granted(second).await.release().await.unwrap();
    // After a second the session removes what has not fired. It asks for a stat first.
    let is_its_turn = link.requests_of(RequestKind::Exists) > turns;
    assert!(is_its_turn || link.requests_of(RequestKind::RemoveWatches) == 0);
}

/// `make memcheck` shows what a removal would do here.
#[tokio::test]
async fn an_observer_goes_while_another_one_begins() {
    let (server, link, looking) = linked_session(Duration::from_secs(20)).await;
    let leading = session(&server).await;
    let election = looking.election("/service").unwrap();
    let mut one = election.observe();
    assert!(within("the first answer", one.next()).await.unwrap().unwrap().is_none());
    let held = link.hold_request(RequestKind::AddWatch);
    let mut two = election.observe();
    within("the second observer's watch", held.reached()).await;
    let events = link.counts().events;
    drop(one);
    let leadership = leading.election("/service").unwrap().campaign("one").await.unwrap();
    leadership.resign().await.unwrap();
    eventually("the events", async || link.counts().events == events + 2).await;
    held.release();
    assert!(within("the second answer", two.next()).await.unwrap().unwrap().is_none());
}

/// Anybody may write so much to a node, and a session's heartbeats wait behind each answer with the node's data.
#[tokio::test]
async fn those_who_wait_for_one_node_read_it_together() {
    const EACH: u64 = 100;
    const LENGTH: usize = 512 * 1024;
    let (server, link, looking) = linked_session(Duration::from_secs(20)).await;
    let holder = session(&server).await.rw_lock("/lock/orders").unwrap().write().await.unwrap();
    operator(&server).await.set_data(&holder.node(), &vec![b'x'; LENGTH], None).await.unwrap();
    let read_together = async |link: &Link, begin: &mut dyn FnMut()| {
        link.reset_counts();
        // Each lists the queue, and then looks at the node.
        let listed = link.hold_reply(RequestKind::GetChildren);
        (0..EACH).for_each(|_| begin());
        eventually("the listings", async || link.requests_of(RequestKind::GetChildren) >= EACH).await;
        listed.release();
        let is_answered = || link.counts().requests == link.counts().replies;
        eventually("the looks", async || link.requests_of(RequestKind::GetData) > 0 && is_answered()).await;
        let (reads, bytes) = (link.requests_of(RequestKind::GetData), link.counts().reply_bytes);
        assert!(bytes < 10 * LENGTH as u64, "{reads} reads, {bytes} bytes");
    };
    let (lock, mut readers) = (looking.rw_lock("/lock/orders").unwrap(), Vec::new());
    let read = |lock: zklock::RwLock| async move { lock.read().await };
    read_together(&link, &mut || readers.push(tokio::spawn(read(lock.clone())))).await;
    let (watched, mut observers) = (looking.lock("/lock/orders").unwrap(), Vec::new());
    read_together(&link, &mut || observers.push(watched.holders())).await;
    for observer in &mut observers {
        let seen = within("the holder", observer.next()).await.unwrap().unwrap();
        assert_eq!(seen.map(|holder| holder.path), Some(holder.node()));
    }
    drop(holder);
    for reader in readers {
        granted(reader).await.release().await.unwrap();
    }
    for observer in &mut observers {
        while within("nobody", observer.next()).await.unwrap().unwrap().is_some() {}
    }
}

/// A path with both kinds of watches: `make memcheck` shows what the removals of both would do. On servers before 3.9 the watch for
/// one event would take the place of the other one.
#[tokio::test]
async fn no_path_has_a_watch_for_one_event_beside_one_for_all() {
    for leaders_go in [true, false] {
        let (server, link, looking) = linked_session(Duration::from_secs(20)).await;
        let leading = session(&server).await.election("/service").unwrap();
        let (election, lock) =
            (looking.election("/service").unwrap(), looking.lock("/service/leader").unwrap());
        let mut leaders = election.observe();
        assert_eq!(within("the leader", leaders.next()).await.unwrap().unwrap(), None);
        let mut holders = lock.holders();
        assert_eq!(within("the holder", holders.next()).await.unwrap().unwrap(), None);
        // The watch of one of them is removed a second later, between two requests that the server has answered.
        let turns = link.requests_of(RequestKind::Exists);
        let removed = || link.requests_of(RequestKind::Exists) >= turns + 2;
        if leaders_go {
            drop(leaders);
            eventually("the removal", async || removed()).await;
            // Another watch is being set there while events come.
            let held = link.hold_request(RequestKind::AddWatch);
            leaders = election.observe();
            within("the watch", held.reached()).await;
            let events = link.counts().events;
            for leader in ["one", "two"] {
                leading.campaign(leader).await.unwrap().resign().await.unwrap();
            }
            eventually("the events", async || link.counts().events == events + 4).await;
            held.release();
            assert_eq!(within("nobody", leaders.next()).await.unwrap().unwrap(), None);
        } else {
            drop(holders);
            eventually("the removal", async || removed()).await;
        }
        let _leadership = leading.campaign("three").await.unwrap();
        assert!(within("the next leader", leaders.next()).await.unwrap().unwrap().is_some());
    }
}
