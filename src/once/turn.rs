//! A [`Turn`]: a slot that runs now.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use tracing::warn;
use zklock_recipe::Refusal;

use super::ask::{Unread, ask};
use super::error::TurnError;
use super::record::{Record, RecordData, RecordState};
use crate::contender::{attend, finish_write};
use crate::guard::Guard;
use crate::guard::lost::Lost;
use crate::guard::transaction_error::{ConditionProblem, TransactionError};
use crate::requests;
use crate::zk::ZkSession;

/// How often the end of a run is written, if nobody answers.
const TRIES: u32 = 8;

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
    directory: String,
    slot: String,
    owner: String,
    attempt: u32,
    /// The version of the record's node.
    version: i32,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// The run has succeeded. The slot never runs again.
    Succeeded,
    /// The run has failed. With [`OnceOptions::retry`](crate::OnceOptions::retry), the slot runs again.
    Failed,
}

impl Turn {
    /// Makes a turn whose record is written. `version` is the version of that record.
    pub(super) fn new(guard: Guard, directory: &str, slot: &str, begun: RecordData, version: i32) -> Self {
        let RecordData { owner, attempt, .. } = begun;
        let (directory, slot) = (directory.to_owned(), slot.to_owned());
        Self { guard, directory, slot, owner, attempt, version }
    }

    /// Returns the guard of the lock.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Returns the name of the slot.
    pub fn slot(&self) -> &str {
        &self.slot
    }

    /// Returns how many times the slot has begun, this time included.
    pub fn attempt(&self) -> u32 {
        self.attempt
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
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
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
    /// # Errors
    ///
    /// As [`complete`](Self::complete). After an error the lock is released in the background.
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn record(self, end: RunEnd) -> Result<Guard, TurnError> {
        let (guard, uncounted) = (self.guard.share(), self.guard.uncounted());
        let (session, path) = (self.session(), self.guard.path().to_owned());
        let written = finish_write(&session, async move { self.write(end).await });
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
            self.write(end).await?;
            if let Err(error) = self.guard.release().await {
                warn!(%error, "the end of a run is recorded, and the release of its lock is not confirmed");
            }
            Ok(())
        };
        finish_write(&session, ended).await
    }

    fn session(&self) -> Arc<ZkSession> {
        self.guard.hold().session().clone()
    }

    /// Writes the end of the run to the record, and returns once that is confirmed.
    async fn write(&self, end: RunEnd) -> Result<(), TurnError> {
        let path = format!("{}/{}", self.directory, self.slot);
        let state = match end {
            RunEnd::Succeeded => RecordState::Succeeded,
            RunEnd::Failed => RecordState::Failed,
        };
        let token = self.guard.token().zxid();
        let data = RecordData { state, owner: self.owner.clone(), token, attempt: self.attempt }.encode();
        // Whether a transaction that was not answered may have written the record.
        let mut is_unsure = false;
        for _ in 0..TRIES {
            let written =
                self.guard.transaction().set(&path, data.clone(), Some(self.version)).commit().await;
            match written {
                Ok(_) => return Ok(()),
                Err(TransactionError::Lost(lost)) => return Err(unwritten(path, lost, is_unsure)),
                Err(TransactionError::Unknown { .. }) => is_unsure = true,
                Err(TransactionError::Throttled { .. }) => {}
                // A transaction that was not answered may have written it, or somebody else has.
                Err(TransactionError::Condition {
                    problem: ConditionProblem::NoNode | ConditionProblem::BadVersion,
                    ..
                }) => {}
                Err(TransactionError::Condition { problem: ConditionProblem::NotAuthorized, .. }) => {
                    return Err(TurnError::NotAuthorized { path });
                }
                Err(error) => return Err(TurnError::Refused { path, cause: error.to_string() }),
            }
            match self.look(state).await {
                Ok(Seen::Ended) => return Ok(()),
                Ok(Seen::Begun) => {}
                Ok(Seen::Another) => return Err(TurnError::Changed { path }),
                Err(Unread::Lost(lost)) => return Err(unwritten(path, lost, is_unsure)),
                Err(Unread::Unanswered) => return Err(TurnError::Unconfirmed { path }),
                Err(Unread::Refused(Refusal::NotAuthorized)) if !is_unsure => {
                    return Err(TurnError::NotAuthorized { path });
                }
                Err(Unread::Refused(_)) if is_unsure => return Err(TurnError::Unconfirmed { path }),
                Err(Unread::Refused(refusal)) => {
                    return Err(TurnError::Refused { path, cause: refusal.to_string() });
                }
            }
        }
        Err(TurnError::Unconfirmed { path })
    }

    /// Looks at the record once a quorum has answered: only then is the outcome of an earlier transaction settled.
    async fn look(&self, state: RecordState) -> Result<Seen, Unread> {
        self.guard.verify().await.map_err(Unread::Lost)?;
        let found = ask(&self.guard, || {
            let (directory, slot) = (self.directory.clone(), self.slot.clone());
            |wire| requests::record(wire.client, directory, slot)
        })
        .await?;
        let record = found.as_ref().and_then(|kept| Record::decode(&self.directory, kept));
        Ok(match (found, record) {
            (Some(kept), Some(record)) if record.token == self.guard.token() => match record.state {
                ended if ended == state => Seen::Ended,
                RecordState::Begun if kept.stat.version == self.version => Seen::Begun,
                _ => Seen::Another,
            },
            _ => Seen::Another,
        })
    }
}

/// What a look at the own record shows.
enum Seen {
    /// The end of the run is recorded.
    Ended,
    /// The record still says that the run has begun.
    Begun,
    /// The record is gone, or somebody else's.
    Another,
}

fn unwritten(path: String, lost: Lost, is_unsure: bool) -> TurnError {
    if is_unsure { TurnError::Unconfirmed { path } } else { TurnError::Lost { path, lost } }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("slot", &self.slot)
            .field("attempt", &self.attempt)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}
