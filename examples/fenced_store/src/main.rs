//! A store that refuses a stale writer: the writer was stopped while it held the lock, and does not know yet that it
//! has lost its guard.
//!
//! ```text
//! cargo run -p fenced_store                          # starts a server of its own
//! cargo run -p fenced_store -- zk1:2181,zk2:2181     # uses those
//! ```
//!
//! Two writers, each an operating-system process, write to one SQLite file under one lock. The first writer asks its
//! guard, which says that the lock is held. Then the story stops this writer (SIGSTOP) before it can write. Its session
//! expires, and the second writer acquires the lock and writes. Then the story continues the first writer (SIGCONT). It
//! writes, too, because it acts on the old answer. No lock can prevent that. The store prevents it, by the fencing
//! token. `store.rs` shows what a store needs for that.

mod store;
mod story;
mod writer;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Shows how a store refuses a writer that was stopped while it held the lock.
///
/// Exits with 0 if the store refused that writer and has what the other one wrote, 1 if not, 2 if the story could not
/// be told.
#[derive(Debug, Parser)]
#[command(name = "fenced_store", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// The ZooKeeper servers to use, `host:port,...`. Without them the example starts one.
    #[arg(value_name = "SERVERS")]
    servers: Option<String>,
}

/// The role of the process, if it does not tell the story.
#[derive(Debug, Subcommand)]
enum Role {
    /// Run as one writer. The story starts it
    #[command(hide = true)]
    Writer(Part),
}

/// The options of one writer.
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
    /// The text to write.
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
