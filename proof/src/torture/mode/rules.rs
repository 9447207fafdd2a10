//! What every mode says of itself.

use std::time::Duration;

use fastrand::Rng;

use crate::torture::history::History;
use crate::torture::wish::Wish;

/// What is particular to a mode.
pub(crate) struct Rules {
    /// How many locks there are.
    pub(crate) locks: usize,
    /// How many tasks contend in the process of this client, on one session.
    pub(crate) tasks: fn(u16) -> u16,
    /// Whether the process of this client is another client's, in whose queue zklock contends. Its holders have no lease: two of them
    /// may hold at the same time.
    pub(crate) is_foreign: fn(u16) -> bool,
    /// Whether operators act. Their acts take the lock at once, and only a takeover delay of all contenders covers them.
    pub(crate) has_operators: bool,
    /// After how many ticks a server gives up that hears nothing of its leader, or a leader that hears nothing of its quorum: longer than a
    /// session timeout, as with ZooKeeper's defaults.
    pub(crate) sync_limit: u32,
    /// What a contender asks for next.
    pub(crate) wish: fn(&mut Rng) -> Wish,
    /// For how much longer than for that of a lock a contender waits that does not wait for ever.
    pub(crate) patience: Duration,
    /// How often each contender has to be granted after all faults are undone.
    pub(crate) last_turns: u32,
    /// How often the process of this client passes a lock on.
    pub(crate) budget: fn(u16) -> u32,
    /// How many times longer than that of a lock its holders hold it, those of this client.
    pub(crate) stretch: fn(u16) -> u32,
    /// What the next holder does besides.
    pub(crate) extras: fn(&mut Rng) -> Extras,
    /// Whether holders make entries in logs of the locks.
    pub(crate) keeps_logs: bool,
    /// Whether contenders acquire permits or slots, behind a turnstile.
    pub(crate) is_pool: bool,
    /// Whether this client observes who leads, besides its contenders.
    pub(crate) observes: fn(u16) -> bool,
    /// Whether each client keeps a guard beside the lock, to say how long its session had its guards.
    pub(crate) has_witnesses: bool,
    /// What observers were told, and should not have been.
    pub(crate) misled: fn(&History) -> Vec<String>,
    /// What else happened that must not.
    pub(crate) broken: fn(&History) -> Vec<String>,
    /// What the run was to show: whether it has, and what is to be said if not. Without it, the absence of violations says
    /// little.
    pub(crate) proofs: fn(&History) -> Vec<(bool, &'static str)>,
}

impl Rules {
    /// What the run was to show, and has not shown.
    pub(crate) fn unproven(&self, history: &History) -> impl Iterator<Item = &'static str> {
        (self.proofs)(history).into_iter().filter(|(shown, _)| !shown).map(|(_, missing)| missing)
    }
}

/// What a holder does besides its work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// How many other guards it makes of its hold.
    pub(crate) shares: usize,
    /// Whether it makes a claim.
    pub(crate) claims: bool,
    /// Whether it begins with an entry in the lock's log, by a transaction.
    pub(crate) enters: bool,
    /// Whether it leaves such a transaction under way when it lets go.
    pub(crate) leaves_open: bool,
}

/// The mode `lock`: all contend for one lock. The others are said by what they have instead.
pub(super) const ONE_LOCK: Rules = Rules {
    locks: 1,
    // In every third process two contend with each other.
    tasks: |client| if client.is_multiple_of(3) { 2 } else { 1 },
    is_foreign: |_| false,
    has_operators: true,
    sync_limit: 7,
    wish: |_| Wish::Lock(0),
    patience: Duration::ZERO,
    last_turns: 1,
    budget: |_| 0,
    stretch: |_| 1,
    extras: |_| Extras::default(),
    keeps_logs: false,
    is_pool: false,
    observes: |_| false,
    has_witnesses: false,
    misled: |_| Vec::new(),
    broken: |_| Vec::new(),
    proofs: |_| Vec::new(),
};
