//! The locks that are compared.

use clap::ValueEnum;
use serde::Serialize;

/// One lock. The table's columns have these headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// SET NX PX
    SetNxPx,
    /// SETNX, EXPIRE
    SetnxExpire,
    /// SETNX, GETSET
    SetnxGetset,
    /// Spring
    Spring,
    /// Redisson
    Redisson,
    /// zklock, unfenced
    ZklockUnfenced,
    /// zklock, fenced
    Zklock,
}

impl Kind {
    pub(super) fn is_zklock(self) -> bool {
        matches!(self, Self::ZklockUnfenced | Self::Zklock)
    }

    /// Whether the register refuses writes of former holders.
    pub(super) fn is_fenced(self) -> bool {
        self == Self::Zklock
    }

    /// How many replies come before the one that completes the acquisition of a free lock.
    pub(super) fn replies_before_the_last(self) -> usize {
        usize::from(self == Self::SetnxExpire)
    }
}
