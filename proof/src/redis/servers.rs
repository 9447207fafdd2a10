//! The servers of all runs: one Redis, one ZooKeeper ensemble.

use std::time::Duration;

use anyhow::Context;
use zklock::Session;
use zklock_testcontainers::Ensemble;

use crate::redis::kind::Kind;
use crate::redis::lock::ZOOKEEPER_TICK;
use crate::redis::redis_server::RedisServer;

/// For what must come to pass in the end.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Servers {
    redis: Option<RedisServer>,
    zookeeper: Option<ZooKeeper>,
}

struct ZooKeeper {
    ensemble: Ensemble,
    /// For looking on.
    session: Session,
}

impl Servers {
    /// Starts what these locks need.
    pub(crate) async fn start(locks: &[Kind], zookeepers: usize) -> anyhow::Result<Self> {
        let redis = async {
            if locks.iter().all(|lock| lock.is_zklock()) {
                return anyhow::Ok(None);
            }
            RedisServer::start().await.map(Some)
        };
        let zookeeper = async {
            if !locks.iter().any(|lock| lock.is_zklock()) {
                return anyhow::Ok(None);
            }
            ZooKeeper::start(zookeepers).await.map(Some)
        };
        let (redis, zookeeper) = tokio::try_join!(redis, zookeeper)?;
        Ok(Self { redis, zookeeper })
    }

    /// Where the contender of this number connects to, as `host:port`.
    pub(crate) fn address(&self, kind: Kind, number: usize) -> String {
        match (&self.redis, &self.zookeeper) {
            (_, Some(zookeeper)) if kind.is_zklock() => {
                zookeeper.ensemble.address(number % zookeeper.ensemble.len())
            }
            (Some(redis), _) => redis.address().to_owned(),
            _ => String::new(),
        }
    }

    /// What they are.
    pub(crate) fn description(&self) -> String {
        let redis = self.redis.as_ref().map(|redis| format!("Redis {}, one server", redis.version()));
        let zookeeper = self.zookeeper.as_ref().map(|it| match it.ensemble.len() {
            1 => "ZooKeeper, one server".to_owned(),
            servers => format!("ZooKeeper, {servers} servers"),
        });
        redis.into_iter().chain(zookeeper).collect::<Vec<_>>().join("; ")
    }

    /// Makes sure that a lock's directory is there, so that the first request of an acquisition is the one that wins.
    pub(crate) async fn make_directory(&self, kind: Kind, path: &str) -> anyhow::Result<()> {
        if let (true, Some(zookeeper)) = (kind.is_zklock(), &self.zookeeper) {
            zookeeper.session.lock(path)?.acquire().await?.release().await?;
        }
        Ok(())
    }
}

impl ZooKeeper {
    async fn start(servers: usize) -> anyhow::Result<Self> {
        let ensemble =
            Ensemble::builder(servers).tick_time(ZOOKEEPER_TICK).max_session_timeout(PATIENCE).start().await;
        let ensemble = ensemble.context("cannot start ZooKeeper")?;
        let session = Session::builder(ensemble.connect_string())
            .session_timeout(PATIENCE)
            .tick(ZOOKEEPER_TICK)
            .connect()
            .await?;
        Ok(Self { ensemble, session })
    }
}
