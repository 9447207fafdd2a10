//! A create that is carried out after its session has moved to another server, and has looked for it there.

use std::time::Duration;

use zklock::Guard;
use zklock_test_support::{acquire, eventually, granted, within};
use zklock_testcontainers::{Ensemble, Link, RequestKind};
use zookeeper_client::{Acls, Client, CreateMode};

use super::contest::{LONG_TIMEOUT, path, resumptions, servers, session, without};
use crate::harness::Row;

/// So many writes keep the leader busy for longer than it takes to read the request behind them.
const BACKLOG: u64 = 3_000;

const TIMEOUT: Duration = Duration::from_secs(8);

/// The leader takes note of a session's server when it reads a request to resume the session, and looks at that note when
/// it handles a request. So a create that was stuck on its way to the leader is carried out if such a request is stuck
/// behind it: the leader takes the session for being on the old server again. Its client has long moved on.
pub(super) async fn a_create_that_was_stuck_does_not_block_the_lock(repetitions: usize) -> Vec<Row> {
    let ensemble = servers().property("syncLimit", "15").start().await.expect("an ensemble");
    // Now and then the leader handles the create before it reads the request behind it, and refuses it.
    for repetition in 0..repetitions {
        let mut attempts = 10 * repetition..10 * (repetition + 1);
        while !is_carried_out(&ensemble, &path(attempts.next().expect("a late create"))).await {}
    }
    Vec::new()
}

/// A create is stuck, and its session moves. Whether the create was carried out; the lock is free in the end, either way.
async fn is_carried_out(ensemble: &Ensemble, path: &str) -> bool {
    let (leader, old) = (ensemble.leader().await.unwrap(), ensemble.followers().await.unwrap()[0]);
    let other = session(without(ensemble, old), LONG_TIMEOUT).await;
    let (before, after) = (
        Link::start(ensemble.address(old)).await.unwrap(),
        Link::start(ensemble.address(leader)).await.unwrap(),
    );
    after.refuse();
    let unlucky = session(format!("{},{}", before.address(), after.address()), TIMEOUT).await;
    let id = unlucky.id();
    let lock = unlucky.lock(path).unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let crowd = Link::start(ensemble.address(old)).await.unwrap();
    let connector = Client::connector().with_session_timeout(LONG_TIMEOUT);
    let writer = connector.connect(&crowd.address()).await.unwrap();
    writer
        .create(&format!("{path}-crowd"), b"", &CreateMode::Persistent.with_acls(Acls::anyone_all()))
        .await
        .unwrap();

    ensemble.stall(old, leader).await.unwrap();
    let data = vec![0; 1024];
    let writes =
        (0..BACKLOG).map(|_| writer.set_data(&format!("{path}-crowd"), &data, None)).collect::<Vec<_>>();
    eventually("the backlog", async || crowd.requests_of(RequestKind::SetData) == BACKLOG).await;
    let creates = before.requests_of(RequestKind::Multi);
    let acquiring = acquire(&lock);
    eventually("the create", async || before.requests_of(RequestKind::Multi) > creates).await;
    let resumed = resumptions(ensemble, old).await;
    before.cut();
    eventually("a request to resume the session", async || resumptions(ensemble, old).await > resumed).await;
    before.refuse();
    before.cut();
    after.accept();
    let guard = granted(acquiring).await;

    ensemble.flow(old, leader).await.unwrap();
    for write in writes {
        within("the backlog", write).await.unwrap();
    }
    let number = |guard: &Guard| guard.node()[guard.node().len() - 10..].parse::<u32>().unwrap();
    let released = number(&guard);
    within("the release", guard.release()).await.unwrap();
    let next = within("the next grant", other.lock(path).unwrap().acquire()).await.unwrap();
    let taken = number(&next) - released;
    next.release().await.unwrap();
    // The session has not taken the late node with it.
    assert_eq!(unlucky.id(), id);
    // The late create, if it was carried out, took the number in between.
    taken == 2
}
