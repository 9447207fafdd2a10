//! What a process of the simulated system is to do.

use std::time::Duration;

/// A member of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// One lock.
    Lock,
    /// A lock with readers.
    ReadWrite,
    /// Several locks at once.
    Several,
    /// A semaphore.
    Semaphore,
    /// Slots with numbers.
    Slots,
    /// An election.
    Election,
    /// Locks by key, for which the tasks of a process contend among themselves first.
    Keys,
    /// Runs that must happen once.
    Once,
}

impl Member {
    /// Every member.
    pub const ALL: [Self; 8] = [
        Self::Lock,
        Self::ReadWrite,
        Self::Several,
        Self::Semaphore,
        Self::Slots,
        Self::Election,
        Self::Keys,
        Self::Once,
    ];

    /// Whether its caller has the guard in the step in which that is granted. Otherwise zklock writes to a server in between, and the
    /// process may be stopped.
    pub(crate) fn is_given_at_once(self) -> bool {
        !matches!(self, Self::Election | Self::Once)
    }

    /// The member of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|member| format!("{member:?}").eq_ignore_ascii_case(name))
    }
}

/// What a process does.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// What its tasks contend for.
    pub member: Member,
    /// The connect string.
    pub servers: String,
    /// The longest session timeout that servers grant.
    pub timeout: Duration,
    /// Whether the process asks for that one, and takes no shorter one.
    pub is_exact: bool,
    /// The servers' tick.
    pub tick: Duration,
    /// How many tasks contend.
    pub tasks: u32,
    /// Whether it is never preempted: what is true at one look at a clock is true at the next one of the same step.
    pub is_prompt: bool,
    /// The longest pause between two acquisitions.
    pub think: Duration,
    /// The longest hold, mostly.
    pub hold: Duration,
    /// How far clocks may drift, in parts per million.
    pub drift: Option<u32>,
    /// For how long it waits before it takes over.
    pub delay: Option<Duration>,
}
