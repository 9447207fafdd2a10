//! The command line.

use std::path::PathBuf;

use clap::Parser;
use zklock_contest::member::Member;
use zklock_simulation::Choices;

/// Runs zklock and zookeeper-client as they ship on simulated servers, network and clocks. Without --seed it runs random
/// seeds until the time is over, and shrinks the first that fails.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Args {
    /// Run this seed alone
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// How long to run seeds
    #[arg(long, default_value_t = 1, value_name = "MINUTES")]
    pub(crate) minutes: u64,
    /// The member to contend for, instead of a random one
    #[arg(long)]
    pub(crate) mode: Option<Member>,
    /// Append a line on this run to a file of comma-separated values, behind its header: ledger.csv
    #[arg(long, conflicts_with = "seed", value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
    /// Print what happens, with --seed
    #[arg(long, requires = "seed")]
    pub(crate) trace: bool,
    /// Leave out these faults of the seed
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub(crate) without: Vec<usize>,
}

impl Args {
    pub(crate) fn choices(&self) -> Choices {
        Choices { member: self.mode, without: self.without.clone() }
    }
}
