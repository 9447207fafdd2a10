//! What a run was seen to come to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stage::Acquisition;
use crate::harness::Instant;

/// What a run was seen to come to, beside who believed what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// From the fault to the next grant.
    pub(crate) recovery: Option<Duration>,
    /// Nobody could get the lock any more.
    pub(crate) stuck: bool,
    /// How the former holder was told that it holds the lock no more, or never did.
    pub(crate) told: Option<Told>,
}

/// How a former holder is told; the later ones are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Told {
    /// It was never given the lock, and waits for its turn.
    Waits,
    /// Its acquisition fails.
    AcquireFails,
    /// The lock says so at the first check after the fault.
    Check,
    /// The servers say so if it asks them; else its release fails.
    IfItAsks,
    /// Its release fails.
    ReleaseFails,
    /// Not at all: its release succeeds.
    Nothing,
}

impl Outcome {
    /// The next acquisition after a fault: how long it took, or that it never came.
    pub(super) fn next(&mut self, fault: Instant, next: Acquisition) {
        match next {
            Acquisition::Done(at) => self.recovery = self.recovery.max(Some(at.since(fault))),
            Acquisition::Failed(_) | Acquisition::Waiting => self.stuck = true,
        }
    }

    /// A former holder was told nothing before it released.
    pub(super) fn told_by_release(&mut self, succeeded: bool) {
        self.told = self.told.or(Some(if succeeded { Told::Nothing } else { Told::ReleaseFails }));
    }
}
