//! `zklock release --force`: taking a lock from its holder.

use zklock::{Acl, LostReason, Session};
use zklock_testcontainers::{Link, RequestKind};
use zookeeper_client::{Acl as Entry, Acls, AuthId, Permission};

use crate::support::terminal::Terminal;
use crate::support::{
    DIGEST, at, authorized, count_sessions, lock_of, owner, set_acl, with_session, zklock, zklock_as,
};
use zklock_test_support::{
    enqueue, eventually, granted, make, operator, own_server, queue, server, session, sessions, within,
};

const RELEASE: [&str; 3] = ["release", "--force", "/lock/orders"];
const RELEASE_UNASKED: [&str; 4] = ["release", "--force", "--yes", "/lock/orders"];

/// The program on a terminal, once it asks.
async fn asking(servers: &str, options: &[&str]) -> Terminal {
    let terminal = Terminal::start(servers, &[&RELEASE[..], options].concat());
    terminal.until("Take the lock from this holder? [y/N]").await;
    terminal
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_one_takes_over() {
    let (server, [first, second]) = sessions().await;
    let servers = server.connect_string();
    let holder = lock_of(&first, "/lock/orders", "al\u{1b}[31mpha");
    let guard = holder.acquire().await.unwrap();
    let waiter = enqueue(&lock_of(&second, "/lock/orders", "beta")).await;
    let released = zklock(&servers, &RELEASE_UNASKED).await;
    let session = format!("session {:#x}", first.id());
    let token = format!("token {}", guard.token());
    let next = "next contender is beta. It may start at once";
    for told in [r"held by al\u{1b}[31mpha", &session, &token, "since 20", "cut off", next] {
        released.is(0, "", told);
    }
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    let next = granted(waiter).await;
    assert_eq!(queue(&holder).await[0].path, next.node());
    // With --quiet it prints nothing.
    zklock(&servers, "release --force --yes /lock/orders --quiet").await.is_silent(0, "");
    assert_eq!(within("the loss", next.lost()).await, LostReason::NodeDeleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_is_asked() {
    let (_server, servers, session) = with_session(server().await).await;
    let lock = lock_of(&session, "/lock/orders", "alpha");
    let guard = lock.acquire().await.unwrap();

    for answer in ["n\r", "\r", "nay\r", "\u{4}"] {
        let mut terminal = asking(&servers, &[]).await;
        for told in ["held by alpha", "Nobody waits", "until its lease ends"] {
            assert!(terminal.shown().contains(told), "{told}: {}", terminal.shown());
        }
        terminal.press_to_end(answer, 1).await;
        assert!(guard.is_held() && queue(&lock).await[0].path == guard.node());
    }
    // With --quiet the question still says what it is about.
    let mut terminal = asking(&servers, &["--quiet"]).await;
    assert!(terminal.shown().contains("held by alpha"), "{}", terminal.shown());
    terminal.press_to_end("Y\r", 0).await;
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_is_not_hit() {
    let (server, servers, session) = with_session(server().await).await;
    let operator = operator(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    let shown = lock.acquire().await.unwrap();
    let mut terminal = asking(&servers, &[]).await;
    // While the user thinks about it, the lock is released, and its directory is deleted and created again.
    let node = shown.node();
    shown.release().await.unwrap();
    operator.delete("/lock/orders", None).await.unwrap();
    let successor = lock.acquire().await.unwrap();
    assert_eq!(successor.node(), node);
    terminal.press_to_end("y\r", 1).await;
    terminal.until("has already left").await;
    assert!(successor.is_held() && queue(&lock).await[0].token == Some(successor.token()));

    // The same for a release with no successor.
    let mut terminal = asking(&servers, &[]).await;
    successor.release().await.unwrap();
    terminal.press_to_end("y\r", 1).await;
    terminal.until("has already left").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_at_the_last_moment_stays() {
    let server = server().await;
    let operator = operator(&server).await;
    // This holder does not react. zklock itself would delete its node.
    let node = "/lock/orders/lock-0000000000";
    make(&operator, node).await;
    let link = Link::start(server.address()).await.unwrap();
    let servers = server.at(link.address());
    let deletion = link.hold_request(RequestKind::Delete);
    let meanwhile = async {
        within("the deletion", deletion.reached()).await;
        operator.set_data(node, b"", None).await.unwrap();
        deletion.release();
    };
    let (released, ()) = tokio::join!(zklock(&servers, &RELEASE_UNASKED), meanwhile);
    released.is(1, "", "somebody wrote to ");
    assert!(operator.check_stat(node).await.unwrap().is_some());
    // Without a write meanwhile, the node is deleted.
    assert_eq!(zklock(&servers, &RELEASE_UNASKED).await.code, 0);
    assert!(operator.check_stat(node).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_is_not_made_up() {
    let (server, _, session) = with_session(server().await).await;
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let link = Link::start(server.address()).await.unwrap();
    let servers = server.at(link.address());
    let lost = link.lose_reply(RequestKind::Delete);
    let released = zklock(&servers, &RELEASE_UNASKED).await;
    assert!(lost.has_happened());
    released.is(69, "", "may be deleted or not; look at the queue");
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_without_permission() {
    let server = server().await;
    let authorized = authorized(&server).await;
    make(&authorized, "/lock/orders").await;
    let session = Session::builder(server.connect_string()).auth("digest", DIGEST).connect().await.unwrap();
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let servers = server.connect_string();
    // Everybody may read the directory, but not delete in it.
    let look = Entry::new(Permission::READ, AuthId::anyone());
    let all = Entry::new(Permission::ALL, AuthId::authed());
    set_acl(&authorized, "/lock/orders", &[look, all]).await;
    assert_eq!(zklock(&servers, &RELEASE_UNASKED).await.code, 77);
    set_acl(&authorized, "/lock/orders", &Acls::creator_all()).await;
    assert_eq!(zklock(&servers, &RELEASE_UNASKED).await.code, 77);
    assert!(guard.is_held());
    assert_eq!(zklock_as(&servers, DIGEST, &RELEASE_UNASKED).await.code, 0);
    assert_eq!(within("the loss", guard.lost()).await, LostReason::NodeDeleted);
    drop(guard);

    // A node that cannot be read may be a successor's.
    set_acl(&authorized, "/lock/orders", &Acls::anyone_all()).await;
    let options = owner("alpha").acl(Acl::creator_only());
    let guard = session.lock("/lock/orders").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    zklock(&servers, &RELEASE_UNASKED).await.is(77, "", "these credentials may not read ");
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_released() {
    let (server, servers) = at(own_server().await);
    make(&operator(&server).await, "/lock/orders").await;
    zklock(&servers, &RELEASE_UNASKED).await.is(1, "", "nobody holds /lock/orders");
    zklock(&servers, "release --force /no/such").await.is(66, "", "/no/such does not exist");
    // No session stays open while the user thinks about it.
    let session = session(&server).await;
    let _guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    zklock(&servers, &RELEASE).await.is(64, "", "give --yes");
    let before = count_sessions(&server).await;
    let _terminal = asking(&servers, &[]).await;
    eventually("no other session", async || count_sessions(&server).await == before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lead_is_taken_from_the_leader() {
    let (_server, servers, session) = with_session(server().await).await;
    let leadership = session.election("/feed").unwrap().campaign("here").await.unwrap();
    let take = async |options: &[&str]| {
        zklock(&servers, &[&["release", "--force", "--yes", "/feed"], options].concat()).await
    };
    take(&["--slot", "0"]).await.is(64, "", "/feed is an election, so it has no slot 0");
    assert!(leadership.is_held());
    let taken = take(&[]).await;
    taken.is(0, "", "/feed is led by ");
    taken.is(0, "", "Until then it may act as if it still held the lead");
    assert_eq!(within("the loss", leadership.lost()).await, LostReason::NodeDeleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_or_a_slot_is_taken_from_its_holder() {
    let (_server, servers, session) = with_session(server().await).await;
    let slots = session.slots("/workers", 3).unwrap();
    let low = slots.acquire().await.unwrap();
    let high = slots.acquire().await.unwrap();
    let take = async |path: &str, options: &[&str]| {
        zklock(&servers, &[&["release", "--force", "--yes", path], options].concat()).await
    };
    let several = "2 of 3 slots of /workers are held by 2 holders; name one with --slot or --sequence";
    take("/workers", &[]).await.is(64, "", several);
    take("/workers", &["--slot", "2"]).await.is(1, "", "nobody holds slot 2 of /workers");
    take("/workers", &["--sequence", "7"]).await.is(1, "", "/workers has no such holder with the sequence 7");
    assert!(low.is_held() && high.is_held());
    take("/workers", &["--slot", "1"]).await.is(0, "", "slot 1 of /workers was taken from the holder");
    assert_eq!(within("the loss", high.lost()).await, LostReason::NodeDeleted);
    // The only one need not be named.
    let mut terminal = Terminal::start(&servers, &["release", "--force", "/workers"]);
    terminal.until("Take slot 0 from this holder? [y/N]").await;
    terminal.press_to_end("y\r", 0).await;
    assert_eq!(within("the loss", low.lost()).await, LostReason::NodeDeleted);

    let semaphore = session.semaphore("/convert", 3).unwrap();
    let permit = semaphore.acquire_many(2).await.unwrap();
    let other = semaphore.acquire().await.unwrap();
    take("/convert", &[]).await.is(64, "", "held by 2 holders; name one with --sequence, as");
    other.release().await.unwrap();
    take("/convert", &["--slot", "0"]).await.is(64, "", "/convert is a semaphore, so it has no slot 0");
    take("/convert", &[]).await.is(0, "", "the permit of weight 2 of /convert was taken from the holder");
    assert_eq!(within("the loss", permit.lost()).await, LostReason::NodeDeleted);
    take("/convert", &[]).await.is(1, "", "nobody holds /convert");
    let _guard = session.lock("/lock").unwrap().acquire().await.unwrap();
    take("/lock", &["--slot", "0"]).await.is(64, "", "/lock is a lock, so it has no slot 0");
}
