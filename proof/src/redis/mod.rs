//! Why not Redis: the same faults against five locks on a real Redis, and against zklock.
//!
//! The locks are in `redis_lock/`, one file each, with where they come from and where they are weak. What is done to them is in
//! `fault.rs`. Each contender is a thread with everything of its client in it, so that blocking the thread stops the client; its
//! replies go through a proxy that can hold them back.
//!
//! Everything is noted by one clock. From that `holds.rs` says who believed at the same time that it holds the lock, and whose
//! write came too late.

mod contender;
mod fault;
mod holds;
mod kind;
mod outcome;
mod proxy;
mod servers;
mod stage;
mod table;

use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use futures::{StreamExt, TryStreamExt, stream};

use fault::{Fault, Spoiled};
use kind::Kind;
use outcome::Outcome;
use servers::Servers;
use stage::Stage;
use table::Cell;

/// What is to be shown.
#[derive(Debug, Args)]
pub(crate) struct Redis {
    /// How often each cell of the table is measured; the worst is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// How many servers the ZooKeeper ensemble has.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=5))]
    zookeepers: u8,
    /// Print every cell, for programs.
    #[arg(long)]
    json: bool,
}

/// How many runs go on at the same time. They mostly wait.
const AT_ONCE: usize = 12;

/// How often a run is repeated that a busy machine has spoiled.
const ATTEMPTS: usize = 5;

/// True if zklock was strict under every fault.
pub(crate) async fn run(show: &Redis) -> anyhow::Result<bool> {
    eprintln!("Starting servers ..");
    let servers = Arc::new(Servers::start(show.zookeepers.into()).await?);
    let locks = |fault: &'static Fault| Kind::value_variants().iter().map(|lock| Cell::new(*lock, *fault));
    let mut cells = Fault::value_variants().iter().flat_map(locks).collect::<Vec<_>>();
    let runs = (0..show.runs).flat_map(|_| cells.iter().map(|cell| (cell.lock, cell.fault)).enumerate());
    let runs = runs.map(async |(index, (lock, fault))| {
        let outcome = outcome(lock, fault, &servers).await;
        anyhow::Ok((index, outcome.with_context(|| format!("{lock:?}: {fault:?}"))?))
    });
    let runs = runs.collect::<Vec<_>>();
    let outcomes = stream::iter(runs).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    for (index, outcome) in outcomes {
        cells[index].outcome.add(outcome);
    }
    if show.json {
        println!("{}", serde_json::json!({ "cells": cells }));
    } else {
        table::print(show.runs, &servers.description(), &cells);
    }
    Ok(cells.iter().filter(|cell| cell.lock.is_zklock()).all(Cell::is_strict))
}

/// Runs until a run shows something.
async fn outcome(lock: Kind, fault: Fault, servers: &Arc<Servers>) -> anyhow::Result<Outcome> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        let stage = Stage::set(lock, servers.clone()).await?;
        match fault.play(&stage).await {
            Err(error) if error.is::<Spoiled>() && attempts.next().is_some() => {}
            outcome => return outcome,
        }
    }
}
