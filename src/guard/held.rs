//! A lock that is held, and how the loss of it becomes known. The tasks that hold it one after the other have a
//! [`Turn`](super::turn::Turn) each.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use tokio::sync::watch;
use tracing::{debug, warn};
use zklock_recipe::acquisition::{Certainty, Input};
use zklock_recipe::{End, Lapse, Moment, Own, Term};

use super::lost::{Lost, LostReason};
use crate::clock;
use crate::contender::{Driver, Outcome, Work};
use crate::mutex::Mutex;
use crate::requests::OwnNode;
use crate::zk::{Holder, Holding, SharedLease, ZkSession};

/// A lock that is held. Its guards and the session's background task share it.
pub(super) struct Held {
    pub(super) holding: Holding,
    /// The lock's path. Of several locks, all their paths.
    pub(super) path: String,
    /// The holder's nodes, one in each queue. One transaction created them, so they have one `czxid`.
    pub(super) nodes: Vec<OwnNode>,
    term: Term,
    /// The number of the connection on which our nodes were last seen, plus one. Zero means that they were seen on none.
    seen: AtomicU64,
    pub(super) stop_margin: Duration,
    pub(super) fate: watch::Sender<Fate>,
    /// The contender's driver. `None` once the lock is being released, or once the driver has ended.
    pub(super) driver: Mutex<Option<Driver>>,
    /// What outlives a turn, so that the node must not be passed on. It changes under the driver's mutex only.
    pub(super) ties: AtomicU64,
    /// Whether a transaction of ours may remove the node, so that its end is no news.
    pub(super) is_ending: AtomicBool,
    /// Wakes the background task while that polls the driver.
    keeper: AtomicWaker,
}

/// Whose turn it is, and whether the hold is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// The number of the present turn. All earlier ones are over.
    pub(super) turn: u32,
    pub(super) loss: Option<Loss>,
}

/// The loss of the lock, once it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    reason: LostReason,
    /// The guard is lost from this instant on.
    from: Moment,
}

impl Held {
    pub(super) fn new(mut driver: Driver, nodes: Vec<Own>, term: Term) -> Arc<Self> {
        // The holder of a turnstile watches its node only while it waits there for room.
        let (turnstile, settled) = (driver.locks().any(|lock| lock.is_turnstile()), driver.is_settled());
        let (watches, settles) = (settled && !turnstile, !settled && !turnstile);
        if watches {
            // Somebody may have deleted the node of a contender that waited for long. So it watches its node at once.
            driver.handle(Input::Settled);
        }
        let (session, stop_margin) = (driver.session.clone(), driver.stop_margin());
        let nodes = driver.locks().cloned().zip(nodes).collect::<Vec<_>>();
        let held = Arc::new_cyclic(|held: &Weak<Self>| Self {
            holding: session.hold(
                nodes.iter().map(|node| (path_of(node), node.1.czxid, node.0.longest_node)),
                &(held.clone() as _),
                stop_margin,
            ),
            path: driver.paths(),
            nodes,
            term,
            seen: AtomicU64::new(driver.seen().map_or(0, |number| number + 1)),
            stop_margin,
            fate: watch::Sender::default(),
            driver: Mutex::new(Some(driver)),
            ties: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
            keeper: AtomicWaker::new(),
        });
        if watches {
            session.finish(held.clone().watch());
        }
        if settles {
            let weak: Weak<Self> = Arc::downgrade(&held);
            session.settle_later(weak);
        }
        held
    }

    /// Why the lock is lost at this instant, if it is.
    pub(super) fn lost_by_now(&self) -> Option<LostReason> {
        let loss = self.fate.borrow().loss;
        match loss {
            Some(loss) if clock::now().until(loss.from).is_zero() => Some(loss.reason),
            _ => self.lease().err().map(|lapse| self.lose(lapse.into())),
        }
    }

    /// Marks the lock as lost from now on. If it is lost already, the first reason stays.
    pub(super) fn lose(&self, reason: LostReason) -> LostReason {
        self.lose_from(reason, clock::now())
    }

    /// Marks the lock as lost from this instant on, unless it is lost by then.
    pub(super) fn lose_from(&self, reason: LostReason, from: Moment) -> LostReason {
        let mut first = reason;
        self.fate.send_if_modified(|Fate { loss, .. }| {
            let before = *loss;
            first = first_of(loss, Loss { reason, from });
            *loss != before
        });
        first
    }

    /// Marks the lock as lost for this reason, unless it is lost already. The end of a session also deletes the node,
    /// and the news of that end may come second.
    pub(super) fn lost_for(&self, reason: LostReason) -> Lost {
        self.as_lost(self.lost_by_now().unwrap_or_else(|| self.lose(reason)))
    }

    /// A server found our node gone or written to. A node of its name may be another contender's by now, so the driver
    /// no longer relies on having seen the node: it looks at the node before it deletes by name. It takes the node's companion back.
    pub(super) fn touched(&self) -> Lost {
        let mut driver = self.driver.lock();
        // No transaction of this turn follows, so none makes a companion behind the look for it.
        let lost = self.lost_for(LostReason::NodeDeleted);
        if let Some(driver) = driver.as_mut() {
            driver.touched();
            driver.take_back();
        }
        lost
    }

    pub(super) fn as_lost(&self, reason: LostReason) -> Lost {
        Lost { path: self.path.clone(), reason }
    }

    pub(super) fn remaining(&self) -> Duration {
        let lease = self.lease().unwrap_or_default();
        self.fate.borrow().loss.map_or(lease, |loss| lease.min(clock::now().until(loss.from)))
    }

    /// How long the lease still lasts for this guard, or why it has ended.
    fn lease(&self) -> Result<Duration, Lapse> {
        self.shared_lease().remaining_of(self.term, self.seen.load(Ordering::Relaxed).checked_sub(1))
    }

    /// Records that a server has shown our node on this connection. The news may come late, so an earlier connection
    /// changes nothing.
    pub(super) fn saw(&self, connection: u64) {
        self.seen.fetch_max(connection + 1, Ordering::Relaxed);
    }

    /// Looks again whenever the lease, the turn or the loss changes, and when the lease has only this margin left.
    pub(super) async fn wait_for<T>(&self, margin: Duration, look: impl Fn() -> Option<T>) -> T {
        let mut fate = self.fate.subscribe();
        let mut lease = self.shared_lease().changes();
        loop {
            // Both receivers were made, or saw their last change, before this look. So no change is missed.
            if let Some(seen) = look() {
                return seen;
            }
            // Neither sender is dropped before `self`. The timer's clock stops while the machine is suspended, so
            // `check` and `run` read the clocks of the lease.
            let end = self.session().sleep(self.remaining().saturating_sub(margin));
            let (fate, lease) = (pin!(fate.changed()), pin!(lease.changed()));
            let changed = futures::future::select(fate, lease);
            let _which = futures::future::select(changed, pin!(end)).await;
        }
    }

    /// Resolves once the lease has ended, whether or not the guard was lost before.
    pub(super) async fn lapse(&self) {
        let session = self.session();
        while self.shared_lease().check(self.term).is_ok() {
            session.sleep(self.shared_lease().remaining()).await;
        }
    }

    /// The paths of the holder's nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = String> {
        self.nodes.iter().map(path_of)
    }

    /// The session in which the lock is held.
    pub(super) fn session(&self) -> &Arc<ZkSession> {
        &self.holding.session
    }

    /// Whether the node of the holder's name is certainly the holder's node.
    pub(super) fn certainty(&self) -> Certainty {
        let driver = self.driver.lock();
        driver.as_ref().map_or(Certainty::Unsure, Driver::certainty)
    }

    pub(super) fn shared_lease(&self) -> &SharedLease {
        &self.session().lease
    }

    /// Takes the driver from the background task, or from the guard, to release the lock. A caller whose turn is over, or
    /// who finds no driver, gets `None`.
    pub(super) fn take(&self, turn: u32) -> Option<Driver> {
        let mut slot = self.driver.lock();
        let driver = slot.take_if(|_| self.fate.borrow().turn == turn)?;
        let released = Loss { reason: LostReason::Released, from: clock::now() };
        // The waiters for a loss are woken after the mutex: their wakers are foreign code.
        self.fate.send_if_modified(|fate| {
            first_of(&mut fate.loss, released);
            false
        });
        drop(slot);
        self.fate.send_modify(|_| {});
        self.keeper.wake();
        Some(driver)
    }

    /// Ends this turn, and begins the next one. Returns false if the turn is over already, if the hold is over, or if
    /// something of this turn outlives it.
    pub(super) fn pass(&self, turn: u32) -> bool {
        let slot = self.driver.lock();
        let passes = slot.is_some()
            && self.fate.borrow().turn == turn
            && self.ties.load(Ordering::Relaxed) == 0
            && turn < u32::MAX;
        if passes {
            self.fate.send_if_modified(|fate| {
                fate.turn += 1;
                false
            });
        }
        drop(slot);
        if passes {
            self.fate.send_modify(|_| {});
        }
        passes
    }

    /// Does something in this turn that outlives it: from here on the node is not passed on. `None` if the turn is over,
    /// or if the lock is being released.
    pub(super) fn tie<T>(&self, turn: u32, does: impl FnOnce() -> T) -> Option<T> {
        self.tie_if(|| true, turn, does)
    }

    /// As [`tie`](Self::tie), unless the lock is lost.
    pub(super) fn tie_unless_lost<T>(&self, turn: u32, does: impl FnOnce() -> T) -> Option<T> {
        self.tie_if(|| self.lost_by_now().is_none(), turn, does)
    }

    fn tie_if<T>(&self, may: impl FnOnce() -> bool, turn: u32, does: impl FnOnce() -> T) -> Option<T> {
        let slot = self.driver.lock();
        (slot.is_some() && self.fate.borrow().turn == turn && may()).then(|| {
            self.ties.fetch_add(1, Ordering::Relaxed);
            does()
        })
    }

    /// Takes one [`tie`](Self::tie) back.
    pub(super) fn untie(&self) {
        let _slot = self.driver.lock();
        self.ties.fetch_sub(1, Ordering::Relaxed);
    }

    fn report(&self, Lost { path, reason }: &Lost) {
        if self.is_ending.load(Ordering::Relaxed) {
            debug!(%path, %reason, "the hold has ended");
        } else {
            warn!(%path, %reason, "the guard is lost");
        }
    }

    /// Polls the driver until the lock is released or the guard is lost.
    fn watch(self: Arc<Self>) -> BoxFuture<'static, ()> {
        std::future::poll_fn(move |cx| {
            self.keeper.register(cx.waker());
            let mut slot = self.driver.lock();
            let Some(driver) = slot.as_mut() else { return Poll::Ready(()) };
            let polled = driver.poll(cx);
            driver.seen().into_iter().for_each(|connection| self.saw(connection));
            let outcome = std::task::ready!(polled);
            // A node that was only written to still exists. It stays until the guard is dropped, so that nobody is
            // granted the lock before the loser has finished.
            let driver = if outcome == Outcome::Lost { None } else { slot.take() };
            drop(slot);
            if let Some(reason) = lost_reason(&outcome) {
                self.report(&self.lost_for(reason));
            }
            driver.into_iter().for_each(Driver::abandon);
            Poll::Ready(())
        })
        .boxed()
    }
}

impl Holder for Held {
    fn is_due(&self) -> bool {
        let driver = self.driver.lock();
        driver.as_ref().is_none_or(Driver::is_settled)
    }

    fn settle(self: Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        self.driver.lock().as_mut()?.handle(Input::Settled);
        Some(self.watch())
    }

    fn node_is_gone(&self) {
        // The guard may be released before this answer comes, and a lost guard may be kept for long.
        if self.lost_by_now().is_some() {
            return;
        }
        self.report(&self.touched());
    }
}

pub(super) fn path_of((lock, own): &OwnNode) -> String {
    lock.path.contender(own.place)
}

/// Records a loss, unless an earlier one was recorded. The reason of the first one.
fn first_of(recorded: &mut Option<Loss>, loss: Loss) -> LostReason {
    match *recorded {
        Some(earlier) if loss.from.until(earlier.from).is_zero() => earlier.reason,
        _ => {
            *recorded = Some(loss);
            loss.reason
        }
    }
}

/// Why the guard is lost after this outcome; `None` if the outcome is what the holder asked for.
pub(super) fn lost_reason(outcome: &Outcome) -> Option<LostReason> {
    match outcome {
        Outcome::Lost | Outcome::Ended(_, End::NodeDeleted) => Some(LostReason::NodeDeleted),
        Outcome::Ended(_, End::SessionOver(end)) => Some((*end).into()),
        Outcome::Ended(..) | Outcome::Granted(..) => None,
    }
}
