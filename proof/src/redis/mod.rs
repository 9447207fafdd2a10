//! Why not Redis: the same faults against five locks on a real Redis, and against zklock.
//!
//! The locks are in `peers/redis/`, one file each, with where they come from and where they are weak. What is done to them is in
//! `fault.rs`. Each contender is a process of its own.

mod fault;
mod outcome;
mod table;

use clap::{Args, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};
use zklock_testcontainers::Ensemble;

use crate::harness::Ruling;
use crate::peers::{Contestant, Service};
use crate::servers::Servers;
use fault::{Fault, TTL};
use table::{COLUMNS, Cell};

/// What is to be shown.
#[derive(Debug, Args)]
pub(crate) struct Redis {
    /// How often each cell of the table is measured; the worst is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// How many servers the ZooKeeper ensemble has.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=5))]
    zookeepers: u8,
}

/// How many runs go on at the same time. They mostly wait.
const AT_ONCE: usize = 12;

/// Fails if zklock was not strict under a fault. Proves nothing if a lock on Redis did not have two holders where it must.
pub(crate) async fn run(show: &Redis) -> anyhow::Result<Ruling> {
    eprintln!("Starting servers ..");
    let ensemble = Ensemble::builder(show.zookeepers.into()).tick_time(TTL / 4);
    let (redis, zookeeper) =
        tokio::try_join!(Servers::start(Service::Redis), Servers::start_ensemble(ensemble))?;
    let columns = |fault: &'static Fault| COLUMNS.map(|column| Cell::new(column, *fault));
    let mut cells: Vec<_> = Fault::value_variants().iter().flat_map(columns).collect();
    let runs = (0..show.runs).flat_map(|_| cells.iter().map(|cell| (cell.column, cell.fault)).enumerate());
    let runs = runs.map(async |(index, (column, fault))| {
        let servers = if column.contestant == Contestant::Zklock { &zookeeper } else { &redis };
        anyhow::Ok((index, fault.outcome(column.contestant, column.fenced, servers).await?))
    });
    let runs = runs.collect::<Vec<_>>();
    let outcomes = stream::iter(runs).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    for (index, outcome) in outcomes {
        cells[index].outcome.add(outcome);
    }
    table::print(show.runs, &cells);
    Ok(table::ruling(&cells))
}
