//! The lease arithmetic: what a session's lengths mean for holders of its locks, and for waiters.

use std::time::Duration;

use zklock::Session;

/// A session's lengths, and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arithmetic {
    /// The tick that leases are reckoned with.
    pub(super) tick: Duration,
    /// The session timeout that the servers granted.
    pub(super) timeout: Duration,
    pub(super) heartbeat: Duration,
    /// The longest stop margin. A lease never falls below it while heartbeats are answered.
    pub(super) longest_stop_margin: Duration,
    /// The longest time that a guard stays valid once ZooKeeper is silent. The shortest such time is the longest stop
    /// margin.
    pub(super) longest_validity: Duration,
}

impl Arithmetic {
    pub(super) fn of(session: &Session) -> Self {
        Self {
            tick: session.tick(),
            timeout: session.timeout(),
            heartbeat: session.heartbeat(),
            longest_stop_margin: session.longest_stop_margin(),
            longest_validity: session.longest_validity(),
        }
    }

    /// The longest time that others wait after a holder's crash, if the leader lives. The leader expires sessions on its
    /// ticks. A follower may take half a tick to report the holder's last sign of life, and the session timeout runs from
    /// the report.
    pub(super) fn takeover(&self, servers_tick: Option<Duration>, is_alone: bool) -> Duration {
        let tick = servers_tick.unwrap_or(self.tick);
        let report = if is_alone { Duration::ZERO } else { tick / 2 };
        self.timeout + tick + report
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Of a session with this timeout on servers with this tick, by the formulas of the library's documentation.
    pub(in crate::doctor) fn arithmetic(timeout: u64, tick: u64) -> Arithmetic {
        let (timeout, tick) = (Duration::from_secs(timeout), Duration::from_secs(tick));
        let drift = f64::from(zklock::SessionBuilder::DEFAULT_CLOCK_DRIFT) / 1e6;
        let lag = (tick / 2).div_f64(1.0 - drift) + tick / 4;
        let heartbeat = (timeout.saturating_sub(lag) / 4).max(Duration::from_millis(100));
        let longest_validity = timeout - timeout.mul_f64(drift);
        let longest_stop_margin = longest_validity.saturating_sub(lag + heartbeat * 5 / 2);
        Arithmetic { tick, timeout, heartbeat, longest_stop_margin, longest_validity }
    }

    #[test]
    fn a_crash_blocks_for_a_session_timeout_and_some_ticks() {
        let lengths = arithmetic(10, 2);
        assert_eq!(lengths.longest_validity, Duration::from_millis(9100));
        assert_eq!(lengths.takeover(None, false), Duration::from_secs(13));
        assert_eq!(lengths.takeover(None, true), Duration::from_secs(12));
        assert_eq!(lengths.takeover(Some(Duration::from_millis(100)), false), Duration::from_millis(10_150));
    }
}
