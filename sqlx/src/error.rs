//! The [`FenceError`].

use sqlx::error::DatabaseError;
use zklock::Lost;
use zklock::fence::StaleToken;

/// Why a transaction did not begin, or did not commit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A holder with a higher token has been here. Nothing was written. Drop the work: if the fence belongs to one lock, the
    /// work belongs to a hold that has ended.
    #[error("the fence {fence:?} refuses the holder: {stale}")]
    Stale {
        /// The name of the fence.
        fence: String,
        /// The holder's token, and the higher one that the database has seen.
        #[source]
        stale: StaleToken,
    },
    /// The guard, which is in this process, is lost. Nothing was written.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The name of a fence is too long for the database's index: Postgres takes 2,600 bytes. Nothing was sent.
    #[error(
        "the name of a fence has {length} bytes, and this database takes {longest}; use a shorter lock path, or a shorter name"
    )]
    NameTooLong {
        /// The length of the name, in bytes.
        length: usize,
        /// The longest name, in bytes.
        longest: usize,
    },
    /// The database, or the connection to it, failed. If that was in a commit and not one of the failures after which
    /// [`is_retryable`](FenceError::is_retryable) is true, the transaction may have been committed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl FenceError {
    /// Returns true if the transaction was rolled back because of others, and the same one may succeed if you begin it again: a
    /// conflict under REPEATABLE READ or SERIALIZABLE, a deadlock, a lock that was not free in time, no free connection in
    /// the pool. It also answers for the errors of your own statements: `FenceError::from(error).is_retryable()`.
    ///
    /// A lost guard is not retryable here: acquire the lock again, and begin with the new guard.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::Database(error)) => is_conflict(&**error),
            Self::Database(sqlx::Error::PoolTimedOut) => true,
            _ => false,
        }
    }

    /// Returns true if only a new session can help, because the guard's is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Lost(lost) if lost.needs_new_session())
    }
}

fn is_conflict(error: &dyn DatabaseError) -> bool {
    let Some(code) = error.code() else { return false };
    if cfg!(feature = "postgres") && code.len() == 5 {
        // serialization_failure, deadlock_detected, lock_not_available
        return matches!(&*code, "40001" | "40P01" | "55P03");
    }
    // SQLITE_BUSY and SQLITE_LOCKED are the low byte of an extended code.
    cfg!(feature = "sqlite") && matches!(code.parse::<u32>().map(|code| code & 0xff), Ok(5 | 6))
}
