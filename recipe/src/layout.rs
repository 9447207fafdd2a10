//! Queues that zklock shares with the mutexes of another client: whose names its contenders have there, and what shows that nobody of
//! the other client may still believe that it holds the lock.
//!
//! The other client's contenders have no lease. If one of them is cut off, its node vanishes before it knows, and its release
//! looks the same. So a contender of ours that takes over waits for the takeover delay ([`Takeover::Mixed`]), unless one of two things
//! shows that a contender of ours held the lock last and released it:
//!
//! 1. A waiter sees its predecessor's release, as in a queue of our own.
//! 2. A contender that lists the queue and finds nobody in front of it sees in the directory's stat that the last child went with
//!    a write to the directory ([`shows_release`](Directory::shows_release)). Only our release does both in one transaction.
//!
//! All contenders in such a queue are exclusive, so their numbers are the order. Readers of the other client's are no contenders there:
//! their names are foreign, as in a queue of our own.
//!
//! [`Takeover::Mixed`]: crate::Takeover::Mixed

use alloc::{format, string::String, vec::Vec};

use crate::contender::{Kind, QueuePlace, Sequence};
use crate::foreign::{CURATOR_ID, Child, ForeignClient, KAZOO_ID};
use crate::machine::Takeover;

/// Whose names contenders have, and so with whom they share their queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueueLayout {
    /// zklock's own. It shares no queue.
    #[default]
    Own,
    /// Curator's `InterProcessMutex`, also that of a `LeaderSelector`. go-zookeeper's `Lock` and this honour each other.
    CuratorMutex,
    /// kazoo's `Lock`, also that of an `Election`. Its `WriteLock` has the same names, and these honour each other.
    Kazoo,
}

impl QueueLayout {
    /// Every layout.
    pub const ALL: [Self; 3] = [Self::Own, Self::CuratorMutex, Self::Kazoo];

    /// Whether another client's contenders are in the queue.
    pub fn is_shared(self) -> bool {
        self != Self::Own
    }

    /// What a contender does once it is first, with a takeover delay or without one.
    pub fn takeover(self, delays: bool) -> Takeover {
        match (self, delays) {
            (Self::Own, false) => Takeover::AtOnce,
            (Self::Own, true) => Takeover::Delayed,
            (Self::CuratorMutex | Self::Kazoo, _) => Takeover::Mixed,
        }
    }

    /// The beginning of the names of our nodes of this kind, up to the number that the server appends. Permits and slots are in
    /// no queue, and readers in none that is shared, so they have the same names in each layout.
    pub fn prefix(self, kind: Kind) -> String {
        match (self, kind) {
            (Self::CuratorMutex, Kind::Exclusive) => format!("_c_{CURATOR_ID}-lock-"),
            (Self::Kazoo, Kind::Exclusive) => format!("{KAZOO_ID}__lock__"),
            _ => kind.prefix(),
        }
    }

    /// Reads the place of a contender of ours from its node's name; `None` if the node is not ours in this layout.
    pub fn own(self, name: &str) -> Option<QueuePlace> {
        let place = self.place(name)?;
        (self.name(place) == name).then_some(place)
    }

    /// The name of our contender with this place.
    pub fn name(self, place: QueuePlace) -> String {
        format!("{}{}", self.prefix(place.kind), place.sequence.digits())
    }

    /// Reads the place of any contender in this queue, ours or the other client's; `None` if the name is not that of one.
    pub fn place(self, name: &str) -> Option<QueuePlace> {
        let mutex = match self {
            Self::Own => return QueuePlace::parse(name),
            Self::CuratorMutex => "-lock-",
            Self::Kazoo => "__lock__",
        };
        let Child::Suspect(client) = Child::of(name) else { return None };
        let (stem, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
        let number = digits.parse().ok().filter(|number| *number >= 0)?;
        let contends = match client {
            ForeignClient::Curator | ForeignClient::Go => self == Self::CuratorMutex,
            ForeignClient::Kazoo => self == Self::Kazoo,
            ForeignClient::Zklock => true,
            _ => false,
        };
        (contends && stem.ends_with(mutex)).then_some(QueuePlace::exclusive(number))
    }

    /// The contenders among these names, the first one first.
    pub fn queue(self, names: &[String]) -> Vec<(QueuePlace, &str)> {
        let mut queue =
            names.iter().filter_map(|name| Some((self.place(name)?, name.as_str()))).collect::<Vec<_>>();
        queue.sort_unstable();
        queue
    }

    /// The layout in whose queue a node of this name contends; `None` if it is no contender. A name has one layout at most.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.place(name).is_some())
    }

    /// The layout of the queue in a directory with these children: that of our contenders, if one is there, or else that of the
    /// others. Contenders of two layouts refuse each other, so ours have one, except for the moment in which they do.
    pub fn of_queue<'a>(children: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        let ours =
            Self::ALL.into_iter().find(|layout| children.clone().any(|name| layout.own(name).is_some()));
        ours.or_else(|| children.clone().find_map(Self::of))
    }

    /// The kind of a child of the directory, by its name.
    pub fn child(self, name: &str) -> Child {
        match (self.place(name), Child::of(name)) {
            (Some(place), _) => Child::Contender(place),
            (None, Child::Contender(_)) => Child::Suspect(ForeignClient::Zklock),
            (None, child) => child,
        }
    }
}

/// What the stat of a queue's directory shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The transaction that created it.
    pub czxid: i64,
    /// The transaction that last wrote to it.
    pub mzxid: i64,
    /// The transaction that last created or deleted a child.
    pub pzxid: i64,
    /// How many children were created and deleted.
    pub cversion: i32,
    /// How many children it has.
    pub children: i32,
}

impl Directory {
    /// Whether the last change of the children was the release of a holder of ours.
    ///
    /// A contender of ours in zklock's own layout writes to the directory as it enters. Its node is among the children
    /// as long as this is the last change.
    ///
    /// A directory that never had a child shows nothing: it may be a new one in the place of an empty container.
    pub fn shows_release(self) -> bool {
        self.pzxid == self.mzxid && self.pzxid != self.czxid
    }

    /// Whether the queue was free, and the last holder was a contender of ours that released the lock: by a look before our
    /// create, which got this number, and a look behind it.
    pub fn was_free(self, own: Sequence, after: Self) -> bool {
        // Each child was created and deleted, and the server gives each create the next number. The server's count is negative
        // from 2^30 creates on. In the next directory of that name the numbers begin again.
        let is_next = self.czxid == after.czxid && self.cversion == own.0.wrapping_mul(2);
        self.children == 0 && self.shows_release() && is_next
    }
}

#[cfg(test)]
mod tests;
