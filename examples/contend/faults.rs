//! The script of faults: when the holder is killed, when a server is, and when that one comes back.

use crate::record::{Event, Instant, Record};

/// A fault, or the end of one, that is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    /// Kill this contender. It holds the lock, has read the counter, and has not written it yet.
    KillHolder(u16),
    /// Kill the server to which this contender, the holder, is connected.
    KillServerOf(u16),
    /// Start this server again.
    Restart(usize),
}

/// A contender that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Killed {
    pub(crate) contender: u16,
    /// The instant just before the signal.
    pub(crate) at: Instant,
    /// By this instant the contender was certainly dead.
    pub(crate) dead: Instant,
}

/// A server that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) server: usize,
    pub(crate) at: Instant,
    pub(crate) back: Option<Instant>,
}

/// The script of faults. Each fault waits until the one before is over.
pub(crate) struct Script {
    scene: Scene,
    increments: u64,
    /// The number of all increments if nobody were killed.
    total: u64,
    with_servers: bool,
    pub(crate) killed: Option<Killed>,
    pub(crate) outage: Option<Outage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// No fault yet, until this many increments are made.
    Peace { until: u64 },
    /// The holder is dead, and nobody has acquired the lock since.
    Leaderless,
    /// Somebody has acquired the lock since; this lasts until this many increments are made.
    Recovered { until: u64 },
    /// A server is down; it stays down until this many increments are made.
    Degraded { until: u64 },
    /// No more faults.
    Finale,
}

impl Script {
    pub(crate) fn new(contenders: u16, rounds: u32, with_servers: bool) -> Self {
        let total = u64::from(contenders) * u64::from(rounds);
        let scene = Scene::Peace { until: total / 4 };
        Self { scene, increments: 0, total, with_servers, killed: None, outage: None }
    }

    /// Returns the next cue, if this record gives one. The script moves on only when the conductor reports what it has
    /// done. So a cue that could not be followed comes again.
    pub(crate) fn hear(&mut self, record: &Record) -> Option<Cue> {
        if matches!(record.event, Event::Wrote { .. }) {
            self.increments += 1;
        }
        let inside = matches!(record.event, Event::Read { .. });
        let entered = matches!(record.event, Event::Entered { .. });
        match self.scene {
            Scene::Peace { until } if inside && self.increments >= until => {
                Some(Cue::KillHolder(record.contender))
            }
            Scene::Leaderless if entered => {
                let until = (self.total * 2 / 5).max(self.increments);
                self.scene = if self.with_servers { Scene::Recovered { until } } else { Scene::Finale };
                None
            }
            Scene::Recovered { until } if inside && self.increments >= until => {
                Some(Cue::KillServerOf(record.contender))
            }
            Scene::Degraded { until } if self.increments >= until => {
                self.scene = Scene::Finale;
                self.outage.map(|outage| Cue::Restart(outage.server))
            }
            _ => None,
        }
    }

    /// Returns true from the holder's death until somebody acquires the lock.
    pub(crate) fn is_leaderless(&self) -> bool {
        self.scene == Scene::Leaderless
    }

    pub(crate) fn holder_killed(&mut self, killed: Killed) {
        self.killed = Some(killed);
        self.scene = Scene::Leaderless;
    }

    pub(crate) fn server_killed(&mut self, server: usize, at: Instant) {
        self.outage = Some(Outage { server, at, back: None });
        self.scene = Scene::Degraded { until: self.increments + (self.total / 10).max(1) };
    }

    pub(crate) fn server_back(&mut self, at: Instant) {
        if let Some(outage) = &mut self.outage {
            outage.back = Some(at);
        }
    }
}
