//! The command line of the comparison with Redis locks.

use std::time::Duration;

use clap::Args;

use crate::redis::kind::Kind;
use crate::redis::scenario::Scenario;

/// What is to be shown.
#[derive(Debug, Args)]
pub(crate) struct Redis {
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
    /// Only these locks.
    #[arg(long = "lock", value_name = "LOCK", value_enum, default_values_t = Kind::ALL)]
    pub(crate) locks: Vec<Kind>,
    /// Only these scenarios.
    #[arg(long = "scenario", value_name = "SCENARIO", value_enum, default_values_t = Scenario::ALL)]
    pub(crate) scenarios: Vec<Scenario>,
    /// Print every cell, for programs.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print everything that every process said, on standard error.
    #[arg(long)]
    pub(crate) trace: bool,
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}
