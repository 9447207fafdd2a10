//! The guard: what a holder has.

mod held;
mod verify;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};
use held::{Held, lost_reason};

use crate::attended::{Arrival, Attended};
use crate::driver::{Driver, Outcome};
use crate::error::{Lost, ReleaseError};
use crate::fence::{FencingToken, Sequencer};
use crate::lease::{Lapse, Term};
use crate::path::LockPath;
use crate::recipe::{End, Event, Own, SessionEnd};
use crate::session::Generation;
use crate::session::wire::Certainty;
use crate::transaction::Transaction;

/// A held lock. While [`is_held`](Self::is_held) says so, no other guard of this lock does (see the crate's
/// documentation for the limits of that promise).
///
/// Dropping the guard releases the lock in the background, on any thread, inside or outside a runtime. The release
/// is then neither awaited nor confirmed: if the runtime is shutting down, the lock stays taken until the session
/// expires. Prefer [`release`](Self::release).
///
/// Loss is final: a lost guard never comes back, even if the session does. Its node, unless its deletion was the loss, stays in
/// the queue until the guard is dropped, so as long as the session lives, nobody gets the lock before the loser has finished.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    held: Arc<Held>,
}

/// Why a guard was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No quorum confirmed the session in time, so that it may have ended unnoticed; or none showed the holder's node in time
    /// after a reconnection.
    Unconfirmed,
    /// ZooKeeper expired the session.
    SessionExpired,
    /// The session was closed, or its runtime is shutting down.
    SessionClosed,
    /// ZooKeeper rejected the session's credentials.
    AuthFailed,
    /// Somebody else wrote to the holder's node, or deleted it.
    NodeDeleted,
    /// The guard was released or dropped; only [`Guard::lost`] in another task gets to see it.
    Released,
}

impl Guard {
    pub(crate) fn new(driver: Driver, own: Own, term: Term) -> Self {
        Self { held: Held::new(driver, own, term) }
    }

    /// The lock's path.
    pub fn path(&self) -> &str {
        self.held.path.as_str()
    }

    /// The path of the holder's node in ZooKeeper.
    pub fn node(&self) -> String {
        self.held.path.contender(self.held.own.sequence)
    }

    /// The fencing token: give it to whatever the lock protects.
    pub fn token(&self) -> FencingToken {
        FencingToken::new(self.held.own.czxid)
    }

    /// A claim to the lock that others can check: see [`Sequencer`]. Costs nothing, and says nothing about whether the
    /// lock is held.
    pub fn sequencer(&self) -> Sequencer {
        let generation = self.generation();
        Sequencer::new(self.held.path.below(generation.chroot()), self.held.own, generation.id())
    }

    /// Whether the lock is held at this instant. Never blocks; once false it stays false.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// As [`is_held`](Self::is_held), for `?`.
    ///
    /// # Errors
    ///
    /// [`Lost`], with the reason.
    pub fn check(&self) -> Result<(), Lost> {
        self.held.check()
    }

    /// How long the lock is held for certain, if ZooKeeper confirms nothing more: zero once it is lost. Grows with
    /// every heartbeat.
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.held.remaining() } else { Duration::ZERO }
    }

    /// Resolves once the guard is lost, with the reason; never before, but for a
    /// [`stop_margin`](crate::LockOptions::stop_margin), by which it tells beforehand of the end of the lease. Does not
    /// borrow the guard, so it can run in another task; there, it also resolves when the guard is released or dropped.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + Sync + 'static + use<> {
        self.held.clone().lost(self.held.stop_margin)
    }

    /// Runs `future` for as long as the lock is held. The moment the guard is lost, or a
    /// [`stop_margin`](crate::LockOptions::stop_margin) before the end of its lease, `future` is dropped, unfinished. `Ok`
    /// means that `future` finished while the guard was valid.
    ///
    /// The clock is asked before each poll of `future`: if the machine was suspended, or the thread was blocked, until
    /// after the end, `future` is not polled again. It is stopped where it awaits, so code that computes for long between
    /// two awaits should ask [`check`](Self::check) now and then. Such code also keeps its thread from other tasks, and the
    /// session's heartbeats are tasks of the runtime that [`Session::connect`](crate::Session::connect) was called in: a
    /// runtime whose threads are all blocked loses every lock of the session.
    ///
    /// A task that `future` spawns is not part of it, and goes on when `future` is dropped.
    ///
    /// A [`transaction`](Self::transaction) watches the guard by itself, and knows better what became of it than the `Lost`
    /// of a `run` around it.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the guard was lost, or about to be, before `future` was finished.
    ///
    /// # Cancel safety
    ///
    /// As safe as `future` is. The guard remains.
    ///
    /// ```no_run
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = lock.acquire().await?;
    /// let migrated = guard.run(async { /* what must not happen twice */ 3 }).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Lost> {
        self.until(self.held.stop_margin, future).await
    }

    /// Runs `future` until the guard is lost, or will be before there is more time than this margin.
    async fn until<F: Future>(&self, margin: Duration, future: F) -> Result<F::Output, Lost> {
        let mut lost = pin!(self.held.clone().lost(margin));
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            // `lost` wakes us, but its timer may be late: tasks that are woken are polled before timers fire.
            let told = lost.as_mut().poll(cx);
            let ending = self.held.ending(margin).map_or(told, Poll::Ready);
            if let Poll::Ready(reason) = ending {
                return Poll::Ready(Err(self.held.as_lost(reason)));
            }
            let output = std::task::ready!(future.as_mut().poll(cx));
            // That poll may have taken any time.
            Poll::Ready(self.check().map(|()| output))
        })
        .await
    }

    /// Asks a quorum whether the lock is held, for the moment before something irreversible. `Ok` says that the holder's
    /// node was there, untouched, at some instant while this was awaited, and that the lease is valid now. (A node
    /// that an ACL hides from its own holder is known by its name only.)
    ///
    /// About one round trip, two on a slow network. What is not answered is asked again until the lease ends, so it
    /// never takes longer than [`remaining`](Self::remaining). As with [`check`](Self::check), a process that is
    /// paused afterwards acts on an old answer; a [`transaction`](Self::transaction) does not.
    ///
    /// # Errors
    ///
    /// [`Lost`], with the reason. The guard is lost from then on: somebody deleted its node, or wrote to it, or no
    /// quorum answered in time.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    ///
    /// ```no_run
    /// # async fn launch() {}
    /// # async fn example(guard: zklock::Guard) -> Result<(), zklock::Lost> {
    /// guard.verify().await?;
    /// launch().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(&self) -> Result<(), Lost> {
        self.until(Duration::ZERO, self.held.confirm()).await?
    }

    /// Begins a ZooKeeper transaction that is committed only while the lock is held, by the servers' own word: see
    /// [`Transaction`]. Nothing is sent before [`commit`](Transaction::commit).
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Gives the lock to the next contender, and returns once that is done: one round trip; two if the connection was lost and
    /// the holder's node not seen on the new one yet. Returns at the latest when the guard's lease would have ended.
    ///
    /// A reply that was lost with the connection is recovered, for as long as the session lives.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the guard was lost before; see there for the rest. `Ok` only if our own
    /// transaction removed our own node.
    ///
    /// # Cancel safety
    ///
    /// Safe: the release goes on in the background. So does one that was polled and is then kept, after half a session timeout.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.check()?;
        let Some(mut driver) = self.held.take() else {
            // Only a driver that has ended is gone before its guard, and then the guard is lost.
            return Err(self.held.lost_for(LostReason::NodeDeleted).into());
        };
        self.held.lose(LostReason::Released);
        let outcome = match driver.handle(Event::Release) {
            Some(outcome) => outcome,
            None => {
                let lapse = pin!(self.held.lapse());
                match select(Attended::new(driver), lapse).await {
                    Either::Left((Arrival::Ended(end), _)) => Outcome::Ended(end),
                    // It goes on in the background; and nothing is granted any more.
                    Either::Left((Arrival::Unpolled | Arrival::Granted(..), _)) | Either::Right(_) => {
                        return Err(ReleaseError::Unconfirmed { path: self.held.path.to_string() });
                    }
                }
            }
        };
        if let Some(reason) = lost_reason(&outcome) {
            return Err(self.held.as_lost(reason).into());
        }
        match outcome {
            Outcome::Ended(End::Refused(refusal)) => {
                Err(ReleaseError::Refused { path: self.held.path.to_string(), cause: refusal.to_string() })
            }
            _ => Ok(()),
        }
    }
}

/// What a [`Transaction`] needs.
impl Guard {
    /// Resolves once the guard is lost: not before, as [`lost`](Self::lost) may, for whoever winds down still works.
    pub(crate) fn over(&self) -> impl Future<Output = LostReason> + Send + Sync + 'static + use<> {
        self.held.clone().lost(Duration::ZERO)
    }

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        self.held.holding.generation()
    }

    pub(crate) fn lock_path(&self) -> &LockPath {
        &self.held.path
    }

    /// Whether what has the holder's name is certainly the holder's node.
    pub(crate) fn certainty(&self) -> Certainty {
        let driver = self.held.driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.as_ref().map_or(Certainty::Unsure, Driver::certainty)
    }

    /// A server found the holder's node gone, or written to.
    pub(crate) fn touched(&self) -> Lost {
        self.held.touched()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let lost = !self.is_held();
        self.held.lose(LostReason::Released);
        match self.held.take() {
            Some(driver) if lost => driver.forfeit(),
            Some(driver) => driver.abandon(),
            None => {}
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("node", &self.node())
            .field("token", &self.token())
            .field("loss", &*self.held.loss.borrow())
            .finish_non_exhaustive()
    }
}

impl From<SessionEnd> for LostReason {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::Expired => Self::SessionExpired,
            SessionEnd::Closed => Self::SessionClosed,
            SessionEnd::AuthFailed => Self::AuthFailed,
        }
    }
}

impl From<Lapse> for LostReason {
    fn from(lapse: Lapse) -> Self {
        match lapse {
            Lapse::Unconfirmed => Self::Unconfirmed,
            Lapse::Ended(end) => end.into(),
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unconfirmed => "ZooKeeper did not confirm the session in time",
            Self::SessionExpired => "ZooKeeper expired the session",
            Self::SessionClosed => "the session was closed",
            Self::AuthFailed => "ZooKeeper rejected the session's credentials",
            Self::NodeDeleted => "somebody else touched the holder's node",
            Self::Released => "it was released",
        })
    }
}
