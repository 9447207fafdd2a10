//! The [`Guard`] of a lock that is held.

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

/// A lock that is held. While [`is_held`](Self::is_held) returns true, it returns false for every other guard of this
/// lock (see the crate's documentation for the limits of that promise).
///
/// Dropping the guard releases the lock in the background. You may drop it on any thread, inside or outside a runtime.
/// Nobody waits for this release, and nobody learns whether it was confirmed. If the runtime is shutting down, the lock
/// stays taken until the session expires. Prefer [`release`](Self::release).
///
/// Loss is final: a lost guard never becomes valid again, even if its session does. If the loss was not the deletion of
/// its node, the node stays in the queue until you drop the guard. So as long as the session lives, nobody acquires the
/// lock before the loser has finished.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    held: Arc<Held>,
}

impl Guard {
    pub(crate) fn new(driver: Driver, own: Own, term: Term) -> Self {
        Self { held: Held::new(driver, own, term) }
    }

    /// Returns the lock's path.
    pub fn path(&self) -> &str {
        self.held.path.as_str()
    }

    /// Returns the path of the holder's node in ZooKeeper.
    pub fn node(&self) -> String {
        self.held.node()
    }

    /// Returns the fencing token. Pass it to the store that the lock protects.
    pub fn token(&self) -> FencingToken {
        FencingToken::new(self.held.own.czxid)
    }

    /// Returns a claim to the lock that others can check; see [`Sequencer`]. It sends nothing, and says nothing about
    /// whether the lock is held.
    pub fn sequencer(&self) -> Sequencer {
        let session = self.held.session();
        Sequencer::new(self.held.path.below(session.chroot()), self.held.own, session.id())
    }

    /// Returns whether the lock is held at this instant. It never blocks. Once it has returned false, it always returns
    /// false.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// As [`is_held`](Self::is_held), as a `Result` for `?`.
    ///
    /// # Errors
    ///
    /// [`Lost`], with the reason.
    pub fn check(&self) -> Result<(), Lost> {
        self.held.check()
    }

    /// Returns how long the lock is certainly held if ZooKeeper confirms nothing more. It is zero once the guard is
    /// lost. It grows with every heartbeat.
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.held.remaining() } else { Duration::ZERO }
    }

    /// Resolves with the reason once the guard is lost. With a [`stop_margin`](crate::LockOptions::stop_margin), it
    /// resolves that much before the lease ends. The future does not borrow the guard, so another task can await it. It
    /// also resolves when the guard is released or dropped.
    ///
    /// # Cancel safety
    ///
    /// Safe; nothing is lost.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + Sync + 'static + use<> {
        self.held.clone().lost(self.held.stop_margin)
    }

    /// Returns a token that zklock cancels when [`lost`](Self::lost) resolves. Use it if several tasks must all stop
    /// when the lock is lost. The release cancels the token, too, so await the tasks first.
    /// Each call returns a clone of the guard's one token.
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
    /// // All tasks have ended or were stopped, and only then does the release give the lock to another holder.
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

    /// Runs `future` for as long as the lock is held. If the guard is lost, `run` drops `future` unfinished at that
    /// moment. With a [`stop_margin`](crate::LockOptions::stop_margin), `run` drops it that much before the lease ends.
    /// `Ok` means that `future` finished while the guard was valid.
    ///
    /// `run` looks at the clock before each poll of `future`. If the machine was suspended or the thread was blocked
    /// until after the end, `future` is not polled again. `run` can stop `future` only where it awaits. So code that
    /// computes for a long time between two awaits should call [`check`](Self::check) now and then. Such code also
    /// keeps its thread from other tasks, and the session's heartbeats are tasks of the runtime in which
    /// [`Session::connect`](crate::Session::connect) was called. A runtime whose threads are all blocked loses every
    /// lock of the session.
    ///
    /// A task that `future` spawns is not part of `future`. It goes on when `future` is dropped.
    ///
    /// Do not commit a [`transaction`](Self::transaction) inside `run`. It watches the guard by itself, and its error
    /// says what became of the write; the `Lost` of `run` does not.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the guard was lost, or if its stop margin began, before `future` finished.
    ///
    /// # Cancel safety
    ///
    /// As safe as `future` is. Dropping the future does not change the guard.
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

    /// Asks a quorum whether the lock is held. Call it right before something irreversible. `Ok` says two things: at
    /// some instant during the call the holder's node was there and nobody had written to it, and the lease is valid
    /// now. (If an ACL hides the node from its own holder, zklock knows the node by its name only.)
    ///
    /// This takes about one round trip, and two on a slow network. zklock repeats a question that was not answered
    /// until the lease ends, so the call never takes longer than [`remaining`](Self::remaining). As with
    /// [`check`](Self::check), a process that is paused after the call acts on an old answer. A
    /// [`transaction`](Self::transaction) does not have this weakness.
    ///
    /// # Errors
    ///
    /// [`Lost`], with the reason: somebody deleted the holder's node or wrote to it, or no quorum answered in time. The
    /// guard is lost from then on.
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

    /// Begins a ZooKeeper transaction that the servers commit only while the lock is held; see [`Transaction`]. It
    /// sends nothing before [`commit`](Transaction::commit).
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(&self.held)
    }

    /// Releases the lock, and returns once ZooKeeper has confirmed that. This takes one round trip, or two if the
    /// connection was lost and the holder's node was not seen on the new one yet. The call returns at the latest when
    /// the guard's lease would have ended.
    ///
    /// If the reply is lost with the connection, zklock finds out what became of the release, for as long as the
    /// session lives.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the guard was lost before; see [`ReleaseError`] for the rest. `Ok` means that our own
    /// transaction removed our own node.
    ///
    /// # Cancel safety
    ///
    /// Safe. If you drop the future, the release goes on in the background. If you keep it and do not poll it, the
    /// release goes on in the background after half a session timeout.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.release_shared().await
    }

    /// As [`release`](Self::release), for a guard that several tasks share in an [`Arc`]. It releases the guard for all
    /// of them. For the other tasks the guard is lost from then on ([`LostReason::Released`]), so stop them first.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release). If the guard was released before, the error is [`ReleaseError::Lost`], too.
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
                    // The release goes on in the background. `Granted` cannot come any more.
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
