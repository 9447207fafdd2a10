//! The locks that are compared.

use serde::Serialize;

/// One lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
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

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::SetNxPx,
        Self::SetnxExpire,
        Self::SetnxGetset,
        Self::Spring,
        Self::Redisson,
        Self::ZklockUnfenced,
        Self::Zklock,
    ];

    /// The heading of its column.
    pub(super) fn title(self) -> &'static str {
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
