//! What acquisitions that wait take, all in this process and on one session.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use tokio::task::JoinSet;
use zklock::Session;

use crate::args::Memory;
use crate::report::{Short, print};
use crate::stage::Stage;

/// True if they keep within the limit.
pub(crate) async fn run(memory: &Memory) -> anyhow::Result<bool> {
    let stage = Stage::open(memory.common.connect.as_deref()).await?;
    let directory = stage.directory("memory").await?;
    let holder = Session::connect(stage.address()).await?;
    let held = holder.lock(&directory)?.acquire().await?;
    // Its end takes as long as the deletion of all their nodes.
    let session =
        Session::builder(stage.link().address()).session_timeout(Duration::from_secs(40)).connect().await?;
    let lock = session.lock(&directory)?;

    let before = resident()?;
    let mut waiters = JoinSet::new();
    for _ in 0..memory.waiters {
        let lock = lock.clone();
        waiters.spawn(async move { lock.acquire().await });
    }
    stage.wait_for_children(&directory, usize::try_from(memory.waiters)? + 1).await?;
    // Each is in the queue; some have yet to look for their place in it, and to watch whoever is in front.
    stage.wait_until_quiet().await?;
    let after = resident()?;
    let growth = after.saturating_sub(before);
    let reply_bytes = stage.link().counts().reply_bytes;
    let reading = Reading {
        waiters: memory.waiters,
        before_mb: megabytes(before),
        after_mb: megabytes(after),
        growth_mb: megabytes(growth),
        bytes_per_waiter: growth / u64::from(memory.waiters),
        reply_bytes_per_waiter: reply_bytes / u64::from(memory.waiters),
        limit_mb: memory.limit_mb,
        within_limit: megabytes(growth).0 <= memory.limit_mb,
    };
    print(memory.common.json, &reading, || {
        format!(
            "{} waiters: {:.1} MB before, {:.1} MB after: {:.1} MB, {} bytes each (and {} bytes of replies); {} the limit \
             of {} MB",
            reading.waiters,
            reading.before_mb.0,
            reading.after_mb.0,
            reading.growth_mb.0,
            reading.bytes_per_waiter,
            reading.reply_bytes_per_waiter,
            if reading.within_limit { "within" } else { "over" },
            reading.limit_mb
        )
    })?;

    waiters.shutdown().await;
    session.close().await?;
    held.release().await?;
    holder.close().await?;
    stage.close().await?;
    Ok(reading.within_limit)
}

#[derive(Serialize)]
struct Reading {
    waiters: u32,
    before_mb: Short,
    after_mb: Short,
    growth_mb: Short,
    bytes_per_waiter: u64,
    /// What each was sent to find its place in the queue.
    reply_bytes_per_waiter: u64,
    limit_mb: f64,
    within_limit: bool,
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kilobytes * 1024)
}

fn megabytes(bytes: u64) -> Short {
    Short(bytes as f64 / 1e6)
}
