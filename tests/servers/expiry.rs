//! ZooKeeper expires the session.

use std::task::Poll;
use std::time::Duration;

use support::{Steps, enqueue, linked, own_server, patient, refused, within};
use zklock::{AcquireError, SessionState};
use zklock_testcontainers::{Link, ZooKeeper};

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
    assert!(error.is_session_over());
    link.restore();
    assert_eq!(lock.try_acquire().await.unwrap_err(), error);
    assert_eq!(session.state(), SessionState::Closed);
}

#[tokio::test]
async fn rejected_credentials_are_final() {
    // The one server knows the scheme; the other one does not, nor the session.
    let knows = ZooKeeper::builder()
        .tick_time(support::TICK)
        .max_session_timeout(TIMEOUT)
        .java_property(
            "zookeeper.authProvider.1",
            "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider",
        )
        .start()
        .await
        .unwrap();
    let rejects = own_server().await;
    let link = Link::start(knows.connect_string()).await.unwrap();
    let session = patient(link.address(), TIMEOUT).auth("ensemble", "").connect().await.unwrap();
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = enqueue(&lock).await;
    link.redirect(rejects.connect_string());
    link.cut();
    assert_eq!(refused(waiting).await, AcquireError::AuthFailed { path: "/lock/orders".into() });
    assert_eq!(session.state(), SessionState::AuthFailed);
    assert!(!guard.is_held());
    let mut events = session.events();
    assert_eq!(events.next().await.unwrap().state, SessionState::AuthFailed);
    assert_eq!(events.next().await, None);
}
