//! What sessions cost the servers, and what they cost themselves: requests, transactions, processor time, memory.
//!
//! The servers are processes of this machine, and so is this program, which has all sessions. Processor time is counted for each
//! process, so what one of them takes from the others shows only where the machine is busy throughout.

mod load;
mod pings;
mod servers;

use std::time::Duration;

use crate::args::{Scale, What};
use crate::memory::resident;
use load::Load;
use servers::{Figures, Rates, Servers};

/// True if nothing failed meanwhile.
pub(crate) async fn run(scale: &Scale) -> anyhow::Result<bool> {
    let servers = Servers::start(scale.servers, scale.force_sync).await?;
    println!(
        "{} servers, {} sessions with {} each, session timeout {} s, {} s measured, {}",
        scale.servers,
        scale.sessions,
        scale.each,
        scale.timeout,
        scale.window,
        if scale.force_sync { "forced to disk" } else { "not forced to disk" }
    );
    println!(
        "{:<10} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>11} {:>11} {:>8} {:>8}",
        "",
        "requests",
        "writes",
        "flushes",
        "leader",
        "follower",
        "clients",
        "cycles",
        "server",
        "client",
        "watches",
        "nodes"
    );
    println!(
        "{:<10} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>11} {:>11} {:>8} {:>8}",
        "",
        "a second",
        "a second",
        "a second",
        "ms/s",
        "ms/s",
        "ms/s",
        "a second",
        "bytes/unit",
        "bytes/unit",
        "",
        ""
    );
    let (_, rates) = window(&servers, scale).await?;
    line("nothing", &rates, [0; 5]);
    for (number, what) in scale.what.iter().enumerate() {
        measure(*what, scale, &servers, &format!("/scale-{number}")).await?;
    }
    Ok(true)
}

async fn window(servers: &Servers, scale: &Scale) -> anyhow::Result<(Figures, Rates)> {
    let before = servers.figures().await?;
    tokio::time::sleep(Duration::from_secs(scale.window)).await;
    let after = servers.figures().await?;
    let rates = after.since(&before);
    Ok((after, rates))
}

async fn measure(what: What, scale: &Scale, servers: &Servers, root: &str) -> anyhow::Result<()> {
    servers.rest().await?;
    let (contents, memory, own) = (servers.contents().await?, servers.memory()?, resident()?);
    let mut load = Load::start(what, scale, servers, root).await?;
    if !what.cycles() {
        servers.rest().await?;
    }
    let (tasks, more) = (load.tasks(), servers.contents().await?);
    let units = (scale.sessions * scale.each) as u64;
    let memory = servers.memory()?.saturating_sub(memory) / units;
    let own = resident()?.saturating_sub(own) / units;
    let cycles = load.cycles();
    let (_, rates) = window(servers, scale).await?;
    let cycles = (load.cycles() - cycles) / scale.window;
    load.check(tasks).await?;
    let (watches, nodes) = (more.0.saturating_sub(contents.0), more.1.saturating_sub(contents.1));
    line(&format!("{what:?}").to_lowercase(), &rates, [cycles, memory, own, watches, nodes]);
    if what.cycles() {
        let threads = rates.busiest.iter().map(|(name, share)| format!("{name} {:.0}", share * 1e3));
        println!("           the leader's threads, ms/s: {}", threads.collect::<Vec<_>>().join(", "));
    }
    load.end().await
}

fn line(what: &str, rates: &Rates, [cycles, memory, own, watches, nodes]: [u64; 5]) {
    println!(
        "{what:<10} {:>9.1} {:>8.1} {:>8.1} {:>8.1} {:>9.1} {:>9.1} {cycles:>8} {memory:>11} {own:>11} {watches:>8} {nodes:>8}",
        rates.requests,
        rates.transactions,
        rates.flushes,
        rates.leader * 1e3,
        rates.follower * 1e3,
        rates.own * 1e3
    );
}
