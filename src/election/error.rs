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
