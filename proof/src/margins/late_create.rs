//! A create that is carried out after its session has moved to another server, and has looked for it there.

use std::time::Duration;

use zklock::MultiGuard;
use zklock_test_support::{eventually, within};
use zklock_testcontainers::{Ensemble, RequestKind};
use zookeeper_client::{Acls, CreateMode};

use super::contest::{LONG_TIMEOUT, link, path, plain, repeated, resumptions, servers, session, without};
use crate::harness::Row;

/// So many writes keep the leader busy for longer than it takes to read the request behind them.
const BACKLOG: u64 = 3_000;

const TIMEOUT: Duration = Duration::from_secs(8);

/// What becomes of the caller while its create is stuck.
#[derive(Clone, Copy)]
pub(super) enum Caller {
    Waits,
    Gone,
}

/// The leader takes note of a session's server when it reads a request to resume the session, and looks at that note when
/// it handles a request. So a create that was stuck on its way to the leader is carried out if such a request is stuck
/// behind it: the leader takes the session for being on the old server again. Its client has long moved on.
///
/// If there are several locks, one transaction creates the nodes of all queues.
pub(super) async fn until_carried_out(times: usize, locks: usize, caller: Caller) -> Vec<Row> {
    // Now and then the leader handles the create before it reads the request behind it, and refuses it.
    repeated(times, servers().property("syncLimit", "15"), [], async |ensemble, repetition| {
        let attempts = (10 * repetition..10 * (repetition + 1)).map(path);
        let mut paths =
            attempts.map(|path| (0..locks).map(|lock| format!("{path}/{lock}")).collect::<Vec<_>>());
        while !is_carried_out(ensemble, &paths.next().expect("a late create"), caller).await {}
        []
    })
    .await
}

/// A create for these locks is stuck, and its session moves. Whether the create was carried out; the locks are free in the
/// end, either way.
async fn is_carried_out(ensemble: &Ensemble, paths: &[String], caller: Caller) -> bool {
    let (leader, old) = (ensemble.leader().await.unwrap(), ensemble.followers().await.unwrap()[0]);
    let other = session(without(ensemble, old), LONG_TIMEOUT).await;
    let (before, after) = (link(ensemble, old).await, link(ensemble, leader).await);
    after.refuse();
    let unlucky = session(format!("{},{}", before.address(), after.address()), TIMEOUT).await;
    let id = unlucky.id();
    let locks = unlucky.lock_all(paths).unwrap();
    let guard = locks.acquire().await.unwrap();
    let earlier = numbers(&guard);
    guard.release().await.unwrap();
    let crowd = link(ensemble, old).await;
    let writer = plain(&crowd.address(), LONG_TIMEOUT).await;
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

fn numbers(guard: &MultiGuard) -> Vec<u32> {
    guard.nodes().map(|node| node[node.len() - 10..].parse().unwrap()).collect()
}
