//! ZooKeeper expires the session.

use std::task::Poll;
use std::time::Duration;

use support::{
    Steps, enqueue, enqueue_behind, eventually, linked, own_server, patient, refused, server, session, within,
};
use zklock::{AcquireError, ConnectError, LostReason, ReleaseError, SessionState};
use zklock_testcontainers::{Ensemble, Link, RequestKind, ZooKeeper};

const TIMEOUT: Duration = Duration::from_secs(4);

#[tokio::test]
async fn every_event_of_it_is_told() {
    let server = own_server().await;
    let (link, session) = linked(&server, TIMEOUT).await;
    let first = session.id();
    let mut events = session.events();
    let mut told = async || {
        let event = within("an event", events.next()).await.expect("the session is not over");
        (event.state, event.generation, event.id)
    };
    assert_eq!(told().await, (SessionState::Connected, 0, first));
    link.black_hole();
    let mut states = Vec::new();
    let renewed = loop {
        let (state, generation, id) = told().await;
        if generation > 0 {
            break (state, generation, id);
        }
        assert_eq!(id, first);
        states.push(state);
        if state == SessionState::Expired {
            assert_eq!(session.state(), SessionState::Expired);
            link.restore();
        }
    };
    assert_eq!(states, [SessionState::Disconnected, SessionState::Expired]);
    assert_eq!(renewed, (SessionState::Connected, 1, session.id()));
    // Whether or not a busy server answers in time.
    drop(session.close().await);
    assert_eq!(told().await, (SessionState::Closed, 1, session.id()));
    assert_eq!(events.next().await, None);
    assert_eq!(session.state(), SessionState::Closed);
}

#[tokio::test]
async fn closing_is_final_while_the_next_session_is_being_opened() {
    let server = own_server().await;
    let (link, session) = linked(&server, TIMEOUT).await;
    let lock = session.lock("/lock/orders").unwrap();
    let mut events = session.events();
    link.black_hole();
    while within("an event", events.next()).await.unwrap().state != SessionState::Expired {}
    let mut waiting = Steps::new(lock.acquire());
    assert!(waiting.poll().is_pending());
    assert!(within("close", session.close()).await.is_err(), "nobody confirms it");
    waiting.woken().await;
    let Poll::Ready(Err(error)) = waiting.poll() else { panic!("still waiting") };
    assert_eq!(error, AcquireError::SessionClosed { path: "/lock/orders".into() });
    assert!(error.needs_new_session());
    link.restore();
    assert_eq!(lock.try_acquire().await.unwrap_err(), error);
    assert_eq!(session.state(), SessionState::Closed);
}

/// By this the servers know the scheme of the credentials that these tests have.
const PROVIDER: [&str; 2] =
    ["authProvider.1", "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"];

#[tokio::test]
async fn one_server_that_rejects_the_credentials_costs_nothing() {
    let [key, provider] = PROVIDER;
    let ensemble = Ensemble::builder(3).tick_time(support::TICK).max_session_timeout(TIMEOUT);
    let ensemble =
        ensemble.property_of(0, key, provider).property_of(1, key, provider).start().await.unwrap();
    let knows = Link::start(ensemble.address(0)).await.unwrap();
    let rejects = Link::start(ensemble.address(2)).await.unwrap();
    let servers = format!("{},{}", rejects.address(), knows.address());
    let session = patient(servers, TIMEOUT).auth("ensemble", "").connect().await.unwrap();
    let guard = session.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let id = session.id();
    rejects.reset_counts();
    knows.refuse();
    knows.cut();
    eventually("a rejection", async || rejects.requests_of(RequestKind::Auth) > 0).await;
    knows.accept();
    eventually("the connection", async || session.state() == SessionState::Connected).await;
    assert!(guard.is_held() && session.id() == id);
    // The next session is opened there, too.
    knows.refuse();
    knows.cut();
    eventually("the end", async || session.state() == SessionState::Expired).await;
    rejects.reset_counts();
    eventually("a rejection", async || rejects.requests_of(RequestKind::Auth) > 0).await;
    knows.accept();
    eventually("the next session", async || session.state() == SessionState::Connected).await;
    assert!(!guard.is_held() && session.id() != id);
}

#[tokio::test]
async fn credentials_that_every_server_rejects_are_final() {
    let [key, provider] = PROVIDER;
    let knows =
        ZooKeeper::builder().tick_time(support::TICK).max_session_timeout(TIMEOUT).property(key, provider);
    let knows = knows.start().await.unwrap();
    // It knows the session as little as the scheme.
    let rejects = own_server().await;
    let link = Link::start(knows.connect_string()).await.unwrap();
    let session = patient(link.address(), TIMEOUT).auth("ensemble", "").connect().await.unwrap();
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = enqueue(&lock).await;
    link.redirect(rejects.connect_string());
    link.cut();
    let error = refused(waiting).await;
    let cause = Box::new(ConnectError::AuthFailed);
    assert_eq!(error, AcquireError::SessionFailed { path: "/lock/orders".into(), cause });
    assert!(error.needs_new_session() && !error.is_retryable());
    assert_eq!(session.state(), SessionState::AuthFailed);
    assert!(!guard.is_held());
    let mut events = session.events();
    assert_eq!(events.next().await.unwrap().state, SessionState::AuthFailed);
    assert_eq!(events.next().await, None);
}

/// Servers other than ZooKeeper do so. Answers in the other session say nothing of the one that was asked for, which may live on.
#[tokio::test]
async fn a_session_that_comes_back_as_another_one_is_over() {
    let server = server().await;
    let (link, first) = linked(&server, TIMEOUT).await;
    let other = session(&server).await;
    let guard = first.lock("/lock/orders").unwrap().acquire().await.unwrap();
    let waiter = enqueue_behind(&guard, &other.lock("/lock/orders").unwrap()).await;
    link.renew_sessions();
    link.cut();
    assert_eq!(within("the loss", guard.lost()).await, LostReason::SessionExpired);
    assert!(
        link.requests_of(RequestKind::CloseSession) > 0,
        "the session that nobody asked for would stay for its timeout"
    );
    within("the grant", waiter).await.unwrap().unwrap().release().await.unwrap();

    let (link, second) = linked(&server, TIMEOUT).await;
    let unconfirmed = ReleaseError::SessionUnconfirmed { session: second.id(), timeout: TIMEOUT };
    link.refuse();
    link.cut();
    eventually("the outage", async || second.state() == SessionState::Disconnected).await;
    let mut closing = Steps::new(second.close());
    assert!(closing.poll().is_pending());
    link.renew_sessions();
    link.accept();
    assert_eq!(within("the end", closing.finished()).await, Err(unconfirmed), "another session was closed");
}
