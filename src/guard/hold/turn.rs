//! One turn at a hold: what the guards of one task see of it.
//!
//! A hold has one turn, unless it is passed on inside the process: then the next turn begins as the present one ends. The
//! turns share the node, the lease and every loss.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tracing::debug;
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Tries};

use super::Held;
use crate::clock;
use crate::contender::Driver;
use crate::fence::{FencingToken, Sequencer};
use crate::guard::lost::{Lost, LostReason};
use crate::requests::{OwnNode, confirm_version, path_of};
use crate::telemetry::FamilyMember;
use crate::wire::LinkAnswer;
use crate::zk::ZkSession;

/// Takes the turn that has just begun for the next task of the process, without a request. Nobody holds a guard of it yet. Returns it if
/// the lock is to be released instead.
pub(crate) type Relay = Arc<dyn Fn(Arc<Turn>) -> Option<Arc<Turn>> + Send + Sync>;

/// One turn at a hold.
pub(crate) struct Turn {
    pub(crate) held: Arc<Held>,
    /// The number of turns before this one.
    pub(crate) number: u32,
    /// The number of guards that share this turn.
    pub(super) shares: AtomicUsize,
    /// Whether the process ends with a loss of this turn.
    pub(super) stops_process: AtomicBool,
    /// Who may take the hold over inside this process.
    relay: OnceLock<Relay>,
    #[cfg(feature = "cancellation-token")]
    cancellation: OnceLock<tokio_util::sync::CancellationToken>,
}

/// What is left to do when a turn ends.
pub(crate) enum Ended {
    /// Another task has the lock.
    Passed,
    /// The lock is to be released.
    Due(Box<Driver>),
    /// The turn was over before.
    Over,
}

impl Turn {
    pub(crate) fn first(held: Arc<Held>) -> Arc<Self> {
        Self::new(held, 0, OnceLock::new())
    }

    fn new(held: Arc<Held>, number: u32, relay: OnceLock<Relay>) -> Arc<Self> {
        Arc::new(Self {
            held,
            number,
            shares: AtomicUsize::new(1),
            stops_process: AtomicBool::new(false),
            relay,
            #[cfg(feature = "cancellation-token")]
            cancellation: OnceLock::new(),
        })
    }

    /// Has this turn last for so long at most, if that is limited. It begins now, as its caller gets a guard: a turn that is offered,
    /// and that nobody takes, ends with the offer.
    pub(crate) fn limit(self: &Arc<Self>, longest: Option<Duration>) {
        if let Some(longest) = longest {
            self.held.limit(self.number, longest);
            self.session().finish(Box::pin(self.clone().give_up_in_time()));
        }
    }

    /// Gives the lock up when this turn has lasted for as long as it may, whatever has become of its guards. It also gives up one that
    /// was lost before, and whose guard is kept.
    async fn give_up_in_time(self: Arc<Self>) {
        let held = &self.held;
        let is_reached = held.when(|| {
            let left = held.fate.borrow().limit.left(clock::now());
            match left.filter(|_| !self.is_over() && held.driver.lock().is_some()) {
                Some(left) if !left.is_zero() => Err(left),
                left => Ok(left.is_some()),
            }
        });
        if !is_reached.await {
            return;
        }
        // Every guard says that it is lost before the node goes.
        if held.lost_by_now().is_some() {
            debug!("a turn has lasted for its max_hold, so zklock gives the lock up");
            self.forfeit();
        }
    }

    /// Tells that a caller has this turn, as this member, after it has waited for so long.
    pub(crate) fn granted(&self, member: FamilyMember, waited: Duration) {
        self.held.granted(self.number, member, waited);
    }

    /// Has this process take the hold over when this turn, or a later one, ends.
    pub(crate) fn pass_to(&self, relay: Relay) {
        let _first = self.relay.set(relay);
    }

    /// Counts one more guard of this turn.
    pub(crate) fn share(&self) {
        self.shares.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one guard less. Returns true if it was the last one.
    pub(crate) fn leave(&self) -> bool {
        // What the other guards of this turn did comes before what the last one does.
        self.shares.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Ends this turn: the hold is passed on, or is to be released.
    pub(crate) fn end(&self) -> Ended {
        let mut last = self.number;
        if let Some(relay) = self.relay.get()
            && self.held.pass(self.number)
        {
            match relay(Self::new(self.held.clone(), self.number + 1, self.relay.clone())) {
                None => return Ended::Passed,
                Some(next) => last = next.number,
            }
        }
        self.held.take(last).map_or(Ended::Over, |driver| Ended::Due(driver.into()))
    }

    /// The transaction that created the holder's nodes.
    pub(crate) fn czxid(&self) -> i64 {
        self.held.nodes.first().map_or(0, |(_, own)| own.czxid)
    }

    /// The holder's nodes, one in each queue.
    pub(crate) fn nodes(&self) -> &[OwnNode] {
        &self.held.nodes
    }

    /// The session in which the lock is held.
    pub(crate) fn session(&self) -> &Arc<ZkSession> {
        self.held.session()
    }

    /// From here on the node at this path goes with the holder's own one, which is the only one. Call it before the request that
    /// makes the node is sent. Once the lock is being released, none is sent any more.
    pub(crate) fn accompany(&self, path: String) {
        if let Some(driver) = self.held.driver.lock().as_mut() {
            driver.accompany(path);
        }
    }

    /// The token of this turn.
    pub(crate) fn token(&self) -> FencingToken {
        debug_assert!(self.czxid() > 0, "a token without a transaction");
        FencingToken::of_turn(self.czxid(), self.number)
    }

    /// The path of the first lock, with the chroot, as its sequencer has it.
    pub(crate) fn absolute_path(&self) -> String {
        let first = self.held.nodes.first();
        first.map(|(lock, _)| lock.queue.path.below(&self.session().chroot).to_string()).unwrap_or_default()
    }

    /// The sequencer of one of the locks. The node is not passed on any more, so the sequencer ends with this turn.
    pub(crate) fn sequencer(&self, index: usize) -> Result<Sequencer, Lost> {
        let make = || {
            let (session, (lock, own)) = (self.session(), &self.held.nodes[index]);
            Sequencer::new(lock.queue.path.below(&session.chroot), *own, self.number, session.id)
        };
        let tied = self.held.tie(self.number, make);
        tied.ok_or_else(|| self.lost_for(LostReason::NodeDeleted))
    }

    /// Whether the lock is held at this instant.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.lost_by_now().map_or(Ok(()), |reason| Err(self.as_lost(reason)))
    }

    pub(crate) fn as_lost(&self, reason: LostReason) -> Lost {
        self.held.as_lost(reason)
    }

    pub(super) fn is_over(&self) -> bool {
        self.held.fate.borrow().turn != self.number
    }

    fn lost_by_now(&self) -> Option<LostReason> {
        if self.is_over() { Some(LostReason::Released) } else { self.held.lost_by_now() }
    }

    /// The loss, for this reason unless another one came first.
    pub(crate) fn lost_for(&self, reason: LostReason) -> Lost {
        if self.is_over() { self.as_lost(LostReason::Released) } else { self.held.lost_for(reason) }
    }

    /// How long the lock is certainly held in this turn.
    pub(crate) fn remaining(&self) -> Duration {
        if self.check().is_ok() { self.held.remaining() } else { Duration::ZERO }
    }

    /// Why the lock is lost to this turn, or will be within this margin.
    fn ending(&self, margin: Duration) -> Option<LostReason> {
        if let Some(reason) = self.lost_by_now() {
            return Some(reason);
        }
        // The holder winds down once it is told, so from here on nothing puts the end off.
        Some(match self.held.ends_within(margin, self.number)? {
            (LostReason::Unconfirmed, left) if !left.is_zero() => LostReason::Ending { left },
            (LostReason::MaxHold, left) if !left.is_zero() => LostReason::MaxHoldEnds { left },
            (reason, _) => reason,
        })
    }

    /// Resolves once this turn is over or the lock is lost, or will be lost within this margin.
    pub(crate) async fn lost(self: Arc<Self>, margin: Duration) -> LostReason {
        let left = || self.held.remaining().saturating_sub(margin);
        self.held.when(|| self.ending(margin).ok_or_else(left)).await
    }

    /// Resolves once the lock is released or lost, in whichever turn.
    pub(crate) async fn hold_over(self: Arc<Self>) {
        self.held.when(|| self.held.lost_by_now().ok_or_else(|| self.held.remaining())).await;
    }

    /// Whether the hold may be passed on to a turn of this longest time: it lasts as long as a new one would, also for the stop
    /// margin. The lease alone does not say so: an end that was told is not put off, nor one for which the node must be
    /// seen again. It wakes nobody, so callers may hold a mutex.
    pub(crate) fn is_ample(&self, longest: Option<Duration>) -> bool {
        let ample = self.held.shared_lease().lengths().ample(self.held.stop_margin);
        self.held.remaining().min(longest.unwrap_or(Duration::MAX)) >= ample
    }

    /// Leaves a lock that is lost: by a plain deletion, so that the successors observe their takeover delays.
    pub(crate) fn forfeit(&self) {
        if let Some(driver) = self.held.take(self.number) {
            driver.forfeit();
        }
    }

    /// The token that is cancelled when the turn is over or the lock is lost, or will be by its stop margin.
    #[cfg(feature = "cancellation-token")]
    pub(crate) fn cancellation_token(self: &Arc<Self>) -> tokio_util::sync::CancellationToken {
        let token = self.cancellation.get_or_init(|| {
            let token = tokio_util::sync::CancellationToken::new();
            let lost = self.clone().lost(self.held.stop_margin);
            // Outside the future, which may be dropped before it is polled: the session's background task may be gone.
            let cancelled = token.clone().drop_guard();
            self.held.session().finish(Box::pin(async move {
                let _cancelled = cancelled;
                lost.await;
            }));
            token
        });
        token.clone()
    }

    /// Runs `future` until this turn is over or the lock is lost, or will be lost within this margin.
    pub(crate) async fn until<F: Future>(
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
    pub(crate) async fn verify(self: &Arc<Self>) -> Result<(), Lost> {
        self.until(Duration::ZERO, self.confirm()).await?
    }

    /// Resolves once a quorum has answered. Without an answer it asks again for ever, and its caller stops it when the
    /// lease ends. That is also the outcome if a server refuses the question for good, because it then refuses the
    /// heartbeats, too.
    async fn confirm(&self) -> Result<(), Lost> {
        let session = self.session();
        let mut tries = Tries::default();
        loop {
            let nodes = self.held.nodes.iter().map(|node| (path_of(node), node.1)).collect::<Vec<_>>();
            let request = session.requester.request(move |wire| async move {
                confirm_version(&wire.client, &nodes, Some(UNTOUCHED)).await
            });
            match request.await {
                LinkAnswer::Given(Ok(_), sent) => {
                    let held = &self.held;
                    if let Some(driver) = held.driver.lock().as_mut() {
                        driver.saw(sent.connection);
                    }
                    held.saw(sent.connection);
                    return self.check();
                }
                LinkAnswer::Given(Err((_, Event::OwnTouched | Event::OwnWritten)), _) => {
                    return Err(self.held.touched());
                }
                LinkAnswer::Given(Err((_, Event::SessionOver(end))), _) | LinkAnswer::Over(end) => {
                    return Err(self.lost_for(end.into()));
                }
                LinkAnswer::Given(..) | LinkAnswer::Lost => {}
            }
            session.repeat(&mut tries).await;
        }
    }
}
