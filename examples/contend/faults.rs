//! The script of faults: when the holder is killed, when a server is, and when that one comes back.

use crate::record::{Event, Instant, Record};

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    /// Kill this contender: it holds the lock, has read, and has not written yet.
    KillHolder(u16),
    /// Kill the server this contender, the holder, is connected to.
    KillServerOf(u16),
    /// Start this server again.
    Restart(usize),
}

/// A contender that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Killed {
    pub(crate) contender: u16,
    /// Just before the signal.
    pub(crate) at: Instant,
    /// Certainly dead by then.
    pub(crate) dead: Instant,
}

/// A server that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) server: usize,
    pub(crate) at: Instant,
    pub(crate) back: Option<Instant>,
}

/// Each fault waits for the one before to be over.
pub(crate) struct Script {
    scene: Scene,
    increments: u64,
    /// All the increments there would be if nobody were killed.
    total: u64,
    with_servers: bool,
    pub(crate) killed: Option<Killed>,
    pub(crate) outage: Option<Outage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// All is well, until there have been this many increments.
    Peace { until: u64 },
    /// The holder is dead, and nobody has followed yet.
    Leaderless,
    /// Somebody has; that lasts until there have been this many increments.
    Recovered { until: u64 },
    /// A server is down; it stays so until there have been this many increments.
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

    /// The next cue, if this record gives one. Only what is reported back moves the script past it, so a cue that could
    /// not be followed comes again.
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

    /// True from the holder's death until somebody follows.
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
