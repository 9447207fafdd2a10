//! Watches: which connection waits for which event. A watch belongs to a connection, and goes with it. `pipeline.rs` withholds an event
//! from a connection that may not read the node.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Version;
use crate::id::ConnectionId;
use crate::operation::Former;
use crate::tree::{Tree, What};

/// The kinds of watches on one path, as bits.
type Kinds = u8;
const STANDARD: Kinds = 1;
const PERSISTENT: Kinds = 2;
const RECURSIVE: Kinds = 4;
const ANY: Kinds = STANDARD | PERSISTENT | RECURSIVE;

#[derive(Debug)]
pub(crate) struct Watches {
    data: Table,
    children: Table,
    version: Version,
}

#[derive(Debug, Default)]
struct Table {
    /// (o) In version 3.8.0, a connection has one watch on a path: the last one that it sets replaces the others.
    replaces: bool,
    watchers: BTreeMap<String, BTreeMap<ConnectionId, Kinds>>,
    paths: BTreeMap<ConnectionId, BTreeSet<String>>,
    recursive: usize,
}

impl Watches {
    pub(crate) fn new(version: Version) -> Self {
        let table = || Table { replaces: version == Version::V3_8_0, ..Table::default() };
        Self { data: table(), children: table(), version }
    }

    pub(crate) fn watch_data(&mut self, path: &str, connection: ConnectionId) {
        self.data.add(path, connection, STANDARD);
    }

    pub(crate) fn watch_children(&mut self, path: &str, connection: ConnectionId) {
        self.children.add(path, connection, STANDARD);
    }

    fn watch_recursively(&mut self, path: &str, connection: ConnectionId) {
        self.data.add(path, connection, RECURSIVE);
        if self.version == Version::V3_8_0 {
            self.children.add(path, connection, RECURSIVE);
        }
    }

    /// Adds a watch that stays: mode 0, or 1 for a recursive one. `None` if the mode is another one.
    pub(crate) fn add(&mut self, path: &str, connection: ConnectionId, mode: i32) -> Option<()> {
        match mode {
            0 => {
                self.data.add(path, connection, PERSISTENT);
                self.children.add(path, connection, PERSISTENT);
            }
            1 => self.watch_recursively(path, connection),
            _ => return None,
        }
        Some(())
    }

    /// Removes watches of this kind, and says whether one was there. `None` if nothing has this number.
    pub(crate) fn remove(&mut self, path: &str, connection: ConnectionId, kind: i32) -> Option<bool> {
        let (children, data) = self.kinds(kind)?;
        let child = self.children.remove(path, connection, children);
        Some(self.data.remove(path, connection, data) | child)
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.data.forget(connection);
        self.children.forget(connection);
    }

    /// Who hears of this. Watches that are not persistent end with it.
    ///
    /// (j) A connection that watches data and children of a node hears of its deletion once.
    pub(crate) fn trigger(&mut self, what: What, path: &str) -> BTreeSet<ConnectionId> {
        match what {
            What::Created | What::DataChanged => self.data.trigger(path, ANY),
            What::ChildrenChanged => self.children.trigger(path, STANDARD | PERSISTENT),
            What::Deleted => {
                let mut watchers = self.data.trigger(path, ANY);
                watchers.append(&mut self.children.trigger(path, ANY));
                watchers
            }
        }
    }

    /// Sets the watches again that a client had on its former connection, and says what it has missed.
    pub(crate) fn restore(
        &mut self,
        former: &Former,
        connection: ConnectionId,
        tree: &Tree,
    ) -> Vec<(What, String)> {
        let mut missed = Vec::new();
        for path in &former.data {
            match tree.node(path) {
                None => missed.push((What::Deleted, path.clone())),
                Some(node) if node.record.mzxid > former.since => {
                    missed.push((What::DataChanged, path.clone()));
                }
                Some(_) => self.watch_data(path, connection),
            }
        }
        for path in &former.exists {
            match tree.node(path) {
                Some(_) => missed.push((What::Created, path.clone())),
                None => self.watch_data(path, connection),
            }
        }
        for path in &former.child {
            match tree.node(path) {
                None => missed.push((What::Deleted, path.clone())),
                Some(node) if node.record.pzxid > former.since => {
                    missed.push((What::ChildrenChanged, path.clone()));
                }
                Some(_) => self.watch_children(path, connection),
            }
        }
        for path in &former.persistent {
            self.data.add(path, connection, PERSISTENT);
            self.children.add(path, connection, PERSISTENT);
        }
        for path in &former.recursive {
            self.watch_recursively(path, connection);
        }
        missed
    }

    /// The kinds in the tables of children and of data that the protocol's number of a watcher stands for.
    fn kinds(&self, number: i32) -> Option<(Kinds, Kinds)> {
        match (number, self.version) {
            (1, Version::V3_8_0) => Some((ANY, 0)),
            (2, Version::V3_8_0) => Some((0, ANY)),
            (1, _) => Some((STANDARD, 0)),
            (2, _) => Some((0, STANDARD)),
            (3, _) => Some((ANY, ANY)),
            (_, Version::V3_8_0) => None,
            (4, _) => Some((PERSISTENT, PERSISTENT)),
            (5, _) => Some((0, RECURSIVE)),
            _ => None,
        }
    }
}

impl Table {
    fn add(&mut self, path: &str, connection: ConnectionId, kind: Kinds) {
        let kinds = self.watchers.entry(path.into()).or_default().entry(connection).or_default();
        let former = *kinds;
        *kinds = if self.replaces { kind } else { former | kind };
        self.recursive += usize::from(*kinds & RECURSIVE != 0);
        self.recursive -= usize::from(former & RECURSIVE != 0);
        self.paths.entry(connection).or_default().insert(path.into());
    }

    fn remove(&mut self, path: &str, connection: ConnectionId, kinds: Kinds) -> bool {
        let Some(watchers) = self.watchers.get_mut(path) else { return false };
        let Some(has) = watchers.get_mut(&connection) else { return false };
        let removed = *has & kinds;
        *has &= !kinds;
        self.recursive -= usize::from(removed & RECURSIVE != 0);
        if *has == 0 {
            watchers.remove(&connection);
            if watchers.is_empty() {
                self.watchers.remove(path);
            }
            if let Some(paths) = self.paths.get_mut(&connection) {
                paths.remove(path);
            }
        }
        removed != 0
    }

    fn forget(&mut self, connection: ConnectionId) {
        for path in self.paths.get(&connection).cloned().unwrap_or_default() {
            self.remove(&path, connection, ANY);
        }
        self.paths.remove(&connection);
    }

    /// Who watches this path, or recursively one above it, by one of these kinds.
    fn trigger(&mut self, path: &str, kinds: Kinds) -> BTreeSet<ConnectionId> {
        let mut triggered = self.watching(path, kinds);
        for connection in &triggered {
            self.remove(path, *connection, STANDARD);
        }
        let mut above = path;
        while self.recursive > 0 && kinds & RECURSIVE != 0 && above != "/" {
            above = match above.rfind('/') {
                Some(0) | None => "/",
                Some(slash) => &above[..slash],
            };
            triggered.append(&mut self.watching(above, RECURSIVE));
        }
        triggered
    }

    fn watching(&self, path: &str, kinds: Kinds) -> BTreeSet<ConnectionId> {
        let watchers = self.watchers.get(path).into_iter().flatten();
        watchers.filter(|(_, has)| **has & kinds != 0).map(|(watcher, _)| *watcher).collect()
    }
}
