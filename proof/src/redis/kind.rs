//! The locks that are compared.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// `SET NX PX`, and a script that deletes only the holder's own.
    SetNxPx,
    /// `SETNX` and `EXPIRE`, one after the other.
    SetnxExpire,
    /// `SETNX` with a timestamp, and `GETSET` once that has passed.
    SetnxGetset,
    /// Spring Integration's `RedisLockRegistry`.
    Spring,
    /// Redisson's `RLock`.
    Redisson,
    /// zklock, and a register that looks at no token.
    ZklockUnfenced,
    /// zklock, and a register that refuses lower tokens.
    Zklock,
}

/// A step of a lock's protocol, at which a fault is aimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The request that takes a free lock.
    Win,
    /// What follows the winning request before the lock is acquired.
    Complete,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::SetNxPx,
        Self::SetnxExpire,
        Self::SetnxGetset,
        Self::Spring,
        Self::Redisson,
        Self::ZklockUnfenced,
        Self::Zklock,
    ];

    /// The heading of its column.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::SetNxPx => "SET NX PX",
            Self::SetnxExpire => "SETNX, EXPIRE",
            Self::SetnxGetset => "SETNX, GETSET",
            Self::Spring => "Spring",
            Self::Redisson => "Redisson",
            Self::ZklockUnfenced => "zklock, unfenced",
            Self::Zklock => "zklock, fenced",
        }
    }

    pub(crate) fn is_zklock(self) -> bool {
        matches!(self, Self::ZklockUnfenced | Self::Zklock)
    }

    /// Whether the register refuses writes of former holders.
    pub(crate) fn is_fenced(self) -> bool {
        self == Self::Zklock
    }

    /// The Redis command of a step; `None` where the protocol has no such step.
    pub(crate) fn command(self, step: Step) -> Option<&'static str> {
        match (self, step) {
            (Self::SetNxPx, Step::Win) => Some("SET"),
            (Self::SetnxExpire | Self::SetnxGetset, Step::Win) => Some("SETNX"),
            (Self::SetnxExpire, Step::Complete) => Some("PEXPIRE"),
            (Self::Spring | Self::Redisson, Step::Win) => Some("EVAL"),
            (_, Step::Complete) | (Self::ZklockUnfenced | Self::Zklock, _) => None,
        }
    }

    /// How long a client waits for Redis's reply before it gives up, in proportion to the TTL as its defaults are.
    pub(crate) fn response_timeout(self, ttl: Duration) -> Option<Duration> {
        match self {
            // Lettuce, which Spring Data uses by default: 60 s, as long as the registry's TTL.
            Self::Spring => Some(ttl),
            // 3 s, of a TTL of 30 s.
            Self::Redisson => Some(ttl / 10),
            // The recipes name none.
            _ => None,
        }
    }
}
