//! The demo: processes that contend for one lock while their holder, and then a server, is killed.
//!
//! ```text
//! cargo run --example contend                                  # starts three servers of its own
//! cargo run --example contend -- --connect zk1:2181,zk2:2181   # uses those, and kills none of them
//! ```
//!
//! Each contender is an operating-system process. It increments a number in a plain file: it reads, sleeps, and writes.
//! So two holders at the same time would lose an increment. The conductor starts the contenders, kills the holder with
//! SIGKILL, kills and restarts a server, prints what happens, and gives a verdict in the end.
//!
//! ```text
//!   conductor --spawns--> contenders --lock--> ZooKeeper
//!       ^                  |      |
//!       |      (pipe)      |      +--reads, sleeps, writes--> counter
//!       +----- records ----+----- records ------------------> journal --> verdict
//! ```

mod args;
mod conductor;
mod contender;
mod counter;
mod faults;
mod process;
mod record;
mod servers;
mod timeline;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Role};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments).await {
        Ok(passed) => ExitCode::from(u8::from(!passed)),
        Err(error) => {
            eprintln!("contend: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the process in its role. Returns true if all went as it should.
async fn run(arguments: Arguments) -> anyhow::Result<bool> {
    match arguments.role {
        Some(Role::Contender(part)) => contender::run(part).await.map(|()| true),
        None => conductor::run(&arguments.show).await,
    }
}
