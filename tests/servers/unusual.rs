//! Servers with options that few people set, and what a holder and its waiters notice of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use support::{
    BOUND, Server, TICK, eventually, granted, make, monitored, operator, session, until_queued, within,
};
use zklock::{AcquireError, Guard, Session};
use zklock_testcontainers::{Backend, Ensemble, EnsembleBuilder, Link, ZooKeeper, ZooKeeperBuilder};
use zookeeper_client::{Acls, Client, CreateMode, EnsembleUpdate};

const PATH: &str = "/lock/orders";
const CONTENDERS: usize = 6;
const TIMEOUT: Duration = Duration::from_secs(10);

/// All guards that were granted. No two of them may say at once that the lock is held.
#[derive(Clone, Default)]
struct Granted(Arc<Mutex<Vec<Arc<Guard>>>>);

impl Granted {
    fn add(&self, guard: Guard) -> Arc<Guard> {
        let mut guards = self.0.lock().unwrap();
        assert!(!guards.iter().any(|other| other.is_held()), "two hold the lock");
        let guard = Arc::new(guard);
        guards.push(guard.clone());
        guard
    }
}

/// Several contenders, each in a session of its own at one of these servers. The first one holds the lock while `mishap`
/// happens, and holds it still afterwards, unless it may lose it. Then each of the others is granted in its turn.
async fn contend(servers: &[String], may_lose: bool, mishap: impl AsyncFnOnce(&Guard)) {
    let sessions = (0..CONTENDERS).zip(servers.iter().cycle()).map(|(_, servers)| {
        Session::builder(servers).session_timeout(TIMEOUT).connect_timeout(BOUND).connect()
    });
    let sessions = within("the sessions", join_all(sessions)).await;
    let locks = sessions.into_iter().map(|session| session.unwrap().lock(PATH).unwrap()).collect::<Vec<_>>();
    let all = Granted::default();
    let first = all.add(within("the first grant", locks[0].acquire()).await.unwrap());
    let waiting = locks[1..].iter().cloned().map(|lock| {
        let all = all.clone();
        tokio::spawn(
            async move { while all.add(lock.acquire().await.unwrap()).release_all().await.is_err() {} },
        )
    });
    let waiting = waiting.collect::<Vec<_>>();
    until_queued(&locks[0], CONTENDERS).await;
    mishap(&first).await;
    let is_kept = within("a quorum's confirmation", first.verify()).await.is_ok();
    assert!(is_kept || may_lose, "the guard is lost");
    assert_eq!(first.release_all().await.is_ok(), is_kept);
    for waiter in waiting {
        within("the grant of each waiter", waiter).await.unwrap();
    }
}

fn ensemble(size: usize) -> EnsembleBuilder {
    Ensemble::builder(size).tick_time(Duration::from_secs(1))
}

async fn one(builder: ZooKeeperBuilder) -> Server {
    let builder = builder.tick_time(TICK).max_session_timeout(Duration::from_secs(60));
    Server::from(builder.start().await.unwrap())
}

/// A session is local until its first ephemeral node, and is then known to all servers: it outlives its server.
#[tokio::test]
async fn sessions_that_are_upgraded_from_local_ones_outlive_their_server() {
    let ensemble = ensemble(3).property("localSessionsEnabled", "true");
    let ensemble = ensemble.property("localSessionsUpgradingEnabled", "true").start().await.unwrap();
    let follower = ensemble.followers().await.unwrap()[0];
    let links = join_all((0..3).map(|_| Link::start(ensemble.address(follower)))).await;
    let links = links.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let ways = links.iter().map(Link::address).collect::<Vec<_>>();
    contend(&ways, false, async |_| {
        ensemble.kill(follower).await.unwrap();
        let other = ensemble.address((follower + 1) % 3);
        links.iter().for_each(|link| link.redirect(&other));
    })
    .await;
}

#[tokio::test]
async fn an_observing_server_is_killed_under_its_clients() {
    let ensemble = ensemble(4).observer(3).start().await.unwrap();
    let told = ensemble.admin(3, "srvr").await.unwrap();
    assert!(told.contains("Mode: observer"), "{told}");
    let link = Link::start(ensemble.address(3)).await.unwrap();
    contend(&[link.address(), ensemble.address(0)], false, async |_| {
        ensemble.kill(3).await.unwrap();
        link.redirect(ensemble.address(1));
    })
    .await;
}

/// Makes these the only members of the ensemble.
async fn reconfigure(operator: &Client, members: &[&str]) {
    eventually("the new members", async || {
        // A server may not be in step yet, and the reply may be lost with the connection.
        let _ =
            operator.update_ensemble(EnsembleUpdate::New { ensemble: members.iter().copied() }, None).await;
        let Ok((config, _)) = operator.get_config().await else { return false };
        let config = String::from_utf8(config).unwrap();
        config.lines().filter(|line| line.starts_with("server.")).eq(members.iter().copied())
    })
    .await;
}

/// A follower that is removed keeps its clients, and goes on without a vote. If the leader is removed, another member leads, and
/// all clients lose their connections.
#[tokio::test]
async fn members_are_removed_and_added_under_a_holder_and_its_waiters() {
    // A member listens where the others find it, or it could not be reconfigured. So no proxies are between these. No other
    // process has this host.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let place =
        |index| format!("127.{}.{middle}.{low}:{}:{}:participant", 64 + high, 2888 + index, 3888 + index);
    let mut ensemble = ensemble(3).backend(Backend::Local).property("reconfigEnabled", "true");
    for index in 0..3 {
        ensemble = ensemble.property(format!("server.{}", index + 1), place(index));
    }
    let ensemble = ensemble.java_property("zookeeper.skipACL", "yes").start().await.unwrap();
    let line = |index| format!("server.{}={};{}", index + 1, place(index), ensemble.address(index));
    let lines = [0, 1, 2].map(line);
    let connector = Client::connector().with_session_timeout(BOUND);
    let operator = connector.connect(&ensemble.connect_string()).await.unwrap();
    let leader = ensemble.leader().await.unwrap();
    let holder = (leader + 1) % 3;
    let servers = [holder, leader, (leader + 2) % 3].map(|index| ensemble.address(index));
    contend(&servers, false, async |guard| {
        for gone in [Some(holder), Some(leader), None] {
            let members = (0..3).filter(|index| Some(*index) != gone).map(|index| lines[index].as_str());
            reconfigure(&operator, &members.collect::<Vec<_>>()).await;
            eventually("a member that leads", async || Some(ensemble.leader().await.unwrap()) != gone).await;
            within("a quorum's confirmation", guard.verify()).await.unwrap();
        }
    })
    .await;
}

/// Each connection takes a token, and 2.5 tokens come in a second: of all clients that lost their connections at once, few are let
/// in at once.
#[tokio::test]
async fn connections_are_throttled() {
    let throttle = |key: &str| format!("zookeeper.connection_throttle_{key}");
    let server = ZooKeeper::builder().java_property(throttle("tokens"), "2");
    let server = one(server.java_property(throttle("fill_time"), "400")).await;
    let link = Link::start(server.address()).await.unwrap();
    contend(&[link.address()], false, async |_| link.cut()).await;
    assert!(monitored(&server, "zk_connection_rejected").await > 0);
}

/// A request that waits for longer than 100 ms for the ones before it is answered by an error that asks for a retry.
#[tokio::test]
async fn requests_are_throttled() {
    let server = ZooKeeper::builder().java_property("zookeeper.request_throttle_max_requests", "1");
    let server = server.java_property("zookeeper.request_throttle_stall_time", "5");
    let server = one(server.java_property("zookeeper.throttled_op_wait_time", "100")).await;
    let operator = operator(&server).await;
    // On a busy machine, each heartbeat may be one of these.
    contend(&[server.connect_string()], true, async |_| {
        eventually("throttled requests", async || {
            drop(join_all((0..200).map(|_| operator.check_stat("/"))).await);
            monitored(&server, "zk_throttled_ops").await > 0
        })
        .await;
    })
    .await;
}

/// The lock's directory counts as well.
#[tokio::test]
async fn a_hard_quota_keeps_further_contenders_out_and_those_inside_go_on() {
    let server = one(ZooKeeper::builder().java_property("zookeeper.enforceQuota", "true")).await;
    let operator = operator(&server).await;
    make(&operator, PATH).await;
    let quota = format!("/zookeeper/quota{PATH}");
    make(&operator, &quota).await;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let limits = b"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3";
    operator.create(&format!("{quota}/zookeeper_limits"), limits, &persistent).await.unwrap();
    let stats = format!("{quota}/zookeeper_stats");
    operator.create(&stats, b"count=0,bytes=0", &persistent).await.unwrap();
    let [holds, waits, late] = [session(&server).await, session(&server).await, session(&server).await];
    let [holds, waits, late] = [holds, waits, late].map(|session| session.lock(PATH).unwrap());
    let guard = holds.acquire().await.unwrap();
    let waiter = support::enqueue(&waits).await;
    let refused = within("the refusal", late.acquire()).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("the quota of this path or of one above is used up"), "{refused}");
    assert!(guard.is_held());
    until_queued(&holds, 2).await;
    guard.release().await.unwrap();
    granted(waiter).await.release().await.unwrap();
    late.acquire().await.unwrap().release().await.unwrap();
}
