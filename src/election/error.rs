//! Errors of an election: why a candidate does not lead, and why a value was not announced.

use crate::error::AcquireError;
use crate::guard::lost::Lost;

/// Why a candidate does not lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The candidate does not lead, for a reason that every acquisition can meet.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The value cannot be announced. If the candidate already had the lock, it has released it.
    #[error(transparent)]
    Announce(#[from] AnnounceError),
}

impl CampaignError {
    /// Returns true if the same call may succeed later with nothing changed by hand; see [`AcquireError::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.is_retryable())
    }

    /// Returns true if only a new session can help, because this one is over.
    pub fn needs_new_session(&self) -> bool {
        matches!(self, Self::Acquire(error) if error.needs_new_session())
    }
}

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
    /// node either, it tries again when it may read the node.
    #[error(
        "an ACL does not allow the announcement {path}; change the ACL of the election's directory so that it grants \
         CREATE and DELETE"
    )]
    NotAuthorized {
        /// The announcement's path.
        path: String,
    },
    /// The server refused the announcement for another reason. Usually somebody else made a node there, and that node
    /// has children. A leader tries again, at intervals that grow to 1 s.
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
