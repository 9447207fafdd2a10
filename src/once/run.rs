//! A [`Run`]: it has begun, and this caller does the work.

use futures::FutureExt;
use tracing::warn;
use zklock_recipe::claim::RunEnd;

use super::ending::Running;
use super::error::RecordError;
use crate::contender::{attend, finish_write};
use crate::guard::Guard;

/// A run that has begun by this caller, and by nobody else. It has the guard of the lock. Its record says that the run has
/// begun.
///
/// Do the work, and stop it if the guard is lost; [`Guard::run`] does both. Then call [`complete`](Self::complete) or
/// [`fail`](Self::fail).
///
/// If you drop the run, the lock is released in the background, and the record stays as it is: the run has begun and has
/// not ended. Without [`OnceOptions::retry`](crate::OnceOptions::retry) the run never begins again then.
#[must_use = "if the run is dropped, the lock is released, and the run has no end"]
pub struct Run {
    guard: Guard,
    run: Running,
}

impl Run {
    pub(super) fn new(guard: Guard, run: Running) -> Self {
        Self { guard, run }
    }

    /// Returns the guard of the lock.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns the name of the run.
    pub fn name(&self) -> &str {
        &self.run.name
    }

    /// Returns how many times the run has begun, this time included.
    pub fn attempt(&self) -> u32 {
        self.run.begun.attempt
    }

    /// Records that the run has succeeded, and releases the lock. `Ok` means that ZooKeeper has confirmed the record: the
    /// run never begins again.
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
    /// [`RecordError`] if the record was not confirmed. The run is over all the same, and the lock is released or lost.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future after its first poll, zklock goes on recording the success in the background, and you do not
    /// learn whether that was confirmed. [`Session::close`](crate::Session::close) waits for it. It fails if the lock is lost
    /// or the runtime ends before. If you drop the future before its first poll, you drop the run.
    pub async fn complete(self) -> Result<(), RecordError> {
        self.end(RunEnd::Succeeded).await
    }

    /// Records that the run has failed, and releases the lock.
    ///
    /// Errors and cancel safety: as [`complete`](Self::complete).
    pub async fn fail(self) -> Result<(), RecordError> {
        self.end(RunEnd::Failed).await
    }

    /// As [`complete`](Self::complete) or [`fail`](Self::fail), but it returns the guard and does not release it. It takes
    /// one round trip.
    ///
    /// If the future could go on, and you do not poll it for half a session timeout, the lock is released. A later poll then
    /// returns what became of the record, and if that is confirmed, a guard that is lost
    /// ([`LostReason::Released`](crate::LostReason::Released)). If [another](Guard::another) guard of the hold is out, the hold lasts as
    /// long as that one, and the guard that is returned is lost with it.
    ///
    /// Errors and cancel safety: as [`complete`](Self::complete). After an error the lock is released in the background.
    pub async fn record(self, end: RunEnd) -> Result<Guard, RecordError> {
        let guard = self.guard.another();
        let uncounted = self.guard.uncounted();
        let fails_stop = self.guard.turn.let_go();
        let session = self.guard.session().clone();
        let path = self.guard.path().to_owned();
        let written = finish_write(&session, async move { self.run.end(&self.guard, end).await });
        let recorded = written.clone().map(move |written| {
            written.map(|()| {
                if fails_stop {
                    guard.turn.fail_stop();
                }
                guard
            })
        });
        match attend(&session, path, recorded).await {
            Some(recorded) => recorded,
            None => written.await.map(|()| uncounted),
        }
    }

    /// Gives the run up, and returns the guard. The record stays as it is: the run has begun and has not ended.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    async fn end(self, end: RunEnd) -> Result<(), RecordError> {
        // The caller's part is done: what follows goes on in the background.
        self.guard.turn.let_go();
        let session = self.guard.session().clone();
        let ended = async move {
            self.run.end(&self.guard, end).await?;
            if let Err(error) = self.guard.release().await {
                warn!(%error, "the end of a run is recorded, but ZooKeeper did not confirm the release of its lock");
            }
            Ok(())
        };
        finish_write(&session, ended).await
    }
}

debug_shows!(Run, it, { name: it.run.name, attempt: it.run.begun.attempt, guard: it.guard });
