//! What a contender asks for: one lock or several, each alone or beside readers, by key or not, a permit, a slot, a run, or to
//! lead.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// The election.
pub(crate) const ELECTION: &str = "/lock/torture";

/// Its announcement.
pub(crate) const ANNOUNCEMENT: &str = "/lock/torture/leader";

/// The directory of the locks by key.
pub(crate) const ROOT: &str = "/lock/torture";

/// The directory of the first lock, in which the candidates of the election queue. Those of the others have numbers.
const PATH: &str = "/lock/torture/queue";

/// The directory of the permits and slots of the pool at [`ROOT`], whose turnstile is the first lock.
pub(crate) const PERMITS: &str = "/lock/torture/permits";

/// The directory of the records of the runs that happen once under the first lock.
pub(crate) const RECORDS: &str = "/lock/torture/queue.once";

/// What the semaphore has, and how many slots there are.
pub(crate) const CAPACITY: u32 = 5;
pub(crate) const SLOTS: u32 = 3;

/// The directory of the logs, one for each lock.
pub(crate) const LOGS: &str = "/torture-logs";

/// One of the locks of an acquisition or a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// Which lock, from 0.
    pub(crate) lock: usize,
    /// Whether other readers may hold it at the same time.
    pub(crate) shared: bool,
}

/// One acquisition, by the call that it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wish {
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
    /// `Semaphore::acquire_many`, with this weight.
    Permit(u32),
    /// `Slots::acquire`, with the preferred index.
    Slot(Option<u32>),
    /// `Once::claim`, of this period.
    Run(Period),
    /// `Election::campaign`, with a value that nobody else has.
    Lead(String),
}

/// On what terms an acquisition asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    /// The takeover delay.
    pub(crate) delay: Duration,
    /// For how long the guard is valid at most.
    pub(crate) limit: Option<Duration>,
}

/// One wish in so many has a limit, if it is not by key.
const LIMITED: u32 = 10;
/// The limit of each turn at a lock by key, in every other process: long enough for the lock to be passed on.
const LIMIT_OF_TURNS: Duration = Duration::from_secs(3);

/// A period whose run happens once, and how that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Period {
    pub(crate) number: u64,
    /// Whether this claimer's run fails.
    pub(crate) fails: bool,
}

impl Period {
    /// Whether its run happens again until it succeeds: every third one. These are held more often than the others.
    pub(crate) fn retries(self) -> bool {
        self.number.is_multiple_of(3)
    }

    /// The number of the period with this name.
    pub(crate) fn number_of(name: &str) -> Option<u64> {
        name.strip_prefix('s')?.parse().ok()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{:020}", self.number)
    }
}

impl Claim {
    pub(crate) fn exclusive(lock: usize) -> Self {
        Self { lock, shared: false }
    }

    pub(crate) fn shared(lock: usize) -> Self {
        Self { lock, shared: true }
    }

    /// Whether this may be the node of a contender that asked for it.
    pub(crate) fn fits(self, node: &str) -> bool {
        if let Some(name) = node.strip_prefix(PERMITS) {
            let slot = format!("/slot-{}-", self.lock);
            return name.starts_with(if self.shared { "/permit-" } else { &slot });
        }
        let name = node.strip_prefix(&path(self.lock)).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| is_shared(name) == self.shared)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {}{}", self.lock + 1, if self.shared { " as a reader" } else { "" })
    }
}

impl Wish {
    pub(crate) fn claims(&self) -> Vec<Claim> {
        match self {
            Self::Lock(lock) | Self::Shared(lock) | Self::Key(lock) | Self::Write(lock) => {
                vec![Claim::exclusive(*lock)]
            }
            Self::Read(lock) => vec![Claim::shared(*lock)],
            Self::All(claims) => claims.clone(),
            Self::Lead(_) | Self::Run(_) => vec![Claim::exclusive(0)],
            Self::Permit(_) => vec![Claim::shared(0)],
            // Which one, is known once it is held.
            Self::Slot(_) => Vec::new(),
        }
    }

    /// The weight of the permit that it asks for.
    pub(crate) fn weight(&self) -> Option<u32> {
        match self {
            Self::Permit(weight) => Some(*weight),
            _ => None,
        }
    }

    /// For how long its guard is valid at most. A run has no limit: that its begin is not taken back is told by a guard of the same
    /// session, which knows of none.
    pub(crate) fn limit(&self, client: u16, rng: &mut Rng) -> Option<Duration> {
        match self {
            Self::Run(_) => None,
            Self::Key(_) => client.is_multiple_of(2).then_some(LIMIT_OF_TURNS),
            _ => (rng.u32(..LIMITED) == 0).then(|| Duration::from_millis(rng.u64(100..1_500))),
        }
    }

    /// Whether its holder overstays its limit on purpose.
    pub(crate) fn overstays(&self, rng: &mut Rng) -> bool {
        rng.u32(..if self.key().is_some() { 40 } else { 2 }) == 0
    }

    /// The path at which its holders are asked to let go, if they can be.
    pub(crate) fn asked_at(&self) -> Option<String> {
        match self {
            Self::Shared(_) => None,
            Self::Permit(_) | Self::Slot(_) => Some(ROOT.to_owned()),
            Self::Lead(_) => Some(ELECTION.to_owned()),
            _ => self.claims().first().map(|claim| path(claim.lock)),
        }
    }

    /// The lock that it asks for by key.
    pub(crate) fn key(&self) -> Option<usize> {
        match self {
            Self::Key(lock) => Some(*lock),
            _ => None,
        }
    }
}

/// The lock's directory.
pub(crate) fn path(lock: usize) -> String {
    match lock {
        0 => PATH.to_owned(),
        _ => format!("{PATH}-{lock}"),
    }
}

/// The directory of the lock that a client's witness holds, and nobody else wants.
pub(crate) fn beside(client: u16) -> String {
    format!("{ROOT}/beside-{client}")
}

/// The name of a lock's directory below [`ROOT`].
pub(crate) fn key(lock: usize) -> String {
    path(lock).rsplit('/').next().unwrap_or_default().to_owned()
}

/// The directory of a lock's log.
pub(crate) fn log(lock: usize) -> String {
    format!("{LOGS}/{lock}")
}

/// Whether a node of this name is a reader's.
pub(crate) fn is_shared(name: &str) -> bool {
    name.starts_with("rlock-")
}

/// A value that no other leader announces.
pub(crate) fn value(rng: &mut Rng) -> String {
    format!("{:016x}", rng.u64(..))
}

/// Whether these must not be held at the same time.
pub(crate) fn conflict(one: &[Claim], other: &[Claim]) -> bool {
    one.iter().any(|one| other.iter().any(|other| one.lock == other.lock && !(one.shared && other.shared)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readers_share_a_lock() {
        let (read, write) = ([Claim::shared(1)], [Claim::exclusive(1)]);
        assert!(!conflict(&read, &read));
        assert!(conflict(&read, &write) && conflict(&write, &read) && conflict(&write, &write));
        assert!(!conflict(&write, &[Claim::exclusive(0), Claim::exclusive(2)]));
        assert!(conflict(&write, &[Claim::exclusive(0), Claim::shared(1)]));
    }

    #[test]
    fn a_node_fits_what_was_asked_for() {
        let node = "/lock/torture/queue-1/rlock-0000000004";
        assert!(Claim::shared(1).fits(node));
        assert!(!Claim::exclusive(1).fits(node) && !Claim::shared(0).fits(node));
        assert!(Claim::exclusive(0).fits("/lock/torture/queue/lock-0000000004"));
        let slot = "/lock/torture/permits/slot-1-0000000004";
        assert!(Claim::exclusive(1).fits(slot) && !Claim::exclusive(0).fits(slot));
        assert!(
            Claim::shared(0).fits("/lock/torture/permits/permit-3-0000000004")
                && !Claim::shared(0).fits(slot)
        );
    }
}
