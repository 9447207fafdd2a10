//! Errors of a session's operations.

use std::time::Duration;

use crate::fence::Sequencer;

/// Why [`Session::verify_sequencer`](crate::Session::verify_sequencer) did not confirm a sequencer. Only
/// [`Outdated`](Self::Outdated) says that the sequencer is not current.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SequencerError {
    /// The holder that made the sequencer does not hold the lock any more.
    #[error(
        "the sequencer {sequencer} is outdated: its holder has lost or released the lock; refuse its request"
    )]
    Outdated {
        /// The sequencer that the caller gave.
        sequencer: Sequencer,
    },
    /// An ACL forbids reading the holder's node.
    #[error(
        "no permission to verify the sequencer {sequencer}; authenticate the session, or have the holder's ACL grant it READ"
    )]
    NotAuthorized {
        /// The sequencer that the caller gave.
        sequencer: Sequencer,
    },
    /// The session that should verify the sequencer is over.
    #[error("the session is over, so the sequencer {sequencer} cannot be verified; connect a new one")]
    SessionOver {
        /// The sequencer that the caller gave.
        sequencer: Sequencer,
    },
    /// ZooKeeper did not answer in time, so zklock does not know whether the sequencer is current.
    #[error(
        "ZooKeeper did not answer within {waited:?} while the sequencer {sequencer} was verified; try again before \
         trusting it"
    )]
    Unanswered {
        /// The sequencer that the caller gave.
        sequencer: Sequencer,
        /// How long zklock waited for the answer: half a session timeout.
        waited: Duration,
    },
    /// The connection was lost before a quorum answered, so zklock does not know whether the sequencer is current.
    #[error(
        "the connection was lost while the sequencer {sequencer} was verified; try again before trusting it"
    )]
    Disconnected {
        /// The sequencer that the caller gave.
        sequencer: Sequencer,
    },
    /// The server refused for another reason.
    #[error("the server refused to verify the sequencer {sequencer}: {cause}")]
    Refused {
        /// The sequencer that the caller gave.
        sequencer: Sequencer,
        /// The server's error, as zookeeper-client words it.
        cause: String,
    },
}

/// Why no server confirmed the end of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// No server could be reached in time.
    #[error(
        "no server confirmed the end of session {session:#x}; its nodes stay until it expires, {timeout:?} after \
             the ensemble last heard from it"
    )]
    Unconfirmed {
        /// The id of the ZooKeeper session.
        session: i64,
        /// The session timeout.
        timeout: Duration,
    },
}
