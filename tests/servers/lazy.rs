//! A session that begins without a server, and what is said of servers that give none.

use std::time::Duration;

use support::{acquire, granted, refused, server, until_nothing_is_left, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use zklock::{ConnectError, Session, SessionState, session::ServerProblem};
use zklock_testcontainers::{Link, ZooKeeper};

#[tokio::test]
async fn it_begins_while_zookeeper_is_away() {
    let server = server().await;
    let link = Link::start(server.address()).await.unwrap();
    link.refuse();
    let session = Session::builder(server.at(link.address())).connect_lazy().unwrap();
    let mut events = session.events();
    assert_eq!(within("an event", events.next()).await.unwrap().state, SessionState::Connecting);
    assert_eq!((session.id(), session.state()), (0, SessionState::Connecting));
    let lock = session.lock("/lock/orders").unwrap();
    let waiter = acquire(&lock);
    assert!(lock.try_acquire().await.is_err(), "nobody has answered");
    assert!(!waiter.is_finished());
    link.accept();
    let guard = granted(waiter).await;
    let event = within("an event", events.next()).await.unwrap();
    assert_eq!((event.state, event.generation, event.id), (SessionState::Connected, 0, session.id()));
    assert_eq!(session.requeued(), 0);
    // The tick was learned: 100 ms, and no longer the 2 s that were assumed.
    assert_eq!(session.tick(), Duration::from_millis(100));
    guard.release().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(within("an event", events.next()).await.unwrap().state, SessionState::Closed);
    // However often it is asked for.
    assert_eq!((events.next().await, events.next().await), (None, None));
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn one_that_never_began_can_be_closed() {
    let session = Session::builder(format!("127.0.0.1:{}", silent().await.1)).connect_lazy().unwrap();
    let waiter = acquire(&session.lock("/lock/orders").unwrap());
    session.close().await.unwrap();
    assert!(refused(waiter).await.needs_new_session());
    assert_eq!(session.state(), SessionState::Closed);
}

#[tokio::test]
async fn one_that_the_servers_refuse_fails() {
    // It grants 4 s at least.
    let server = ZooKeeper::builder().tick_time(Duration::from_secs(2)).start().await.unwrap();
    let session = Session::builder(server.connect_string()).session_timeout(Duration::from_secs(3));
    let session = session.connect_lazy().unwrap();
    let error = within("the end", session.lock("/lock/orders").unwrap().acquire()).await.unwrap_err();
    assert!(error.needs_new_session() && !error.is_retryable(), "{error}");
    assert_eq!(session.state(), SessionState::Failed);
    let malformed = Session::builder("zk1:0").connect_lazy();
    assert!(matches!(malformed, Err(ConnectError::Servers { .. })));
}

/// What takes connections, and says nothing; its port.
async fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn each_server_that_gives_no_session_is_named_with_the_cause() {
    let (_listener, silent) = silent().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let serving = serving().await;
    let servers = format!("127.0.0.1:{closed},127.0.0.1:{silent},127.0.0.1:{serving}");
    // A second of it is for the diagnosis, which a busy machine may miss.
    let connect = || Session::builder(servers.clone()).connect_timeout(Duration::from_secs(5)).connect();
    let mut attempts = 0;
    let (said, causes) = loop {
        let error = connect().await.unwrap_err();
        let said = error.to_string();
        let ConnectError::Unreachable { causes, .. } = error else { panic!("{error}") };
        attempts += 1;
        if attempts == 3 || !said.contains("no TCP connection in time") {
            break (said, causes);
        }
    };
    let [refused, quiet, serves] = causes.as_slice() else { panic!("{causes:?}") };
    assert_eq!(refused.server, format!("127.0.0.1:{closed}"));
    assert!(
        matches!(&refused.cause, ServerProblem::NoConnection(cause) if cause.contains("refused")),
        "{said}"
    );
    assert_eq!((&quiet.cause, &serves.cause), (&ServerProblem::NoSession, &ServerProblem::Serves));
    assert!(said.contains("refused") && said.contains(&silent.to_string()), "{said}");
}

/// What answers `srvr`, and gives no session; its port. It is no stranger.
async fn serving() -> u16 {
    let (listener, port) = silent().await;
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut word = [0; 4];
                if connection.read_exact(&mut word).await.is_ok() && &word == b"srvr" {
                    let _gone = connection.write_all(b"Zookeeper version: 3.9.5\nMode: follower\n").await;
                } else {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    port
}
