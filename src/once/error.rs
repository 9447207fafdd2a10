//! Errors of runs: why one was not claimed, why its end was not recorded, and why it did not succeed.

use super::name::NameProblem;
use crate::error::{AcquireError, InvalidLock};
use crate::guard::lost::Lost;

/// Why a [`Once`](crate::Once) cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOnce {
    /// The path or an option is wrong, as for any lock.
    #[error(transparent)]
    Lock(#[from] InvalidLock),
    /// The number of records to keep is 0 or too large.
    #[error("{keep} is not a number of records that zklock can keep for {path}; set one from 1 to {most}")]
    Keep {
        /// The lock's path.
        path: String,
        /// How many records the caller asked for.
        keep: u16,
        /// The most that can be kept.
        most: u16,
    },
}

/// Why a run was not claimed, or why ZooKeeper's clock did not name one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The run was not claimed, for a reason that every acquisition can meet.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// No run can have this name, or no period has this length.
    #[error("the name {name:?} cannot be used: {problem}")]
    InvalidName {
        /// The name or the period that the caller gave.
        name: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// The run has no record, and its name is in a range of names whose records were dropped. So nobody knows whether
    /// the run has been done.
    #[error(
        "the run {name:?} of {path} is refused: it may have been done before, because the records from {first:?} to \
         {last:?} were dropped; give each run a name that sorts after all earlier ones, or keep more records"
    )]
    Forgotten {
        /// The lock's path.
        path: String,
        /// The run that the caller gave.
        name: String,
        /// The first name of the range. Its record was dropped.
        first: String,
        /// The last name of the range. Its record was dropped.
        last: String,
    },
    /// The data of a record's node is not a record, or a later version of zklock wrote it. So nobody knows whether the
    /// run has been done.
    #[error(
        "this version of zklock cannot read the data of {path}; look at the data. If the node of a run is not a \
         record, you may delete that node. Do not delete the directory of the records: then all runs may begin again"
    )]
    NotARecord {
        /// The path of the node.
        path: String,
    },
    /// An ACL forbids reading or writing a record.
    #[error(
        "an ACL does not allow this session to keep records in {path}; authenticate the session, or change the ACLs so \
         that they grant CREATE on the parent of that directory, and READ, WRITE, CREATE and DELETE on the directory"
    )]
    RecordNotAuthorized {
        /// The path of the records' directory.
        path: String,
    },
    /// Several tries to write the record failed: the servers did not answer, or somebody else changed the records each
    /// time. Or the lock was lost when the run began, and could not be acquired again before the timeout, or the
    /// session is over. The record may say that the run has begun, although nothing ran.
    #[error(
        "ZooKeeper did not confirm the record {path}: the servers did not answer, or somebody else keeps changing the \
         records; look at the record, and try again"
    )]
    Unconfirmed {
        /// The path of the record.
        path: String,
    },
}

impl ClaimError {
    /// Returns true if the same call may succeed later with nothing changed by hand: if ZooKeeper did not confirm the record, and as
    /// [`AcquireError::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unconfirmed { .. })
            || matches!(self, Self::Acquire(error) if error.is_retryable())
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.needs_new_session())
    }
}

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
    Claim(#[from] ClaimError),
    /// The lock was lost, and the work was dropped unfinished. The record says that the run has begun.
    #[error(transparent)]
    Lost(Lost),
    /// The work failed. The record says so if ZooKeeper confirmed it. Otherwise zklock logs a warning, and the record may still
    /// say that the run has begun.
    // `E` does not have to implement `Error`: `anyhow::Error` does not. It says its causes only with `{:#}`.
    #[error("{0:#}")]
    Work(E),
    /// The work succeeded, but ZooKeeper did not confirm the record of that. With
    /// [`OnceOptions::retry`](crate::OnceOptions::retry), the run may run again.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unconfirmed_begin_may_be_claimed_again_at_once() {
        let path = String::new;
        assert!(ClaimError::Unconfirmed { path: path() }.is_retryable());
        assert!(!ClaimError::NotARecord { path: path() }.is_retryable());
        assert!(ClaimError::from(AcquireError::NodeDeleted { path: path() }).is_retryable());
        assert!(RunError::<()>::from(ClaimError::Unconfirmed { path: path() }).is_retryable());
    }
}
