//! The error of keys.

use crate::error::AcquireError;

/// Why the lock of a key was not acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The lock was not acquired, for a reason that every acquisition can meet.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The key is too long for a path.
    #[error(
        "a key below {path} has {length} bytes, but {longest} are allowed; use a shorter key, such as a hash"
    )]
    TooLong {
        /// The path of the root.
        path: String,
        /// The length of the key, in bytes.
        length: usize,
        /// The longest key, in bytes.
        longest: usize,
    },
}

impl KeyError {
    /// Returns true if the same call may succeed later with nothing changed by hand; see [`AcquireError::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_retryable())
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.needs_new_session())
    }
}
