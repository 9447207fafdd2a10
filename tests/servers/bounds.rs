//! ZooKeeper is paused: every call answers within its bound all the same.

use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::join_all;
use support::{Server, eventually, own_server, patient, until_nothing_is_left, within};
use zklock::{
    AcquireError, Guard, Lock, LostReason, QueryError, ReleaseError, Session,
    guard::TransactionError,
    once::{Claim, RecordError},
};

use super::family::FAMILY;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Of queries, and of `try_acquire`.
const HALF: Duration = Duration::from_secs(10);

/// What a client waits for a server that keeps silent.
const SILENCE: Duration = Duration::from_secs(8);

/// By how much a busy machine may be late. A call that waits for the session's end takes 28 s, and one that waits for
/// [`TIMEOUT`] less [`SILENCE`] 12 s.
const SLACK: Duration = Duration::from_secs(3);

const PATH: &str = "/lock/orders";

/// A session whose leases end well before the server's session does, so that there is time to go on after a lease.
async fn session(server: &Server) -> Session {
    let builder = patient(server.connect_string(), TIMEOUT);
    builder.clock_drift(200_000).connect().await.expect("a session")
}

/// A held lock, of a server that is paused.
async fn paused() -> (Server, Session, Lock, Guard) {
    let server = own_server().await;
    let session = session(&server).await;
    let lock = session.lock(PATH).unwrap();
    let guard = lock.acquire().await.unwrap();
    server.own().pause().await.unwrap();
    (server, session, lock, guard)
}

/// The output of a call, which must be there within this time.
#[track_caller]
fn answers<T>(what: &'static str, bound: Duration, call: impl Future<Output = T>) -> impl Future<Output = T> {
    let began = Instant::now();
    async move {
        let output = within(what, call).await;
        let took = began.elapsed();
        assert!(took < bound + SLACK, "{what} took {took:?} instead of {bound:?}");
        output
    }
}

#[tokio::test]
async fn release_answers_at_the_end_of_the_lease_and_goes_on_in_the_background() {
    let (server, session, lock, guard) = paused().await;
    let id = session.id();
    let error = answers("release", guard.remaining(), guard.release()).await.unwrap_err();
    assert_eq!(error, ReleaseError::Unconfirmed { path: PATH.into() });
    server.own().unpause().await.unwrap();
    eventually("the release", async || lock.contenders().await.is_ok_and(|queue| queue.is_empty())).await;
    assert_eq!(session.id(), id, "the session lives, so its end did not remove the node");
}

#[tokio::test]
async fn close_answers_at_the_end_of_the_lease_and_without_one_as_soon_as_a_server_would() {
    for is_held in [true, false] {
        let (_server, session, _lock, guard) = paused().await;
        if !is_held {
            within("the loss", guard.lost()).await;
        }
        let bound = if is_held { guard.remaining() } else { SILENCE };
        let error = answers("close", bound, session.close()).await.unwrap_err();
        assert_eq!(error, ReleaseError::SessionUnconfirmed { session: session.id(), timeout: TIMEOUT });
    }
}

/// What a guard asks is answered by the end of its lease, a query within half a session timeout, and `acquire_timeout` by its own.
#[tokio::test]
async fn a_guard_a_query_and_a_timeout_are_answered_each_by_its_bound() {
    let (_server, session, lock, guard) = paused().await;
    let sequencer = guard.sequencer().unwrap();
    let ask = async || {
        tokio::join!(
            answers("contenders", HALF, lock.contenders()),
            answers("foreign_contenders", HALF, lock.foreign_contenders()),
            answers("verify_sequencer", HALF, session.verify_sequencer(&sequencer)),
        )
    };
    let remaining = guard.remaining();
    let soon = Duration::from_secs(1);
    let (verified, committed, acquired, [first, second]) = tokio::join!(
        answers("verify", remaining, guard.verify()),
        answers("a transaction", remaining, guard.transaction().create("/paid", "").commit()),
        answers("acquire_timeout", soon, lock.acquire_timeout(soon)),
        async { [ask().await, ask().await] },
    );
    assert_eq!(verified.unwrap_err().reason, LostReason::Unconfirmed);
    assert_eq!(guard.remaining(), Duration::ZERO);
    // What was sent may have reached the server.
    assert_eq!(committed.unwrap_err(), TransactionError::Unknown { path: PATH.into() });
    assert!(acquired.unwrap().is_none());
    // On the connection that is there, which is given up meanwhile.
    let (contenders, foreign, verified) = first;
    assert_eq!(contenders.unwrap_err(), QueryError::Disconnected { path: PATH.into() });
    assert_eq!(foreign.unwrap_err(), QueryError::Disconnected { path: PATH.into() });
    assert!(matches!(verified.unwrap_err(), QueryError::Disconnected { .. }));
    // And while there is none.
    let (contenders, foreign, verified) = second;
    assert_eq!(contenders.unwrap_err(), QueryError::Unanswered { path: PATH.into(), waited: HALF });
    assert_eq!(foreign.unwrap_err(), QueryError::Unanswered { path: PATH.into(), waited: HALF });
    assert!(matches!(verified.unwrap_err(), QueryError::Unanswered { waited: HALF, .. }));
}

#[tokio::test]
async fn the_end_of_a_run_is_answered_by_the_end_of_its_lease() {
    let server = own_server().await;
    let session = session(&server).await;
    let Claim::Run(turn) = session.once(PATH).unwrap().claim("slot").await.unwrap() else {
        panic!("it is new")
    };
    server.own().pause().await.unwrap();
    let remaining = turn.guard().remaining();
    let error = answers("complete", remaining, turn.complete()).await.unwrap_err();
    // What was sent may have reached the server.
    assert_eq!(error, RecordError::Unconfirmed { path: format!("{PATH}.once/slot") });
    let asked =
        answers("period_name", HALF, session.once(PATH).unwrap().period_name(HALF)).await.unwrap_err();
    assert_eq!(asked, AcquireError::Unanswered { path: PATH.into(), waited: HALF }.into());
    let asked = answers("now", HALF, session.once(PATH).unwrap().now()).await.unwrap_err();
    assert_eq!(asked, AcquireError::Unanswered { path: PATH.into(), waited: HALF }.into());
}

#[tokio::test]
async fn a_try_answers_within_half_a_session_timeout_and_leaves_nothing_behind() {
    let server = own_server().await;
    let session = session(&server).await;
    // Each has been used, so that its first request is the one that enters.
    let handles = join_all(FAMILY.iter().map(async |member| {
        let handle = member.handle(&session, &format!("/tried/{}", member.name));
        handle.acquire().await.unwrap().release().await.unwrap();
        (member.name, handle)
    }))
    .await;
    server.own().pause().await.unwrap();
    join_all(handles.iter().map(async |(name, handle)| {
        let error = answers(name, HALF, handle.try_acquire()).await.map(drop).unwrap_err();
        assert!(matches!(error, AcquireError::Unanswered { waited: HALF, .. }), "{name}: {error}");
        assert!(error.is_retryable());
    }))
    .await;
    server.own().unpause().await.unwrap();
    // Its create reached the server, or did not; in the end there is no node.
    for (name, handle) in handles {
        within(name, handle.acquire()).await.unwrap().release().await.unwrap();
    }
    until_nothing_is_left(&server).await;
}
