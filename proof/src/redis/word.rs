//! What conductor and contenders say to each other: a line of JSON each.

use serde::{Deserialize, Serialize};
use zklock::FencingToken;

use crate::harness::Instant;

/// What a contender is to do next. It does one thing after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    Acquire,
    /// Ask what the lock tells without being asked over the network.
    Check,
    /// Ask the servers whether it is held.
    Inquire,
    /// Write to the register, whatever the lock says by now.
    Write,
    Release,
}

/// What a contender has done, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) at: Instant,
    pub(crate) word: Word,
}

/// What a contender has done, or is about to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// It is connected, and waits to be told.
    Ready,
    Acquiring,
    Acquired {
        token: Option<FencingToken>,
    },
    /// The acquisition failed: the lock is not held, as far as its user is told.
    Failed {
        error: String,
    },
    /// What the lock told at once; `None` if it tells nothing.
    Checked {
        held: Option<bool>,
    },
    /// What the servers answered; `None` if they cannot be asked.
    Inquired {
        held: Option<bool>,
    },
    /// The lock has told that it is lost. It was last heard to say that it is held at that time.
    Lost {
        last_held: Instant,
    },
    Wrote {
        accepted: bool,
    },
    /// The work is done; from here on nothing is done under the lock.
    Releasing,
    Released,
    /// The release failed: so late is the holder told.
    NotReleased {
        error: String,
    },
}
