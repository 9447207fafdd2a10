//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::contestant::Contestant;

/// Measures zklock against its peers.
///
/// Exits with 0 when it has measured, 2 when it could not measure.
#[derive(Debug, Parser)]
#[command(name = "zklock-bench")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// zklock beside every peer: handovers, crashes, and a server that is cut off. It needs `scripts/have-peers.sh all`.
    Compare(Compare),
    /// One scenario in detail: time, requests and bytes of an acquisition, mostly beside zookeeper-client's.
    Scenario(Detail),
    /// A peer that obeys lines, as `compare` starts it.
    #[command(hide = true)]
    Part(Part),
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Beside whom; zklock always takes part. `redis` is by publishing, as Redisson does it.
    #[arg(long, value_enum, value_name = "PEERS", value_delimiter = ',', default_values_t = Contestant::value_variants().to_vec(), hide_default_value = true)]
    peers: Vec<Contestant>,
    /// How many clients contend.
    #[arg(long, value_name = "K", value_delimiter = ',', default_values_t = [1, 2, 8, 64], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) clients: Vec<u32>,
    /// How long a turn is in which one peer's clients contend, in seconds. Each has three a cell of the table. 0 leaves out the
    /// speeds.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = |text: &str| number(text, 60.0))]
    turn: f64,
    /// How often holders crash, and a server is cut off. 0 leaves that out.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) repetitions: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Part {
    pub(crate) peer: Contestant,
    pub(crate) servers: String,
    pub(crate) path: String,
    /// As the other programs have it: `mutex`.
    what: String,
}

#[derive(Debug, Args)]
pub(crate) struct Detail {
    /// What the clients do.
    #[arg(value_enum)]
    pub(crate) scenario: Scenario,
    /// How many clients, each with a session of its own; in `queue`, how many wait in front of the measured one.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) clients: u32,
    /// How many measured cycles for each client; in `queue`, for the one measured client.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cycles: u32,
    /// How many tasks each client has in `keys`.
    #[arg(long, value_name = "M", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) tasks: u32,
    /// What to add to each round trip of a measured client, in milliseconds.
    #[arg(long, value_name = "R", default_value_t = 0.0, value_parser = |text: &str| number(text, 10_000.0))]
    pub(crate) rtt_ms: f64,
    /// How long each client holds the lock in `contended`, in milliseconds. That time is not measured.
    #[arg(long, value_name = "H", default_value_t = 0.0, value_parser = |text: &str| number(text, 10_000.0))]
    pub(crate) hold_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Each client acquires and releases a lock that nobody else wants.
    Free,
    /// All clients acquire and release one lock, again and again.
    Contended,
    /// One client acquires a lock for which others wait already; they go first.
    Queue,
    /// Each client acquires and releases three locks at once that nobody else wants, beside one such lock.
    Multi,
    /// All tasks of all clients acquire and release the lock of one key, again and again: by zklock's locks by key, by
    /// zklock's lock, and by zookeeper-client's.
    Keys,
    /// All clients acquire and release permits of a semaphore that has eight, beside Curator's
    /// `InterProcessSemaphoreV2` and one lock. It needs `scripts/have-peers.sh`.
    Permits,
    /// All clients wait as readers behind a writer, which releases the lock; beside it, one writer waits behind
    /// another, and as many bare watches are awaited.
    Readers,
}

impl Compare {
    /// Who takes part.
    pub(crate) fn contestants(&self) -> Vec<Contestant> {
        let takes_part =
            |contestant: &Contestant| *contestant == Contestant::Zklock || self.peers.contains(contestant);
        Contestant::value_variants().iter().copied().filter(takes_part).collect()
    }

    pub(crate) fn turn(&self) -> Option<Duration> {
        Some(Duration::from_secs_f64(self.turn)).filter(|turn| !turn.is_zero())
    }
}

impl Detail {
    pub(crate) fn hold(&self) -> Duration {
        Duration::from_secs_f64(self.hold_ms / 1000.0)
    }

    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_secs_f64(self.rtt_ms / 1000.0)
    }
}

/// A number from 0 to `most`.
fn number(text: &str, most: f64) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=most).contains(&number) => Ok(number),
        _ => Err(format!("write a number from 0 to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Arguments::command().debug_assert();
    }
}
