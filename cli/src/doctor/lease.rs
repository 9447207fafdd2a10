//! The lease arithmetic: what a session's lengths mean for those who hold its locks, and for those who wait.

use std::time::Duration;

use zklock::Session;

/// The tick that a session reckons with at most unless it is told one.
const DEFAULT_TICK: Duration = Duration::from_secs(2);

/// A session's lengths, and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arithmetic {
    /// The session timeout that the servers granted.
    pub(super) timeout: Duration,
    /// The tick that the session reckons with.
    pub(super) tick: Duration,
    pub(super) heartbeat: Duration,
    /// The longest stop margin; what a lease never falls below while heartbeats are answered.
    pub(super) longest_stop_margin: Duration,
}

impl Arithmetic {
    /// Of a session that was told this tick, or none.
    pub(super) fn of(session: &Session, tick: Option<Duration>) -> Self {
        let timeout = session.timeout();
        Self {
            timeout,
            // As `SessionBuilder::tick` says.
            tick: tick.unwrap_or(DEFAULT_TICK.min(timeout / 2)),
            heartbeat: session.heartbeat(),
            longest_stop_margin: session.longest_stop_margin(),
        }
    }

    /// The longest that a guard stays valid once ZooKeeper has fallen silent: the session timeout, less 1% for clocks.
    /// The shortest is the longest stop margin.
    pub(super) fn longest_validity(&self) -> Duration {
        self.timeout - self.timeout / 100
    }

    /// How long others wait at most after a holder's crash, if the leader lives: the leader expires sessions on its ticks,
    /// and it may take half of one until a follower reports the holder's last sign of life, which counts from then.
    pub(super) fn takeover(&self, servers_tick: Option<Duration>, is_alone: bool) -> Duration {
        let tick = servers_tick.unwrap_or(self.tick);
        let report = if is_alone { Duration::ZERO } else { tick / 2 };
        self.timeout + tick + report
    }

    /// The longest time an answer may take so that a lease never falls below the longest stop margin.
    pub(super) fn longest_round_trip(&self) -> Duration {
        self.heartbeat / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_blocks_for_a_session_timeout_and_some_ticks() {
        let lengths = Arithmetic {
            timeout: Duration::from_secs(10),
            tick: Duration::from_secs(2),
            heartbeat: Duration::from_millis(2125),
            longest_stop_margin: Duration::from_micros(3_087_500),
        };
        assert_eq!(lengths.longest_validity(), Duration::from_millis(9900));
        assert_eq!(lengths.takeover(None, false), Duration::from_secs(13));
        assert_eq!(lengths.takeover(None, true), Duration::from_secs(12));
        assert_eq!(lengths.takeover(Some(Duration::from_millis(100)), false), Duration::from_millis(10_150));
    }
}
