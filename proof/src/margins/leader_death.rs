//! The leader is killed in the middle of a request: the request was sent, and its sender cannot know what came of it.

use zklock::{Lock, Session};
use zklock_test_support::{acquire, enqueue_behind, eventually, granted, number, queue, within};
use zklock_testcontainers::{Ensemble, Held, Link, RequestKind};

use super::contest::{LONG_TIMEOUT, behind, links, path, recover, repeated, servers, session};
use crate::harness::{Row, now};

#[derive(Clone, Copy)]
pub(super) enum Moment {
    /// No server has it.
    Sent,
    /// A quorum has committed it, and the reply is on its way.
    Committed,
}

#[derive(Clone, Copy)]
enum At {
    Leader,
    Follower,
}

pub(super) async fn release(times: usize, row: &str, moment: Moment) -> Vec<Row> {
    repeated(2 * times, servers(), [row], async |ensemble, repetition| {
        let (path, at) = (path(repetition), At::of(repetition));
        let leader = ensemble.leader().await.unwrap();
        let (links, server, holding) = connect(ensemble, at).await;
        let waiting = session(ensemble.connect_string(), LONG_TIMEOUT).await;
        let guard = holding.lock(&path).unwrap().acquire().await.unwrap();
        let lock = waiting.lock(&path).unwrap();
        let waiter = enqueue_behind(&guard, &lock).await;
        let (token, lost) = (guard.token(), guard.lost());

        let held = hold(&links[server], moment);
        let release = tokio::spawn(guard.release());
        within("the end of the guard", lost).await;
        let ended = now();
        let ((next, granted), ()) = tokio::join!(async { (granted(waiter).await, now()) }, async {
            kill(held, ensemble, leader, &links[server]).await;
            within("the release", release).await.expect("no panic").expect("a confirmed release");
        });
        assert!(next.is_held() && next.token() > token);
        let seconds = granted.seconds_after(ended);

        let contenders = until_queued(&lock, 1).await;
        assert_eq!(contenders, [next.node()], "one node a grant");
        recover_from(ensemble, leader).await;
        next.release().await.unwrap();
        until_nothing_is_left(ensemble, &lock).await;
        [seconds]
    })
    .await
}

pub(super) async fn create(times: usize, row: &str, moment: Moment) -> Vec<Row> {
    repeated(2 * times, servers(), [row], async |ensemble, repetition| {
        let (path, at) = (path(repetition), At::of(repetition));
        let leader = ensemble.leader().await.unwrap();
        let (links, server, entering) = connect(ensemble, at).await;
        let holding = session(ensemble.connect_string(), LONG_TIMEOUT).await;
        let lock = entering.lock(&path).unwrap();
        // A session that knows that the directory has no data enters by a transaction.
        lock.acquire().await.unwrap().release().await.unwrap();
        let watching = holding.lock(&path).unwrap();
        let guard = watching.acquire().await.unwrap();

        let held = hold(&links[server], moment);
        let waiter = acquire(&lock);
        kill(held, ensemble, leader, &links[server]).await;
        let contenders = until_queued(&watching, 2).await;
        assert_eq!(contenders[0], guard.node());
        assert!(guard.is_held() && !waiter.is_finished(), "two guards at once");
        recover_from(ensemble, leader).await;
        assert_eq!(until_queued(&watching, 2).await, contenders, "one node an acquisition");

        let (token, lost) = (guard.token(), guard.lost());
        let release = tokio::spawn(guard.release());
        within("the end of the guard", lost).await;
        let ended = now();
        let next = granted(waiter).await;
        let seconds = now().seconds_after(ended);
        within("the release", release).await.expect("no panic").expect("a confirmed release");
        assert!(next.is_held() && next.token() > token);
        assert_eq!(next.node(), contenders[1]);
        next.release().await.unwrap();
        until_nothing_is_left(ensemble, &lock).await;
        [seconds]
    })
    .await
}

impl At {
    /// They take turns.
    fn of(repetition: usize) -> Self {
        if repetition.is_multiple_of(2) { Self::Leader } else { Self::Follower }
    }

    async fn server(self, ensemble: &Ensemble) -> usize {
        match self {
            Self::Leader => ensemble.leader().await.unwrap(),
            Self::Follower => ensemble.followers().await.unwrap()[0],
        }
    }
}

/// A link to each server, and a session that may use all of them and begins with one. It outlives the election.
async fn connect(ensemble: &Ensemble, at: At) -> (Vec<Link>, usize, Session) {
    let (links, server) = (links(ensemble).await, at.server(ensemble).await);
    let others = || links.iter().enumerate().filter(|(link, _)| *link != server).map(|(_, link)| link);
    others().for_each(Link::refuse);
    let session = session(behind(&links), LONG_TIMEOUT).await;
    others().for_each(Link::accept);
    // One for the session; those that asked for the servers' settings are over.
    eventually("one connection", async || links[server].connections() == 1).await;
    (links, server, session)
}

/// Stops the next transaction on its way, there or back. Should that be a heartbeat, then what was sent behind it stops with it.
fn hold(link: &Link, moment: Moment) -> Held {
    match moment {
        Moment::Sent => link.hold_request(RequestKind::Multi),
        Moment::Committed => link.hold_reply(RequestKind::Multi),
    }
}

/// Kills the leader while the transaction is stopped; the connection goes with the leader, and the transaction is lost.
async fn kill(held: Held, ensemble: &Ensemble, leader: usize, link: &Link) {
    within("the transaction", held.reached()).await;
    ensemble.kill(leader).await.unwrap();
    link.cut();
}

/// The nodes in the queue, once there are so many. Who asks may be without a connection for a while.
async fn until_queued(lock: &Lock, number: usize) -> Vec<String> {
    let mut nodes = Vec::new();
    eventually("the queue's length", async || {
        let Ok(contenders) = lock.contenders().await else { return false };
        nodes = contenders.into_iter().map(|contender| contender.path).collect();
        nodes.len() == number
    })
    .await;
    nodes
}

async fn recover_from(ensemble: &Ensemble, leader: usize) {
    ensemble.restart(leader).await.unwrap();
    recover(ensemble).await;
}

/// Waits until the queue is empty and no server knows an ephemeral node, though every session lives.
async fn until_nothing_is_left(ensemble: &Ensemble, lock: &Lock) {
    assert!(queue(lock).await.is_empty(), "an orphan");
    for server in 0..ensemble.len() {
        eventually("no ephemeral node", async || {
            number(&ensemble.admin(server, "mntr").await.expect("mntr"), "zk_ephemerals_count") == 0
        })
        .await;
    }
}
