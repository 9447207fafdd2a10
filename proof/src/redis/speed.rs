//! How fast an undisturbed lock is: alone, and handed to a waiter. Nothing else goes on meanwhile, and no proxy is between.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::redis::args::Redis;
use crate::redis::kind::Kind;
use crate::redis::servers::Servers;
use crate::redis::stage::Stage;

/// One lock's.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Speed {
    pub(crate) lock: Kind,
    /// To acquire a free lock and release it: the median.
    pub(crate) cycle: Duration,
    /// From the release to the waiter's acquisition: the median.
    pub(crate) handoff: Duration,
    /// The same, the longest.
    pub(crate) longest_handoff: Duration,
}

/// Measures each lock, one after the other.
pub(crate) async fn speeds(show: &Redis, servers: &Arc<Servers>) -> anyhow::Result<Vec<Speed>> {
    let mut speeds = Vec::new();
    if show.cycles > 0 {
        for lock in &show.locks {
            speeds.push(speed(*lock, show, servers.clone()).await?);
        }
    }
    Ok(speeds)
}

async fn speed(lock: Kind, show: &Redis, servers: Arc<Servers>) -> anyhow::Result<Speed> {
    let stage = Stage::set(lock, show.ttl, servers).await?;
    let (mut one, mut other) = (stage.enter_directly(0).await?, stage.enter_directly(1).await?);
    // The first ones find caches cold.
    one.cycle(show.cycles.div_ceil(10)).await?;
    let mut cycles: Vec<_> = one.cycle(show.cycles).await?.into_iter().map(Duration::from_nanos).collect();
    cycles.sort();

    let mut handoffs = Vec::new();
    for round in 0..show.cycles.div_ceil(10) {
        one.acquire().await?;
        other.begin_to_acquire().await?;
        // Long enough for the other one to wait, and at every phase of its polling, if it polls.
        tokio::time::sleep(Duration::from_millis(u64::from(60 + round * 37 % 100))).await;
        let released = one.begin_to_release().await?;
        let acquired = other.acquired(stage.bound()).await?.done();
        let acquired = acquired.ok_or_else(|| anyhow::anyhow!("{} is not handed over", lock.title()))?;
        handoffs.push(acquired.since(released));
        one.released().await?;
        other.release().await?;
    }
    handoffs.sort();
    Ok(Speed {
        lock,
        cycle: median(&cycles),
        handoff: median(&handoffs),
        longest_handoff: handoffs.last().copied().unwrap_or_default(),
    })
}

fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
