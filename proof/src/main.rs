//! Proves what zklock promises, on real servers: nobody ever holds a lock beside another. Measures it against its peers.
//!
//! ```text
//!   torture   everything fails at random, by a seed       who held the lock at the same time?
//!   margins   one thing fails under a holder              who is told first, and by how much?
//!   compare   the same for every peer                     how fast, how soon after a crash, who is told first?
//! ```
//!
//! The [`peers`] are locks that contend, each in a program of its own. The [`servers`] are what they contend on. The [`harness`] is what
//! all share.

mod args;
mod compare;
mod harness;
mod margins;
mod peers;
mod servers;
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
        Command::Margins(margins) => margins::run(&margins).await,
        Command::Compare(compare) => compare::run(&compare).await.map(|()| Ruling::Pass),
        Command::TortureClient { part } => torture::run_client(part).await.map(|()| Ruling::Pass),
        Command::TortureErrand { errand } => torture::run_command(&errand).map(|()| Ruling::Pass),
        Command::Part(place) => peers::play(&place).await.map(|()| Ruling::Pass),
    }
}
