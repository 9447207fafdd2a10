//! A session that nobody uses.

use std::task::Poll;
use std::time::Duration;

use support::{Server, Steps, enqueue, eventually, granted, patient, server, within};
use zklock::ask::Request;
use zklock::{Session, SessionState};

const LOCK: &str = "/lock/orders";

/// Idle after ten of these, and one more at most.
const TIMEOUT: Duration = Duration::from_secs(1);

async fn connect<const N: usize>(server: &Server) -> [Session; N] {
    let connect = async |_| patient(server.connect_string(), TIMEOUT).connect().await.unwrap();
    futures::future::join_all((0..N).map(connect)).await.try_into().unwrap()
}

async fn until(session: &Session, state: SessionState) {
    let mut events = session.events();
    while within("an event", events.next()).await.unwrap().state != state {}
}

fn request() -> Request {
    Request::new("a test", Duration::from_secs(600))
}

#[tokio::test]
async fn it_is_closed_and_each_kind_of_use_opens_another_one() {
    let server = server().await;
    let used: [Session; 4] = connect(&server).await;
    let [held, waiting, observed, asking] = &used;
    let guard = held.lock(LOCK).unwrap().acquire().await.unwrap();
    let leadership = held.election("/feed").unwrap().campaign("a").await.unwrap();
    let permit = held.semaphore("/convert", 2).unwrap().acquire().await.unwrap();
    let run = held.once("/job").unwrap().claim("a").await.unwrap();
    let key = held.locks("/keys").unwrap().acquire("a").await.unwrap();
    let waiter = enqueue(&waiting.lock(LOCK).unwrap()).await;
    let mut observer = observed.lock(LOCK).unwrap().holders();
    assert!(within("the holder", observer.next()).await.unwrap().unwrap().is_some());
    let ask = asking.ask(LOCK, request()).await.unwrap();
    let idle: [Session; 5] = connect(&server).await;
    let firsts = idle.each_ref().map(|session| session.id());
    for session in &idle {
        until(session, SessionState::Idle).await;
    }
    for first in firsts {
        let id = format!("{first:#x}");
        eventually("its end", async || !server.admin("dump").await.contains(&id)).await;
    }
    for session in &used {
        let event = session.events().next().await.unwrap();
        assert_eq!((event.state, event.generation), (SessionState::Connected, 0));
    }
    assert!(guard.is_held());
    drop(ask);
    let [looking, trying, acquiring, asking, observing] = &idle;
    assert_eq!(looking.child_count("/nothing").await.unwrap(), None);
    assert!(trying.lock(LOCK).unwrap().try_acquire().await.unwrap().is_none());
    let last = enqueue(&acquiring.lock(LOCK).unwrap()).await;
    let ask = asking.ask(LOCK, request()).await.unwrap();
    let mut observing_anew = observing.lock(LOCK).unwrap().holders();
    assert!(within("the holder", observing_anew.next()).await.unwrap().unwrap().is_some());
    for (session, first) in idle.iter().zip(firsts) {
        let event = session.events().next().await.unwrap();
        assert_eq!((event.state, event.generation, event.id), (SessionState::Connected, 1, session.id()));
        assert_ne!(event.id, first);
    }
    guard.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
    granted(last).await.release().await.unwrap();
    drop((leadership, permit, run, key, observer, observing_anew, ask));
    for session in used.iter().chain(&idle) {
        until(session, SessionState::Idle).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_opened_once_for_all_who_want_it() {
    let server = server().await;
    let [session] = connect(&server).await;
    until(&session, SessionState::Idle).await;
    let look = || {
        let session = session.clone();
        tokio::spawn(async move { session.child_count("/nothing").await })
    };
    let mut unpolled = Steps::new(session.child_count("/nothing"));
    assert!(unpolled.poll().is_pending());
    for looked in futures::future::join_all((0..100).map(|_| look())).await {
        assert_eq!(looked.unwrap().unwrap(), None);
    }
    assert_eq!(session.events().next().await.unwrap().generation, 1);
    // A look that nobody polled for long asks for a session again.
    until(&session, SessionState::Idle).await;
    assert!(matches!(unpolled.poll(), Poll::Ready(Err(_)) | Poll::Pending));
    until(&session, SessionState::Connected).await;
    assert_eq!(session.events().next().await.unwrap().generation, 2);
}

#[tokio::test]
async fn it_can_be_closed_for_good() {
    let server = server().await;
    let [session] = connect(&server).await;
    until(&session, SessionState::Idle).await;
    session.close().await.unwrap();
    assert_eq!(session.state(), SessionState::Closed);
    let lock = session.lock(LOCK).unwrap();
    assert!(lock.acquire().await.unwrap_err().is_session_over());
}
