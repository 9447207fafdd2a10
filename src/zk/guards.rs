//! The guards of one session: heartbeats prove that it lives for as long as it has one, and each guard is looked after once it
//! has been held for a while.

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

/// How long a lock is held before its holder watches its own node: short critical sections need not pay for it.
pub(crate) const SETTLING: Duration = Duration::from_millis(20);

/// A guard, to the session.
pub(crate) trait Holder: Send + Sync {
    /// True if it has been held for [`SETTLING`], so that it is to be looked after in the background.
    fn is_due(&self) -> bool;

    /// What is to be done from then on; `None` if the guard is no longer held.
    fn settle(self: Arc<Self>) -> Option<BoxFuture<'static, ()>>;

    /// A quorum has found no node of its name.
    fn node_is_gone(&self);
}

/// The guards of one session.
pub(crate) struct Guards {
    /// Each of them, and the name of its node. Each heartbeat asks for the next one's.
    held: Mutex<Slab<(String, Weak<dyn Holder>)>>,
    /// Those that have not been held for [`SETTLING`] yet.
    young: Mutex<Vec<Weak<dyn Holder>>>,
    /// Asks for a heartbeat at once.
    hurry: Arc<Notify>,
    background: Background,
}

impl Guards {
    /// None yet. Those that have been held for a while are looked after in this task.
    pub(crate) fn new(background: Background) -> Arc<Self> {
        let (held, young) = (Mutex::default(), Mutex::default());
        Arc::new(Self { held, young, hurry: Arc::default(), background })
    }

    /// Takes a guard up: heartbeats are quorum writes until it is taken out.
    pub(crate) fn insert(&self, node: String, holder: Weak<dyn Holder>) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert((node, holder))
    }

    /// Takes a guard out.
    pub(crate) fn remove(&self, key: usize) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).try_remove(key);
    }

    /// Has a heartbeat sent at once.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Takes up a guard that has just been granted. True if it is the only one, so that [`settle`] is to be run.
    pub(crate) fn insert_young(&self, guard: Weak<dyn Holder>) -> bool {
        let mut young = self.young.lock().unwrap_or_else(PoisonError::into_inner);
        young.push(guard);
        young.len() == 1
    }

    /// The guard behind the one that was registered as `last`, in their order round and round.
    fn next(&self, last: usize) -> Option<(usize, String, Weak<dyn Holder>)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let next = held.iter().find(|(key, _)| *key > last).or_else(|| held.iter().next());
        next.map(|(key, (node, holder))| (key, node.clone(), holder.clone()))
    }
}

/// Touches the session every heartbeat, and on each new connection, by a sync; then confirms it by a quorum write while it
/// has a guard. So much a session, however many guards and waiters it has.
///
/// The write asks for the node of one guard, of another one each time. Its holder watches that node, but a server withholds
/// the end of a node that the holder may not read any more.
pub(crate) async fn beat(guards: Weak<Guards>, lease: Arc<SharedLease>, mut requester: Requester) {
    let Some(hurry) = guards.upgrade().map(|guards| guards.hurry.clone()) else { return };
    let (mut last, mut asked) = (Instant::now(), 0);
    while guards.strong_count() > 0 {
        let heartbeat = lease.lengths().heartbeat;
        // Whichever comes first; the background task awaits this, inside its runtime.
        tokio::select! {
            () = tokio::time::sleep_until(last + heartbeat) => {}
            changed = requester.changed() => if !changed { return },
            () = hurry.notified() => {}
        }
        // From when it is sent: an answer that took long must not delay the next one.
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

/// Looks every little while whether a young guard has come of age, until there is none.
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
        // A guard that is released meanwhile must not find this lock taken.
        drop(young);
        due.into_iter().filter_map(Holder::settle).for_each(|guard| guards.background.finish(guard));
        if done {
            return;
        }
    }
}
