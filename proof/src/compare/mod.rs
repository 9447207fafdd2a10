//! zklock beside every peer: how fast a lock is handed over, how soon after a crash, and who is told first when a server is cut off.
//!
//! Each peer's clients are in one program, in the peer's own language. Speeds are measured one peer after the other, in turns. A
//! crash or a cut happens to all of them at the same time, because they only wait for it.

mod faults;
mod report;
mod speed;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use futures::future::try_join_all;

use crate::peers::{Contestant, Service};
use crate::servers::Servers;
use faults::Crash;
use report::Measured;
use speed::Runner;

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Beside whom; zklock always takes part.
    #[arg(long, value_enum, value_name = "PEERS", value_delimiter = ',', default_values_t = Contestant::peers(), hide_default_value = true)]
    peers: Vec<Contestant>,
    /// How many clients contend.
    #[arg(long, value_name = "K", value_delimiter = ',', default_values_t = [1, 2, 8, 64], value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Vec<u32>,
    /// How long a turn is in which one peer's clients contend, in seconds. Each has three a cell of the table. 0 leaves out the
    /// speeds.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    turn: f64,
    /// How often holders crash, and a server is cut off. 0 leaves that out.
    #[arg(long, value_name = "N", default_value_t = 3)]
    repetitions: u32,
}

fn seconds(text: &str) -> Result<f64, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=60.0).contains(seconds));
    seconds.ok_or("write a number from 0 to 60")
}

pub(crate) async fn run(compare: &Compare) -> anyhow::Result<()> {
    let mut contestants = vec![Contestant::Zklock];
    contestants.extend(compare.peers.iter().copied().filter(|peer| *peer != Contestant::Zklock));
    let mut servers = Vec::new();
    for service in [Service::ZooKeeper, Service::Etcd, Service::Postgres] {
        if contestants.iter().any(|contestant| contestant.service() == service) {
            let started = Servers::start(service).await;
            servers.push(started.with_context(|| format!("cannot start the servers of {service:?}"))?);
        }
    }
    let of = |contestant: Contestant| {
        let servers = servers.iter().find(|servers| servers.service == contestant.service());
        servers.context("no servers")
    };
    let pairs = contestants.iter().map(|contestant| Ok((*contestant, of(*contestant)?)));
    let pairs: Vec<_> = pairs.collect::<anyhow::Result<_>>()?;
    let mut rows: Vec<_> = contestants.iter().map(|contestant| Measured::new(*contestant)).collect();

    let contending: Vec<_> =
        pairs.iter().copied().filter(|(contestant, _)| contestant.is_exclusive()).collect();
    for repetition in 0..compare.repetitions {
        eprintln!("repetition {}: holders are killed, or vanish", repetition + 1);
        let (killed, vanished) = tokio::try_join!(
            faults::crash(Crash::Killed, &contending, repetition),
            faults::crash(Crash::Vanished, &contending, repetition)
        )?;
        let contended = rows.iter_mut().filter(|row| row.contestant.is_exclusive());
        for ((row, killed), vanished) in contended.zip(killed).zip(vanished) {
            row.killed.push(killed);
            row.vanished.push(vanished);
        }
        eprintln!("repetition {}: a server is cut off", repetition + 1);
        let cuts = servers.iter().map(|servers| faults::cut(servers, &contending, repetition));
        for (contestant, cut) in try_join_all(cuts).await?.into_iter().flatten() {
            if let Some(row) = rows.iter_mut().find(|row| row.contestant == contestant) {
                row.cuts.push(cut);
            }
        }
    }

    if compare.turn > 0.0 {
        let mut runners = Vec::new();
        for (contestant, servers) in &pairs {
            runners.push(Runner::start(*contestant, servers).await?);
        }
        speed::measure(&mut runners, &compare.clients, Duration::from_secs_f64(compare.turn)).await?;
        for (row, runner) in rows.iter_mut().zip(runners) {
            row.cells = runner.cells;
        }
    }
    report::print(&rows, &compare.clients);
    Ok(())
}
