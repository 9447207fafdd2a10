//! A lock that is held, and how its holder learns that the guard is lost.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use tokio::sync::watch;
use tracing::warn;
use zklock_recipe::{End, Event, Lapse, Moment, Own, Term};

use super::fenced;
use super::lost::{Lost, LostReason};
use crate::clock;
use crate::contender::{Driver, Outcome};
use crate::path::LockPath;
use crate::requests::Certainty;
use crate::zk::{Answer, Holder, Holding, SharedLease, ZkSession};

/// The pause after the first request that was not answered. Each further pause is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause after a request that was not answered.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A lock that is held. The guard and the session's background task share it.
pub(super) struct Held {
    pub(super) holding: Holding,
    pub(super) path: LockPath,
    pub(super) own: Own,
    term: Term,
    /// The number of the connection on which our node was last seen, plus one. Zero means that it was seen on none.
    seen: AtomicU64,
    pub(super) stop_margin: Duration,
    pub(super) loss: watch::Sender<Option<Loss>>,
    /// The contender's driver. `None` once the lock is being released, or once the driver has ended.
    pub(super) driver: Mutex<Option<Driver>>,
    /// Wakes the background task while that polls the driver.
    keeper: AtomicWaker,
    #[cfg(feature = "cancellation-token")]
    token: std::sync::OnceLock<tokio_util::sync::CancellationToken>,
}

/// The loss of the guard, once it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    reason: LostReason,
    /// The guard is lost from this instant on.
    from: Moment,
}

impl Held {
    pub(super) fn new(mut driver: Driver, own: Own, term: Term) -> Arc<Self> {
        let settled = driver.is_settled();
        if settled {
            // Somebody may have deleted the node of a contender that waited for long. So it watches its node at once.
            driver.handle(Event::Settled);
        }
        let (session, stop_margin) = (driver.session().clone(), driver.stop_margin());
        let path = driver.lock().path.clone();
        let held = Arc::new_cyclic(|held: &Weak<Self>| Self {
            holding: session.hold(path.contender(own.sequence), held.clone(), stop_margin),
            path,
            own,
            term,
            seen: AtomicU64::new(driver.seen().map_or(0, |number| number + 1)),
            stop_margin,
            loss: watch::Sender::new(None),
            driver: Mutex::new(Some(driver)),
            keeper: AtomicWaker::new(),
            #[cfg(feature = "cancellation-token")]
            token: std::sync::OnceLock::new(),
        });
        if settled {
            session.finish(held.clone().watch());
        } else {
            let weak: Weak<Self> = Arc::downgrade(&held);
            session.settle_later(weak);
        }
        held
    }

    pub(super) fn check(&self) -> Result<(), Lost> {
        match self.lost_by_now() {
            Some(reason) => Err(self.as_lost(reason)),
            None => Ok(()),
        }
    }

    pub(super) fn lost_by_now(&self) -> Option<LostReason> {
        let loss = *self.loss.borrow();
        match loss {
            Some(loss) if clock::now().until(loss.from).is_zero() => Some(loss.reason),
            _ => self.lease().err().map(|lapse| self.lose(lapse.into())),
        }
    }

    /// Marks the guard as lost from now on. If it is lost already, the first reason stays.
    pub(super) fn lose(&self, reason: LostReason) -> LostReason {
        self.lose_from(reason, clock::now())
    }

    /// Marks the guard as lost from this instant on, unless it is lost by then.
    fn lose_from(&self, reason: LostReason, from: Moment) -> LostReason {
        let mut first = reason;
        self.loss.send_if_modified(|loss| {
            let before = *loss;
            first = first_of(loss, Loss { reason, from });
            *loss != before
        });
        first
    }

    /// Marks the guard as lost for this reason, unless it is lost already. The end of a session also deletes the node,
    /// and the news of that end may come second.
    pub(super) fn lost_for(&self, reason: LostReason) -> Lost {
        self.as_lost(self.lost_by_now().unwrap_or_else(|| self.lose(reason)))
    }

    /// A server found our node gone or written to. A node of its name may be another contender's by now, so the driver
    /// forgets that it saw the node: it looks at the node before it deletes by name.
    pub(super) fn touched(&self) -> Lost {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.iter_mut().for_each(Driver::forget);
        drop(driver);
        self.lost_for(LostReason::NodeDeleted)
    }

    pub(super) fn as_lost(&self, reason: LostReason) -> Lost {
        Lost { path: self.path.to_string(), reason }
    }

    pub(super) fn remaining(&self) -> Duration {
        let lease = self.lease().unwrap_or_default();
        self.loss.borrow().map_or(lease, |loss| lease.min(clock::now().until(loss.from)))
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

    /// Why the guard is lost, or will be lost within this margin.
    pub(super) fn ending(&self, margin: Duration) -> Option<LostReason> {
        if let Some(reason) = self.lost_by_now() {
            return Some(reason);
        }
        let remaining = self.remaining();
        // The holder winds down once it is told, so from here on nothing puts the end off.
        if remaining > margin {
            return None;
        }
        match self.lose_from(LostReason::Unconfirmed, clock::now().plus(remaining)) {
            LostReason::Unconfirmed if !remaining.is_zero() => Some(LostReason::Ending { left: remaining }),
            first => Some(first),
        }
    }

    /// Resolves once the guard is lost, or will be lost within this margin.
    pub(super) async fn lost(self: Arc<Self>, margin: Duration) -> LostReason {
        let mut loss = self.loss.subscribe();
        let mut lease = self.shared_lease().changes();
        loop {
            // Both receivers were made, or saw their last change, before this look. So no change is missed.
            if let Some(reason) = self.ending(margin) {
                return reason;
            }
            // Neither sender is dropped before `self`. The timer's clock stops while the machine is suspended, so
            // `check` and `run` read the clocks of the lease.
            let end = self.session().sleep(self.remaining().saturating_sub(margin));
            let (loss, lease) = (pin!(loss.changed()), pin!(lease.changed()));
            let changed = futures::future::select(loss, lease);
            let _which = futures::future::select(changed, pin!(end)).await;
        }
    }

    /// The token that is cancelled when the guard is lost, or will be by its stop margin.
    #[cfg(feature = "cancellation-token")]
    pub(super) fn cancellation_token(self: &Arc<Self>) -> tokio_util::sync::CancellationToken {
        let token = self.token.get_or_init(|| {
            let token = tokio_util::sync::CancellationToken::new();
            let lost = self.clone().lost(self.stop_margin);
            // Outside the future, which may be dropped before it is polled: the session's background task may be gone.
            let cancelled = token.clone().drop_guard();
            self.session().finish(Box::pin(async move {
                let _cancelled = cancelled;
                lost.await;
            }));
            token
        });
        token.clone()
    }

    /// Resolves once the lease has ended, whether or not the guard was lost before.
    pub(super) async fn lapse(&self) {
        let session = self.session();
        while self.shared_lease().check(self.term).is_ok() {
            session.sleep(self.shared_lease().remaining()).await;
        }
    }

    /// The path of the holder's node.
    pub(super) fn node(&self) -> String {
        self.path.contender(self.own.sequence)
    }

    /// The session in which the lock is held.
    pub(super) fn session(&self) -> &Arc<ZkSession> {
        self.holding.session()
    }

    /// Whether the node of the holder's name is certainly the holder's node.
    pub(super) fn certainty(&self) -> Certainty {
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.as_ref().map_or(Certainty::Unsure, Driver::certainty)
    }

    /// Runs `future` until the guard is lost, or will be lost within this margin.
    pub(super) async fn until<F: Future>(
        self: &Arc<Self>,
        margin: Duration,
        future: F,
    ) -> Result<F::Output, Lost> {
        let mut lost = pin!(self.clone().lost(margin));
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            // `lost` wakes this task, but its timer may be late: tokio polls woken tasks before it fires timers.
            let told = lost.as_mut().poll(cx);
            let ending = self.ending(margin).map_or(told, Poll::Ready);
            if let Poll::Ready(reason) = ending {
                return Poll::Ready(Err(self.as_lost(reason)));
            }
            let output = std::task::ready!(future.as_mut().poll(cx));
            // That poll may have taken long, so the guard is checked again.
            Poll::Ready(self.check().map(|()| output))
        })
        .await
    }

    /// Asks a quorum whether the lock is held, until a quorum answers or the lease ends.
    pub(super) async fn verify(self: &Arc<Self>) -> Result<(), Lost> {
        self.until(Duration::ZERO, self.confirm()).await?
    }

    /// Resolves once a quorum has answered. Without an answer it asks again for ever, and its caller stops it when the
    /// lease ends. That is also the outcome if a server refuses the question for good, because it then refuses the
    /// heartbeats, too.
    async fn confirm(&self) -> Result<(), Lost> {
        let (session, own) = (self.session(), self.own);
        let mut pause = SHORTEST_PAUSE;
        loop {
            let node = self.node();
            let request = session
                .requester()
                .request(move |wire| async move { fenced::confirm(&wire.client, &node, own).await });
            match request.await {
                Answer::Given(Event::Confirmed, sent) => {
                    self.shared_lease().confirmed(sent);
                    let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
                    driver.iter_mut().for_each(|driver| driver.saw(sent.connection));
                    drop(driver);
                    self.saw(sent.connection);
                    return self.check();
                }
                Answer::Given(Event::OwnTouched, _) => return Err(self.touched()),
                Answer::Given(Event::SessionOver(end), _) | Answer::Over(end) => {
                    return Err(self.lost_for(end.into()));
                }
                Answer::Given(..) | Answer::Lost => {}
            }
            session.sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    pub(super) fn shared_lease(&self) -> &SharedLease {
        self.session().lease()
    }

    /// Takes the driver from the background task, or from the guard, to release the lock. A caller that finds no
    /// driver finds the reason of the loss.
    pub(super) fn take(&self) -> Option<Driver> {
        let mut slot = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = slot.take()?;
        let released = Loss { reason: LostReason::Released, from: clock::now() };
        // The waiters for a loss are woken after the mutex: their wakers are foreign code.
        self.loss.send_if_modified(|loss| {
            first_of(loss, released);
            false
        });
        drop(slot);
        self.loss.send_modify(|_| {});
        self.keeper.wake();
        Some(driver)
    }

    /// Polls the driver until the lock is released or the guard is lost.
    fn watch(self: Arc<Self>) -> BoxFuture<'static, ()> {
        std::future::poll_fn(move |cx| {
            self.keeper.register(cx.waker());
            let mut slot = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(driver) = slot.as_mut() else { return Poll::Ready(()) };
            let polled = driver.poll(cx);
            driver.seen().into_iter().for_each(|connection| self.saw(connection));
            let outcome = std::task::ready!(polled);
            // A node that was only written to still exists. It stays until the guard is dropped, so that nobody is
            // granted the lock before the loser has finished.
            let driver = if outcome == Outcome::Lost { None } else { slot.take() };
            drop(slot);
            if let Some(reason) = lost_reason(&outcome) {
                let reason = self.lost_for(reason).reason;
                warn!(path = %self.path, %reason, "the guard is lost");
            }
            driver.into_iter().for_each(Driver::abandon);
            Poll::Ready(())
        })
        .boxed()
    }
}

impl Holder for Held {
    fn is_due(&self) -> bool {
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.as_ref().is_none_or(Driver::is_settled)
    }

    fn settle(self: Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.handle(Event::Settled);
        Some(self.watch())
    }

    fn node_is_gone(&self) {
        // The guard may be released before this answer comes, and a lost guard may be kept for long.
        if self.lost_by_now().is_some() {
            return;
        }
        let Lost { path, reason } = self.touched();
        warn!(%path, %reason, "the guard is lost");
    }
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
        Outcome::Lost | Outcome::Ended(End::NodeDeleted) => Some(LostReason::NodeDeleted),
        Outcome::Ended(End::SessionOver(end)) => Some((*end).into()),
        Outcome::Ended(_) | Outcome::Granted(..) => None,
    }
}
