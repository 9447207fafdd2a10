//! What a contender asks for: one lock or several, each alone or beside readers, by key or not, a permit, a slot, a run, or to
//! lead.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::member::Member;

/// What the semaphore has, and how many slots there are.
pub const CAPACITY: u32 = 5;
pub const SLOTS: u32 = 3;

/// One of the locks of an acquisition or a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claim {
    /// Which lock, from 0.
    pub lock: usize,
    /// Whether other readers may hold it at the same time.
    pub shared: bool,
}

/// One acquisition, by the call that it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// `Session::lock`.
    Lock(usize),
    /// `Session::lock`, in the queue that another client shares.
    Shared(usize),
    /// `Locks::acquire`.
    Key(usize),
    /// `RwLock::read`.
    Read(usize),
    /// `RwLock::write`.
    Write(usize),
    /// `Session::lock_all`.
    All(Vec<Claim>),
    /// `Semaphore::acquire_many`, with this weight, of what is the capacity.
    Permit { weight: u32, capacity: u32 },
    /// `Slots::acquire`, with the preferred index, of as many as there are.
    Slot { preferred: Option<u32>, count: u32 },
    /// `Once::claim`, of this period.
    Run(Period),
    /// `Election::campaign`, with a value that nobody else has.
    Lead(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    pub delay: Duration,
    /// For how long the guard is valid at most.
    pub limit: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Endless,
    Within(Duration),
    /// For nobody.
    None,
}

/// One request in so many has a limit, if it is not by key.
const LIMITED: u32 = 10;

/// A period whose run happens once, and how that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    pub number: u64,
    /// Whether this claimer's run fails.
    pub fails: bool,
}

impl Period {
    /// Whether its run happens again until it succeeds: every third one. These are held more often than the others.
    pub fn retries(self) -> bool {
        self.number.is_multiple_of(3)
    }

    pub fn number_of(name: &str) -> Option<u64> {
        name.strip_prefix('s')?.parse().ok()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{:020}", self.number)
    }
}

impl Claim {
    pub fn exclusive(lock: usize) -> Self {
        Self { lock, shared: false }
    }

    pub fn shared(lock: usize) -> Self {
        Self { lock, shared: true }
    }

    /// Whether this may be the node of a contender of that member that asked for it.
    pub fn fits(self, member: Member, node: &str) -> bool {
        if let Some(name) = node.strip_prefix(&member.permits()) {
            let slot = format!("/slot-{}-", self.lock);
            return name.starts_with(if self.shared { "/permit-" } else { &slot });
        }
        let name = node.strip_prefix(&member.path(self.lock)).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| is_shared(name) == self.shared)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {}{}", self.lock + 1, if self.shared { " as a reader" } else { "" })
    }
}

impl Request {
    pub fn claims(&self) -> Vec<Claim> {
        match self {
            Self::Lock(lock) | Self::Shared(lock) | Self::Key(lock) | Self::Write(lock) => {
                vec![Claim::exclusive(*lock)]
            }
            Self::Read(lock) => vec![Claim::shared(*lock)],
            Self::All(claims) => claims.clone(),
            Self::Lead(_) | Self::Run(_) => vec![Claim::exclusive(0)],
            Self::Permit { .. } => vec![Claim::shared(0)],
            // Which one, is known once it is held.
            Self::Slot { .. } => Vec::new(),
        }
    }

    pub fn weight(&self) -> Option<u32> {
        match self {
            Self::Permit { weight, .. } => Some(*weight),
            _ => None,
        }
    }

    /// What it takes of a pool, and what the pool has, as far as it knows.
    pub fn part_of_pool(&self) -> Option<(u32, u32)> {
        match self {
            Self::Permit { weight, capacity } => Some((*weight, *capacity)),
            Self::Slot { count, .. } => Some((1, *count)),
            _ => None,
        }
    }

    /// For how long its guard is valid at most. A run has no limit: that its begin is not taken back is told by a guard of the same
    /// session, which knows of none. The other client knows none either.
    pub fn limit(&self, client: u16, timeout: Duration, rng: &mut Rng) -> Option<Duration> {
        match self {
            Self::Run(_) => None,
            // Long enough for the lock to be passed on.
            Self::Key(_) => client.is_multiple_of(2).then_some(timeout * 3 / 4),
            // A leader announces itself first. If that took longer than it may lead, it would never lead.
            Self::Lead(_) => (rng.u32(..LIMITED) == 0).then(|| timeout.mul_f64(0.2 + 0.2 * rng.f64())),
            _ => (rng.u32(..LIMITED) == 0).then(|| timeout.mul_f64(0.025 + 0.35 * rng.f64())),
        }
    }

    /// Whether its holder overstays its limit on purpose.
    pub fn overstays(&self, rng: &mut Rng) -> bool {
        rng.u32(..if self.key().is_some() { 40 } else { 2 }) == 0
    }

    /// The path at which its holders are asked to let go, if they can be.
    pub fn asked_at(&self, member: Member) -> Option<String> {
        match self {
            Self::Shared(_) => None,
            Self::Permit { .. } | Self::Slot { .. } | Self::Lead(_) => Some(member.root()),
            _ => self.claims().first().map(|claim| member.path(claim.lock)),
        }
    }

    pub fn key(&self) -> Option<usize> {
        match self {
            Self::Key(lock) => Some(*lock),
            _ => None,
        }
    }
}

pub fn is_shared(name: &str) -> bool {
    name.starts_with("rlock-")
}

pub fn value(rng: &mut Rng) -> String {
    format!("{:016x}", rng.u64(..))
}

/// Whether these must not be held at the same time.
pub fn conflict(one: &[Claim], other: &[Claim]) -> bool {
    one.iter().any(|one| other.iter().any(|other| one.lock == other.lock && !(one.shared && other.shared)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_fits_what_was_asked_for() {
        let fits = |claim: Claim, node: &str| claim.fits(Member::Several, &format!("/lock/several/{node}"));
        let node = "queue-1/rlock-0000000004";
        assert!(fits(Claim::shared(1), node));
        assert!(!fits(Claim::exclusive(1), node) && !fits(Claim::shared(0), node));
        assert!(fits(Claim::exclusive(0), "queue/lock-0000000004"));
        assert!(!Claim::exclusive(0).fits(Member::Lock, "/lock/several/queue/lock-0000000004"));
        let slot = "permits/slot-1-0000000004";
        assert!(fits(Claim::exclusive(1), slot) && !fits(Claim::exclusive(0), slot));
        assert!(fits(Claim::shared(0), "permits/permit-3-0000000004") && !fits(Claim::shared(0), slot));
    }
}
