//! Errors of runs: why the end of one was not recorded, and why one did not succeed.

use crate::error::AcquireError;
use crate::guard::lost::Lost;

/// Why the end of a run was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The lock was lost before the end was recorded. Nothing was written, so the record still says that the run has begun.
    #[error(
        "the end of the run was not recorded, so the record {path} says only that the run has begun: {lost}"
    )]
    Lost {
        /// The path of the record.
        path: String,
        /// Why the lock was lost.
        lost: Lost,
    },
    /// ZooKeeper did not answer before the lock was lost, or it did not answer several tries. The record may say that
    /// the run has begun or that it has ended. Or somebody else changed the record before zklock saw whether the end
    /// was in it.
    #[error(
        "ZooKeeper did not confirm that the end of the run is recorded in {path}; look at the record before you repeat the run"
    )]
    Unconfirmed {
        /// The path of the record.
        path: String,
    },
    /// Somebody else deleted the record or wrote to it during the run. Nothing was written.
    #[error(
        "the end of the run was not recorded, because somebody else deleted or changed the record {path} during the \
         run; look at the record: the run may begin again"
    )]
    Changed {
        /// The path of the record.
        path: String,
    },
    /// An ACL forbids the record. Nothing was written.
    #[error(
        "an ACL does not allow this session to record the end of the run, so the record {path} says only that the run \
         has begun; change the ACL of the record so that it grants READ and WRITE"
    )]
    NotAuthorized {
        /// The path of the record.
        path: String,
    },
    /// The server refused for another reason. Nothing was written.
    #[error(
        "the server refused to record the end of the run, so the record {path} says only that the run has begun: \
         {cause}; look at the record before you repeat the run"
    )]
    Refused {
        /// The path of the record.
        path: String,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

impl RecordError {
    /// Always returns false: zklock records the end only while it holds the lock. Look at the record.
    pub fn is_retryable(&self) -> bool {
        false
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Lost { lost, .. } if lost.needs_new_session())
    }
}

/// Why [`Once::run`](crate::Once::run) did not run its work to a recorded success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The run was not claimed, so nothing ran.
    #[error(transparent)]
    Claim(#[from] AcquireError),
    /// The lock was lost, and the work was dropped unfinished. The record says that the run has begun.
    #[error(transparent)]
    Lost(Lost),
    /// The work failed. The record says so if ZooKeeper confirmed it. Otherwise zklock logs a warning, and the record may still
    /// say that the run has begun.
    // `E` does not have to implement `Error`: `anyhow::Error` does not. It says its causes only with `{:#}`.
    #[error("{0:#}")]
    Work(E),
    /// The work succeeded, but ZooKeeper did not confirm the record of that. With
    /// [`OnceOptions::retry`](crate::once::OnceOptions::retry), the run may run again.
    #[error(transparent)]
    Record(RecordError),
}

impl<E> RunError<E> {
    /// Returns true if the run may be claimed later with nothing changed by hand, and nothing ran.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Claim(error) if error.is_retryable())
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        match self {
            Self::Claim(error) => error.needs_new_session(),
            Self::Lost(lost) => lost.needs_new_session(),
            Self::Work(_) => false,
            Self::Record(error) => error.needs_new_session(),
        }
    }
}
