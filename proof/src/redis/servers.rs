//! The servers of all runs: one Redis, one ZooKeeper ensemble.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::time::{interval, timeout};
use zklock::Session;
use zklock_proof::kept::Kept;
use zklock_proof::redis_lock::ZOOKEEPER_TICK;
use zklock_testcontainers::Ensemble;

use super::kind::Kind;

/// For what must come to pass in the end.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Servers {
    pub(super) redis: RedisServer,
    pub(super) ensemble: Ensemble,
    /// For looking on.
    session: Session,
}

impl Servers {
    pub(super) async fn start(zookeepers: usize) -> anyhow::Result<Self> {
        let ensemble =
            Ensemble::builder(zookeepers).tick_time(ZOOKEEPER_TICK).max_session_timeout(PATIENCE).start();
        let (redis, ensemble) = tokio::join!(RedisServer::start(), ensemble);
        let ensemble = ensemble.context("cannot start ZooKeeper")?;
        let session = Session::builder(ensemble.connect_string()).session_timeout(PATIENCE);
        let session = session.tick(ZOOKEEPER_TICK).connect().await?;
        Ok(Self { redis: redis?, ensemble, session })
    }

    pub(super) fn description(&self) -> String {
        format!("Redis {}, one server; ZooKeeper, servers: {}", self.redis.version, self.ensemble.len())
    }

    /// Makes sure that a lock's directory is there, so that the first request of an acquisition is the one that wins.
    pub(super) async fn make_directory(&self, kind: Kind, path: &str) -> anyhow::Result<()> {
        if kind.is_zklock() {
            self.session.lock(path)?.acquire().await?.release().await?;
        }
        Ok(())
    }
}

/// A redis-server of our own, on a socket in a directory of its own and without persistence. Dropping it ends it.
pub(super) struct RedisServer {
    _server: Kept,
    directory: TempDir,
    version: String,
}

impl RedisServer {
    async fn start() -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("redis-").tempdir()?;
        let mut arguments: Vec<OsString> =
            ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"].map(Into::into).into();
        arguments.extend([directory.path().join("socket").into(), "--dir".into(), directory.path().into()]);
        let server = Kept::start("redis-server", arguments).await?;
        let client = redis::Client::open(format!("redis+unix://{}/socket", directory.path().display()))?;
        let answered = async {
            let mut looks = interval(Duration::from_millis(20));
            loop {
                looks.tick().await;
                if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
                    let about = redis::cmd("INFO").arg("server").query_async(&mut connection).await;
                    if let redis::RedisResult::<String>::Ok(about) = about {
                        return about;
                    }
                }
            }
        };
        let about = timeout(PATIENCE, answered).await;
        let about =
            about.context("redis-server does not answer; is it installed? (scripts/have-redis.sh)")?;
        let version = about.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let version = version.unwrap_or("of unknown version").trim().to_owned();
        Ok(Self { _server: server, directory, version })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }
}
