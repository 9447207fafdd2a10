//! What a client process is told at its start.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::args::{Mode, Recipe};

/// The tick of the servers.
pub(crate) const TICK: Duration = Duration::from_secs(1);
/// What every contender asks for.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The same for all clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) lock: Recipe,
    pub(crate) mode: Mode,
    /// The takeover delay of zklock's contenders in a queue that another client shares.
    pub(crate) delay: Duration,
    /// The addresses of the registers, one for each lock.
    pub(crate) registers: Vec<String>,
    /// The library that slews the clocks of a process.
    pub(crate) shim: PathBuf,
    /// Whether the slewed clients have no other clock.
    pub(crate) breaks_leases: bool,
}

/// The part of one client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Which one it is, from 1.
    pub(crate) number: u16,
    /// How many tasks contend in it, on one session.
    pub(crate) tasks: u16,
    pub(crate) servers: String,
    pub(crate) seed: u64,
    /// How much faster than true time its clocks run, in parts per million.
    pub(crate) slew: i64,
    pub(crate) setup: Setup,
}
