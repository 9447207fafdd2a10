//! What runs come to.

use clap::ValueEnum;

/// What one run came to, or the worst of several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// For how many seconds two held the lock at the same time.
    pub(super) together: f64,
    /// Writes of a former holder after a later holder was granted the lock: those that the store accepted, and those that it refused.
    pub(super) late_writes: u32,
    pub(super) refused: u32,
    /// Seconds from the fault to the next grant. Infinite if nobody could get the lock any more.
    pub(super) recovery: f64,
    /// How the former holder was told that it holds the lock no more, or never did.
    pub(super) told: Option<Told>,
}

/// How a former holder is told; the later ones are worse. The table has these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Told {
    // It was never given the lock.
    /// waits on
    Waits,
    /// acquire fails
    AcquireFails,
    // The lock says so, the first time it is asked after the fault.
    /// first check
    Check,
    // The servers say so. If it does not ask them, its release fails.
    /// if it asks
    IfItAsks,
    /// release fails
    ReleaseFails,
    // Its release succeeds.
    /// nothing
    Nothing,
}

impl Outcome {
    /// Takes in another run: the worse of both stays.
    pub(super) fn add(&mut self, other: Self) {
        self.together = self.together.max(other.together);
        self.late_writes = self.late_writes.max(other.late_writes);
        self.refused = self.refused.max(other.refused);
        self.recovery = self.recovery.max(other.recovery);
        self.told = self.told.max(other.told);
    }
}
