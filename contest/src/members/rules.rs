//! What every member says of itself.

use std::time::Duration;

use fastrand::Rng;

use crate::clock::Instant;
use crate::history::History;
use crate::request::Request;

pub struct Rules {
    pub locks: usize,
    /// How many tasks contend in the process of this client, on one session.
    pub tasks: fn(u16) -> u16,
    /// Whether the process of this client is another client's, in whose queue zklock contends. Its holders have no lease: two of them
    /// may hold at the same time.
    pub is_foreign: fn(u16) -> bool,
    pub request: fn(&mut Rng, Moment) -> Request,
    /// How often each contender has to be granted after all faults are undone.
    pub last_turns: u32,
    /// How often the process of this client passes a lock on.
    pub budget: fn(u16) -> u32,
    /// How many times longer than that of a lock its holders hold it, those of this client.
    pub stretch: fn(u16) -> u32,
    pub extras: fn(&mut Rng) -> Extras,
    /// Whether holders make entries in logs of the locks.
    pub keeps_logs: bool,
    /// Whether contenders acquire permits or slots, behind a turnstile.
    pub is_pool: bool,
    /// How much its pool has at first, if it is one.
    pub capacity: u32,
    /// Whether this client observes who leads, besides its contenders.
    pub observes: fn(u16) -> bool,
    /// Whether each client keeps a guard beside the lock, to say how long its session had its guards.
    pub has_witnesses: bool,
    /// What observers were told, and should not have been.
    pub misled: fn(&History) -> Vec<String>,
    /// What else happened that must not.
    pub broken: fn(&History) -> Vec<String>,
    /// What the run was to show: whether it has, and what is to be said if not. Without it, the absence of violations says
    /// little.
    pub proofs: fn(&History) -> Vec<(bool, &'static str)>,
}

impl Rules {
    /// What the run was to show, and has not shown.
    pub fn unproven(&self, history: &History) -> impl Iterator<Item = &'static str> {
        let proofs = if history.scope.proves { (self.proofs)(history) } else { Vec::new() };
        proofs.into_iter().filter(|(shown, _)| !shown).map(|(_, missing)| missing)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: Instant,
    /// The session timeout.
    pub timeout: Duration,
    /// How much the member's pool has, as far as it knows.
    pub capacity: u32,
}

/// What a holder does besides its work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// How many other guards it makes of its hold.
    pub shares: usize,
    pub claims: bool,
    /// Whether it begins with an entry in the lock's log, by a transaction.
    pub enters: bool,
    /// Whether it leaves such a transaction under way when it lets go.
    pub leaves_open: bool,
}

/// [`Member::Lock`](crate::member::Member::Lock): all contend for one lock. The others are said by what they have instead.
pub const ONE_LOCK: Rules = Rules {
    locks: 1,
    // In every third process two contend with each other.
    tasks: |client| if client.is_multiple_of(3) { 2 } else { 1 },
    is_foreign: |_| false,
    request: |_, _| Request::Lock(0),
    last_turns: 1,
    budget: |_| 0,
    stretch: |_| 1,
    extras: |_| Extras::default(),
    keeps_logs: false,
    is_pool: false,
    capacity: 1,
    observes: |_| false,
    has_witnesses: false,
    misled: |_| Vec::new(),
    broken: |_| Vec::new(),
    proofs: |_| Vec::new(),
};
