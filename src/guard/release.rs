//! The end of a guard: a release, or a drop.

use std::pin::pin;

use futures::future::{Either, select};
use zklock_recipe::{End, Event, Outcome};

use super::Guard;
use super::hold::lost_reason;
use super::hold::turn::Ended;
use super::lost::{LostReason, ReleaseError};
use crate::contender::{Attended, Work};

impl<K> Guard<K> {
    /// Releases the lock, and returns once ZooKeeper has confirmed that. This takes one round trip, or two if the
    /// connection was lost and the holder's node was not seen on the new one yet. The call returns at the latest when
    /// the guard's lease would have ended.
    ///
    /// If the reply is lost with the connection, zklock finds out what became of the release, for as long as the
    /// session lives.
    ///
    /// If [other guards](Self::another) have the hold, too, the call returns at once, and the lock stays held until the last of
    /// them goes. If the guard is one of [`Locks`](crate::Locks), the lock may pass to another task of this process
    /// instead, without a request. The call then returns at once, too.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the guard was lost before; see [`ReleaseError`] for the rest. `Ok` means that our own
    /// transaction removed our own node, that other guards have the hold, too, or that another task of this process has it.
    ///
    /// # Cancel safety
    ///
    /// Safe. If you drop the future, the release goes on in the background. If you keep it and do not poll it, the
    /// release goes on in the background after half a session timeout.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        // While this guard counts, no other share ends the turn by its going.
        let checked = self.check();
        if self.leave() { self.release_all().await } else { Ok(checked?) }
    }

    /// As [`release`](Self::release), for a guard that several tasks have, in an [`Arc`](std::sync::Arc) or by [`another`](Self::another). It
    /// releases the lock for all of them. For the other tasks the guard is lost from then on ([`LostReason::Released`]), so
    /// stop them first.
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
    /// guard.release_all().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_all(&self) -> Result<(), ReleaseError> {
        self.check()?;
        let mut driver = match self.turn.end() {
            Ended::Passed => return Ok(()),
            Ended::Due(driver) => *driver,
            // It was released meanwhile; or its driver has ended before it, and then the guard is lost.
            Ended::Over => return Err(self.turn.lost_for(LostReason::NodeDeleted).into()),
        };
        let held = &self.turn.held;
        let outcome = match driver.handle(Event::Release) {
            Some(outcome) => outcome,
            None => {
                let lapse = pin!(held.lapse());
                let session = driver.session.clone();
                match select(Attended::new(&session, driver), lapse).await {
                    Either::Left((Some((_, outcome @ Outcome::Ended(..))), _)) => outcome,
                    // The release goes on in the background. Nothing but an end can come any more.
                    Either::Left((None | Some(_), _)) | Either::Right(_) => {
                        return Err(ReleaseError::Unconfirmed { path: held.path.to_string() });
                    }
                }
            }
        };
        if let Some(reason) = lost_reason(&outcome) {
            return Err(held.as_lost(reason).into());
        }
        match outcome {
            Outcome::Ended(_, End::Refused(refusal)) => {
                Err(ReleaseError::Refused { path: held.path.to_string(), cause: refusal.to_string() })
            }
            _ => Ok(()),
        }
    }
}

impl<K> Drop for Guard<K> {
    fn drop(&mut self) {
        if !self.leave() {
            return;
        }
        if self.is_held() {
            if let Ended::Due(driver) = self.turn.end() {
                driver.abandon();
            }
        } else {
            self.turn.forfeit();
        }
    }
}
