//! A lock that is held, and how the loss of it becomes known. The tasks that hold it one after the other have a
//! [`Turn`](turn::Turn) each.

pub(crate) mod fail_stop;
pub(crate) mod turn;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, select};
use futures::task::AtomicWaker;
use tokio::sync::watch;
use tracing::debug;
use zklock_recipe::acquisition::Certainty;
use zklock_recipe::{End, Event, Kind, Lapse, Limit, Moment, Outcome, Own, Term};

use super::lost::{Lost, LostReason};
use crate::clock;
use crate::contender::{Driver, Work};
use crate::mutex::Mutex;
use crate::requests::{OwnNode, path_of};
use crate::telemetry::{self, CallersTurn, FamilyMember, HeldPath};
use crate::wire::SharedLease;
use crate::zk::{Holding, SETTLING, SessionHold, ZkSession};

/// A lock that is held. Its guards and the session's background task share it.
pub(crate) struct Held {
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
    /// Wakes the background task while that polls the driver.
    keeper: AtomicWaker,
    granted: Instant,
    /// Whether the background task has polled the driver since the grant.
    is_polled: bool,
    /// Counts the hold; `None` for the turnstile of a pool, which is no hold of the caller's.
    count: Option<telemetry::Hold>,
    /// The turn that a caller has, until its end was told.
    told: Mutex<Option<CallersTurn>>,
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
        // The holder of a turnstile watches its node only while it waits there for room. A forged release costs a pool no more
        // than its order.
        let turnstile = driver.locks().any(|lock| lock.queue.is_turnstile());
        let is_polled = driver.is_aged() && !turnstile;
        if is_polled {
            // Somebody may have deleted the node of a contender that waited for long. So it watches its node at once.
            driver.handle(Event::Aged);
        }
        let session = driver.session.clone();
        let stop_margin = driver.stop_margin();
        let count = driver.locks().next().filter(|_| !turnstile);
        let count = count.map(|lock| telemetry::Hold::new(&lock.options.label, lock.queue.is_led()));
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
            keeper: AtomicWaker::new(),
            granted: Instant::now(),
            is_polled,
            count,
            told: Mutex::default(),
        });
        if is_polled {
            session.finish(held.clone().watch());
        }
        if !turnstile {
            let weak: Weak<Self> = Arc::downgrade(&held);
            session.settle_later(weak);
        }
        held
    }

    /// Why the lock is lost at this instant, if it is.
    pub(super) fn lost_by_now(&self) -> Option<LostReason> {
        self.find_loss().map(|mark| self.tell_loss(mark))
    }

    /// The loss by this instant, if there is one. It wakes nobody, so callers may hold the driver's mutex.
    fn find_loss(&self) -> Option<Mark> {
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
        // The waiters for a loss are woken by `tell_loss`: their wakers are foreign code.
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

    /// Tells of a loss: those who wait for it, the metrics, and subscribers. Foreign code runs, so callers hold no mutex.
    fn tell_loss(&self, Mark { loss, is_news }: Mark) -> LostReason {
        if is_news {
            debug!(path = self.path, reason = ?loss.reason, "a hold ends");
            self.fate.send_modify(|_| {});
        }
        self.ended(loss, false);
        loss.reason
    }

    /// Tells that a caller has this turn, as this member, after it has waited for so long. From then on the end of the turn is told.
    pub(super) fn granted(&self, turn: u32, member: FamilyMember, waited: Duration) {
        let told = CallersTurn::begin(member.text(), turn);
        self.each_path().for_each(|held| told.granted(&held, waited));
        *self.told.lock() = Some(told);
        // Nobody has told of a loss that came before.
        self.lost_by_now();
    }

    /// Counts the end of the hold once it has come, and tells of it: the holder has lost it, or has let go.
    fn ended(&self, Loss { reason, from }: Loss, lets_go: bool) {
        let now = clock::now();
        if now.until(from).is_zero() {
            let lost = reason.label();
            let ago = now.least_since(from);
            if let Some(count) = &self.count {
                count.ended(lost, ago);
            }
            self.tell_end(lost, lets_go, ago);
        }
    }

    /// Tells of the end of the turn that a caller has. The first end counts.
    fn tell_end(&self, lost: Option<&'static str>, lets_go: bool, ago: Duration) {
        let Some(told) = self.told.lock().take() else { return };
        self.each_path().for_each(|held| match lost {
            Some(reason) if !lets_go => told.lost(&held, reason, ago),
            reason => told.released(&held, reason, ago),
        });
    }

    /// What is held, as events name it.
    fn each_path(&self) -> impl Iterator<Item = HeldPath<'_>> {
        let chroot = Some(self.session().chroot.as_str()).filter(|chroot| !chroot.is_empty());
        self.nodes.iter().map(move |(lock, own)| HeldPath {
            path: lock.queue.held().as_str(),
            chroot,
            name: lock.options.label.as_deref(),
            owner: &lock.options.owner,
            slot: if let Kind::Slot(index) = own.place.kind { Some(index) } else { None },
            weight: if let Kind::Permit(weight) = own.place.kind { Some(weight) } else { None },
            token: own.czxid,
        })
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
        debug!("a holder is told of an end that is near");
        Some((self.tell_loss(mark), left))
    }

    /// Marks the lock as lost for this reason, unless it is lost already. The end of a session also deletes the node,
    /// and the news of that end may come second.
    pub(super) fn lost_for(&self, reason: LostReason) -> Lost {
        self.as_lost(self.tell_loss(self.mark_for(reason)))
    }

    fn mark_for(&self, reason: LostReason) -> Mark {
        self.find_loss().unwrap_or_else(|| self.mark_as(reason, clock::now()))
    }

    /// A server found our node gone or written to. A node of its name may be another contender's by now, so the driver looks for
    /// our node before it deletes by name. It takes the node's companion back.
    pub(super) fn touched(&self) -> Lost {
        let mut driver = self.driver.lock();
        // No transaction of this turn follows, so none makes a companion behind the look for it.
        let mark = self.mark_for(LostReason::NodeDeleted);
        if let Some(driver) = driver.as_mut() {
            drop(driver.handle(Event::OwnTouched));
        }
        drop(driver);
        debug!("a server shows that a holder's node is gone or was written to");
        self.as_lost(self.tell_loss(mark))
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
        let lease = self.lease().unwrap_or_default();
        let now = clock::now();
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

    /// Looks again whenever the lease, the turn or the loss changes, and after the pause for which a look asks.
    pub(super) async fn when<T>(&self, look: impl Fn() -> Result<T, Duration>) -> T {
        let mut fate = self.fate.subscribe();
        let mut lease = self.shared_lease().changes();
        loop {
            // Both receivers were made, or saw their last change, before this look. So no change is missed.
            let pause = match look() {
                Ok(seen) => return seen,
                Err(pause) => pause,
            };
            // Neither sender is dropped before `self`. The timer's clock stops while the machine is suspended, so
            // `check` and `run` read the clocks of the lease, which wakes all after a suspension.
            let timer = self.session().sleep(pause);
            let fate = pin!(fate.changed());
            let lease = pin!(lease.changed());
            let _which = select(select(fate, lease), pin!(timer)).await;
        }
    }

    /// Resolves once the lease has ended, whether or not the guard was lost before.
    pub(super) async fn lapse(&self) {
        let lease = self.shared_lease();
        self.when(|| lease.check(self.term).err().ok_or_else(|| lease.remaining())).await;
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
        let near = self.near_loss();
        let Loss { reason, from } = self.mark_as(LostReason::Released, clock::now()).loss;
        drop(slot);
        self.ended(Loss { reason: near.unwrap_or(reason), from }, reason == LostReason::Released);
        self.fate.send_modify(|_| {});
        self.keeper.wake();
        Some(driver)
    }

    /// The reason of a loss that the holder was told beforehand, if the loss is still near: the holder lets go because of it. The
    /// end of `max_hold` is no loss.
    fn near_loss(&self) -> Option<LostReason> {
        let told = self.fate.borrow().loss;
        let is_near =
            |loss: &Loss| loss.reason != LostReason::MaxHold && !clock::now().until(loss.from).is_zero();
        told.filter(is_near).map(|loss| loss.reason)
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
            debug!("a turn ends, and the next task of the process may have the hold");
            self.fate.send_modify(|_| {});
            let near = self.near_loss().and_then(LostReason::label);
            self.tell_end(near, true, Duration::ZERO);
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
            lost = self.find_loss();
            lost.is_none()
        };
        let tied = self.tie_if(may, turn, does);
        lost.map(|mark| self.tell_loss(mark));
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

    /// Polls the driver until the lock is released or the guard is lost.
    fn watch(self: Arc<Self>) -> BoxFuture<'static, ()> {
        std::future::poll_fn(move |cx| {
            self.keeper.register(cx.waker());
            let mut slot = self.driver.lock();
            let Some(driver) = slot.as_mut() else { return Poll::Ready(()) };
            let polled = driver.poll(cx);
            if let Some(connection) = driver.seen() {
                self.saw(connection);
            }
            let outcome = std::task::ready!(polled);
            // A node that was only written to still exists. It stays until the guard is dropped, so that nobody is
            // granted the lock before the loser has finished.
            let driver = if let Outcome::Lost(_) = outcome { None } else { slot.take() };
            drop(slot);
            if let Some(reason) = lost_reason(&outcome) {
                self.lost_for(reason);
            }
            if driver.is_some() {
                // The task that waits for a limit has nothing to give up any more, also if the loss was noted before.
                self.fate.send_modify(|_| {});
            }
            if let Some(driver) = driver {
                driver.abandon();
            }
            Poll::Ready(())
        })
        .boxed()
    }
}

impl SessionHold for Held {
    fn is_due(&self) -> bool {
        self.granted.elapsed() >= SETTLING
    }

    fn watch_node(self: Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        self.driver.lock().as_mut()?.handle(Event::Settled);
        if self.is_polled {
            self.keeper.wake();
            return None;
        }
        Some(self.watch())
    }

    fn node_is_gone(&self) {
        // The guard may be released before this answer comes, and a lost guard may be kept for long.
        if self.lost_by_now().is_some() {
            return;
        }
        self.touched();
    }

    fn note_end(&self) {
        self.lost_by_now();
    }

    fn tell_risk(&self) {
        let told = *self.told.lock();
        let remaining = self.remaining();
        if let Some(told) = told.filter(|_| !remaining.is_zero()) {
            self.each_path().for_each(|held| told.at_risk(&held, remaining));
        }
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
        Outcome::Lost(breach) => Some((*breach).into()),
        Outcome::Ended(_, End::NodeDeleted) => Some(LostReason::NodeDeleted),
        Outcome::Ended(_, End::SessionOver(end)) => Some((*end).into()),
        Outcome::Ended(..) | Outcome::Granted(..) => None,
    }
}
