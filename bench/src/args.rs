//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::contestant::Contestant;

/// Measures zklock against its peers.
///
/// Exits with 0 when it has measured, 1 when what it measured exceeds a limit, 2 when it could not measure.
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
    /// Memory of acquisitions that wait in one process, on one session.
    Memory(Memory),
    /// Memory of tasks that wait for one key in one process, and the time it takes to pass the lock on.
    Line(Line),
    /// Time until the last of many observers is told who leads an election.
    Elect(Elect),
    /// What an acquisition costs beside what its session holds, and what a burst of acquisitions costs the guards.
    Carry(Carry),
    /// What sessions cost the servers, and what they cost themselves.
    Scale(Scale),
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
    /// Draw the handovers of eight contenders into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) picture: Option<PathBuf>,
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
    /// Have zookeeper-client release in the background, by dropping, rather than await the same request. Not in `free`,
    /// where a cycle ends when the lock is free.
    #[arg(long)]
    pub(crate) drops: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Memory {
    /// How many acquisitions wait.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) waiters: u32,
    /// The most they may take, in MB of 1,000,000 bytes.
    #[arg(long, value_name = "MB", default_value_t = 100.0)]
    pub(crate) limit_mb: f64,
}

#[derive(Debug, Args)]
pub(crate) struct Line {
    /// How many tasks wait.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tasks: u32,
    /// The most that each may take, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1_000)]
    pub(crate) limit_bytes: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Elect {
    /// How many observers there are, each with a session of its own.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) observers: u32,
    /// How often it is measured.
    #[arg(long, value_name = "R", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Carry {
    /// How many guards there are beside an acquisition.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) guards: u32,
    /// How many observers there are beside an acquisition.
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pub(crate) observers: u32,
    /// How many keys are acquired at once.
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub(crate) keys: u32,
    /// How many locks are acquired at once beside a hundred guards.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) burst: u32,
    /// As `burst`, while the connection breaks.
    #[arg(long, value_name = "N", default_value_t = 40_000)]
    pub(crate) broken: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// What the sessions do, one after the other on the same servers: names with commas between them.
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    pub(crate) what: Vec<What>,
    /// How many sessions there are.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) sessions: usize,
    /// How many locks, keys, permits, waiters or observers each session has.
    #[arg(long, value_name = "M", default_value_t = 1)]
    pub(crate) each: usize,
    /// How many servers there are.
    #[arg(long, value_name = "S", default_value_t = 3)]
    pub(crate) servers: usize,
    /// The session timeout, in seconds.
    #[arg(long, value_name = "T", default_value_t = 10)]
    pub(crate) timeout: u64,
    /// For how long it is measured, in seconds.
    #[arg(long, value_name = "W", default_value_t = 20)]
    pub(crate) window: u64,
    /// Have the servers wait for the disk, as they do by default. Without this they do not.
    #[arg(long)]
    pub(crate) force_sync: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Sessions of Curator that do nothing, in one Java machine. It needs `make peers`.
    Curator,
    /// Bare sessions that ping at the times at which Curator's do.
    Pinging,
    /// Sessions of zookeeper-client that do nothing.
    Plain,
    /// Sessions of zklock that do nothing.
    Idle,
    /// Each session holds locks of its own.
    Holding,
    /// Each session waits for one lock that another one holds.
    Waiting,
    /// Each session observes who holds a lock.
    Observing,
    /// Each session holds keys of its own, of locks by key.
    Keys,
    /// Each session holds permits of one semaphore.
    Permits,
    /// Each session acquires and releases locks of its own, again and again.
    Cycling,
    /// Eight sessions each acquire and release one lock, again and again.
    Handing,
    /// Beside each session another one is opened and closed, again and again.
    Connecting,
}

impl What {
    /// Whether it is something that is done again and again.
    pub(crate) fn cycles(self) -> bool {
        matches!(self, Self::Cycling | Self::Handing | Self::Connecting)
    }
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
    /// `InterProcessSemaphoreV2` and one lock. It needs `make peers`.
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
    /// Whether zookeeper-client releases by dropping.
    pub(crate) fn drops(&self) -> bool {
        self.drops && self.scenario != Scenario::Free
    }

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
