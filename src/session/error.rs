//! Why a session's operation failed.

use std::time::Duration;

use crate::fence::Sequencer;

/// Why a sequencer was not found current. Only [`Outdated`](Self::Outdated) says that it is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SequencerError {
    /// Whoever made it does not hold the lock any more.
    #[error(
        "the sequencer {sequencer} is outdated: its holder has lost or released the lock; refuse its request"
    )]
    Outdated {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// An ACL forbids reading the holder's node.
    #[error(
        "no permission to verify the sequencer {sequencer}; authenticate the session, or have the holder's ACL grant it READ"
    )]
    NotAuthorized {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// The verifying session is over.
    #[error("the session is over, so the sequencer {sequencer} cannot be verified; connect a new one")]
    SessionOver {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// ZooKeeper did not answer in time: nothing is known.
    #[error(
        "ZooKeeper did not answer within {waited:?} while the sequencer {sequencer} was verified; try again before \
         trusting it"
    )]
    Unanswered {
        /// As it was given.
        sequencer: Sequencer,
        /// How long it was given: half a session timeout.
        waited: Duration,
    },
    /// No quorum answered before the connection was lost: nothing is known.
    #[error(
        "the connection was lost while the sequencer {sequencer} was verified; try again before trusting it"
    )]
    Disconnected {
        /// As it was given.
        sequencer: Sequencer,
    },
    /// The server refused for another reason.
    #[error("the server refused to verify the sequencer {sequencer}: {cause}")]
    Refused {
        /// As it was given.
        sequencer: Sequencer,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

/// Why the end of a session is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The server could not be reached.
    #[error(
        "no server confirmed the end of session {session:#x}; its nodes stay until it expires, {timeout:?} after \
             the ensemble last heard from it"
    )]
    Unconfirmed {
        /// The session id.
        session: i64,
        /// The session timeout.
        timeout: Duration,
    },
}
