//! The guard: what a holder has.

mod fenced;
mod held;
pub(crate) mod lost;
pub(crate) mod operation;
pub(crate) mod transaction;
pub(crate) mod transaction_error;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use zklock_recipe::{End, Event, Own, Term};

use held::{Held, lost_reason};
use lost::{Lost, LostReason, ReleaseError};
use transaction::Transaction;

use crate::contender::{Attended, Driver, Finish, Outcome};
use crate::fence::{FencingToken, Sequencer};

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
        self.held.node()
    }

    /// The fencing token: give it to whatever the lock protects.
    pub fn token(&self) -> FencingToken {
        FencingToken::new(self.held.own.czxid)
    }

    /// A claim to the lock that others can check: see [`Sequencer`]. Costs nothing, and says nothing about whether the
    /// lock is held.
    pub fn sequencer(&self) -> Sequencer {
        let session = self.held.session();
        Sequencer::new(self.held.path.below(session.chroot()), self.held.own, session.id())
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

    /// A token that is cancelled when [`lost`](Self::lost) resolves: for several tasks that all stop when the lock is lost.
    /// It is cancelled by the release, too, so await the tasks first. Each call returns a clone of the guard's one token.
    ///
    /// ```no_run
    /// # async fn ship() {}
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use tokio_util::task::TaskTracker;
    ///
    /// let guard = lock.acquire().await?;
    /// let (lost, tasks) = (guard.cancellation_token(), TaskTracker::new());
    /// for _ in 0..3 {
    ///     let lost = lost.clone();
    ///     tasks.spawn(async move { lost.run_until_cancelled(ship()).await });
    /// }
    /// tasks.close();
    /// // All of them have ended, or have been stopped, before another holder can come by this release.
    /// tasks.wait().await;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "cancellation-token")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cancellation-token")))]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        self.held.cancellation_token()
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
        self.held.until(self.held.stop_margin, future).await
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
        self.held.verify().await
    }

    /// Begins a ZooKeeper transaction that is committed only while the lock is held, by the servers' own word: see
    /// [`Transaction`]. Nothing is sent before [`commit`](Transaction::commit).
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(&self.held)
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
        self.release_shared().await
    }

    /// As [`release`](Self::release), for a guard that several tasks share in an [`Arc`]: it is released for all of them. To
    /// the others the guard is lost from then on ([`LostReason::Released`]), so stop them first.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release); [`ReleaseError::Lost`] also if it was released before.
    ///
    /// # Cancel safety
    ///
    /// As [`release`](Self::release).
    ///
    /// ```no_run
    /// # async fn example(lock: zklock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    ///
    /// let guard = Arc::new(lock.acquire().await?);
    /// let task = tokio::spawn({
    ///     let guard = guard.clone();
    ///     async move { guard.run(async { /* what must not happen twice */ }).await }
    /// });
    /// task.await??;
    /// guard.release_shared().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_shared(&self) -> Result<(), ReleaseError> {
        self.check()?;
        let Some(mut driver) = self.held.take() else {
            // It was released meanwhile; or its driver has ended before it, and then the guard is lost.
            return Err(self.held.lost_for(LostReason::NodeDeleted).into());
        };
        let outcome = match driver.handle(Event::Release) {
            Some(outcome) => outcome,
            None => {
                let lapse = pin!(self.held.lapse());
                match select(Attended::new(driver), lapse).await {
                    Either::Left((Finish::Ended(end), _)) => Outcome::Ended(end),
                    // It goes on in the background; and nothing is granted any more.
                    Either::Left((Finish::Unpolled | Finish::Granted(..), _)) | Either::Right(_) => {
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
