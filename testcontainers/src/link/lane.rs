//! One direction of one connection: bytes in order, each no earlier than its time.
//!
//! A network delays, it does not throttle: any number of messages may be under way at once. So each chunk is stamped
//! with the instant it is due, and a thread of the lane's own writes it then. Without a delay there is no queue and the
//! thread that read the bytes writes them.
//!
//! tokio's timer counts whole milliseconds, which would double a delay of half of one; a thread's wait is off by the
//! kernel's slack of 50 us, which the last stretch, spent spinning, makes up for.

use std::{
    collections::VecDeque,
    io::Write,
    net::{Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Connection, Rule, Shared, Stage};
use crate::listener::spawn;

/// A little more than the kernel's default timer slack.
const SPIN: Duration = Duration::from_micros(60);

#[derive(Debug)]
pub(super) enum Item {
    Bytes(Vec<u8>),
    /// The sender closed its half.
    End,
    /// Everything from here on is lost, and the connection with it.
    Cut(Arc<Rule>),
}

#[derive(Debug, Default)]
pub(super) struct Lane {
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

/// Which socket a lane writes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Toward {
    Server,
    Client,
}

impl Lane {
    /// Delivers `item` after `delay`, behind everything sent before. Called by the lane's one reader only.
    pub(super) fn send(
        &self,
        link: &Arc<Shared>,
        connection: &Arc<Connection>,
        toward: Toward,
        item: Item,
        delay: Duration,
    ) {
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        // Nobody but this thread adds items, so an idle lane stays idle while this thread writes.
        if delay.is_zero() && queue.items.is_empty() && !queue.writing {
            drop(queue);
            deliver(link, connection, toward, item);
            return;
        }
        queue.items.push_back((Instant::now() + delay, item));
        if !queue.has_writer {
            queue.has_writer = true;
            let (link, connection) = (link.clone(), connection.clone());
            let started =
                spawn("zk-link-delay", move || connection.lane(toward).run(&link, &connection, toward));
            if started.is_err() {
                queue.closed = true;
            }
        }
        drop(queue);
        self.wake.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }

    fn run(&self, link: &Shared, connection: &Connection, toward: Toward) {
        while let Some(item) = self.next_due() {
            if !link.wait_open(connection) {
                return;
            }
            deliver(link, connection, toward, item);
            self.lock().writing = false;
        }
    }

    /// Waits until the first item is due and takes it; `None` once the lane is closed.
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
        // The state stays consistent at every step, so a panic elsewhere does not spoil it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deliver(link: &Shared, connection: &Connection, toward: Toward, item: Item) {
    let Some(stream) = connection.stream(toward) else { return };
    match item {
        Item::Bytes(bytes) => {
            if write(stream, &bytes).is_err() {
                link.close(connection);
            }
        }
        Item::End => {
            let _ = stream.shutdown(Shutdown::Write);
        }
        Item::Cut(rule) => {
            link.close(connection);
            rule.advance(Stage::Reached);
        }
    }
}

fn write(mut stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes)
}
