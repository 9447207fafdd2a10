//! The guards of one session. While the session has a guard, heartbeats prove that the session lives. Once a guard has
//! been held for a while, the background task polls its driver.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::background::Background;
use super::link::{Answer, Requester};
use super::shared_lease::SharedLease;
use crate::requests;

/// How long a holder holds its lock before it watches its own node: short critical sections need not pay for the watch.
pub(crate) const SETTLING: Duration = Duration::from_millis(20);

/// A guard, as its session uses it.
pub(crate) trait Holder: Send + Sync {
    /// Returns true if the guard has been held for [`SETTLING`], so that the background task must take it over.
    fn is_due(&self) -> bool;

    /// Returns the future that the background task polls from then on; `None` if the guard is no longer held.
    fn settle(self: Arc<Self>) -> Option<BoxFuture<'static, ()>>;

    /// Takes in that a quorum has found no node with the name of the holder's node.
    fn node_is_gone(&self);
}

/// The guards of one session.
pub(crate) struct Guards {
    /// The path of each guard's nodes, and the guard. Each heartbeat asks for the next node.
    held: Mutex<Slab<(String, Weak<dyn Holder>)>>,
    /// The guards that have not been held for [`SETTLING`] yet.
    young: Mutex<Vec<Weak<dyn Holder>>>,
    /// Wakes the task that sends heartbeats, for a heartbeat at once.
    hurry: Arc<Notify>,
    background: Background,
}

impl Guards {
    /// Makes an empty set. `background` polls the drivers of guards that have been held for a while.
    pub(crate) fn new(background: Background) -> Arc<Self> {
        let (held, young) = (Mutex::default(), Mutex::default());
        Arc::new(Self { held, young, hurry: Arc::default(), background })
    }

    /// Adds a node of a guard. Heartbeats are quorum writes until it is removed.
    pub(crate) fn insert(&self, node: String, holder: Weak<dyn Holder>) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert((node, holder))
    }

    /// Removes a node of a guard.
    pub(crate) fn remove(&self, key: usize) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).try_remove(key);
    }

    /// Asks for a heartbeat at once.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Adds a guard that has just been granted. Returns true if it is the only young one, so that the caller must run
    /// [`settle`].
    pub(crate) fn insert_young(&self, guard: Weak<dyn Holder>) -> bool {
        let mut young = self.young.lock().unwrap_or_else(PoisonError::into_inner);
        young.push(guard);
        young.len() == 1
    }

    /// Returns the guard after the one with the key `last`. After the last guard comes the first one again.
    fn next(&self, last: usize) -> Option<(usize, String, Weak<dyn Holder>)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let next = held.iter().find(|(key, _)| *key > last).or_else(|| held.iter().next());
        next.map(|(key, (node, holder))| (key, node.clone(), holder.clone()))
    }
}

/// Sends a sync every heartbeat, and on each new connection. While the session has a guard, a quorum write follows, to
/// confirm the lease. This is the cost of one session, however many guards and waiters it has.
///
/// The write asks for the node of one guard, and of the next guard the next time. The holder also watches that node,
/// but a server withholds the node's end from a holder that may no longer read it.
pub(crate) async fn beat(guards: Weak<Guards>, lease: Arc<SharedLease>, mut requester: Requester) {
    let Some(hurry) = guards.upgrade().map(|guards| guards.hurry.clone()) else { return };
    let (mut last, mut asked) = (Instant::now(), 0);
    while guards.strong_count() > 0 {
        let heartbeat = lease.lengths().heartbeat;
        // The background task awaits this, inside its runtime.
        tokio::select! {
            () = tokio::time::sleep_until(last + heartbeat) => {}
            changed = requester.changed() => if !changed { return },
            () = hurry.notified() => {}
        }
        // The time counts from the sending: an answer that took long must not delay the next heartbeat.
        last = Instant::now();
        let sync = requester.request(|wire| requests::sync(wire.client));
        if guards.strong_count() == 0 {
            return;
        }
        let sent = match sync.await {
            Answer::Given(true, sent) => sent,
            Answer::Given(false, _) | Answer::Lost => continue,
            Answer::Over(_) => return,
        };
        lease.synced(sent);
        let Some(next) = guards.upgrade().map(|guards| guards.next(asked)) else { return };
        let Some((key, node, holder)) = next else { continue };
        let confirmation = requester.request(|wire| requests::heartbeat(wire.client, node));
        if let Answer::Given(Some(is_there), sent) = confirmation.await {
            lease.confirmed(sent);
            asked = key;
            if !is_there && let Some(holder) = holder.upgrade() {
                holder.node_is_gone();
            }
        }
    }
}

/// Looks at the young guards every [`SETTLING`], and gives those that are old enough to the background task, until none
/// is left.
pub(crate) async fn settle(guards: Weak<Guards>) {
    loop {
        // The background task awaits this, inside its runtime.
        tokio::time::sleep(SETTLING).await;
        let Some(guards) = guards.upgrade() else { return };
        let mut due = Vec::new();
        let mut young = guards.young.lock().unwrap_or_else(PoisonError::into_inner);
        young.retain(|guard| match guard.upgrade() {
            Some(guard) if guard.is_due() => {
                due.push(guard);
                false
            }
            Some(_) => true,
            None => false,
        });
        let done = young.is_empty();
        // A release meanwhile must not find this mutex locked.
        drop(young);
        due.into_iter().filter_map(Holder::settle).for_each(|guard| guards.background.finish(guard));
        if done {
            return;
        }
    }
}
