//! A store that refuses a writer which was stopped while it held the lock, and does not know yet that it has lost it.
//!
//! ```text
//! cargo run -p fenced_store                          # starts a server of its own
//! cargo run -p fenced_store -- zk1:2181,zk2:2181     # uses those
//! ```
//!
//! Two writers, each an operating-system process, write to one SQLite file under one lock. The first one asks its guard,
//! is told that it holds the lock, and is stopped (SIGSTOP) before it can write. Its session expires, the second one
//! acquires the lock and writes. Then the first one is continued (SIGCONT) and writes, too, on the answer it has from
//! before. No lock can prevent that; the store does, by the fencing token. What a store needs is in `store.rs`.

mod store;
mod story;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Shows how a store refuses a writer that was stopped while it held the lock.
///
/// Exits with 0 if the store refused it and holds what the other one wrote, 1 if not, 2 if there was nothing to see.
#[derive(Debug, Parser)]
#[command(name = "fenced_store", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// The ZooKeeper servers to use, `host:port,...`. Without them one is started.
    #[arg(value_name = "SERVERS")]
    servers: Option<String>,
}

/// What the process is, if it does not tell the story.
#[derive(Debug, Subcommand)]
enum Role {
    /// One writer; the story starts it.
    #[command(hide = true)]
    Writer(Part),
}

/// What one writer is to do.
#[derive(Debug, Args)]
struct Part {
    #[arg(long)]
    servers: String,
    /// The lock's path.
    #[arg(long)]
    lock: String,
    /// The SQLite file.
    #[arg(long)]
    store: PathBuf,
    /// What it writes.
    #[arg(long)]
    text: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.role {
        Some(Role::Writer(part)) => writer::run(part).await.map(|()| true),
        None => story::run(arguments.servers).await,
    };
    match done {
        Ok(as_it_should) => ExitCode::from(u8::from(!as_it_should)),
        Err(error) => {
            eprintln!("fenced_store: {error:#}");
            ExitCode::from(2)
        }
    }
}
