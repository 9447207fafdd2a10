//! What survives a crash: the log, the snapshot below it, and the epochs.

use std::{collections::VecDeque, sync::Arc};

use crate::{config::Config, transaction::Transaction, tree::Tree};

#[derive(Debug)]
pub(crate) struct Disk {
    /// The tree with every transaction that the log does not have any more. All of them are committed.
    snapshot: Tree,
    log: VecDeque<Arc<Transaction>>,
    /// How long the log may grow.
    length: usize,
    /// The epoch of the last leader that was accepted, and of the last one whose log this is.
    pub(crate) accepted: u32,
    pub(crate) current: u32,
}

impl Disk {
    pub(crate) fn new(config: &Config) -> Self {
        let snapshot = Tree::new(&config.nodes);
        Self { snapshot, log: VecDeque::new(), length: config.log_length, accepted: 0, current: 0 }
    }

    /// The last transaction in the log.
    pub(crate) fn logged(&self) -> i64 {
        self.log.back().map_or(self.snapshot.zxid, |last| last.zxid)
    }

    pub(crate) fn append(&mut self, transaction: Arc<Transaction>) {
        let (last, next) = (self.logged(), transaction.zxid);
        debug_assert!(
            next == last + 1 || next > last && next & 0xFFFF_FFFF == 1,
            "{next:#x} behind {last:#x}"
        );
        self.log.push_back(transaction);
    }

    /// The last transaction of this log that is not later than this one. `None` if only the snapshot has it.
    pub(crate) fn at_most(&self, zxid: i64) -> Option<i64> {
        let index = self.log.partition_point(|transaction| transaction.zxid <= zxid);
        match index.checked_sub(1) {
            Some(index) => Some(self.log[index].zxid),
            None => (zxid >= self.snapshot.zxid).then_some(self.snapshot.zxid),
        }
    }

    /// The transactions behind this one, which the log or the snapshot ends with.
    pub(crate) fn since(&self, zxid: i64) -> impl Iterator<Item = &Arc<Transaction>> {
        let index = self.log.partition_point(|transaction| transaction.zxid <= zxid);
        self.log.range(index..)
    }

    /// Removes every transaction behind this one.
    pub(crate) fn truncate(&mut self, zxid: i64) {
        let index = self.log.partition_point(|transaction| transaction.zxid <= zxid);
        self.log.truncate(index);
    }

    pub(crate) fn replace(&mut self, snapshot: Tree) {
        self.snapshot = snapshot;
        self.log.clear();
    }

    /// Makes the first half of a long log part of the snapshot, as far as it has been applied.
    pub(crate) fn shorten(&mut self, applied: i64) {
        if self.log.len() <= self.length {
            return;
        }
        while self.log.len() > self.length / 2 && self.log.front().is_some_and(|first| first.zxid <= applied)
        {
            if let Some(first) = self.log.pop_front() {
                self.snapshot.apply(&first, &mut Vec::new());
            }
        }
    }

    /// The tree with everything that is logged, committed or not: that is what a server starts with.
    pub(crate) fn load(&self) -> Tree {
        let mut tree = self.snapshot.clone();
        let mut happenings = Vec::new();
        for transaction in &self.log {
            tree.apply(transaction, &mut happenings);
            happenings.clear();
        }
        tree
    }
}
