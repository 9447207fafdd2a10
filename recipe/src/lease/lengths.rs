//! The lengths a lease is computed with.

use core::time::Duration;

/// The longest time between two heartbeats of a session.
pub(super) const LONGEST_HEARTBEAT: Duration = Duration::from_secs(10);

/// The shortest time between two heartbeats of a session.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);

const MILLION: u32 = 1_000_000;

/// The default drift of clocks: 9%, in parts per million.
///
/// A leader counts a session timeout by a clock that NTP may slew. By default chrony slews by up to 1/12
/// (`maxslewrate`, 83,333 ppm). Then the leader may expire a session after 12/13 of its timeout, or ping its followers
/// only after 12/11 of half a tick. The rest, more than 7,000 ppm, covers oscillators: NTP takes a clock that is off by
/// 500 ppm for broken.
///
/// This drift makes a lease shorter by 9% of the session timeout. Where no server's clock is slewed faster than 500
/// ppm, 1% is enough. `ntpd` and `systemd-timesyncd` slew no faster once they have set the clock.
pub const DEFAULT_DRIFT_PPM: u32 = 90_000;

/// The two numbers that the lease of every ZooKeeper session is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reckoning {
    /// The servers' `tickTime`.
    pub tick: Duration,
    /// How much faster or slower a leader's clock may be than this machine's unslewed one, in parts per million.
    pub drift_ppm: u32,
}

/// The lengths a lease is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lengths {
    /// The smallest session timeout that may be in force.
    pub timeout: Duration,
    /// The longest time until the leader asks for a touch: half a tick by a leader's clock that is slow by the drift,
    /// and a quarter tick in case the leader is late.
    pub lag: Duration,
    /// The time by which a lease ends earlier, for a leader's clock that is fast by the drift.
    pub margin: Duration,
    /// The time between two heartbeats: a quarter of what the lag leaves of the session timeout, from 100 ms to 10 s.
    pub heartbeat: Duration,
}

impl Lengths {
    /// Computes the lengths for a session timeout. `Err` means that heartbeats cannot keep such a lease.
    pub fn new(timeout: Duration, reckoning: &Reckoning) -> Result<Self, Self> {
        let Reckoning { tick, drift_ppm } = *reckoning;
        let slowest = MILLION.saturating_sub(drift_ppm).max(1);
        let lag = ((tick / 2).saturating_mul(MILLION) / slowest).saturating_add(tick / 4);
        let margin = timeout.saturating_mul(drift_ppm) / MILLION;
        let left = timeout.saturating_sub(lag);
        let heartbeat = (left / 4).clamp(SHORTEST_HEARTBEAT, LONGEST_HEARTBEAT);
        let lengths = Self { timeout, lag, margin, heartbeat };
        // After `lag` a touch waits for the next confirmation, and the confirmation waits for its reply. That takes two
        // heartbeats, and one is spare.
        if left.saturating_sub(margin) >= heartbeat * 3 { Ok(lengths) } else { Err(lengths) }
    }

    /// How long the session's nodes exist at least, by our clocks, after a touch that the leader has heard of.
    pub fn validity(&self) -> Duration {
        self.timeout.saturating_sub(self.margin)
    }

    /// How long a lease must last for two heartbeats to have a chance to extend it, one of them before this margin begins.
    pub fn ample(&self, stop_margin: Duration) -> Duration {
        self.heartbeat.saturating_add(self.heartbeat.max(stop_margin))
    }

    /// The length that a lease never falls below while the servers answer every heartbeat within a quarter of the time
    /// between two. A confirmation is up to two heartbeats behind: one for the last touch that it confirms, and one
    /// until the next confirmation. It also waits for the replies of both.
    pub fn longest_stop_margin(&self) -> Duration {
        self.validity().saturating_sub(self.lag).saturating_sub(self.heartbeat * 5 / 2)
    }
}
