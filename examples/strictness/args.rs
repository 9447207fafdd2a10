//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::kind::Kind;
use crate::scenario::Scenario;

/// Runs the same faults against five locks on Redis and against zklock, and shows who held what at the same time.
///
/// Exits with 0 if zklock never had two holders, was always free again and, with fencing, no late write was taken; 1 if not;
/// 2 if something could not be measured.
#[derive(Debug, Parser)]
#[command(name = "strictness", args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) show: Show,
}

/// What the process is, if not the conductor.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// One contender; the conductor starts it.
    #[command(hide = true)]
    Contender(Part),
}

/// What the conductor is asked for.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// How often each cell of the table is measured; the worst is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,
    /// The TTL of the Redis locks and the session timeout of zklock, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "2000", value_parser = milliseconds)]
    pub(crate) ttl: Duration,
    /// How many servers the ZooKeeper ensemble has.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) zookeepers: u8,
    /// How many runs go on at the same time. They mostly wait.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) parallel: u16,
    /// How often the undisturbed lock is acquired and released; a tenth as often it is handed to a waiter. 0 leaves the
    /// speed out.
    #[arg(long, default_value_t = 500)]
    pub(crate) cycles: u32,
    /// Only these locks.
    #[arg(long = "lock", value_name = "LOCK", value_enum, default_values_t = Kind::ALL)]
    pub(crate) locks: Vec<Kind>,
    /// Only these scenarios.
    #[arg(long = "scenario", value_name = "SCENARIO", value_enum, default_values_t = Scenario::ALL)]
    pub(crate) scenarios: Vec<Scenario>,
    /// Print the tables in Markdown, for docs/STRICTNESS.md.
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Print every cell, for programs.
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// Print everything that every process said, on standard error.
    #[arg(long)]
    pub(crate) trace: bool,
}

/// What one contender is to do.
#[derive(Clone, Debug, Args)]
pub(crate) struct Part {
    #[arg(long, value_enum)]
    pub(crate) lock: Kind,
    /// The Redis or ZooKeeper server, as `host:port`.
    #[arg(long)]
    pub(crate) server: String,
    /// The lock's key, or path.
    #[arg(long)]
    pub(crate) key: String,
    #[arg(long, value_parser = milliseconds)]
    pub(crate) ttl: Duration,
    /// How far its wall clock is ahead.
    #[arg(long, value_parser = milliseconds)]
    pub(crate) ahead: Duration,
    /// The socket of the store that the lock protects.
    #[arg(long)]
    pub(crate) store: PathBuf,
    /// Which contender it is, for the store.
    #[arg(long)]
    pub(crate) number: usize,
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Arguments::command().debug_assert();
    }
}
