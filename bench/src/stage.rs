//! Where it all takes place: a server, the link to it, and a session that looks on.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use zklock_test_support::number;
use zklock_testcontainers::{Link, ZooKeeper};
use zookeeper_client::{Acls, Client, CreateMode};

/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often to look whether it has.
const LOOK: Duration = Duration::from_millis(1);

pub(crate) struct Stage {
    address: String,
    link: Link,
    onlooker: Client,
    /// Ended last.
    server: ZooKeeper,
}

impl Stage {
    pub(crate) async fn open() -> anyhow::Result<Self> {
        let server = ZooKeeper::start().await.context("cannot start a server")?;
        let address = server.connect_string();
        let onlooker = Client::connect(&address).await.with_context(|| format!("no session at {address}"))?;
        let link = Link::start(&address).await?;
        Ok(Self { address, link, onlooker, server })
    }

    /// The server's address, for those who are not measured.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The way to the server for those who are measured.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Makes a directory for a lock. It stays, empty or not, so that nobody has to make it in between.
    pub(crate) async fn directory(&self, name: &str) -> anyhow::Result<String> {
        let path = format!("/zklock-bench/{name}");
        self.onlooker.mkdir(&path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        Ok(path)
    }

    pub(crate) async fn wait_for_children(&self, directory: &str, count: usize) -> anyhow::Result<()> {
        until(async || {
            let stat = self.onlooker.check_stat(directory).await?;
            let present = stat.map_or(0, |stat| stat.num_children);
            let found = || format!("{directory} has {present} children instead of {count}");
            Ok((usize::try_from(present) != Ok(count)).then(found))
        })
        .await
    }

    /// Returns once the server has this many watches, or more.
    pub(crate) async fn wait_for_watches(&self, count: u64) -> anyhow::Result<()> {
        until(async || {
            let watches = number(&self.server.admin("mntr").await?, "zk_watch_count");
            Ok((watches < count).then(|| format!("there are {watches} watches instead of {count}")))
        })
        .await
    }

    /// Returns once all that was asked through the link is answered, at least `requests`.
    pub(crate) async fn wait_for_replies(&self, requests: u64) -> anyhow::Result<()> {
        until(async || {
            let counts = self.link.counts();
            let missing = counts.requests < requests || counts.replies < counts.requests;
            Ok(missing.then(|| format!("after {requests} requests: {counts:?}")))
        })
        .await
    }
}

/// Looks again and again until nothing is found that has to change first.
async fn until(mut look: impl AsyncFnMut() -> anyhow::Result<Option<String>>) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while let Some(found) = look().await? {
        ensure!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {found}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
