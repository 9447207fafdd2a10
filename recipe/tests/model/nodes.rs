//! What the queues' nodes have for data, and what is asked of a tree with queues.

use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Kind, Own, QueuePlace};

use super::tree::{Node, Path, Tree};

/// A contender, by its index in the world. Those of other clients come behind ours.
pub(crate) type Party = usize;

/// What the model notes of a node. A contender finds its node by that only as long as nobody has written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Data {
    pub(crate) creator: Party,
    pub(crate) make: Make,
    /// Its create came late. Only models note it in which one may.
    pub(crate) late: bool,
    /// Its contender has been granted. Only some models note it.
    pub(crate) held: bool,
}

/// The name of an ask's node.
pub(crate) const ASK: &str = "ask";

/// Which client made a node, and under which name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Make {
    #[default]
    Ours,
    /// Another client, under a name like ours.
    Lookalike,
    /// A stranger, which makes a node as ours are, and removes it as if it had held the lock.
    Forger,
    /// Another client, under a name of its own.
    Foreign,
    /// Somebody who asks the holder to let go. It is no contender, and its node's name has no number.
    Ask,
}

impl Make {
    pub(crate) fn name(self, place: QueuePlace) -> String {
        match self {
            Self::Ours | Self::Lookalike | Self::Forger => place.name(),
            Self::Foreign => format!("_c_{}", place.name()),
            Self::Ask => ASK.to_owned(),
        }
    }
}

impl Tree {
    /// The node of a contender's name.
    pub(crate) fn node(&self, queue: usize, place: QueuePlace) -> Option<&Node> {
        self.get(Path::Child(queue, place))
            .filter(|node| matches!(node.data.make, Make::Ours | Make::Lookalike | Make::Forger))
    }

    /// The node that this contender has in a queue.
    pub(crate) fn node_of(&self, queue: usize, creator: Party) -> Option<Own> {
        self.find(queue, |node| node.data.creator == creator)
    }

    /// As that, if its contender still finds it.
    pub(crate) fn found(&self, queue: usize, creator: Party) -> Option<Own> {
        self.find(queue, |node| node.data.creator == creator && node.version == UNTOUCHED)
    }

    /// The first such node of a queue.
    pub(crate) fn find(&self, queue: usize, is_it: impl Fn(&Node) -> bool) -> Option<Own> {
        let (place, node) = self.children(queue).iter().find(|(_, node)| is_it(node))?;
        Some(Own { place: *place, czxid: node.czxid })
    }

    pub(crate) fn names(&self, queue: usize) -> Vec<String> {
        self.children(queue).iter().map(|(place, node)| node.data.make.name(*place)).collect()
    }

    /// Whether a node keeps the one in this place from the lock.
    pub(crate) fn blocks(&self, queue: usize, place: QueuePlace) -> bool {
        let lower = self.children(queue).iter().filter(|(other, _)| other.sequence < place.sequence);
        let mut lower = lower.filter(|(_, node)| node.data.make != Make::Ask);
        lower.any(|(other, _)| exclude_each_other(other.kind, place.kind))
    }

    /// The nodes of all queues.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (Path, &Node)> {
        let queues = 0..self.directories.len();
        queues.flat_map(|queue| {
            self.children(queue).iter().map(move |(place, node)| (Path::Child(queue, *place), node))
        })
    }
}

/// Whether a guard of the one kind must not be valid beside one of the other.
pub(crate) fn exclude_each_other(one: Kind, other: Kind) -> bool {
    (one, other) != (Kind::Shared, Kind::Shared)
}
