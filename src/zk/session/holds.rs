//! The holds of one session. While the session has one, heartbeats prove that the session lives. Once a lock has been held
//! for a while, the background task polls its driver.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{BoxFuture, join};
use slab::Slab;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::debug;

use super::background::Background;
use super::confirmation::confirm;
use crate::mutex::Mutex;
use crate::requests;
use crate::telemetry;
use crate::wire::link::{LinkAnswer, Requester};
use crate::wire::shared_lease::SharedLease;

/// How long a holder holds its lock before it watches its own node, and lists the queue if it has to: short critical sections need
/// not pay for that.
pub(crate) const SETTLING: Duration = Duration::from_millis(20);

/// How many nodes a heartbeat looks at, at most.
const NODES_PER_HEARTBEAT: usize = 32;

/// How much data these nodes have, in bytes, at most, unless it is one node. The answer has all of it, and the next heartbeat
/// waits behind it on a slow connection. It is enough for 32 contenders whose `data` are 4 KiB of plain text, and for 8 with
/// 16 KiB: owner, id and time are a few hundred bytes more.
const LONGEST_LOOK: usize = 144 * 1024;

/// What all guards of one contender share, as its session uses it.
pub(crate) trait SessionHold: Send + Sync {
    /// Returns true if the guard has been held for [`SETTLING`].
    fn is_due(&self) -> bool;

    /// Takes in that the guard has been held for that long. Returns the future that the background task polls from then on, unless
    /// it does so already, or the guard is no longer held.
    fn watch_node(self: Arc<Self>) -> Option<BoxFuture<'static, ()>>;

    /// Takes in that a server has shown no node with the name of the holder's node, or another contender's.
    fn node_is_gone(&self);

    /// Notes that the guard is lost, if it is: nobody may ask it for long.
    fn note_end(&self);

    /// Tells subscribers that the heartbeats which extend the guard's lease fail.
    fn tell_risk(&self);
}

/// A node of a guard.
#[derive(Clone)]
struct HeldNode {
    path: String,
    /// The transaction that created the node.
    czxid: i64,
    /// How much data its contender wrote to it, in bytes, at most.
    length: usize,
    holder: Weak<dyn SessionHold>,
}

/// The holds of one session.
pub(crate) struct Holds {
    /// The nodes of the holds. Each heartbeat looks at the next ones.
    held: Mutex<Slab<HeldNode>>,
    /// The holds that have not lasted for [`SETTLING`] yet.
    young: Mutex<Vec<Weak<dyn SessionHold>>>,
    /// Wakes the task that sends heartbeats, for a heartbeat at once.
    hurry: Arc<Notify>,
    background: Background,
}

impl Holds {
    /// Makes an empty set. `background` polls the drivers of guards that have been held for a while.
    pub(crate) fn new(background: Background) -> Arc<Self> {
        let held = Mutex::default();
        let young = Mutex::default();
        Arc::new(Self { held, young, hurry: Arc::default(), background })
    }

    /// Adds a node of a guard. Heartbeats are quorum writes until it is removed.
    pub(crate) fn insert(
        &self,
        (path, czxid, length): (String, i64, usize),
        holder: Weak<dyn SessionHold>,
    ) -> usize {
        let node = HeldNode { path, czxid, length, holder };
        self.held.lock().insert(node)
    }

    /// Removes a node of a guard.
    pub(crate) fn remove(&self, key: usize) {
        let removed = self.held.lock().try_remove(key);
        debug_assert!(removed.is_some(), "the node of a hold is removed twice");
    }

    fn has_any(&self) -> bool {
        !self.held.lock().is_empty()
    }

    /// Asks for a heartbeat at once.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Adds a guard that has just been granted. Returns true if it is the only young one, so that the caller must run
    /// [`settle_young`].
    pub(crate) fn insert_young(&self, guard: Weak<dyn SessionHold>) -> bool {
        let mut young = self.young.lock();
        young.push(guard);
        young.len() == 1
    }

    /// Returns the nodes after the one with the key `last`, as many as a heartbeat looks at: at least one, if a guard has a node.
    /// After the last node comes the first one again.
    fn next(&self, last: usize) -> Vec<(usize, HeldNode)> {
        let held = self.held.lock();
        let behind = held.iter().filter(|it| it.0 > last);
        let before = held.iter().filter(|it| it.0 <= last);
        let mut length = 0;
        let next =
            behind.chain(before).take(NODES_PER_HEARTBEAT).enumerate().take_while(|(index, (_, node))| {
                length += node.length;
                *index == 0 || length <= LONGEST_LOOK
            });
        next.map(|(_, (key, node))| (key, node.clone())).collect()
    }
}

/// Sends a sync every heartbeat, and on each new connection. While the session has a guard, a quorum write follows, to
/// confirm the lease. This is the cost of one session, however many holds and waiters it has.
///
/// A read of some holds' nodes goes with the write, and of the next ones the next time. Each holder also watches its node,
/// but a server withholds the node's end from a holder that may no longer read it. And when an operator restores the servers'
/// data while they run, all watches are gone though no connection is, and another contender may get the name of a holder's node.
pub(crate) async fn beat(holds: Weak<Holds>, lease: Arc<SharedLease>, mut requester: Requester) {
    let Some(hurry) = holds.upgrade().map(|holds| holds.hurry.clone()) else { return };
    let mut last = Instant::now();
    let mut looked = 0;
    while holds.strong_count() > 0 {
        let heartbeat = lease.lengths().heartbeat;
        // The background task awaits this, inside its runtime.
        let is_due = tokio::select! {
            () = tokio::time::sleep_until(last + heartbeat) => true,
            changed = requester.changed() => if changed { false } else { return },
            () = hurry.notified() => false,
        };
        // The time counts from the sending: an answer that took long must not delay the next heartbeat.
        last = Instant::now();
        if is_due && holds.upgrade().is_some_and(|holds| holds.has_any()) {
            telemetry::lease_remaining(lease.remaining());
        }
        let sync = requester.request(|wire| requests::sync(wire.client));
        if holds.strong_count() == 0 {
            return;
        }
        let sent = match sync.await {
            LinkAnswer::Given(Ok(_), sent) => sent,
            LinkAnswer::Given(Err(_), _) | LinkAnswer::Lost => continue,
            LinkAnswer::Over(_) => return,
        };
        let Some(next) = holds.upgrade().map(|holds| holds.next(looked)) else { return };
        let Some((key, _)) = next.last() else {
            lease.beat(sent);
            continue;
        };
        let nodes = next.iter().map(|(_, node)| (node.path.clone(), node.czxid)).collect();
        let confirm = confirm(requester.clone());
        let look = requester.request(|wire| requests::are_there(wire.client, nodes));
        // Both are sent in this order, in one poll. The write does not wait for the answer to the look.
        let (confirmed, looked_at) = join(confirm, look).await;
        if confirmed {
            lease.beat(sent);
        }
        if let LinkAnswer::Given(Some(there), _) = looked_at {
            looked = *key;
            let gone = next.iter().zip(there).filter(|(_, is_there)| !is_there);
            for holder in gone.filter_map(|((_, node), _)| node.holder.upgrade()) {
                debug!("a heartbeat shows that a holder's node is gone");
                holder.node_is_gone();
            }
        }
    }
}

/// Has each guard note its loss whenever the lease has ended, until the session is over. The loss is then counted and told, though
/// nobody asks the guard. Each guard also tells of a risk, once until heartbeats succeed again.
pub(crate) async fn note_ends(holds: Weak<Holds>, lease: Arc<SharedLease>) {
    let mut changes = lease.changes();
    let mut beaten = lease.heartbeats();
    let mut is_at_risk = false;
    loop {
        let end = lease.end();
        let left = lease.remaining();
        let has_ended = end.is_some() || left.is_zero();
        // Without a subscriber, nobody is woken for a risk.
        let calm = if telemetry::tells_of_holds() { lease.calm() } else { Duration::MAX };
        let was_at_risk = std::mem::replace(&mut is_at_risk, calm.is_zero());
        if has_ended || is_at_risk && !was_at_risk {
            if end.is_none() {
                debug!("the heartbeats fail");
            }
            let Some(holds) = holds.upgrade() else { return };
            // A guard that goes meanwhile must not find this mutex locked.
            let holders = holds.held.lock().iter().map(|(_, node)| node.holder.clone()).collect::<Vec<_>>();
            let tell =
                |holder: Arc<dyn SessionHold>| if has_ended { holder.note_end() } else { holder.tell_risk() };
            holders.iter().filter_map(Weak::upgrade).for_each(tell);
        }
        if end.is_some() || holds.strong_count() == 0 {
            return;
        }
        // This runs inside the session's runtime. Evidence for a lapsed lease wakes all.
        let next = if is_at_risk { left } else { left.min(calm) };
        let next = async {
            match next {
                Duration::ZERO => std::future::pending().await,
                next => tokio::time::sleep(next).await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            beat = beaten.changed(), if is_at_risk => if beat.is_err() { return },
            () = next => {}
        }
    }
}

/// Looks at the young holds every [`SETTLING`], and gives those that are old enough to the background task, until none
/// is left.
pub(crate) async fn settle_young(holds: Weak<Holds>) {
    loop {
        // The background task awaits this, inside its runtime.
        tokio::time::sleep(SETTLING).await;
        let Some(holds) = holds.upgrade() else { return };
        let mut due = Vec::new();
        let mut young = holds.young.lock();
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
        due.into_iter().filter_map(SessionHold::watch_node).for_each(|guard| holds.background.finish(guard));
        if done {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::node::NodeData;

    struct Nobody;

    impl SessionHold for Nobody {
        fn is_due(&self) -> bool {
            false
        }

        fn watch_node(self: Arc<Self>) -> Option<BoxFuture<'static, ()>> {
            None
        }

        fn node_is_gone(&self) {}

        fn note_end(&self) {}

        fn tell_risk(&self) {}
    }

    #[test]
    fn each_node_is_looked_at_in_turn() {
        let holder: Weak<dyn SessionHold> = Weak::<Nobody>::new();
        let longest = |data: &str| NodeData::longest(&"o".repeat(256), Some(data));
        for (number, length, nodes) in [
            (3, longest(""), 3),
            (95, longest(""), 32),
            (95, longest(&"x".repeat(4 * 1024)), 32),
            (95, longest(&"x".repeat(16 * 1024)), 8),
            (95, longest(&"\"".repeat(16 * 1024)), 4),
            (95, longest(&"\u{1}".repeat(16 * 1024)), 1),
            (3, LONGEST_LOOK + 1, 1),
        ] {
            let (background, _queue) = Background::new();
            let holds = Holds::new(background);
            assert!(holds.next(0).is_empty());
            for number in 0..number {
                holds.insert((format!("/lock/{number}"), 7, length), holder.clone());
            }
            let mut looked = 0;
            let mut seen = BTreeSet::new();
            for _ in 0..usize::div_ceil(number, nodes) {
                let next = holds.next(looked);
                assert_eq!(next.len(), nodes);
                looked = next.last().unwrap().0;
                seen.extend(next.into_iter().map(|(key, _)| key));
            }
            assert_eq!(seen.len(), number);
        }
    }
}
