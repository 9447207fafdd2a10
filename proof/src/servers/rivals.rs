//! Two contenders for a lock, each in a program of its own.

use std::time::{Duration, Instant};

use anyhow::ensure;
use zklock_testcontainers::Link;

use super::Servers;
use crate::peers::{Contestant, Program};

pub(crate) struct Rivals {
    pub(crate) first: Program,
    pub(crate) second: Program,
    /// The first one's way to its server.
    pub(crate) link: Link,
}

impl Rivals {
    /// Starts the first one at this server, by its place as it was started, and the second one at another, where there is one.
    pub(crate) async fn start(
        contestant: Contestant,
        servers: &Servers,
        server: usize,
        path: &str,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        servers.prepare(path).await?;
        let link = servers.link(&servers.address(server)).await?;
        let start = async |address| Program::start(contestant, &[address], path, timeout).await;
        let (first, second) = tokio::try_join!(start(link.address()), start(servers.address(server + 1)))?;
        Ok(Self { first, second, link })
    }

    /// The first one has the lock then, says what it is told, and the second one waits.
    pub(crate) async fn begin(&mut self) -> anyhow::Result<()> {
        self.first.asks("tell", "telling").await?;
        self.first.asks("acquire", "waiting").await?;
        self.first.hears("acquired").await?;
        self.second.asks("acquire", "waiting").await?;
        Ok(())
    }
}

/// When a waiter gets the lock.
pub(crate) async fn granted(waiter: &mut Program) -> anyhow::Result<Instant> {
    let (at, line) = waiter.next().await?;
    ensure!(line == "acquired", "a waiter said {line:?}");
    Ok(at)
}
