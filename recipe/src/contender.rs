//! Names of contenders and their order.

use std::fmt;

/// What every contender's name begins with.
pub const PREFIX: &str = "lock-";

/// Above this number a queue takes no new contender.
///
/// Sequence numbers are `i32` on the server. At the end ZooKeeper 3.9 *saturates* (every later node gets
/// 2147483647, so two contenders have one number) and older servers wrap to negative ones (so the youngest
/// comes first). Both would grant two holders; a million numbers of distance keep every contender that was
/// admitted away from either.
pub const LAST_SEQUENCE: i32 = i32::MAX - 1_000_000;

/// The number ZooKeeper appended to a contender's name; the lowest one in the queue holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub i32);

impl Sequence {
    /// Reads the number out of a child's name; `None` if the child is no contender.
    ///
    /// Only the server's own spelling counts (`%010d`, negative numbers included), so that a name and its
    /// number stand for each other.
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix(PREFIX)?;
        let sequence = Self(digits.parse().ok()?);
        (sequence.digits() == digits).then_some(sequence)
    }

    /// The contender's name in the lock's directory.
    pub fn name(self) -> String {
        self.to_string()
    }

    /// The contender that was created just before this one, if there can be one.
    pub fn previous(self) -> Option<Self> {
        (self.0 > 0).then(|| Self(self.0 - 1))
    }

    /// True when the number is too near its end (or past it) for the order to be trusted.
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

/// A contender node of our own: its place in the queue, and the transaction that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// Its place in the queue.
    pub sequence: Sequence,
    /// Its `czxid`: the fencing token if it comes to hold the lock.
    pub czxid: i64,
}

/// Where a contender stands among the children of the lock's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No contender is lower.
    First,
    /// This one alone is lower.
    Second(Sequence),
    /// The next lower contender; there are others.
    Behind(Sequence),
    /// The contender itself is not among the children.
    Missing,
}

/// Finds the place of `own` among `children`; those that are no contenders are passed over.
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
