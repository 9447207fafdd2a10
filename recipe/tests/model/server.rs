//! ZooKeeper as far as one lock sees it: a container, its ephemeral children, and one-shot watches.

use zklock_recipe::{Own, Sequence};

/// A contender, by its index in the world. Those of other clients come behind ours.
pub(crate) type Party = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    /// The number the next child gets; `None` while there is no directory.
    pub(crate) directory: Option<i32>,
    /// In the order of their creation.
    pub(crate) nodes: Vec<Node>,
    /// Of the last creation.
    pub(crate) last_zxid: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) own: Own,
    pub(crate) creator: Party,
    pub(crate) make: Make,
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
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// For the predecessor's data. A client that waits for it, by two watches, knows both by this kind.
    Predecessor,
    /// For the predecessor's children.
    Children,
    Own,
}

impl Node {
    pub(crate) fn name(&self) -> String {
        let name = self.own.sequence.name();
        if self.make == Make::Foreign { format!("_c_{name}") } else { name }
    }
}

impl Server {
    pub(crate) fn new(directory: bool) -> Self {
        Self { directory: directory.then_some(0), nodes: Vec::new(), last_zxid: 0 }
    }

    /// `None` if there is no directory to create the node in.
    pub(crate) fn create(&mut self, creator: Party, make: Make) -> Option<Own> {
        let next = self.directory.as_mut()?;
        self.last_zxid += 1;
        let own = Own { sequence: Sequence(*next), czxid: self.last_zxid };
        *next += 1;
        self.nodes.push(Node { own, creator, make, watches: Vec::new() });
        Some(own)
    }

    /// The node of a contender's name.
    pub(crate) fn node(&self, sequence: Sequence) -> Option<&Node> {
        self.nodes.iter().find(|node| node.own.sequence == sequence && node.make != Make::Foreign)
    }

    pub(crate) fn node_of(&self, creator: Party) -> Option<&Node> {
        self.nodes.iter().find(|node| node.creator == creator)
    }

    pub(crate) fn children(&self) -> Vec<String> {
        self.nodes.iter().map(Node::name).collect()
    }

    /// False if there is no such node, and so nothing to watch.
    pub(crate) fn watch(&mut self, sequence: Sequence, watch: Watch) -> bool {
        let named = |node: &&mut Node| node.own.sequence == sequence && node.make != Make::Foreign;
        let Some(node) = self.nodes.iter_mut().find(named) else { return false };
        if !node.watches.contains(&watch) {
            node.watches.push(watch);
        }
        true
    }

    /// The watches that a write to this node fires; they fire once.
    pub(crate) fn write(&mut self, sequence: Sequence) -> Vec<Watch> {
        let node = self.nodes.iter_mut().find(|node| node.own.sequence == sequence);
        let fired =
            node.map(|node| node.watches.extract_if(.., |watch| watch.kind != Kind::Children).collect());
        fired.unwrap_or_default()
    }

    /// Removes a node; the watches that this fires.
    pub(crate) fn remove(&mut self, sequence: Sequence) -> Vec<Watch> {
        let removed = self.nodes.extract_if(.., |node| node.own.sequence == sequence);
        removed.flat_map(|node| node.watches).collect()
    }

    /// Watches end with the connection they were set on.
    pub(crate) fn forget_watches(&mut self, party: Party) {
        for node in &mut self.nodes {
            node.watches.retain(|watch| watch.party != party);
        }
    }
}
