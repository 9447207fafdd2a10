//! Proves what zklock promises, on real servers: nobody ever holds a lock beside another.
//!
//! ```text
//!   torture   everything fails at random, by a seed       who held the lock at the same time?
//!   margins   one thing fails under a holder              who is told first, and by how much?
//!   redis     the same faults for five locks on Redis     who held the lock at the same time?
//! ```
//!
//! The [`harness`] is what they share.

mod args;
mod harness;
mod margins;
mod redis;
mod torture;

use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use args::{Arguments, Command};
use harness::Ruling;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(ruling) => ExitCode::from(ruling as u8),
        Err(error) => {
            eprintln!("zklock-proof: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<Ruling> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // Whichever way this ends, servers and clients end as their values are dropped.
    tokio::select! {
        ruling = perform(arguments.command) => ruling,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn perform(command: Command) -> anyhow::Result<Ruling> {
    match command {
        Command::Torture(torture) => torture::run(&torture).await,
        Command::Margins(margins) => margins::run(&margins).await.map(Ruling::from),
        Command::Redis(redis) => redis::run(&redis).await.map(Ruling::from),
        Command::TortureClient { part } => torture::run_client(part).await.map(|()| Ruling::Pass),
        Command::MarginsHolder { part } => margins::hold(part).await.map(|()| Ruling::Pass),
    }
}
