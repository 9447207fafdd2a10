//! The names of contenders, and their order.

use alloc::{format, string::String, string::ToString};
use core::fmt;

/// The beginning of every contender's name.
pub const PREFIX: &str = "lock-";

/// The highest number with which a contender may stay in a queue.
///
/// Sequence numbers are `i32` on the server. At the end ZooKeeper 3.9 *saturates*: every later node gets 2147483647, so
/// two contenders have one number. Older servers wrap to negative numbers, so the youngest contender comes first. Both
/// would grant two holders. A distance of a million numbers keeps every contender that was admitted away from both.
pub const LAST_SEQUENCE: i32 = i32::MAX - 1_000_000;

/// The number that ZooKeeper appended to a contender's name. The contender with the lowest number in the queue holds
/// the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub i32);

impl Sequence {
    /// Reads the number from a child's name; `None` if the child is no contender.
    ///
    /// Only the server's own spelling counts (`%010d`, also for negative numbers). So each name has one number, and
    /// each number one name.
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix(PREFIX)?;
        let sequence = Self(digits.parse().ok()?);
        (sequence.digits() == digits).then_some(sequence)
    }

    /// Returns the contender's name in the lock's directory.
    pub fn name(self) -> String {
        self.to_string()
    }

    /// Returns the number just before this one, if a contender can have it.
    pub fn previous(self) -> Option<Self> {
        (self.0 > 0).then(|| Self(self.0 - 1))
    }

    /// Returns true if the number is too close to the largest one, or past it, for the order to be reliable.
    pub fn is_exhausted(self) -> bool {
        self.0 < 0 || self.0 > LAST_SEQUENCE
    }

    fn digits(self) -> String {
        format!("{:010}", self.0)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:010}", self.0)
    }
}

/// Our own node: its number in the queue, and the transaction that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// The node's number in the queue.
    pub sequence: Sequence,
    /// The node's `czxid`: the fencing token once the contender holds the lock.
    pub czxid: i64,
}

/// The place of a contender among the children of the lock's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No other contender is lower.
    First,
    /// Only this contender is lower.
    Second(Sequence),
    /// This is the next lower contender, and others are lower still.
    Behind(Sequence),
    /// The contender itself is not among the children.
    Missing,
}

/// Finds the place of `own` among `children`. It passes over children that are no contenders.
pub fn standing<S: AsRef<str>>(children: &[S], own: Sequence) -> Standing {
    let (mut present, mut lower) = (false, 0);
    let mut predecessor = None;
    for sequence in children.iter().filter_map(|name| Sequence::parse(name.as_ref())) {
        present |= sequence == own;
        if sequence < own {
            lower += 1;
            predecessor = predecessor.max(Some(sequence));
        }
    }
    match predecessor {
        _ if !present => Standing::Missing,
        None => Standing::First,
        Some(predecessor) if lower == 1 => Standing::Second(predecessor),
        Some(predecessor) => Standing::Behind(predecessor),
    }
}

#[cfg(test)]
mod tests;
