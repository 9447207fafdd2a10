//! ZooKeeper as far as a few queues see it: containers, their ephemeral children, and one-shot watches.

use zklock_recipe::{Own, Place, Sequence};

use crate::setup::Seat;

/// A contender, by its index in the world. Those of other clients come behind ours.
pub(crate) type Party = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) queues: Vec<Queue>,
    /// Of the last creation.
    pub(crate) last_zxid: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Queue {
    /// The number the next child gets; `None` while there is no directory.
    pub(crate) directory: Option<i32>,
    /// In the order of their creation.
    pub(crate) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) own: Own,
    pub(crate) creator: Party,
    pub(crate) make: Make,
    /// Somebody else has written to it, and so has overwritten what its contender finds it by.
    pub(crate) written: bool,
    /// Its create came late. Only models note it in which one may.
    pub(crate) late: bool,
    /// Its contender has been granted. Only some models note it.
    pub(crate) held: bool,
    pub(crate) watches: Vec<Watch>,
}

/// Which client made a node, and under which name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Make {
    Ours,
    /// Another client, under a name like ours.
    Lookalike,
    /// Another client, under a name of its own.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    pub(crate) party: Party,
    pub(crate) target: Target,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// The predecessor's data. A client that waits for it, by two watches, knows both by this target.
    Predecessor,
    /// The predecessor's children.
    Children,
    Own,
}

impl Node {
    pub(crate) fn name(&self) -> String {
        let name = self.own.place.name();
        if self.make == Make::Foreign { format!("_c_{name}") } else { name }
    }
}

impl Queue {
    /// The node of a contender's name.
    pub(crate) fn node(&self, place: Place) -> Option<&Node> {
        self.nodes.iter().find(|node| node.own.place == place && node.make != Make::Foreign)
    }

    pub(crate) fn node_of(&self, creator: Party) -> Option<&Node> {
        self.nodes.iter().find(|node| node.creator == creator)
    }

    pub(crate) fn children(&self) -> Vec<String> {
        self.nodes.iter().map(Node::name).collect()
    }

    /// The nodes that keep the one in this place from the lock.
    pub(crate) fn blocking(&self, place: Place) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| {
            node.own.place.sequence < place.sequence && exclude_each_other(node.own.place.kind, place.kind)
        })
    }

    /// False if there is no such node, and so nothing to watch.
    pub(crate) fn watch(&mut self, place: Place, watch: Watch) -> bool {
        let named = |node: &&mut Node| node.own.place == place && node.make != Make::Foreign;
        let Some(node) = self.nodes.iter_mut().find(named) else { return false };
        if !node.watches.contains(&watch) {
            node.watches.push(watch);
        }
        true
    }

    /// The watches that a write to this node fires; they fire once.
    pub(crate) fn write(&mut self, place: Place) -> Vec<Watch> {
        let node = self.nodes.iter_mut().find(|node| node.own.place == place);
        let of_data = |watch: &mut Watch| watch.target != Target::Children;
        let Some(node) = node else { return Vec::new() };
        node.written = true;
        node.watches.extract_if(.., of_data).collect()
    }

    /// Removes a node; the watches that this fires.
    pub(crate) fn remove(&mut self, place: Place) -> Vec<Watch> {
        let removed = self.nodes.extract_if(.., |node| node.own.place == place);
        removed.flat_map(|node| node.watches).collect()
    }
}

impl Server {
    pub(crate) fn new(directories: bool, queues: usize) -> Self {
        let queue = Queue { directory: directories.then_some(0), nodes: Vec::new() };
        Self { queues: vec![queue; queues], last_zxid: 0 }
    }

    /// Creates a node in each of these queues, in one transaction; `None` if there is a queue without a directory.
    pub(crate) fn create(&mut self, creator: Party, make: Make, seats: &[Seat]) -> Option<Vec<Own>> {
        if seats.iter().any(|seat| self.queues[seat.queue].directory.is_none()) {
            return None;
        }
        self.last_zxid += 1;
        let create = |seat: &Seat| {
            let queue = &mut self.queues[seat.queue];
            let next = queue.directory.as_mut()?;
            let place = Place { sequence: Sequence(*next), kind: seat.kind };
            let own = Own { place, czxid: self.last_zxid };
            *next += 1;
            queue.nodes.push(Node {
                own,
                creator,
                make,
                written: false,
                late: false,
                held: false,
                watches: Vec::new(),
            });
            Some(own)
        };
        seats.iter().map(create).collect()
    }

    /// The nodes of all queues.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.queues.iter().flat_map(|queue| &queue.nodes)
    }

    /// Watches end with the connection they were set on.
    pub(crate) fn forget_watches(&mut self, party: Party) {
        for node in self.queues.iter_mut().flat_map(|queue| &mut queue.nodes) {
            node.watches.retain(|watch| watch.party != party);
        }
    }
}

/// Whether a guard of the one kind must not be valid beside one of the other.
pub(crate) fn exclude_each_other(one: zklock_recipe::Kind, other: zklock_recipe::Kind) -> bool {
    use zklock_recipe::Kind::Shared;
    (one, other) != (Shared, Shared)
}
