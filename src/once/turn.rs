//! A [`Turn`]: a slot that runs now.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use tracing::warn;
use zklock_recipe::claim::RunEnd;

use super::ending::Run;
use super::error::TurnError;
use crate::contender::{attend, finish_write};
use crate::guard::Guard;
use crate::zk::ZkSession;

/// A slot that this caller runs now, and nobody else. It has the guard of the lock. Its record says that the run has
/// begun.
///
/// Do the work, and stop it if the guard is lost; [`Guard::run`] does both. Then call [`complete`](Self::complete) or
/// [`fail`](Self::fail).
///
/// If you drop the turn, the lock is released in the background, and the record stays as it is: the run has begun and has
/// not ended. Without [`OnceOptions::retry`](crate::OnceOptions::retry) the slot never runs again then.
#[must_use = "if the turn is dropped, the lock is released, and the slot has begun without an end"]
pub struct Turn {
    guard: Guard,
    run: Run,
}

impl Turn {
    /// Makes a turn whose record is written.
    pub(super) fn new(guard: Guard, run: Run) -> Self {
        Self { guard, run }
    }

    /// Returns the guard of the lock.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns the name of the slot.
    pub fn slot(&self) -> &str {
        &self.run.slot
    }

    /// Returns how many times the slot has begun, this time included.
    pub fn attempt(&self) -> u32 {
        self.run.begun.attempt
    }

    /// Records that the run has succeeded, and releases the lock. `Ok` means that ZooKeeper has confirmed the record: the
    /// slot never runs again.
    ///
    /// The record takes one round trip, and the release another one. Each returns at the latest when the guard's lease
    /// ends. If the record is confirmed and the release is not, the result is `Ok`, and the release goes on in the
    /// background.
    ///
    /// From the first poll on, zklock does both in the background, whether or not you poll the future. A future that is
    /// polled late says what became of the record.
    ///
    /// # Errors
    ///
    /// [`TurnError`] if the record was not confirmed. The run is over all the same, and the lock is released or lost.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future after its first poll, zklock goes on recording the success in the background, and you do not
    /// learn whether that was confirmed. [`Session::close`](crate::Session::close) waits for it. It fails if the lock is lost
    /// or the runtime ends before. If you drop the future before its first poll, you drop the turn.
    pub async fn complete(self) -> Result<(), TurnError> {
        self.end(RunEnd::Succeeded).await
    }

    /// Records that the run has failed, and releases the lock.
    ///
    /// Errors and cancel safety: as [`complete`](Self::complete).
    pub async fn fail(self) -> Result<(), TurnError> {
        self.end(RunEnd::Failed).await
    }

    /// As [`complete`](Self::complete) or [`fail`](Self::fail), but it returns the guard and does not release it. It takes
    /// one round trip.
    ///
    /// If the future could go on, and you do not poll it for half a session timeout, the lock is released. A later poll then
    /// returns what became of the record, and if that is confirmed, a guard that is lost
    /// ([`LostReason::Released`](crate::LostReason::Released)). If you [share](Guard::share) the turn's guard, the hold lasts as
    /// long as your shares, and that guard is lost with the last of them.
    ///
    /// Errors and cancel safety: as [`complete`](Self::complete). After an error the lock is released in the background.
    pub async fn record(self, end: RunEnd) -> Result<Guard, TurnError> {
        let (guard, uncounted) = (self.guard.share(), self.guard.uncounted());
        let (session, path) = (self.session(), self.guard.path().to_owned());
        let written = finish_write(&session, async move { self.run.end(&self.guard, end).await });
        let recorded = written.clone().map(|written| written.map(|()| guard));
        match attend(&session, path, recorded).await {
            Some(recorded) => recorded,
            None => written.await.map(|()| uncounted),
        }
    }

    /// Gives the turn up, and returns the guard. The record stays as it is: the run has begun and has not ended.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    async fn end(self, end: RunEnd) -> Result<(), TurnError> {
        let session = self.session();
        let ended = async move {
            self.run.end(&self.guard, end).await?;
            if let Err(error) = self.guard.release().await {
                warn!(%error, "the end of a run is recorded, and the release of its lock is not confirmed");
            }
            Ok(())
        };
        finish_write(&session, ended).await
    }

    fn session(&self) -> Arc<ZkSession> {
        self.guard.session().clone()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("slot", &self.run.slot)
            .field("attempt", &self.run.begun.attempt)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}
