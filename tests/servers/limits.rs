//! What the servers' ticks and limits of session timeouts come to.

use std::time::{Duration, Instant};

use support::{enqueue, eventually, own_server, refused, server};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use zklock::{AcquireError, ConnectError, QueryError, Session, SessionState};
use zklock_testcontainers::ZooKeeper;

/// A firewall or a proxy may swallow four-letter words, while the server behind it serves sessions.
#[tokio::test]
async fn a_session_does_not_wait_for_words_that_nobody_answers() {
    let server = ZooKeeper::builder().start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, upstream) = (listener.local_addr().unwrap(), server.connect_string());
    tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut first = [0];
            client.peek(&mut first).await.unwrap();
            if first != [0] {
                // It is no frame, which begins with its length.
                open.push(client);
                continue;
            }
            let mut server = TcpStream::connect(&upstream).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let began = Instant::now();
    let session = Session::connect(address.to_string()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(session.tick(), Duration::from_secs(2));
    session.lock("/lock/orders").unwrap().acquire().await.unwrap().release().await.unwrap();
}

/// ZooKeeper ends a session by one transaction with the paths of its nodes, and no server reads one of more than 2 MiB.
#[tokio::test]
async fn a_session_has_no_more_nodes_than_servers_can_end_at_once() {
    let server = server().await;
    let long = "x".repeat(2_000);
    support::make(&support::operator(&server).await, &format!("/{long}")).await;
    let session = Session::connect(format!("{}/{long}", server.connect_string())).await.unwrap();
    let lock = |number: usize| session.lock(&format!("/{number}-{long}")).unwrap();
    let (mut guards, mut bytes) = (Vec::new(), 0);
    let refused = loop {
        match lock(guards.len()).acquire().await {
            Ok(guard) => {
                bytes += 1 + long.len() + guard.node().len() + 4;
                guards.push(guard);
            }
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AcquireError::SessionFull { path: lock(guards.len()).path().to_owned() });
    assert!(refused.is_retryable() && !refused.needs_new_session());
    assert!((895 * 1024..=900 * 1024).contains(&bytes), "{bytes}");
    guards.pop().unwrap().release().await.unwrap();
    lock(guards.len()).acquire().await.unwrap().release().await.unwrap();
    // The others do not keep another session out.
    let other = support::session(&server).await;
    other.lock("/lock/orders").unwrap().acquire().await.unwrap().release().await.unwrap();
    drop(session);
    drop(guards);
    support::until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn one_session_after_the_other_is_opened_with_a_pause() {
    let server = own_server().await;
    let began = Instant::now();
    let session = support::session(&server).await;
    let id = session.id();
    server.own().close_session(id).await.unwrap();
    eventually("the next session", async || session.id() != id && session.id() != 0).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    session.lock("/lock/orders").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_session_that_no_server_grants_any_more_has_failed() {
    // Longer than a restart, after which the client must still have its session. A refusal counts after that time, too.
    let (asked, granted) = (Duration::from_secs(20), Duration::from_secs(8));
    let server = own_server().await;
    let session = Session::builder(server.connect_string()).session_timeout(asked).connect().await.unwrap();
    let lock = session.lock("/lock/orders").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = enqueue(&lock).await;
    server.own().reconfigure("maxSessionTimeout", granted.as_millis().to_string()).await.unwrap();
    server.own().restart().await.unwrap();
    // The server has clipped the session, and an operator ends it.
    eventually("the shorter timeout", async || session.timeout() == granted).await;
    assert_eq!(session.failure(), None);
    server.own().close_session(session.id()).await.unwrap();

    let error = refused(waiting).await;
    let cause = ConnectError::TimeoutNotGranted { asked, granted };
    let failed = AcquireError::SessionFailed { path: "/lock/orders".into(), cause: Box::new(cause.clone()) };
    assert_eq!(error, failed);
    assert!(error.needs_new_session());
    assert!(error.to_string().contains("minSessionTimeout and maxSessionTimeout"), "{error}");
    assert_eq!(session.state(), SessionState::Failed);
    assert_eq!(session.failure(), Some(cause));
    assert!(!guard.is_held());
    // For good, though the servers grant it again.
    server.own().reconfigure("maxSessionTimeout", asked.as_millis().to_string()).await.unwrap();
    server.own().restart().await.unwrap();
    assert_eq!(lock.acquire().await.unwrap_err(), failed);
    assert_eq!(lock.try_acquire().await.unwrap_err(), failed);
    assert_eq!(lock.contenders().await.unwrap_err(), QueryError::SessionOver { path: "/lock/orders".into() });
    let mut events = session.events();
    assert_eq!(events.next().await.map(|event| event.state), Some(SessionState::Failed));
    assert_eq!(events.next().await, None);
}
