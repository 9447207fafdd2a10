//! Errors of an election: why a value was not announced.

pub use crate::error::AnnounceError;
use crate::guard::lost::Lost;

/// Why a leader's value was not announced. The last value stands, if there was one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The leadership was lost before the announcement was confirmed. Observers may have been told the value.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The value cannot be announced. The candidate still leads.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
}

impl ProclaimError {
    /// Returns false: a lost leadership proclaims nothing more, and a value that cannot be announced needs somebody who acts.
    pub fn is_retryable(&self) -> bool {
        false
    }

    /// Returns true if the session is over, so that only a new session can help.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::Lost(lost) if lost.is_session_over())
    }
}
