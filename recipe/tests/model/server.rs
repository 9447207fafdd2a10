//! A server: what it has, and who waits for which change of that.

use std::collections::BTreeSet;

use super::nodes::Party;
use super::tree::{Change, Path, Tree};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) tree: Tree,
    pub(crate) watches: BTreeSet<Watch>,
}

/// Each contender sets watches of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Watch {
    pub(crate) party: Party,
    pub(crate) path: Path,
    pub(crate) kind: Kind,
}

/// What a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Data,
    Children,
}

impl Server {
    pub(crate) fn new(tree: Tree) -> Self {
        Self { tree, watches: BTreeSet::new() }
    }

    /// The watches that changes fire, and by which.
    pub(crate) fn fire(&mut self, changes: &[(Path, Change)]) -> Vec<(Watch, Change)> {
        let mut fired = Vec::new();
        for (path, change) in changes.iter().copied() {
            self.watches.retain(|watch| {
                // Only contenders are watched for their children, and have none.
                let tells = watch.kind != Kind::Children || change == Change::Deleted;
                let fires = watch.path == path && tells;
                if fires {
                    fired.push((*watch, change));
                }
                !fires
            });
        }
        fired
    }

    /// A read watches the node that it finds. Returns whether it finds one.
    pub(crate) fn watch(&mut self, party: Party, path: Path, kind: Kind) -> bool {
        let found = self.tree.get(path).is_some();
        if found {
            self.watches.insert(Watch { party, path, kind });
        }
        found
    }
}
