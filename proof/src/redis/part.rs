//! The part of one contender.

use std::time::Duration;

use clap::Args;

use super::kind::Kind;
use crate::harness::milliseconds;

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
    /// The address of the register that the lock protects.
    #[arg(long)]
    pub(crate) register: String,
    /// Which contender it is, for the register.
    #[arg(long)]
    pub(crate) number: usize,
}
