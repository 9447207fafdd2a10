//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Processes contend for one lock while their holder, and then a server, is killed.
///
/// Exits with 0 if the verdict is PASS, 1 if it is FAIL, 2 if there was nothing to judge.
#[derive(Debug, Parser)]
#[command(name = "contend", args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) show: Show,
}

/// The role of the process, if it is not the conductor.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Run as one contender. The conductor starts it
    #[command(hide = true)]
    Contender(Part),
}

/// The options of the conductor.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Use this ensemble, `host:port,...`, and leave its servers alone. Without it three servers are started.
    #[arg(long, value_name = "SERVERS")]
    pub(crate) connect: Option<String>,
    /// How many processes contend.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..=20))]
    pub(crate) contenders: u16,
    /// How many increments each contender makes.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(4..=100_000))]
    pub(crate) rounds: u32,
    /// How long a holder sleeps between reading and writing, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "100", value_parser = milliseconds)]
    pub(crate) hold: Duration,
    /// The contenders' session timeout, in milliseconds. A killed holder keeps the lock for about that time.
    #[arg(long, value_name = "MS", default_value = "4000", value_parser = milliseconds)]
    pub(crate) session_timeout: Duration,
}

/// The options of one contender.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// The number of this contender, from 1.
    #[arg(long)]
    pub(crate) number: u16,
    #[arg(long)]
    pub(crate) servers: String,
    /// The lock's path.
    #[arg(long)]
    pub(crate) lock: String,
    #[arg(long)]
    pub(crate) counter: PathBuf,
    #[arg(long)]
    pub(crate) journal: PathBuf,
    #[arg(long)]
    pub(crate) rounds: u32,
    #[arg(long, value_parser = milliseconds)]
    pub(crate) hold: Duration,
    #[arg(long, value_parser = milliseconds)]
    pub(crate) session_timeout: Duration,
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
