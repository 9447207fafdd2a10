//! The names of contenders, their kinds, and their order.

use alloc::{format, string::String, string::ToString, vec::Vec};
use core::fmt;

/// The highest number with which a contender may stay in a queue.
///
/// Sequence numbers are `i32` on the server. At the end ZooKeeper *saturates* since 3.6: every later node gets
/// 2147483647, so two contenders have one number. Older servers wrap to negative numbers, so the youngest contender
/// comes first. Both would grant two holders. A distance of a million numbers keeps every contender that was admitted
/// away from both.
pub const LAST_SEQUENCE: i32 = i32::MAX - 1_000_000;

/// Whom a contender tolerates beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nobody: a lock, or the writer of a read-write lock. Every lower contender blocks it.
    Exclusive,
    /// Others of this kind: a reader. Only lower exclusive contenders block it.
    Shared,
    /// A permit of a semaphore, of this weight. It is in no queue: one transaction creates it and grants it.
    Permit(u32),
    /// A slot with this index. It is in no queue either.
    Slot(u32),
}

impl Kind {
    /// Every kind that is in a queue.
    pub const ALL: [Self; 2] = [Self::Exclusive, Self::Shared];

    /// The beginnings of all names that zklock gives to nodes.
    pub const STEMS: [&'static str; 4] = ["lock-", "rlock-", "permit-", "slot-"];

    /// The beginning of the names of nodes of this kind, up to the number that the server appends. Other clients that
    /// wait for each lower `lock-N`, by the end of its name, wait for readers as well.
    pub fn prefix(self) -> String {
        match self {
            Self::Exclusive => "lock-".to_string(),
            Self::Shared => "rlock-".to_string(),
            Self::Permit(weight) => format!("permit-{weight}-"),
            Self::Slot(index) => format!("slot-{index}-"),
        }
    }
}

/// The number that ZooKeeper appended to a contender's name. All kinds take their numbers from the one counter of the
/// directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub i32);

impl Sequence {
    /// Returns the number just before this one, if a contender can have it.
    pub(crate) fn previous(self) -> Option<Self> {
        (self.0 > 0).then(|| Self(self.0 - 1))
    }

    /// Returns true if the number is too close to the largest one, or past it, for the order to be reliable.
    pub fn is_exhausted(self) -> bool {
        self.0 < 0 || self.0 > LAST_SEQUENCE
    }

    /// The number as the server appends it.
    pub(crate) fn digits(self) -> String {
        format!("{:010}", self.0)
    }
}

/// A contender's place in the queue, which its name shows: its number and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePlace {
    /// The contender's number.
    pub sequence: Sequence,
    /// The contender's kind.
    pub kind: Kind,
}

impl QueuePlace {
    /// Returns the exclusive place with this number.
    pub const fn exclusive(number: i32) -> Self {
        Self { sequence: Sequence(number), kind: Kind::Exclusive }
    }

    /// Returns the shared place with this number.
    pub const fn shared(number: i32) -> Self {
        Self { sequence: Sequence(number), kind: Kind::Shared }
    }

    /// Reads the place from a child's name; `None` if the child is no contender.
    ///
    /// Only the server's own spelling counts (`%010d`, also for negative numbers). So each name has one place, and
    /// each place one name.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, digits) = match name.strip_prefix("lock-") {
            Some(digits) => (Kind::Exclusive, digits),
            None => (Kind::Shared, name.strip_prefix("rlock-")?),
        };
        let sequence = Sequence(digits.parse().ok()?);
        (sequence.digits() == digits).then_some(Self { sequence, kind })
    }

    /// Reads the place from the name of a permit or a slot; `None` if the name is of neither. As for
    /// [`parse`](Self::parse), each place has one name. A permit weighs one at least.
    pub fn parse_permit(name: &str) -> Option<Self> {
        let (stem, rest) = name.split_once('-')?;
        let (number, digits) = rest.split_once('-')?;
        let number = number.parse().ok()?;
        let sequence = Sequence(digits.parse().ok()?);
        let kind = match stem {
            "permit" if number > 0 => Kind::Permit(number),
            "slot" => Kind::Slot(number),
            _ => return None,
        };
        let place = Self { sequence, kind };
        (place.name() == name).then_some(place)
    }

    /// Returns the contender's name in the lock's directory.
    pub fn name(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:010}", self.kind.prefix(), self.sequence.0)
    }
}

/// Our own node: its place in the queue, and the transaction that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// The node's place in the queue.
    pub place: QueuePlace,
    /// The node's `czxid`: the fencing token once the contender holds the lock.
    pub czxid: i64,
}

/// The standing of a contender among the children of the lock's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No other contender is lower.
    First,
    /// Lower contenders are there, and none of them blocks this one.
    Beside,
    /// Lower contenders block this one.
    Behind(Ahead),
    /// The contender itself is not among the children.
    Missing,
}

/// The contenders that block another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ahead {
    /// The nearest of them. The other one waits for its end.
    pub nearest: QueuePlace,
    /// What is known of those that are lower still.
    pub others: Others,
    /// Whether the queue had at most `SHORT_QUEUE` children, so that a holder may list it.
    pub is_short: bool,
}

/// The longest queue that a holder lists to see whether the release that granted it was forged.
pub(crate) const SHORT_QUEUE: usize = 256;

/// What a contender knows of those that block it, except the nearest one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    /// These are all, the lowest first. No other one can appear, because the server numbers upwards. So the contender
    /// asks for one after the other, and does not list the queue again. An exclusive contender remembers only that
    /// nobody is left.
    All(Vec<Sequence>),
    /// There may be more, so the contender lists the queue again. These readers must be in that listing. A reader that
    /// is missing may have vanished with work in flight.
    Some(Vec<Sequence>),
}

/// Finds the standing of `own` among `children`. It passes over children that are no contenders.
pub fn standing<S: AsRef<str>>(children: &[S], own: QueuePlace) -> Standing {
    let places = || children.iter().filter_map(|name| QueuePlace::parse(name.as_ref()));
    let lower = || places().filter(|place| place.sequence < own.sequence);
    if !places().any(|place| place == own) {
        return Standing::Missing;
    }
    let Some(highest) = lower().max() else { return Standing::First };
    let is_short = children.len() <= SHORT_QUEUE;
    let writer = lower().filter(|place| place.kind == Kind::Exclusive).max();
    let sorted = |places: &mut dyn Iterator<Item = QueuePlace>| {
        let mut sequences = places.map(|place| place.sequence).collect::<Vec<_>>();
        sequences.sort_unstable();
        sequences
    };
    match (own.kind, writer) {
        (Kind::Shared, None) => Standing::Beside,
        (Kind::Shared, Some(nearest)) => {
            let writers = lower().filter(|place| place.kind == Kind::Exclusive && *place != nearest);
            Standing::Behind(Ahead { nearest, others: Others::All(sorted(&mut { writers })), is_short })
        }
        (_, _) => {
            // A writer that has held the lock speaks for all that are lower. Readers speak for themselves, also those in
            // front of a writer: it may give up, and then a later reader holds the lock beside them.
            let readers = lower().filter(|place| *place != highest && place.kind == Kind::Shared);
            let others = match lower().count() {
                1 => Others::All(Vec::new()),
                _ => Others::Some(sorted(&mut { readers })),
            };
            Standing::Behind(Ahead { nearest: highest, others, is_short })
        }
    }
}

#[cfg(test)]
mod tests;
