//! Queues that zklock shares with another client: whose names its contenders have there, and what shows that nobody of the
//! other client may still believe that it holds the lock.
//!
//! The other client's contenders have no lease. If one of them is cut off, its node vanishes before it knows, and its release
//! looks the same. So a contender of ours that takes over waits for the takeover delay ([`Takeover::Mixed`],
//! [`Takeover::Reentrant`]), unless one of two things shows that a contender of ours held the lock last and released it:
//!
//! 1. A waiter sees its predecessor's release, as in a queue of our own.
//! 2. A contender that lists the queue and finds nobody in front of it sees in the directory's stat that the last child went with
//!    a write to the directory ([`shows_release`](Directory::shows_release)). Only our release does both in one transaction.
//!
//! The numbers are no total order. Since Curator 5.5 the writer that reads as well makes a second node with its number
//! (CURATOR-621), so a lower contender may appear after a listing. So a contender lists the queue again after each end that is not
//! our release, after its delay, and in that layout after our release, too.
//!
//! [`Takeover::Mixed`]: crate::Takeover::Mixed
//! [`Takeover::Reentrant`]: crate::Takeover::Reentrant

use alloc::{format, string::String, vec::Vec};

use crate::contender::{Kind, Place, Sequence};
use crate::foreign::{CURATOR_ID, Child, ForeignClient, KAZOO_ID};
use crate::machine::Takeover;
use crate::nodes::Entered;
use crate::transaction::Operation;

/// Whose names contenders have, and so with whom they share their queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// zklock's own. It shares no queue.
    #[default]
    Own,
    /// Curator's `InterProcessMutex`, also that of a `LeaderSelector`. go-zookeeper's `Lock` and this honour each other.
    CuratorMutex,
    /// Curator's `InterProcessReadWriteLock`, which its mutex does not honour.
    CuratorReadWrite,
    /// kazoo's `Lock`, `ReadLock` and `WriteLock`, also the lock of an `Election`.
    Kazoo,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 4] = [Self::Own, Self::CuratorMutex, Self::CuratorReadWrite, Self::Kazoo];

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
            (Self::CuratorReadWrite, _) => Takeover::Reentrant,
        }
    }

    /// The transaction that releases a node of this kind in a queue that is shared. The directory has no data in the version
    /// `trace`, if that is given. Then the release of an exclusive holder writes nothing to it. That shows a contender that comes
    /// later that this was a release ([`shows_release`](Directory::shows_release)). A reader's release shows nothing of the readers
    /// beside it. A contender of the other client's looks again at either event of our node.
    pub fn release(kind: Kind, trace: Option<i32>) -> Vec<Operation<Entered<()>>> {
        let (own, directory) = (Entered::Own(()), Entered::Directory(()));
        let trace = trace.filter(|_| kind == Kind::Exclusive);
        let trace = trace.map(|version| Operation::Set(directory, Some(version)));
        [Operation::Set(own, None), Operation::Delete(own, None)].into_iter().chain(trace).collect()
    }

    /// The beginning of the names of our nodes of this kind, up to the number that the server appends. Permits and slots are in
    /// no queue, so they have the same names in each layout.
    pub fn prefix(self, kind: Kind) -> String {
        match (self, kind) {
            (Self::CuratorMutex, Kind::Exclusive) => format!("_c_{CURATOR_ID}-lock-"),
            (Self::CuratorReadWrite, Kind::Exclusive) => format!("_c_{CURATOR_ID}-__WRIT__"),
            (Self::CuratorReadWrite, Kind::Shared) => format!("_c_{CURATOR_ID}-__READ__"),
            (Self::Kazoo, Kind::Exclusive) => format!("{KAZOO_ID}__lock__"),
            (Self::Kazoo, Kind::Shared) => format!("{KAZOO_ID}__rlock__"),
            _ => kind.prefix(),
        }
    }

    /// Reads the place of a contender of ours from its node's name; `None` if the node is not ours in this layout.
    pub fn own(self, name: &str) -> Option<Place> {
        let place = self.place(name)?;
        (self.name(place) == name).then_some(place)
    }

    /// The name of our contender with this place.
    pub fn name(self, place: Place) -> String {
        format!("{}{}", self.prefix(place.kind), place.sequence.digits())
    }

    /// Reads the place of any contender in this queue, ours or the other client's; `None` if the name is not that of one.
    pub fn place(self, name: &str) -> Option<Place> {
        if self == Self::Own {
            return Place::parse(name);
        }
        let Child::Suspect(client) = Child::of(name) else { return None };
        let (stem, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
        let sequence = Sequence(digits.parse().ok().filter(|number| *number >= 0)?);
        let kind = match (self, client) {
            (Self::CuratorMutex, ForeignClient::Curator | ForeignClient::Go | ForeignClient::Zklock)
                if stem.ends_with("-lock-") =>
            {
                Kind::Exclusive
            }
            (Self::CuratorReadWrite, ForeignClient::CuratorReadWrite | ForeignClient::Zklock) => {
                match stem.rsplit_once('-')? {
                    (_, "__WRIT__") => Kind::Exclusive,
                    (_, "__READ__") => Kind::Shared,
                    _ => return None,
                }
            }
            (Self::Kazoo, ForeignClient::Kazoo | ForeignClient::Zklock) => match stem.get(32..)? {
                "__lock__" => Kind::Exclusive,
                "__rlock__" => Kind::Shared,
                _ => return None,
            },
            _ => return None,
        };
        Some(Place { sequence, kind })
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
        // Each child was created and deleted, and the server gives each create the next number. In the next directory of that
        // name the numbers begin again.
        let is_next = self.czxid == after.czxid && self.cversion.checked_div(2) == Some(own.0);
        self.children == 0 && self.shows_release() && is_next
    }
}

#[cfg(test)]
mod tests;
