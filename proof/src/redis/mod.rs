//! Why not Redis: the same faults against five locks on a real Redis, and against zklock.
//!
//! The locks are in `lock/`, one file each, with where they come from and where they are weak. What is done to them is in
//! `scenario/`. Contenders are operating-system processes; the conductor stops and kills them, and holds back what they
//! send and receive.
//!
//! ```text
//!   conductor --commands--> contender --> proxy --> Redis, or ZooKeeper
//!      ^  |                  |    |
//!      |  +---SIGSTOP, ..    |    +--writes--> register (in the conductor)
//!      +---what and when-----+
//! ```
//!
//! Everything that happens is noted by the one clock that all processes share. From that `history.rs` says who believed at
//! the same time that it holds the lock, and whose write came too late.

mod args;
mod contender;
mod history;
mod kind;
mod lock;
mod measure;
mod outcome;
mod part;
mod player;
mod proxy;
mod redis_server;
mod resp;
mod scenario;
mod servers;
mod stage;
mod table;
mod wire;
mod word;

use std::sync::Arc;

pub(crate) use args::Redis;
pub(crate) use contender::run as run_contender;
pub(crate) use part::Part;
use servers::Servers;

/// True if zklock was strict in every scenario.
pub(crate) async fn run(show: &Redis) -> anyhow::Result<bool> {
    eprintln!("Starting servers ..");
    let servers = Arc::new(Servers::start(&show.locks, show.zookeepers.into()).await?);
    let cells = measure::cells(show, &servers).await?;
    let strict = cells.iter().filter(|cell| cell.lock.is_zklock()).all(measure::Cell::is_strict);
    if show.json {
        println!("{}", serde_json::json!({ "cells": cells }));
    } else {
        table::print(show, &servers.description(), &cells);
    }
    Ok(strict)
}
