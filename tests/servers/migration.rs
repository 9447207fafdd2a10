//! Fleets that move from another client's lock to zklock's while they run, one instance after the other: docs/MIGRATION.md.
//!
//! Each turn of an instance creates a node and deletes it again. The server refuses to create a node that exists, so no clock and no
//! client decides whether two held the lock at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use support::{Server, eventually, operator, sessions, within};
use tokio::task::JoinHandle;
use zklock::{Layout, Lock, LockOptions, Session};
use zookeeper_client::{Acls, CreateMode, Error};

use super::peers::{self, Peer};

const OLD: &str = "/lock/orders";
const NEW: &str = "/lock/orders-by-zklock";
/// Exists while somebody works.
const WORK: &str = "/work";

/// The instances stop by themselves, so no holder is ever cut off.
const DELAY: Duration = Duration::from_millis(20);

/// What an instance acquires before it works, in this order. It releases the last one first.
struct Release {
    old: Option<Peer>,
    locks: Vec<Lock>,
}

/// An instance of a service that works in turns.
struct Instance {
    is_to_stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
    /// Whether all its turns were fine.
    work: JoinHandle<bool>,
}

struct Fleet {
    server: Server,
    judge: zookeeper_client::Client,
    sessions: [Session; 3],
    client: peers::Client,
    instances: Vec<Instance>,
}

impl Release {
    /// Works once under the locks; false if somebody else worked at the same time.
    async fn turn(&mut self, judge: &zookeeper_client::Client) -> bool {
        if let Some(peer) = &mut self.old {
            peer.acquire().await;
        }
        let mut guards = Vec::new();
        for lock in &self.locks {
            guards.push(within("acquire", lock.acquire()).await.expect("the lock"));
        }
        let is_alone = work(judge).await;
        while let Some(guard) = guards.pop() {
            guard.release().await.expect("the release");
        }
        if let Some(peer) = &mut self.old {
            peer.release().await;
        }
        is_alone
    }
}

/// Works for a while; false if somebody else works.
async fn work(judge: &zookeeper_client::Client) -> bool {
    match judge.create(WORK, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
        Ok(_) => {}
        Err(Error::NodeExists) => return false,
        Err(error) => panic!("{error}"),
    }
    for _ in 0..5 {
        judge.sync("/").await.expect("an answer");
    }
    judge.delete(WORK, None).await.is_ok()
}

impl Fleet {
    /// Starts three instances that use the old lock.
    async fn start(client: peers::Client) -> Self {
        let (server, sessions) = sessions().await;
        let judge = operator(&server).await;
        let mut fleet = Self { server, judge, sessions, client, instances: Vec::new() };
        for old in fleet.peers().await {
            fleet.instances.push(fleet.instance(Release { old: Some(old), locks: vec![] }));
        }
        fleet.all_work().await;
        fleet
    }

    async fn peer(&self, what: &str) -> Peer {
        Peer::start(self.client, &self.server, OLD, &[what]).await
    }

    /// Three peers. The nodes of kazoo's write lock have the names of its mutex.
    async fn peers(&self) -> [Peer; 3] {
        let write = if let peers::Client::Kazoo = self.client { "write" } else { "mutex" };
        tokio::join!(self.peer("mutex"), self.peer("mutex"), self.peer(write)).into()
    }

    /// The lock in the old lock's queue.
    fn shared(&self, place: usize, layout: Layout) -> Lock {
        let options = LockOptions::new().layout(layout).takeover_delay(DELAY);
        self.sessions[place].lock(OLD).unwrap().with_options(options).unwrap()
    }

    fn new_lock(&self, place: usize) -> Lock {
        self.sessions[place].lock(NEW).unwrap()
    }

    fn instance(&self, mut release: Release) -> Instance {
        let (is_to_stop, turns) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stop, count, judge) = (is_to_stop.clone(), turns.clone(), self.judge.clone());
        let work = tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                if !release.turn(&judge).await {
                    return false;
                }
                count.fetch_add(1, Ordering::SeqCst);
            }
            if let Some(peer) = release.old {
                peer.end().await;
            }
            true
        });
        Instance { is_to_stop, turns, work }
    }

    /// Rolls a release out at this place: the instance there ends its turn, and then the next one starts.
    async fn roll(&mut self, place: usize, old: Option<Peer>, locks: Vec<Lock>) {
        let next = self.instance(Release { old, locks });
        let before = std::mem::replace(&mut self.instances[place], next);
        before.is_to_stop.store(true, Ordering::SeqCst);
        assert!(within("its last turn", before.work).await.unwrap(), "two held the lock");
        self.all_work().await;
    }

    /// Waits until each instance has had two more turns.
    async fn all_work(&self) {
        let turns = |instance: &Instance| instance.turns.load(Ordering::SeqCst);
        let before = self.instances.iter().map(turns).collect::<Vec<_>>();
        eventually("a turn of each", async || {
            assert!(self.instances.iter().all(|instance| !instance.work.is_finished()), "two held the lock");
            self.instances.iter().zip(&before).all(|(instance, before)| turns(instance) >= before + 2)
        })
        .await;
    }

    async fn stop(self) {
        for instance in self.instances {
            instance.is_to_stop.store(true, Ordering::SeqCst);
            assert!(within("its last turn", instance.work).await.unwrap(), "two held the lock");
        }
    }
}

/// One release is enough to share the queue, and two more lead to a path of zklock's own.
async fn shares_the_queue_and_leaves_it(client: peers::Client, layout: Layout) {
    let mut fleet = Fleet::start(client).await;
    for place in 0..3 {
        fleet.roll(place, None, vec![fleet.shared(place, layout)]).await;
        if place == 1 {
            // Somebody has doubts, and goes back.
            let old = Some(fleet.peer("mutex").await);
            fleet.roll(place, old, vec![]).await;
            fleet.roll(place, None, vec![fleet.shared(place, layout)]).await;
        }
    }
    for place in 0..3 {
        fleet.roll(place, None, vec![fleet.shared(place, layout), fleet.new_lock(place)]).await;
    }
    for place in 0..3 {
        fleet.roll(place, None, vec![fleet.new_lock(place)]).await;
    }
    fleet.stop().await;
}

#[tokio::test]
async fn from_curators_mutex() {
    shares_the_queue_and_leaves_it(peers::Client::Curator, Layout::Curator).await;
}

#[tokio::test]
async fn from_kazoo() {
    shares_the_queue_and_leaves_it(peers::Client::Kazoo, Layout::Kazoo).await;
}

#[tokio::test]
async fn from_go() {
    shares_the_queue_and_leaves_it(peers::Client::Go, Layout::Go).await;
}

/// A lock without a layout can go this way, too.
#[tokio::test]
async fn by_two_releases_from_any_lock() {
    let mut fleet = Fleet::start(peers::Client::Curator).await;
    for (place, old) in fleet.peers().await.into_iter().enumerate() {
        fleet.roll(place, Some(old), vec![fleet.new_lock(place)]).await;
    }
    for place in 0..3 {
        fleet.roll(place, None, vec![fleet.new_lock(place)]).await;
    }
    // The way back.
    let old = Some(fleet.peer("mutex").await);
    fleet.roll(0, old, vec![fleet.new_lock(0)]).await;
    fleet.stop().await;
}

/// What the others would see if a rollout had two holders.
#[tokio::test]
async fn a_rollout_without_the_first_release_is_caught() {
    let fleet = Fleet::start(peers::Client::Go).await;
    let early = fleet.instance(Release { old: None, locks: vec![fleet.new_lock(0)] });
    eventually("two at work", async || {
        early.work.is_finished() || fleet.instances.iter().any(|instance| instance.work.is_finished())
    })
    .await;
}
