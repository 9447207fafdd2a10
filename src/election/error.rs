//! Errors of an election: why a candidate does not lead, and why a value was not announced.

use crate::guard::lost::Lost;
use crate::lock::error::AcquireError;

/// Why a campaign ended without a leadership. It leaves no node behind, unless the variant says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The candidate could not queue. The path in this error is that of the candidates' queue.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The value cannot be announced. A candidate that led by then has released the lock again.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
}

impl CampaignError {
    /// Returns true if the same call may succeed later with nothing changed by hand; see [`AcquireError::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_retryable())
    }

    /// Returns true if the session is over, so that only a new session can help.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_session_over())
    }
}

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

/// Why a value cannot be announced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnounceError {
    /// The value is too long. Nothing was sent.
    #[error("the value for {path} has {length} bytes; shorten it to {longest} at most")]
    TooLong {
        /// The announcement's path.
        path: String,
        /// The value's length, in bytes.
        length: usize,
        /// The longest that it may be, in bytes.
        longest: usize,
    },
    /// An ACL forbids the announcement. A leader tries again, at intervals that grow to 1 s. If it may not read the
    /// node either, it tries again once it may.
    #[error(
        "the announcement {path} is not authorized; have the ACL of the election's directory grant CREATE and DELETE"
    )]
    NotAuthorized {
        /// The announcement's path.
        path: String,
    },
    /// The server refused the announcement for another reason: mostly, somebody else has put a node there that has
    /// children. A leader tries again, at intervals that grow to 1 s.
    #[error(
        "the server refused the announcement {path}: {cause}; if somebody else made a node there, delete it"
    )]
    Refused {
        /// The announcement's path.
        path: String,
        /// The server's error.
        cause: String,
    },
}
