//! What a path is used for, and what shows it.
//!
//! ```text
//! kind       where its contenders queue   what else it keeps there
//! lock       /P                           -
//! election   /P/queue                     /P/leader, while somebody leads
//! pool       /P/queue                     /P/permits, with its stock as data
//! ```
//!
//! A path has one kind. Locks of different kinds at one path would not see each other's contenders, and each would be
//! granted beside the others.

use alloc::string::String;
use core::fmt;

use crate::foreign::{Child, Foreign, ForeignClient};
use crate::permits::Stock;

/// What a path is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// A lock, a read-write lock, one of several locks, or a run that happens once. These exclude each other.
    Lock,
    /// An election.
    Election,
    /// A semaphore.
    Semaphore,
    /// Slots.
    Slots,
}

impl PathKind {
    /// The name of the directory in which the contenders of an election or a pool queue.
    pub const QUEUE: &'static str = "queue";

    /// The name of the announcement of an election's leader.
    pub const LEADER: &'static str = "leader";

    /// The name of the directory of a pool's permits.
    pub const PERMITS: &'static str = "permits";

    /// The names of the nodes that an election or a pool keeps at its path.
    pub const INNER: [&'static str; 3] = [Self::QUEUE, Self::LEADER, Self::PERMITS];
}

impl From<Stock> for PathKind {
    fn from(stock: Stock) -> Self {
        match stock {
            Stock::Permits(_) => Self::Semaphore,
            Stock::Slots(_) => Self::Slots,
        }
    }
}

/// Says it after `as`.
impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "a lock",
            Self::Election => "an election",
            Self::Semaphore => "a semaphore",
            Self::Slots => "slots",
        })
    }
}

/// A path is used for something else than a contender wants it for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OtherKind {
    /// What the path is used for.
    pub found: PathKind,
    /// That path: the contender's own, or the one above it.
    pub at: String,
}

/// Something with which a contender cannot share its queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stranger {
    /// A contender of another client.
    Client(Foreign),
    /// The path is used for something else.
    Kind(OtherKind),
}

/// What a look at a path shows of its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Whether one of its children has the name of a lock's contender, of zklock's or of another client's.
    pub contended: bool,
    /// Whether a leader has announced itself.
    pub announced: bool,
    /// What the pool has.
    pub stock: Option<Stock>,
    /// What the first contender in its inner queue says that it contends for.
    pub queued: Option<PathKind>,
}

impl Signs {
    /// Takes in the names of the path's children.
    pub fn of_children<S: AsRef<str>>(children: &[S]) -> Self {
        let contends = |name: &S| match Child::of(name.as_ref()) {
            Child::Contender(_) => true,
            // A name that no known client gives may be that of any sequential node.
            Child::Suspect(client) => client != ForeignClient::Unknown,
            Child::Other => false,
        };
        let contended = children.iter().any(contends);
        Self { contended, ..Self::default() }
    }

    /// Returns another kind than the expected one that the path shows. `None` if it shows none: nobody uses it, or all
    /// use it for the same.
    pub fn other_than(self, expected: PathKind) -> Option<PathKind> {
        let signs = [
            self.stock.map(PathKind::from),
            self.announced.then_some(PathKind::Election),
            // A lock at `/P/queue` is that path's, and says nothing of `/P`.
            self.queued.filter(|kind| *kind != PathKind::Lock),
            // Its candidates looked when they came. So a lock beside a leader is about to be refused.
            (self.contended && !(self.announced && expected == PathKind::Election)).then_some(PathKind::Lock),
        ];
        signs.into_iter().flatten().find(|found| *found != expected)
    }
}

#[cfg(test)]
mod tests {
    use super::PathKind::*;
    use super::*;
    use crate::contender::{Kind, QueuePlace, Sequence};
    use crate::layout::QueueLayout;

    const KINDS: [PathKind; 4] = [Lock, Election, Semaphore, Slots];

    fn sign_of(kind: PathKind) -> Signs {
        match kind {
            Lock => Signs::of_children(&["lock-0000000007"]),
            Election => Signs { announced: true, ..Signs::default() },
            Semaphore => Signs { stock: Some(Stock::Permits(3)), ..Signs::default() },
            Slots => Signs { stock: Some(Stock::Slots(3)), ..Signs::default() },
        }
    }

    #[test]
    fn each_kind_shows_itself_to_each_other_and_to_none_of_its_own() {
        for found in KINDS {
            for expected in KINDS {
                let other = (found != expected).then_some(found);
                assert_eq!(sign_of(found).other_than(expected), other, "{expected} where {found} is");
            }
        }
    }

    #[test]
    fn candidates_show_an_election_that_nobody_leads() {
        let queued = |kind| Signs { queued: Some(kind), ..Signs::default() };
        for found in [Election, Semaphore, Slots] {
            for expected in KINDS {
                let other = (found != expected).then_some(found);
                assert_eq!(queued(found).other_than(expected), other);
            }
        }
        for expected in KINDS {
            assert_eq!(queued(Lock).other_than(expected), None, "a lock at the path below");
        }
    }

    #[test]
    fn a_path_with_other_children_shows_nothing() {
        for children in [&["orders", "queue", "permits", "leader"][..], &["permit-1-0000000000"], &[]] {
            for expected in KINDS {
                assert_eq!(Signs::of_children(children).other_than(expected), None);
            }
        }
    }

    /// An election in a queue of another client's has its contenders at its path itself.
    #[test]
    fn contenders_in_another_clients_queue_show_a_lock() {
        for layout in QueueLayout::ALL {
            let name = layout.name(QueuePlace { sequence: Sequence(7), kind: Kind::Exclusive });
            assert_eq!(Signs::of_children(&[name.as_str()]).other_than(Election), Some(Lock), "{name}");
        }
        let latch = "_c_1ef3b5a4-0e4f-4cd5-9a39-7a9d3a6b7f10-latch-0000000007";
        assert_eq!(Signs::of_children(&[latch]).other_than(Election), Some(Lock));
        assert_eq!(
            Signs::of_children(&["item-0000000007"]).other_than(Election),
            None,
            "a node of any recipe"
        );
    }

    #[test]
    fn a_reader_shows_a_lock() {
        assert_eq!(Signs::of_children(&["x", "rlock-0000000007"]).other_than(Semaphore), Some(Lock));
    }
}
