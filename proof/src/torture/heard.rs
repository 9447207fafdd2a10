//! What is heard of client processes, and in which order.

use serde::Serialize;

use super::record::Record;
use crate::harness::Instant;

/// What is heard from a client process.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heard {
    Said(Record),
    /// It was killed, and said nothing more.
    Killed {
        client: u16,
        killed: Killed,
    },
    /// It ended though nobody told it to.
    Crashed {
        client: u16,
        at: Instant,
    },
}

/// When a process was killed: just before the signal, and when it was certainly dead.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Killed {
    pub(crate) at: Instant,
    pub(crate) dead: Instant,
}
