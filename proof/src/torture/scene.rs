//! What is known at this moment: who holds, who waits, who has finished. Faults are aimed by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;
use zklock::FencingToken;

use super::heard::Heard;
use super::record::{Event, How, Record, Who};
use super::servers::Node;
use super::wish::Claim;
use crate::harness::Instant;

/// What is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Present {
    holding: BTreeMap<Who, Holder>,
    waiting: BTreeMap<Who, Waiter>,
    finished: BTreeSet<Who>,
    /// The token of the leader that each observer was told of, if it was told anything: `None` if nobody leads.
    told: BTreeMap<Who, Option<FencingToken>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) who: Who,
    pub(crate) since: Instant,
    pub(crate) session: i64,
    /// Its nodes, each with its directory.
    pub(crate) nodes: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    since: Instant,
    how: How,
    key: Option<usize>,
    delayed: bool,
}

impl Holder {
    /// Whether this is one of its nodes.
    pub(crate) fn has(&self, node: &Node) -> bool {
        self.nodes.contains(&node.path)
    }
}

/// Follows what is heard, and tells of changes.
pub(crate) struct Scene(watch::Sender<Present>);

impl Scene {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Present::default()))
    }

    pub(crate) fn hear(&self, heard: &Heard) {
        match heard {
            Heard::Said(Record { event: Event::Holds { .. } | Event::Witnesses { .. }, .. }) => {}
            Heard::Said(record) => self.0.send_modify(|present| present.said(record)),
            Heard::Killed { client, .. } | Heard::Crashed { client, .. } => self.0.send_modify(|present| {
                present.holding.retain(|who, _| who.client != *client);
                present.waiting.retain(|who, _| who.client != *client);
                present.told.retain(|who, _| who.client != *client);
            }),
        }
    }

    pub(crate) fn present(&self) -> Present {
        self.0.borrow().clone()
    }

    /// The present holder, if there is one; the latest, should several hold.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.0.borrow().holders().first().cloned()
    }

    /// Waits for a holder that will do, at most for so long; the latest, should several do.
    pub(crate) async fn holder_within(
        &self,
        limit: Duration,
        will_do: impl Fn(&Holder) -> bool,
    ) -> Option<Holder> {
        let mut present = self.0.subscribe();
        let found = async {
            loop {
                let found = present.borrow_and_update().holders().into_iter().find(&will_do);
                if found.is_some() {
                    return found;
                }
                present.changed().await.ok()?;
            }
        };
        tokio::time::timeout(limit, found).await.ok().flatten()
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

    /// Waits until all of these observers have been told of the leader with this token, or that nobody leads. Returns those
    /// that have not within the limit.
    pub(crate) async fn uninformed_within(
        &self,
        limit: Duration,
        observers: &[Who],
        leader: Option<FencingToken>,
    ) -> Vec<Who> {
        let mut present = self.0.subscribe();
        let is_informed = |present: &Present, who: &Who| present.told.get(who) == Some(&leader);
        let done = present.wait_for(|present| observers.iter().all(|who| is_informed(present, who)));
        let _in_time = tokio::time::timeout(limit, done).await.is_ok();
        let present = self.0.borrow();
        observers.iter().filter(|who| !is_informed(&present, who)).copied().collect()
    }
}

impl Present {
    /// The holders, the latest first.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let mut holders: Vec<_> = self.holding.values().cloned().collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.since));
        holders
    }

    /// Whether all who wait have a takeover delay.
    pub(crate) fn is_delayed(&self) -> bool {
        self.waiting.values().all(|waiter| waiter.delayed)
    }

    /// Whether the contender with this node has waited for so long by now, and will not leave. One that the tasks of a
    /// process share stays as long as one of these tasks does.
    pub(crate) fn stays(&self, node: &Node, long: Duration, now: Instant) -> bool {
        let stays = |waiter: &Waiter| waiter.how == How::Wait && now.since(waiter.since) >= long;
        let Some(who) = node.who else { return false };
        if !who.is_process() {
            return self.waiting.get(&who).is_some_and(stays);
        }
        let in_line = |key: usize| Claim::exclusive(key).fits(&node.path);
        let mut waiting = self.waiting.iter().filter(|(other, _)| other.client == who.client);
        let some_task_stays = waiting.any(|(_, waiter)| waiter.key.is_some_and(in_line) && stays(waiter));
        node.age >= long && some_task_stays
    }

    fn said(&mut self, record: &Record) {
        let Record { at, who, event } = record;
        match event {
            Event::Asks { wish, how, delayed, .. } => {
                let waiter = Waiter { since: *at, how: *how, key: wish.key(), delayed: *delayed };
                self.waiting.insert(*who, waiter);
            }
            Event::Granted { session, nodes, .. } => {
                self.waiting.remove(who);
                let holder = Holder { who: *who, since: *at, session: *session, nodes: nodes.clone() };
                self.holding.insert(*who, holder);
            }
            Event::LeftWithout { .. } => drop(self.waiting.remove(who)),
            Event::Lost { .. } | Event::Releases { .. } | Event::Drops { .. } => {
                drop(self.holding.remove(who));
            }
            Event::Finished => drop(self.finished.insert(*who)),
            Event::Observes => {
                self.told.remove(who);
            }
            Event::Told { leader } => {
                self.told.insert(*who, leader.as_ref().map(|leader| leader.token));
            }
            Event::Neglected { .. } | Event::Holds { .. } | Event::Released { .. } => {}
            Event::Proclaims { .. } | Event::Unannounced { .. } => {}
            Event::Shares { .. } | Event::Claims | Event::Outlived => {}
            Event::Enters | Event::Entered { .. } | Event::Witnesses { .. } => {}
        }
    }
}
