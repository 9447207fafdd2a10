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
use zklock_recipe::{End, Lapse, Limit, Moment, Own, Term};

use super::lost::{Lost, LostReason};
use crate::clock;
use crate::contender::{Driver, Outcome, Work};
use crate::mutex::Mutex;
use crate::requests::{OwnNode, path_of};
use crate::telemetry;
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
    /// Counts the hold; `None` for the turnstile of a pool, which is no hold of the caller's.
    count: Option<telemetry::Hold>,
}

/// Whose turn it is, and whether the hold is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// The number of the present turn. All earlier ones are over.
    pub(super) turn: u32,
    /// Until when that turn may last, once a caller has it.
    pub(super) limit: Limit,
    pub(super) loss: Option<Loss>,
}

/// The loss of the lock, once it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) reason: LostReason,
    /// The guard is lost from this instant on.
    pub(super) from: Moment,
}

/// The first loss of a hold that is marked as lost, and whether nobody was told of it yet.
struct Mark {
    loss: Loss,
    is_news: bool,
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
        let count = driver.locks().next().filter(|_| !turnstile);
        let count = count.map(|lock| telemetry::Hold::new(&lock.label, lock.is_led()));
        let nodes = driver.locks().cloned().zip(nodes).collect::<Vec<_>>();
        let held = Arc::new_cyclic(|held: &Weak<Self>| Self {
            holding: session.hold(&nodes, &(held.clone() as _), stop_margin),
            path: driver.paths(),
            nodes,
            term,
            seen: AtomicU64::new(driver.seen().map_or(0, |number| number + 1)),
            stop_margin,
            fate: watch::Sender::new(Fate::default()),
            driver: Mutex::new(Some(driver)),
            ties: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
            keeper: AtomicWaker::new(),
            count,
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
        self.look().map(|mark| self.tell(mark))
    }

    /// The loss by this instant, if there is one. It wakes nobody, so callers may hold the driver's mutex.
    fn look(&self) -> Option<Mark> {
        let Fate { loss: noted, limit, .. } = *self.fate.borrow();
        if let Some(loss) = noted.filter(|loss| clock::now().until(loss.from).is_zero()) {
            return Some(Mark { loss, is_news: false });
        }
        match self.lease() {
            Err(lapse) => Some(self.mark_as(lapse.into(), self.shared_lease().lapsed())),
            // Without a limit, the clocks are not read again.
            Ok(_) if limit == Limit::default() => None,
            Ok(_) => {
                let now = clock::now();
                // The turn may have begun just now.
                let overstayed = |from| Loss { reason: LostReason::MaxHold, from };
                self.mark(|fate| fate.limit.reached(now).map(overstayed))
            }
        }
    }

    /// Marks the lock as lost, if there is such a loss. If it is lost already, the first loss stays. It wakes nobody.
    fn mark(&self, loss: impl FnOnce(&Fate) -> Option<Loss>) -> Option<Mark> {
        let mut mark = None;
        // The waiters for a loss are woken by `tell`: their wakers are foreign code.
        self.fate.send_if_modified(|fate| {
            mark = loss(fate).map(|loss| first_of(&mut fate.loss, loss));
            false
        });
        mark
    }

    fn mark_as(&self, reason: LostReason, from: Moment) -> Mark {
        let loss = Loss { reason, from };
        self.mark(|_| Some(loss)).unwrap_or(Mark { loss, is_news: false })
    }

    /// Tells of a loss: those who wait for it, and the metrics. Foreign code runs, so callers hold no mutex.
    fn tell(&self, Mark { loss, is_news }: Mark) -> LostReason {
        if is_news {
            self.fate.send_modify(|_| {});
        }
        self.counted(loss);
        loss.reason
    }

    /// Counts the end of the hold once it has come.
    fn counted(&self, Loss { reason, from }: Loss) {
        let Some(count) = &self.count else { return };
        let now = clock::now();
        if now.until(from).is_zero() {
            count.ended(reason.label(), now.least_since(from));
        }
    }

    /// Why this turn is lost within this margin, if it is, and in how long. From then on nothing puts that end off.
    pub(super) fn ends_within(&self, margin: Duration, turn: u32) -> Option<(LostReason, Duration)> {
        if self.remaining() > margin {
            return None;
        }
        // Another turn may have begun since that look, or evidence may have come.
        let mut left = Duration::ZERO;
        let mark = self.mark(|fate| {
            let (remaining, reason) = self.horizon(fate);
            left = remaining;
            let ends = fate.turn == turn && remaining <= margin;
            ends.then(|| Loss { reason, from: clock::now().plus(remaining) })
        })?;
        Some((self.tell(mark), left))
    }

    /// Marks the lock as lost for this reason, unless it is lost already. The end of a session also deletes the node,
    /// and the news of that end may come second.
    pub(super) fn lost_for(&self, reason: LostReason) -> Lost {
        self.as_lost(self.tell(self.mark_for(reason)))
    }

    fn mark_for(&self, reason: LostReason) -> Mark {
        self.look().unwrap_or_else(|| self.mark_as(reason, clock::now()))
    }

    /// A server found our node gone or written to. A node of its name may be another contender's by now, so the driver
    /// no longer relies on having seen the node: it looks at the node before it deletes by name. It takes the node's companion back.
    pub(super) fn touched(&self) -> Lost {
        let mut driver = self.driver.lock();
        // No transaction of this turn follows, so none makes a companion behind the look for it.
        let mark = self.mark_for(LostReason::NodeDeleted);
        if let Some(driver) = driver.as_mut() {
            driver.touched();
            driver.take_back();
        }
        drop(driver);
        self.as_lost(self.tell(mark))
    }

    pub(super) fn as_lost(&self, reason: LostReason) -> Lost {
        Lost { path: self.path.clone(), reason }
    }

    pub(super) fn remaining(&self) -> Duration {
        let fate = *self.fate.borrow();
        self.horizon(&fate).0
    }

    /// How long the lock is certainly held with this fate, and why it is lost then.
    fn horizon(&self, Fate { loss, limit, .. }: &Fate) -> (Duration, LostReason) {
        let (lease, now) = (self.lease().unwrap_or_default(), clock::now());
        let lease = loss.map_or(lease, |loss| lease.min(now.until(loss.from)));
        let (remaining, by_limit) = limit.bound(lease, now);
        (remaining, if by_limit { LostReason::MaxHold } else { LostReason::Unconfirmed })
    }

    /// How long the lease still lasts for this guard, or why it has ended.
    pub(super) fn lease(&self) -> Result<Duration, Lapse> {
        self.shared_lease().remaining_of(self.term, self.seen())
    }

    /// Records that a server has shown our node on this connection. The news may come late, so an earlier connection
    /// changes nothing.
    pub(super) fn saw(&self, connection: u64) {
        self.seen.fetch_max(connection + 1, Ordering::Relaxed);
    }

    /// The connection on which our nodes were last seen.
    pub(super) fn seen(&self) -> Option<u64> {
        self.seen.load(Ordering::Relaxed).checked_sub(1)
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
        let (told, now) = (self.fate.borrow().loss, clock::now());
        let released = self.mark_as(LostReason::Released, now);
        drop(slot);
        // A holder who was told of a loss that is near has let go because of it. That it may not hold for longer is no loss.
        let told = told.filter(|loss| loss.reason != LostReason::MaxHold && !now.until(loss.from).is_zero());
        self.counted(told.map_or(released.loss, |loss| Loss { from: now, ..loss }));
        self.fate.send_modify(|_| {});
        self.keeper.wake();
        Some(driver)
    }

    /// Has this turn last for so long at most from now on, if it is the present one.
    pub(super) fn limit(&self, turn: u32, longest: Duration) {
        self.fate.send_if_modified(|fate| {
            let is_present = fate.turn == turn;
            if is_present {
                fate.limit = Limit::of(Some(longest), clock::now());
            }
            is_present
        });
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
                fate.limit = Limit::default();
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
        let mut lost = None;
        let may = || {
            lost = self.look();
            lost.is_none()
        };
        let tied = self.tie_if(may, turn, does);
        lost.map(|mark| self.tell(mark));
        tied
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
            if driver.is_some() {
                // The task that waits for a limit has nothing to give up any more, also if the loss was noted before.
                self.fate.send_modify(|_| {});
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

    fn note_end(&self) {
        self.lost_by_now();
    }
}

/// Records a loss, unless an earlier one was recorded. The first one.
fn first_of(recorded: &mut Option<Loss>, loss: Loss) -> Mark {
    match *recorded {
        Some(earlier) if loss.from.until(earlier.from).is_zero() => Mark { loss: earlier, is_news: false },
        _ => {
            *recorded = Some(loss);
            Mark { loss, is_news: true }
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
