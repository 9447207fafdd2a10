//! The lease arithmetic: what a session's lengths mean for holders of its locks, and for waiters.

use std::time::Duration;

use zklock::Session;
use zklock::lease::{Lengths, Reckoning};

/// A session's lengths, and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arithmetic {
    /// The tick that leases are reckoned with.
    pub(super) tick: Duration,
    lengths: Lengths,
}

impl Arithmetic {
    /// The arithmetic of a session, with this clock drift.
    pub(super) fn of(session: &Session, drift_ppm: u32) -> Self {
        Self::new(session.timeout(), session.tick(), drift_ppm)
    }

    pub(super) fn new(timeout: Duration, tick: Duration, drift_ppm: u32) -> Self {
        // Heartbeats can keep the lease of an existing session, so this is no error. The lengths are the same if it were
        // one.
        let lengths = Lengths::new(timeout, &Reckoning { tick, drift_ppm }).unwrap_or_else(|short| short);
        Self { tick, lengths }
    }

    /// The session timeout that the servers granted.
    pub(super) fn timeout(&self) -> Duration {
        self.lengths.timeout
    }

    pub(super) fn heartbeat(&self) -> Duration {
        self.lengths.heartbeat
    }

    /// The longest stop margin. A lease never falls below it while heartbeats are answered.
    pub(super) fn longest_stop_margin(&self) -> Duration {
        self.lengths.longest_stop_margin()
    }

    /// The longest time that a guard stays valid once ZooKeeper is silent. The shortest such time is the longest stop
    /// margin.
    pub(super) fn longest_validity(&self) -> Duration {
        self.lengths.validity()
    }

    /// The longest time that others wait after a holder's crash, if the leader lives. The leader expires sessions on its
    /// ticks. A follower may take half a tick to report the holder's last sign of life, and the session timeout runs from
    /// the report.
    pub(super) fn takeover(&self, servers_tick: Option<Duration>, is_alone: bool) -> Duration {
        let tick = servers_tick.unwrap_or(self.tick);
        let report = if is_alone { Duration::ZERO } else { tick / 2 };
        self.timeout() + tick + report
    }

    /// The longest time an answer may take before a lease falls below the longest stop margin.
    pub(super) fn longest_round_trip(&self) -> Duration {
        self.heartbeat() / 4
    }
}

#[cfg(test)]
mod tests {
    use zklock::lease::DEFAULT_DRIFT_PPM;

    use super::*;

    #[test]
    fn a_crash_blocks_for_a_session_timeout_and_some_ticks() {
        let lengths = Arithmetic::new(Duration::from_secs(10), Duration::from_secs(2), DEFAULT_DRIFT_PPM);
        assert_eq!(lengths.longest_validity(), Duration::from_millis(9100));
        assert_eq!(lengths.takeover(None, false), Duration::from_secs(13));
        assert_eq!(lengths.takeover(None, true), Duration::from_secs(12));
        assert_eq!(lengths.takeover(Some(Duration::from_millis(100)), false), Duration::from_millis(10_150));
    }
}
