//! A session that nobody uses.

use std::time::Duration;

use support::{Server, Steps, enqueue, eventually, granted, patient, server, within};
use zklock::ask::Request;
use zklock::guard::NodeOptions;
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

/// The first other state than connected.
async fn change(session: Session) -> SessionState {
    let mut events = session.events();
    loop {
        let state = events.next().await.unwrap().state;
        if state != SessionState::Connected {
            return state;
        }
    }
}

fn request() -> Request {
    Request::new("a test", Duration::from_secs(600))
}

#[tokio::test]
async fn it_is_closed_and_each_kind_of_use_opens_another_one() {
    let server = server().await;
    let used: [Session; 5] = connect(&server).await;
    let [held, waiting, observed, asking, owning] = &used;
    let guard = held.lock(LOCK).unwrap().acquire().await.unwrap();
    let leadership = held.election("/feed").unwrap().campaign("a").await.unwrap();
    let permit = held.semaphore("/convert", 2).unwrap().acquire().await.unwrap();
    let run = held.once("/job").unwrap().claim("a").await.unwrap();
    let key = held.locks("/keys").unwrap().acquire("a").await.unwrap();
    let waiter = enqueue(&waiting.lock(LOCK).unwrap()).await;
    let mut observer = observed.lock(LOCK).unwrap().holders();
    assert!(within("the holder", observer.next()).await.unwrap().unwrap().is_some());
    let ask = asking.ask(LOCK, request()).await.unwrap();
    // The node of a caller goes with the session, and not with the guard.
    let present = owning.lock("/presence").unwrap().acquire().await.unwrap();
    let node = NodeOptions::new().ephemeral();
    present.transaction().create_with("/here", "", node).commit().await.unwrap();
    present.release().await.unwrap();
    let changes = used.each_ref().map(|session| tokio::spawn(change(session.clone())));

    let idle: [Session; 5] = connect(&server).await;
    let firsts = idle.each_ref().map(|session| session.id());
    for session in &idle {
        until(session, SessionState::Idle).await;
    }
    for first in firsts {
        let id = format!("{first:#x}");
        eventually("its end", async || !server.admin("dump").await.contains(&id)).await;
    }
    for change in changes {
        // On a busy machine, one that is in use may expire.
        assert!(!change.is_finished() || change.await.unwrap() != SessionState::Idle);
    }
    drop(ask);

    let [looking, trying, acquiring, asking, observing] = &idle;
    // On a busy machine, nobody may answer in half a session timeout.
    eventually("a look", async || looking.child_count("/nothing").await == Ok(None)).await;
    let tried = trying.lock(LOCK).unwrap();
    eventually("a try", async || matches!(tried.try_acquire().await, Ok(None))).await;
    let last = enqueue(&acquiring.lock(LOCK).unwrap()).await;
    eventually("an ask", async || asking.ask(LOCK, request()).await.is_ok()).await;
    let mut observer_of_next = observing.lock(LOCK).unwrap().holders();
    assert!(within("the holder", observer_of_next.next()).await.unwrap().unwrap().is_some());
    for (session, first) in idle.iter().zip(firsts) {
        assert!(session.events().next().await.unwrap().generation > 0);
        assert_ne!(session.id(), first);
    }
    drop((guard, leadership, permit, run, key));
    granted(waiter).await.release().await.unwrap();
    granted(last).await.release().await.unwrap();
    drop((observer, observer_of_next));
    for session in used[..4].iter().chain(&idle) {
        until(session, SessionState::Idle).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_opened_for_all_who_want_it() {
    let server = server().await;
    let [session] = connect(&server).await;
    until(&session, SessionState::Idle).await;
    let look = |session: Session| async move {
        while session.child_count("/nothing").await != Ok(None) {
            // A call that fails at once would keep the session's tasks from running.
            tokio::task::yield_now().await;
        }
    };
    let mut unpolled = Steps::new(session.child_count("/nothing"));
    assert!(unpolled.poll().is_pending());
    let looks = (0..100).map(|_| tokio::spawn(look(session.clone())));
    for looked in within("the looks", futures::future::join_all(looks)).await {
        looked.unwrap();
    }
    // A look that nobody polled for long wants a session again.
    until(&session, SessionState::Idle).await;
    let _answer = unpolled.poll();
    until(&session, SessionState::Connected).await;
}

#[tokio::test]
async fn it_can_be_closed_for_good() {
    let server = server().await;
    let [session] = connect(&server).await;
    until(&session, SessionState::Idle).await;
    // Whether or not a busy server has confirmed the end in time.
    drop(session.close().await);
    assert_eq!(session.state(), SessionState::Closed);
    assert!(session.lock(LOCK).unwrap().acquire().await.unwrap_err().needs_new_session());
}
