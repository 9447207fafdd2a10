//! Errors of slots: why a slot cannot be claimed, and why its record was not written.

use std::fmt::Display;
use std::time::Duration;

use super::options::MOST_KEPT;
use super::slot::SlotProblem;
use crate::guard::lost::Lost;
use crate::lock::error::{AcquireError, InvalidLock};

/// Why a [`Once`](crate::Once) cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOnce {
    /// The lock cannot be made.
    #[error(transparent)]
    Lock(#[from] InvalidLock),
    /// No record would be kept, or too many.
    #[error("{keep} records of {path} cannot be kept; keep between 1 and {MOST_KEPT}")]
    Keep {
        /// The lock's path.
        path: String,
        /// How many records the caller asked for.
        keep: u16,
    },
}

/// Why a slot was not claimed. The caller must not run it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// No slot can have this name, or no slots can have this period.
    #[error("the slot {slot:?} cannot be used: {problem}")]
    Slot {
        /// The name or the period that the caller gave.
        slot: String,
        /// What is wrong with it.
        problem: SlotProblem,
    },
    /// The lock was not acquired.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The slot has no record, and its name is in a range of names whose records were dropped. So nobody knows whether it has
    /// run.
    #[error(
        "nobody knows whether the slot {slot:?} of {path} has run: records from {first:?} to {last:?} were dropped; name slots \
         so that later ones are greater as text, or keep more records"
    )]
    SlotForgotten {
        /// The lock's path.
        path: String,
        /// The slot that the caller gave.
        slot: String,
        /// The first name of the range. Its record was dropped.
        first: String,
        /// The last name of the range. Its record was dropped.
        last: String,
    },
    /// A node where a record is kept is no record, or a later version of zklock wrote it. So nobody knows whether the slot
    /// has run.
    #[error(
        "the data of {path} is not what this version of zklock writes there; look at it. You may delete the node of one slot if \
         it is no record. Do not delete the directory of the records: all slots would run again"
    )]
    NotARecord {
        /// The path of the node.
        path: String,
    },
    /// An ACL forbids reading or writing a record.
    #[error(
        "no permission to keep records in {path}; authenticate the session, or have ACLs grant CREATE on the parent of that \
         directory, and READ, WRITE, CREATE and DELETE on the directory"
    )]
    NotAuthorized {
        /// The path of the records' directory.
        path: String,
    },
    /// ZooKeeper did not answer in time. Only [`Once::now`](crate::Once::now) and
    /// [`Once::period_slot`](crate::Once::period_slot) return this error.
    #[error(
        "ZooKeeper did not answer within {waited:?}, so the present slot of {path} is unknown; check the servers, and try again"
    )]
    Unanswered {
        /// The lock's path.
        path: String,
        /// How long zklock waited for the answer: half a session timeout.
        waited: Duration,
    },
    /// The record could not be written in several tries: the servers did not answer them, or somebody else changed the
    /// records each time. Or the lock was lost at the begin and could not be acquired again, because of its timeout or because
    /// the session is over. The record may say that the slot has begun, though nothing ran.
    #[error(
        "the record of {path} was not confirmed, because servers did not answer or somebody else changes the records; look at \
         it, and try again"
    )]
    Unconfirmed {
        /// The path of the record.
        path: String,
    },
    /// The server refused for another reason.
    #[error("the server refused to keep a record in {path}: {cause}")]
    Refused {
        /// The path of the records' directory.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

impl ClaimError {
    pub(super) fn refused(directory: &str, cause: impl Display) -> Self {
        Self::Refused { path: directory.to_owned(), cause: cause.to_string() }
    }

    /// Returns true if the same call may succeed later with nothing changed by hand.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Acquire(error) => error.is_retryable(),
            Self::Unanswered { .. } | Self::Unconfirmed { .. } => true,
            _ => false,
        }
    }
}

/// Why the end of a run was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The lock was lost before the end was recorded. Nothing was written, so the record still says that the run has begun.
    #[error("the end of the run was not recorded in {path}, where the slot has only begun: {lost}")]
    Lost {
        /// The path of the record.
        path: String,
        /// Why the lock was lost.
        lost: Lost,
    },
    /// ZooKeeper did not answer before the lock was lost, or it did not answer several tries. So the record says that the
    /// run has begun, or that it has ended. Or somebody else changed the record before zklock saw whether the end was in it.
    #[error(
        "ZooKeeper did not confirm that the end of the run is recorded in {path}; look at the record before you repeat the run"
    )]
    Unconfirmed {
        /// The path of the record.
        path: String,
    },
    /// Somebody else deleted the record or wrote to it while the slot ran. Nothing was written.
    #[error(
        "the end of the run was not recorded: somebody else deleted or changed {path} while the slot ran; the slot may run again"
    )]
    Changed {
        /// The path of the record.
        path: String,
    },
    /// An ACL forbids it. Nothing was written.
    #[error(
        "no permission to record the end of the run in {path}, where the slot has only begun; have its ACL grant READ and WRITE"
    )]
    NotAuthorized {
        /// The path of the record.
        path: String,
    },
    /// The server refused for another reason. Nothing was written.
    #[error(
        "the server refused to record the end of the run in {path}, where the slot has only begun: {cause}"
    )]
    Refused {
        /// The path of the record.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

/// Why [`Once::run`](crate::Once::run) did not run its work to a recorded success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The slot was not claimed, so nothing ran.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The lock was lost, and the work was dropped unfinished. The record says that the run has begun.
    #[error(transparent)]
    Lost(Lost),
    /// The work failed. The record says so if ZooKeeper confirmed it. Otherwise zklock logs a warning, and the record may still
    /// say that the run has begun.
    // `E` need not be an `Error`: an `anyhow::Error` is none.
    #[error("{0}")]
    Work(E),
    /// The work succeeded, and that was not recorded. With [`OnceOptions::retry`](crate::OnceOptions::retry), the slot may
    /// run again.
    #[error(transparent)]
    Record(TurnError),
}
