//! What this process states of a pool.

use std::sync::Arc;

use zklock_recipe::Stock;
use zklock_recipe::admission::{self, SeenPool};

use crate::mutex::Mutex;
use crate::settings::Settings;

/// What this process states of a pool. All acquisitions of a semaphore and its clones share it.
pub(super) struct Statement {
    /// The settings of the directory of permits.
    pub(super) permits: Arc<Settings>,
    stock: Mutex<StatedStock>,
}

/// How much a pool has, as this process states it.
struct StatedStock {
    stock: Stock,
    /// What this process has begun to write to the pool, while it does not know whether the pool has it.
    begun: Vec<Stock>,
    /// How often either of them has changed.
    changes: u64,
}

impl Statement {
    pub(super) fn new(permits: Arc<Settings>, stock: Stock) -> Self {
        let stock = Mutex::new(StatedStock { stock, begun: Vec::new(), changes: 0 });
        Self { permits, stock }
    }

    pub(super) fn path(&self) -> &str {
        self.permits.queue.name().as_str()
    }

    /// How much the pool has, as this process states it.
    pub(super) fn stock(&self) -> Stock {
        self.stock.lock().stock
    }

    /// What this process states beside what was seen, when it has changed that so many times before. While a change is under
    /// way, either is right.
    pub(super) fn stated_beside(&self, seen: &SeenPool, changes: u64) -> admission::Stated {
        let stated = self.stock.lock();
        let begun = seen.stock.filter(|found| stated.begun.contains(found));
        admission::Stated { stock: begun.unwrap_or(stated.stock), changed: stated.changes != changes }
    }

    /// The most that the pool may have, as far as this process knows.
    pub(super) fn largest(&self) -> u32 {
        let stated = self.stock.lock();
        stated.begun.iter().map(|stock| stock.number()).fold(stated.stock.number(), u32::max)
    }

    /// How often this statement has changed. An answer to a request from before a change may show what the pool had then.
    pub(super) fn changes(&self) -> u64 {
        self.stock.lock().changes
    }

    pub(super) fn begin_change(&self, stock: Stock) {
        let mut stated = self.stock.lock();
        stated.begun.push(stock);
        stated.changes += 1;
    }

    /// The pool has this, which this process has written. Writes that it began before fail by their version.
    pub(super) fn finish_change(&self, stock: Stock) {
        let mut stated = self.stock.lock();
        *stated = StatedStock { stock, begun: Vec::new(), changes: stated.changes + 1 };
    }

    /// The last change that was begun has certainly not been made.
    pub(super) fn undo_change(&self) {
        let mut stated = self.stock.lock();
        stated.begun.pop();
        stated.changes += 1;
    }
}
