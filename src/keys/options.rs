//! The options of [`Locks`](super::Locks).

use std::time::Duration;

use super::budget::Budget;
use crate::acquire::options::LockOptions;

/// Options of [`Locks`](crate::Locks); give them to [`Locks::with_options`](crate::Locks::with_options).
///
/// The budget says how often, and for how long, a process passes a lock on between its own tasks, before it lets the next
/// process have it. A larger one costs fewer requests, and the other processes wait for longer.
///
/// ```
/// use std::time::Duration;
///
/// use zklock::{LockOptions, LocksOptions};
///
/// let options = LocksOptions::new()
///     .lock(LockOptions::new().owner("billing@eu-1"))
///     .turns(64)
///     .time(Duration::from_millis(200));
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are given to `with_options`"]
pub struct LocksOptions {
    pub(super) lock: LockOptions,
    pub(super) budget: Budget,
}

impl LocksOptions {
    /// Makes the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the options of each lock. A lock is passed on only if the next task can hold it for as long as a new guard lasts at least:
    /// two heartbeats, or one and the stop margin, some 4.2 seconds by default. So a [`max_hold`](LockOptions::max_hold) shorter than
    /// that keeps the process from passing a lock on.
    pub fn lock(self, options: LockOptions) -> Self {
        Self { lock: options, ..self }
    }

    /// Sets how many times a process may pass a lock on between its tasks before the next process has it. The default is
    /// 16. With zero it never does: each task acquires the lock in ZooKeeper, and its process still has no more than one
    /// contender for the key.
    pub fn turns(mut self, turns: u32) -> Self {
        self.budget.turns = turns;
        self
    }

    /// Sets for how long a process that holds a lock may pass it on between its tasks. A task that has the lock by then
    /// keeps it for as long as it likes. The default is one second. It also bounds how long the process waits for
    /// [tasks that are polled late](crate::Locks#tasks-that-are-polled-late).
    pub fn time(mut self, time: Duration) -> Self {
        self.budget.time = time;
        self
    }
}
