//! Measures zklock against its peers.
//!
//! `compare` measures it beside every peer, on servers of each: [`compare`]. `scenario` goes into detail, mostly beside
//! zookeeper-client, on one server:
//!
//! ```text
//!   client --+
//!   client --+--> Link (adds a round trip, counts) --> server <-- everybody who is not measured
//!   client --+
//! ```
//!
//! The peers take turns, slice by slice, so that whatever disturbs the machine disturbs them all alike.

mod args;
mod compare;
mod contestant;
mod part;
mod peers;
mod program;
mod quantile;
mod scenario;
mod stage;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zklock-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Command::Compare(compare) => compare::run(&compare).await,
        Command::Scenario(detail) => scenario::run(&detail).await,
        Command::Part(part) => part::play(&part).await,
    }
}
