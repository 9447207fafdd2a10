//! Why not Redis: the same faults against five locks on a real Redis, and against zklock.
//!
//! ```text
//! cargo run --release --example strictness        # starts redis-server and a ZooKeeper ensemble; or: make strictness
//! ```
//!
//! The locks are in `lock/`, one file each, with where they come from and where they are weak. What is done to them is in
//! `scenario/`. Contenders are operating-system processes; the conductor stops and kills them, and holds back what they
//! send and receive.
//!
//! ```text
//!   conductor --commands--> contender --> proxy --> Redis, or ZooKeeper
//!      ^  |                  |    |
//!      |  +---SIGSTOP, ..    |    +--writes--> store (in the conductor)
//!      +---what and when-----+
//! ```
//!
//! Everything that happens is noted with the time since boot, which all processes share. From that `history.rs` says who
//! believed at the same time that it holds the lock, and whose write came too late.

mod args;
mod clock;
mod contender;
mod history;
mod kind;
mod lock;
mod measure;
mod player;
mod proxy;
mod redis_server;
mod resp;
mod scenario;
mod servers;
mod speed;
mod stage;
mod store;
mod table;
mod wire;
mod word;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use args::{Arguments, Role, Show};
use servers::Servers;
use table::Tables;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.role {
        Some(Role::Contender(part)) => contender::run(part).await.map(|()| true),
        None => conduct(&arguments.show).await,
    };
    match done {
        Ok(strict) => ExitCode::from(u8::from(!strict)),
        Err(error) => {
            eprintln!("strictness: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// True if zklock was strict in every scenario.
async fn conduct(show: &Show) -> anyhow::Result<bool> {
    eprintln!("Starting servers ..");
    let servers = Arc::new(Servers::start(&show.locks, show.zookeepers.into()).await?);
    eprintln!("Measuring undisturbed locks ..");
    let speeds = speed::speeds(show, &servers).await?;
    eprintln!("Disturbing them ..");
    let cells = measure::cells(show, &servers).await?;
    let strict = cells.iter().filter(|cell| cell.lock.is_zklock()).all(measure::Cell::is_strict);
    if show.json {
        println!("{}", serde_json::json!({ "cells": cells, "speeds": speeds }));
    } else {
        Tables { show, servers: servers.description(), cells: &cells, speeds: &speeds }.print();
    }
    Ok(strict)
}
