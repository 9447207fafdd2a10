//! Why not Redis: the same faults against four locks on a real Redis, and against zklock.
//!
//! The locks are in `peers/redis/`, one file each. Each file says where its lock comes from and where it is weak. `fault.rs` has
//! what is done to them. Each contender is a process of its own.

mod fault;
mod outcome;
mod table;

use clap::{Args, ValueEnum};
use futures::future::try_join_all;
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
}

/// Fails if zklock was not strict under a fault. Proves nothing if a lock on Redis did not have two holders where it must.
pub(crate) async fn run(show: &Redis) -> anyhow::Result<Ruling> {
    eprintln!("Starting servers ..");
    let ensemble = Ensemble::builder(3).tick_time(TTL / 4);
    let (redis, zookeeper) =
        tokio::try_join!(Servers::start(Service::Redis), Servers::start_ensemble(ensemble))?;
    let cells = Fault::value_variants().iter().flat_map(|fault| COLUMNS.map(|column| (column, *fault)));
    // They mostly wait, so all go on at the same time.
    let cells = cells.map(async |((contestant, fenced), fault)| {
        let servers = if contestant == Contestant::Zklock { &zookeeper } else { &redis };
        let mut cell = Cell::new(contestant, fenced, fault);
        for _ in 0..show.runs {
            cell.outcome.add(fault.outcome(contestant, fenced, servers).await?);
        }
        anyhow::Ok(cell)
    });
    let cells = try_join_all(cells).await?;
    table::print(show.runs, &cells);
    Ok(table::ruling(&cells))
}
