//! What an observer tells of data that went back.

use crate::fence::FencingToken;

/// ZooKeeper shows an older state than before: its data was lost, or restored from a backup, or somebody put an old node back.
/// Fencing tokens may be lower than those of before, so whatever remembers tokens refuses the next holders: see "ZooKeeper's data
/// must be restored" in the guide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "ZooKeeper shows token {now} at {path} after token {before}: its data was lost or restored from a backup, or somebody put an \
     old node back; stores that remember tokens may refuse the next holders"
)]
#[non_exhaustive]
pub struct WentBack {
    /// What is observed.
    pub path: String,
    /// The highest token that the observer had seen.
    pub before: FencingToken,
    /// The token that it sees now. It is the same if the holder was restored, too.
    pub now: FencingToken,
}
