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

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(passed) => ExitCode::from(u8::from(!passed)),
        Err(error) => {
            eprintln!("zklock-proof: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// False if a promise was broken.
async fn run(arguments: Arguments) -> anyhow::Result<bool> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // Whichever way this ends, servers and clients end as their values are dropped.
    tokio::select! {
        passed = perform(arguments.command) => passed,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

async fn perform(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Torture(torture) => torture::run(&torture).await,
        Command::Margins(margins) => margins::run(&margins).await,
        Command::Redis(redis) => redis::run(&redis).await,
        Command::TortureClient { part } => torture::run_client(part).await.map(|()| true),
        Command::MarginsHolder { part } => margins::hold(part).await.map(|()| true),
    }
}
