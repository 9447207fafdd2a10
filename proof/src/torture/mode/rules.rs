//! What every mode says of itself.

use fastrand::Rng;

use crate::torture::history::History;
use crate::torture::wish::Wish;

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

/// What is particular to a mode.
pub(crate) trait Rules: Sync {
    /// How many locks there are.
    fn locks(&self) -> usize;

    /// How many tasks contend in the process of this client, on one session.
    fn tasks(&self, client: u16) -> u16 {
        // In every third process two contend with each other.
        if client.is_multiple_of(3) { 2 } else { 1 }
    }

    /// What a contender asks for next.
    fn wish(&self, rng: &mut Rng) -> Wish;

    /// How often each contender has to be granted after all faults are undone.
    fn last_turns(&self) -> u32;

    /// How often the process of this client passes a lock on.
    fn budget(&self, _client: u16) -> u32 {
        0
    }

    /// How many times longer than that of a lock its holders hold it.
    fn stretch(&self) -> u32 {
        1
    }

    /// What the next holder does besides.
    fn extras(&self, _rng: &mut Rng) -> Extras {
        Extras::default()
    }

    /// Whether holders make entries in logs of the locks.
    fn keeps_logs(&self) -> bool {
        false
    }

    /// Whether contenders acquire permits or slots, behind a turnstile.
    fn is_pool(&self) -> bool {
        false
    }

    /// Whether this client observes who leads, besides its contenders.
    fn observes(&self, _client: u16) -> bool {
        false
    }

    /// Whether each client keeps a guard beside the lock, to say how long its session had its guards.
    fn has_witnesses(&self) -> bool {
        false
    }

    /// What observers were told, and should not have been.
    fn misled(&self, _history: &History) -> Vec<String> {
        Vec::new()
    }

    /// What else happened that must not.
    fn broken(&self, _history: &History) -> Vec<String> {
        Vec::new()
    }

    /// What the run was to show, and has not shown. Without it, the absence of violations says little.
    fn unproven(&self, history: &History) -> Vec<&'static str>;
}
