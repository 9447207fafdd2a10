//! The lengths a lease is computed with.

use std::time::Duration;

/// The longest time between a session's heartbeats.
pub(super) const LONGEST_HEARTBEAT: Duration = Duration::from_secs(10);

/// The shortest time between a session's heartbeats.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);

const MILLION: u32 = 1_000_000;

/// The drift to reckon with unless told otherwise: 9%, in parts per million.
///
/// A leader counts a session timeout by a clock that NTP may slew. By default chrony slews by up to 1/12 (`maxslewrate`,
/// 83,333 ppm): then the leader may expire a session after 12/13 of its timeout, or ping its followers after 12/11 of
/// half a tick. The rest covers oscillators: more than 7,000 ppm, where NTP takes a clock that is off by 500 ppm for
/// broken.
///
/// It costs 9% of the session timeout, which a lease is shorter for it. Where no server's clock is slewed faster than
/// 500 ppm, as by `ntpd` and `systemd-timesyncd` once they have set it, 1% will do.
pub const DEFAULT_DRIFT_PPM: u32 = 90_000;

/// What is reckoned with for every ZooKeeper session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reckoning {
    /// The servers' `tickTime`.
    pub tick: Duration,
    /// By how many parts in a million a leader's clock may be faster or slower than this machine's unslewed one.
    pub drift_ppm: u32,
}

/// The lengths a lease is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lengths {
    /// The session timeout: the smallest that may be in force.
    pub timeout: Duration,
    /// How long it takes at most until the leader asks for a touch: half a tick by a leader's clock that is slow by the
    /// drift, and a quarter tick should the leader be late.
    pub lag: Duration,
    /// For a leader's clock that is fast by the drift.
    pub margin: Duration,
    /// How often the session touches: a quarter of what the lag leaves, from 100 ms to 10 s.
    pub heartbeat: Duration,
}

impl Lengths {
    /// For a session timeout. `Err` if heartbeats cannot keep such a lease.
    pub fn new(timeout: Duration, reckoning: &Reckoning) -> Result<Self, Self> {
        let Reckoning { tick, drift_ppm } = *reckoning;
        let slowest = MILLION.saturating_sub(drift_ppm).max(1);
        let lag = ((tick / 2).saturating_mul(MILLION) / slowest).saturating_add(tick / 4);
        let margin = timeout.saturating_mul(drift_ppm) / MILLION;
        let left = timeout.saturating_sub(lag);
        let heartbeat = (left / 4).clamp(SHORTEST_HEARTBEAT, LONGEST_HEARTBEAT);
        let lengths = Self { timeout, lag, margin, heartbeat };
        // A touch waits for the next confirmation after `lag`, and that for its reply: two heartbeats, and one spare.
        if left.saturating_sub(margin) >= heartbeat * 3 { Ok(lengths) } else { Err(lengths) }
    }

    /// How long the session's nodes exist at least, by our clocks, after a touch that the leader knows of.
    pub fn validity(&self) -> Duration {
        self.timeout.saturating_sub(self.margin)
    }

    /// What a lease never falls below while every heartbeat is answered within a quarter of one: a confirmation is up to
    /// two heartbeats behind, one for the last touch it confirms and one until the next, and waits for both their replies.
    pub fn longest_stop_margin(&self) -> Duration {
        self.validity().saturating_sub(self.lag).saturating_sub(self.heartbeat * 5 / 2)
    }
}
