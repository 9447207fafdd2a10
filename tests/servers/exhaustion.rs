//! Sequence numbers near their end.

use support::{Server, queue, until_nothing_is_left, within};
use zklock::{AcquireError, Lock, Session};
use zklock_testcontainers::{Snapshot, ZooKeeper};

/// The last number at which a contender is admitted (docs/DESIGN.md).
const LAST: i32 = i32::MAX - 1_000_000;

/// A server on which the next contender at `/lock/orders` gets the number `next`.
async fn at(next: i32) -> (Server, Session, Lock) {
    let snapshot = Snapshot::new().node("/lock", b"", 1).node("/lock/orders", b"", next);
    let server =
        ZooKeeper::builder().data_file(Snapshot::FILE, snapshot.encode()).start().await.expect("a server");
    let server = Server::from(server);
    let session = support::session(&server).await;
    let lock = session.lock("/lock/orders").unwrap();
    (server, session, lock)
}

#[tokio::test]
async fn the_last_safe_number_is_granted_and_the_next_refused() {
    let (server, session, lock) = at(LAST).await;
    let guard = within("acquire", lock.acquire()).await.unwrap();
    assert_eq!(guard.node(), format!("/lock/orders/lock-{LAST}"));
    for sequence in [LAST + 1, LAST + 2] {
        let error = within("the error", lock.acquire()).await.unwrap_err();
        assert_eq!(error, AcquireError::SequenceExhausted { path: "/lock/orders".into(), sequence });
    }
    assert!(lock.try_acquire().await.is_err());
    assert_eq!(queue(&lock).await.len(), 1, "those that were refused leave nothing behind");
    assert!(guard.is_held());
    guard.release().await.unwrap();
    until_nothing_is_left(&server).await;

    // As the error says: the directory may be deleted once the queue is empty, and then it starts over.
    support::operator(&server).await.delete("/lock/orders", None).await.unwrap();
    let guard = within("acquire", lock.acquire()).await.unwrap();
    assert!(guard.node().ends_with("lock-0000000000"));
    guard.release().await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn nobody_is_admitted_at_the_end_or_past_it() {
    for next in [i32::MAX - 1, i32::MAX, i32::MIN, -100] {
        let (server, _session, lock) = at(next).await;
        for _ in 0..3 {
            let error = within("the error", lock.acquire()).await.unwrap_err();
            assert!(matches!(error, AcquireError::SequenceExhausted { .. }), "{next}: {error}");
        }
        until_nothing_is_left(&server).await;
    }
}
