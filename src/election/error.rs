//! Errors of an election: why a value was not announced.

pub use crate::error::AnnounceError;
use crate::guard::lost::Lost;

/// Why a leader's value was not announced. If a value was announced before, it stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The leadership was lost before the announcement was confirmed. Observers may have seen the value.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The value cannot be announced. The candidate still leads.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
}

impl ProclaimError {
    /// Always returns false. A lost leadership cannot proclaim any more. If a value cannot be announced, somebody must
    /// change the value or an ACL first.
    pub fn is_retryable(&self) -> bool {
        false
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Lost(lost) if lost.needs_new_session())
    }
}
