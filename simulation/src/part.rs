//! What a process of the simulated system is to do.

use std::time::Duration;

use clap::ValueEnum;
use zklock_contest::contender::Pace;
use zklock_contest::member::Member;

/// The members that are simulated. Holders in a queue that another client shares have no lease, so nothing exact is promised of them.
pub fn members() -> Vec<Member> {
    Member::value_variants().iter().copied().filter(|member| *member != Member::Queue).collect()
}

/// Whether its caller has the guard in the step in which that is granted. Otherwise zklock writes to a server in between, and the
/// process may be stopped.
pub(crate) fn is_given_at_once(member: Member) -> bool {
    !matches!(member, Member::Election | Member::Once)
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
    pub tasks: u16,
    /// Whether it is never preempted: what is true at one look at a clock is true at the next one of the same step.
    pub is_prompt: bool,
    /// How fast they contend.
    pub pace: Pace,
    /// How far clocks may drift, in parts per million.
    pub drift: Option<u32>,
    /// For how long it waits before it takes over.
    pub delay: Option<Duration>,
}
