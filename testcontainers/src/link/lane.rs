//! One direction of one connection: bytes in order, each no earlier than its time.
//!
//! A network delays, it does not throttle: any number of messages may be under way at once. So each chunk is stamped
//! with the instant at which it is due, and a thread of the lane's own delivers it then. Without a delay there is no
//! queue, and the thread that read the bytes delivers them.
//!
//! tokio's timer counts whole milliseconds, which would double a delay of half of one. A thread's wait is late by up to
//! the kernel's slack of 50 us. So a lane wakes that much earlier, and spins for the rest.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::rule::Rule;
use crate::listener::spawn;

/// A little more than the kernel's default timer slack.
const SPIN: Duration = Duration::from_micros(60);

/// What a lane carries.
#[derive(Debug)]
pub(super) enum Item {
    Bytes(Vec<u8>),
    /// The sender closed its half.
    End,
    /// Everything from here on is lost, and the connection with it.
    Cut(Arc<Rule>),
}

/// Where a lane ends.
pub(super) trait Outlet: Send + Sync + 'static {
    /// Waits until bytes may pass. Returns false once the connection is closed.
    fn wait_open(&self) -> bool;

    fn deliver(&self, item: Item);
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<(Instant, Item)>,
    /// The writer thread has taken an item out and is not done with it.
    writing: bool,
    has_writer: bool,
    closed: bool,
}

impl Lane {
    /// Delivers `item` to `outlet` after `delay`, behind everything that was sent before. Only the lane's one reader calls
    /// this, always with the same outlet.
    pub(super) fn send<O: Outlet>(&self, outlet: &Arc<O>, item: Item, delay: Duration) {
        let mut queue = self.shared.lock();
        if queue.closed {
            return;
        }
        // Only this thread adds items, so an idle lane stays idle while this thread delivers.
        if delay.is_zero() && queue.items.is_empty() && !queue.writing {
            drop(queue);
            outlet.deliver(item);
            return;
        }
        queue.items.push_back((Instant::now() + delay, item));
        if !queue.has_writer {
            queue.has_writer = true;
            let (lane, outlet) = (self.clone(), outlet.clone());
            let started = spawn("zk-link-delay", move || lane.run(&*outlet));
            if started.is_err() {
                queue.closed = true;
            }
        }
        drop(queue);
        self.shared.wake.notify_one();
    }

    pub(super) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }

    fn run(&self, outlet: &impl Outlet) {
        while let Some(item) = self.shared.next_due() {
            if !outlet.wait_open() {
                return;
            }
            outlet.deliver(item);
            self.shared.lock().writing = false;
        }
    }
}

impl Shared {
    /// Waits until the first item is due, and takes it. Returns `None` once the lane is closed.
    fn next_due(&self) -> Option<Item> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            let Some((due, _)) = queue.items.front() else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let due = *due;
            let early = due.saturating_duration_since(Instant::now());
            if early > SPIN {
                let waited = self.wake.wait_timeout(queue, early - SPIN);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let (_, item) = queue.items.pop_front()?;
            queue.writing = true;
            drop(queue);
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            return Some(item);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The state is consistent at every step, so a panic elsewhere does not spoil it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
