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
//! `memory` says what a waiting acquisition costs, `line` what tasks in line for a key cost, `elect` how long it takes to tell
//! observers who leads, `carry` what one session carries, and `scale` what sessions cost the servers.

mod args;
mod carry;
mod compare;
mod contestant;
mod elect;
mod line;
mod memory;
mod part;
mod peers;
mod processor;
mod program;
mod quantile;
mod scale;
mod scenario;
mod stage;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(passed) => ExitCode::from(u8::from(!passed)),
        Err(error) => {
            eprintln!("zklock-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// False if a limit was exceeded.
async fn run(arguments: Arguments) -> anyhow::Result<bool> {
    match arguments.command {
        Command::Compare(compare) => compare::run(&compare).await.map(|()| true),
        Command::Scenario(detail) => scenario::run(&detail).await.map(|()| true),
        Command::Memory(memory) => memory::run(&memory).await,
        Command::Line(line) => line::run(&line).await,
        Command::Elect(elect) => elect::run(&elect).await.map(|()| true),
        Command::Carry(carry) => carry::run(&carry).await.map(|()| true),
        Command::Scale(scale) => scale::run(&scale).await,
        Command::Part(part) => part::play(&part).await.map(|()| true),
    }
}
