//! The connection is lost and comes back within the session's life.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use support::{Server, eventually, linked, make, operator, own_server, patient, server, session, within};
use zklock::{AcquireError, ConnectError, Session, SessionState};
use zklock_testcontainers::{Link, RequestKind};
use zookeeper_client::Acls;

/// The server that resumes a session may be behind the one before, or partitioned. So its first answer is a quorum's.
#[tokio::test]
async fn a_resumed_session_reads_nothing_before_a_quorum_has_answered() {
    let server = server().await;
    // It holds nothing, so it has no heartbeats, which ask a quorum as well.
    let (link, unlucky) = linked(&server, Duration::from_secs(20)).await;
    let other = session(&server).await;
    let (lock, theirs) = (unlucky.lock("/lock/orders").unwrap(), other.lock("/lock/orders").unwrap());
    let guard = theirs.acquire().await.unwrap();
    link.refuse();
    link.cut();
    eventually("the outage", async || unlucky.state() == SessionState::Disconnected).await;
    let asked = link.hold_request(RequestKind::Multi);
    link.accept();
    let mut reading = pin!(lock.holder());
    {
        let asking = pin!(within("the quorum's write", asked.reached()));
        if let Either::Left((holder, _)) = select(reading.as_mut(), asking).await {
            panic!("it was read before: {holder:?}");
        }
    }
    asked.release();
    let holder = within("the read", reading).await.unwrap();
    assert_eq!(holder.map(|holder| holder.path), Some(guard.node()));
    guard.release().await.unwrap();
}

/// An outage that takes nearly the whole session timeout: whoever paused for long between two attempts would miss the rest.
#[tokio::test]
async fn an_outage_of_nearly_a_session_timeout_costs_nobody_the_session() {
    const TIMEOUT: Duration = Duration::from_secs(10);
    let server = server().await;
    let mut attempts = Vec::new();
    // A busy machine may come too late for some of them, or for most of those that it came too late for together.
    for _ in 0..3 {
        attempts = outages(&server, TIMEOUT).await;
        let kept = attempts.iter().filter(|attempt| **attempt == (SessionState::Connected, true)).count();
        if kept >= 15 {
            return;
        }
    }
    panic!("{attempts:?}");
}

/// Twenty outages at once: the state of each session afterwards, and whether it is the one that it was.
async fn outages(server: &Server, timeout: Duration) -> Vec<(SessionState, bool)> {
    futures::future::join_all((0..20).map(async |_| {
        let (link, session) = linked(server, timeout).await;
        let (id, syncs) = (session.id(), link.requests_of(RequestKind::Sync));
        // The outage begins right behind a sign of life.
        eventually("a heartbeat", async || link.requests_of(RequestKind::Sync) > syncs).await;
        link.black_hole();
        tokio::time::sleep(timeout * 9 / 10).await;
        link.restore();
        eventually("a state", async || session.state() != SessionState::Disconnected).await;
        (session.state(), session.id() == id)
    }))
    .await
}

/// A chroot with a typing error must not be a lock of its own.
#[tokio::test]
async fn a_chroot_that_does_not_exist_is_refused_unless_it_is_to_be_created() {
    let server = server().await;
    let operator = operator(&server).await;
    let there = server.connect_string();
    let error = Session::connect(format!("{there}/ap/p")).await.unwrap_err();
    assert_eq!(error, ConnectError::NoChroot { chroot: server.full("/ap/p") });
    assert!(!error.is_retryable());
    assert_eq!(operator.list_children("/").await.unwrap(), [""; 0]);

    let creating = Session::builder(format!("{there}/ap/p")).create_chroot().connect().await.unwrap();
    creating.lock("/lock/orders").unwrap().acquire().await.unwrap().release().await.unwrap();
    // It stays when the locks below it have gone.
    assert_eq!(operator.check_stat("/ap/p").await.unwrap().unwrap().ephemeral_owner, 0);
    let other = Session::connect(format!("{there}/ap/p")).await.unwrap();
    let lock = other.lock("/lock/orders").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();

    // An operator deletes it under a session.
    for node in ["/ap/p/lock/orders", "/ap/p/lock", "/ap/p"] {
        operator.delete(node, None).await.unwrap();
    }
    let refused = lock.acquire().await.unwrap_err();
    assert_eq!(refused, AcquireError::NoChroot { path: "/lock/orders".into() });
    assert_eq!(operator.list_children("/ap").await.unwrap(), [""; 0]);
    for lock in [creating.lock("/lock/orders").unwrap(), lock] {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

/// A session that is opened in the background waits for a session timeout for its chroot.
#[tokio::test]
async fn a_lazy_session_fails_below_a_chroot_that_does_not_exist() {
    let server = server().await;
    let session = patient(format!("{}/ap", server.connect_string()), Duration::from_secs(2));
    let session = session.connect_lazy().unwrap();
    let refused = within("the failure", session.lock("/lock").unwrap().acquire()).await.unwrap_err();
    let cause = ConnectError::NoChroot { chroot: server.full("/ap") };
    assert_eq!(refused, AcquireError::SessionFailed { path: "/lock".into(), cause: Box::new(cause) });
}

/// A chroot may be away for a while, as during a restore. It takes no new process to find it again. A session without the right
/// to create the chroot uses the chroot that exists.
#[tokio::test]
async fn a_chroot_that_was_there_may_go_and_come_back_while_sessions_end() {
    let server = own_server().await;
    let operator = operator(&server).await;
    make(&operator, "/app").await;
    let session = Session::connect(format!("{}/app", server.connect_string())).await.unwrap();
    let lock = session.lock("/orders").unwrap();
    operator.delete("/app", None).await.unwrap();
    let first = session.id();
    server.own().close_session(first).await.unwrap();
    eventually("the next session", async || ![0, first].contains(&session.id())).await;
    assert_eq!(lock.acquire().await.unwrap_err(), AcquireError::NoChroot { path: "/orders".into() });
    make(&operator, "/app").await;
    lock.acquire().await.unwrap().release().await.unwrap();
    operator.set_acl("/", &Acls::anyone_read(), None).await.unwrap();
    let session = Session::builder(format!("{}/app", server.connect_string())).create_chroot();
    let lock = session.connect().await.unwrap().lock("/locks/orders").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// A server that lives only just: some of its bytes come, so zookeeper-client waits on, and no answer does.
#[tokio::test]
async fn a_server_that_drips_is_left_once_another_one_answers() {
    const TIMEOUT: Duration = Duration::from_secs(8);
    let server = server().await;
    let links = [Link::start(server.address()).await.unwrap(), Link::start(server.address()).await.unwrap()];
    let [one, other] = &links;
    other.refuse();
    let servers = server.at(format!("{},{}", one.address(), other.address()));
    let session = patient(servers, TIMEOUT).connect().await.unwrap();
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let id = session.id();
    let mut events = session.events();
    while within("the connection", events.next()).await.unwrap().state != SessionState::Connected {}
    one.drip(Some(Duration::from_millis(200)));
    within("the risk", guard.at_risk()).await;
    assert_eq!(session.state(), SessionState::Connected, "no other server answers");
    other.accept();
    // Before ten session timeouts are over, after which zookeeper-client may have a whole answer.
    within("the move", async {
        while events.next().await.unwrap().state != SessionState::Disconnected {}
        while events.next().await.unwrap().state != SessionState::Connected {}
    })
    .await;
    within("safety", guard.safe()).await.unwrap();
    assert_eq!(session.id(), id);
    assert!(other.requests_of(RequestKind::Multi) > 0);
}
