//! What a run has seen, in numbers, and the line by which the run of one seed says so.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// What one run has seen, or several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Two runs that took the same steps have the same one.
    pub fingerprint: u64,
    /// How much time was simulated.
    pub time: Duration,
    /// How many faults were drawn.
    pub faults: u64,
    /// How often a guard was granted.
    pub grants: u64,
    /// How often a guard was lost before it was given up.
    pub losses: u64,
}

impl Seen {
    /// Reads the line.
    pub fn read(line: &str) -> Option<Self> {
        let numbers = line.strip_prefix("seen ")?.split(' ').map(str::parse);
        let [fingerprint, seconds, faults, grants, losses] = numbers.collect::<Result<Vec<_>, _>>().ok()?[..]
        else {
            return None;
        };
        Some(Self { fingerprint, time: Duration::from_secs(seconds), faults, grants, losses })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fingerprint, time, faults, grants, losses } = self;
        write!(f, "seen {fingerprint} {} {faults} {grants} {losses}", time.as_secs())
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        let Self { fingerprint, time, faults, grants, losses } = other;
        self.fingerprint ^= fingerprint;
        self.time += time;
        self.faults += faults;
        self.grants += grants;
        self.losses += losses;
    }
}
