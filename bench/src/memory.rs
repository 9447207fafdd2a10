//! What acquisitions that wait take, all in this process and on one session.

use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;
use zklock::Session;

use crate::args::Memory;
use crate::stage::Stage;

/// True if they keep within the limit.
pub(crate) async fn run(memory: &Memory) -> anyhow::Result<bool> {
    let stage = Stage::open().await?;
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
    let is_within = megabytes(growth) <= memory.limit_mb;
    println!(
        "{} waiters: {:.1} MB before, {:.1} MB after: {:.1} MB, {} bytes each (and {} bytes of replies); {} the limit of {} MB",
        memory.waiters,
        megabytes(before),
        megabytes(after),
        megabytes(growth),
        growth / u64::from(memory.waiters),
        // What each was sent to find its place in the queue.
        reply_bytes / u64::from(memory.waiters),
        if is_within { "within" } else { "over" },
        memory.limit_mb
    );

    waiters.shutdown().await;
    session.close().await?;
    held.release().await?;
    holder.close().await?;
    Ok(is_within)
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kilobytes * 1024)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
