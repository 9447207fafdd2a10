//! A create that is carried out after its session has moved to another server, and has looked for it there.

use std::time::Duration;

use zklock::MultiGuard;
use zklock_test_support::{eventually, within};
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
    until_carried_out(repetitions, 1, Caller::Waits).await
}

/// One transaction creates the nodes of all queues.
pub(super) async fn a_create_of_several_locks_that_was_stuck_blocks_none_of_them(
    repetitions: usize,
) -> Vec<Row> {
    until_carried_out(repetitions, 3, Caller::Waits).await
}

pub(super) async fn a_create_of_several_locks_that_was_stuck_and_has_no_caller_blocks_none_of_them(
    repetitions: usize,
) -> Vec<Row> {
    until_carried_out(repetitions, 3, Caller::Gone).await
}

/// What becomes of the caller while its create is stuck.
#[derive(Clone, Copy)]
enum Caller {
    Waits,
    Gone,
}

async fn until_carried_out(repetitions: usize, locks: usize, caller: Caller) -> Vec<Row> {
    let ensemble = servers().property("syncLimit", "15").start().await.expect("an ensemble");
    // Now and then the leader handles the create before it reads the request behind it, and refuses it.
    for repetition in 0..repetitions {
        let attempts = (10 * repetition..10 * (repetition + 1)).map(path);
        let mut paths =
            attempts.map(|path| (0..locks).map(|lock| format!("{path}/{lock}")).collect::<Vec<_>>());
        while !is_carried_out(&ensemble, &paths.next().expect("a late create"), caller).await {}
    }
    Vec::new()
}

/// A create for these locks is stuck, and its session moves. Whether the create was carried out; the locks are free in the
/// end, either way.
async fn is_carried_out(ensemble: &Ensemble, paths: &[String], caller: Caller) -> bool {
    let (leader, old) = (ensemble.leader().await.unwrap(), ensemble.followers().await.unwrap()[0]);
    let other = session(without(ensemble, old), LONG_TIMEOUT).await;
    let (before, after) = (
        Link::start(ensemble.address(old)).await.unwrap(),
        Link::start(ensemble.address(leader)).await.unwrap(),
    );
    after.refuse();
    let unlucky = session(format!("{},{}", before.address(), after.address()), TIMEOUT).await;
    let id = unlucky.id();
    let locks = unlucky.lock_all(paths).unwrap();
    let guard = locks.acquire().await.unwrap();
    let earlier = numbers(&guard);
    guard.release().await.unwrap();
    let crowd = Link::start(ensemble.address(old)).await.unwrap();
    let connector = Client::connector().with_session_timeout(LONG_TIMEOUT);
    let writer = connector.connect(&crowd.address()).await.unwrap();
    let node = format!("{}-crowd", paths[0]);
    writer.create(&node, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();

    ensemble.stall(old, leader).await.unwrap();
    let data = vec![0; 1024];
    let writes = (0..BACKLOG).map(|_| writer.set_data(&node, &data, None)).collect::<Vec<_>>();
    eventually("the backlog", async || crowd.requests_of(RequestKind::SetData) == BACKLOG).await;
    let creates = before.requests_of(RequestKind::Multi);
    let acquiring = tokio::spawn(async move { locks.acquire().await });
    eventually("the create", async || before.requests_of(RequestKind::Multi) > creates).await;
    let resumed = resumptions(ensemble, old).await;
    before.cut();
    eventually("a request to resume the session", async || resumptions(ensemble, old).await > resumed).await;
    before.refuse();
    before.cut();
    let search = after.hold_reply(RequestKind::GetEphemerals);
    after.accept();
    within("the search", search.reached()).await;
    let guard = match caller {
        Caller::Waits => {
            search.release();
            Some(within("the grant", acquiring).await.unwrap().unwrap())
        }
        Caller::Gone => {
            acquiring.abort();
            drop(acquiring.await);
            search.release();
            None
        }
    };
    let known = guard.as_ref().map_or(earlier, numbers);

    ensemble.flow(old, leader).await.unwrap();
    for write in writes {
        within("the backlog", write).await.unwrap();
    }
    if let Some(guard) = guard {
        within("the release", guard.release()).await.unwrap();
    }
    let next = within("the next grant", other.lock_all(paths).unwrap().acquire()).await.unwrap();
    // The late create, if it was carried out, took the number in between, in each queue.
    let late = numbers(&next).iter().zip(&known).filter(|(next, known)| *next - *known == 2).count();
    assert!(late == 0 || late == paths.len(), "a part of a transaction");
    next.release().await.unwrap();
    // The session has not taken the late nodes with it.
    assert_eq!(unlucky.id(), id);
    late > 0
}

/// The numbers of the guard's nodes in their queues.
fn numbers(guard: &MultiGuard) -> Vec<u32> {
    guard.nodes().map(|node| node[node.len() - 10..].parse().unwrap()).collect()
}
