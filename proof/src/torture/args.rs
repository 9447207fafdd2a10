//! The command line of the torture.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::schedule::Kind;

/// Whose lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Recipe {
    /// zklock's, with fencing.
    Zklock,
    /// zookeeper-client's own, `Client::lock`, which has no tokens: to see whether the torture finds anything.
    ZookeeperClient,
}

/// What is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// One lock.
    Lock,
    /// One read-write lock.
    Rw,
    /// Several of five locks at once.
    Multi,
    /// An election, with observers.
    Election,
    /// Locks by key, which the tasks of a process pass on.
    Registry,
    /// A semaphore, with permits of several weights.
    Semaphore,
    /// Slots.
    Slots,
    /// Slots that run once.
    Once,
    /// One lock in a queue that another client shares.
    Shared,
}

#[derive(Debug, Args)]
pub(crate) struct Torture {
    /// What the processes contend for.
    #[arg(long, value_enum, default_value_t = Mode::Lock)]
    pub(crate) mode: Mode,
    /// For how long there are faults, in seconds. Starting, recovering and looking for remains take some ten more.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) seconds: u64,
    /// How many client processes contend.
    #[arg(long, value_name = "K", default_value_t = 6, value_parser = clap::value_parser!(u16).range(3..=50))]
    pub(crate) clients: u16,
    /// Decides which faults there are, and when. Drawn and printed if it is left out.
    #[arg(long, value_name = "X")]
    pub(crate) seed: Option<u64>,
    /// Whose lock is tortured. Another client's can be tortured in the mode `lock` alone.
    #[arg(long, value_enum, default_value_t = Recipe::Zklock)]
    pub(crate) lock: Recipe,
    /// No other fault than this, aimed at holders.
    #[arg(long, value_enum, value_name = "FAULT")]
    pub(crate) only: Option<Kind>,
    /// In the mode `shared`: for how many milliseconds zklock waits behind the other client's contenders. Without it, as long as the
    /// documentation promises to be enough. With less, the run is to fail.
    #[arg(long, value_name = "MS")]
    pub(crate) takeover_delay: Option<u64>,
    /// Slew every clock of each other process, also the one that nobody slews. Its leases last twice as long as they may, so the run is
    /// to fail.
    #[arg(long)]
    pub(crate) break_leases: bool,
    /// Delete the nodes of each holder that is stopped shortly. Its guard cannot hear of that, so the run is to fail.
    #[arg(long)]
    pub(crate) break_nodes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the history into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}
