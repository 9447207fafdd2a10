//! What is known at this moment: who holds, who waits, who has finished. Faults are aimed by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;

use super::clients::Heard;
use super::record::{Event, How, Record, Who};
use crate::harness::Instant;

/// What is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Present {
    holding: BTreeMap<Who, Holder>,
    waiting: BTreeMap<Who, Waiter>,
    finished: BTreeSet<Who>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) who: Who,
    pub(crate) since: Instant,
    pub(crate) session: i64,
    /// The name of its node.
    pub(crate) node: String,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    since: Instant,
    how: How,
    delayed: bool,
}

/// Follows what is heard, and tells of changes.
pub(crate) struct Scene(watch::Sender<Present>);

impl Scene {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Present::default()))
    }

    pub(crate) fn hear(&self, heard: &Heard) {
        match heard {
            Heard::Said(Record { event: Event::Holds { .. }, .. }) => {}
            Heard::Said(record) => self.0.send_modify(|present| present.said(record)),
            Heard::Killed { client, .. } | Heard::Crashed { client, .. } => self.0.send_modify(|present| {
                present.holding.retain(|who, _| who.client != *client);
                present.waiting.retain(|who, _| who.client != *client);
            }),
        }
    }

    /// The present holder, if there is one; the latest, should several believe that they hold.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.0.borrow().holder()
    }

    /// Waits for a holder that will do, at most for so long.
    pub(crate) async fn holder_within(
        &self,
        limit: Duration,
        will_do: impl Fn(&Holder) -> bool,
    ) -> Option<Holder> {
        let mut present = self.0.subscribe();
        let found = async {
            loop {
                if let Some(holder) = present.borrow_and_update().holder().filter(|holder| will_do(holder)) {
                    return Some(holder);
                }
                present.changed().await.ok()?;
            }
        };
        tokio::time::timeout(limit, found).await.ok().flatten()
    }

    /// Whether all who wait have a takeover delay.
    pub(crate) fn is_delayed(&self) -> bool {
        self.0.borrow().waiting.values().all(|waiter| waiter.delayed)
    }

    /// As [`is_delayed`](Self::is_delayed), and somebody has waited for so long, and will not leave.
    pub(crate) fn is_covered(&self, long: Duration) -> bool {
        let now = Instant::now();
        let stays = |waiter: &Waiter| waiter.how == How::Wait && now.since(waiter.since) >= long;
        self.is_delayed() && self.0.borrow().waiting.values().any(stays)
    }

    /// Whether this one waits, and gives up by itself if that takes long.
    pub(crate) fn gives_up(&self, who: Who) -> bool {
        let present = self.0.borrow();
        present.waiting.get(&who).is_some_and(|waiter| matches!(waiter.how, How::Timeout | How::Cancel))
    }

    /// Waits until all of them have finished. Returns those that have not within the limit.
    pub(crate) async fn unfinished_within(&self, limit: Duration, all: &[Who]) -> Vec<Who> {
        let mut present = self.0.subscribe();
        let done = present.wait_for(|present| all.iter().all(|who| present.finished.contains(who)));
        let _in_time = tokio::time::timeout(limit, done).await.is_ok();
        let present = self.0.borrow();
        all.iter().filter(|who| !present.finished.contains(who)).copied().collect()
    }
}

impl Present {
    fn holder(&self) -> Option<Holder> {
        self.holding.values().max_by_key(|holder| holder.since).cloned()
    }

    fn said(&mut self, record: &Record) {
        let Record { at, who, event } = record;
        match event {
            Event::Asks { how, delayed, .. } => {
                let waiter = Waiter { since: *at, how: *how, delayed: *delayed || *how == How::Try };
                self.waiting.insert(*who, waiter);
            }
            Event::Granted { session, node, .. } => {
                self.waiting.remove(who);
                let holder = Holder { who: *who, since: *at, session: *session, node: node.clone() };
                self.holding.insert(*who, holder);
            }
            Event::LeftWithout { .. } => drop(self.waiting.remove(who)),
            Event::Lost { .. } | Event::Releases { .. } | Event::Drops { .. } => {
                drop(self.holding.remove(who));
            }
            Event::Finished => drop(self.finished.insert(*who)),
            Event::Neglected { .. } | Event::Holds { .. } | Event::Released { .. } => {}
        }
    }
}
