//! How long this session's nodes certainly exist: what a guard's validity rests on. Pure: every instant is an
//! argument, as the time since boot.
//!
//! # Why it is sound
//!
//! Only the leader expires sessions, no earlier than a session timeout `T` after the last touch it knows of. A
//! client's requests touch the server it is connected to, and a follower reports its touches in its answers to
//! the leader's pings, every half tick, on the same first-in-first-out stream that later carries forwarded writes.
//! Forwarded writes do not touch by themselves. A new leader gives every session a fresh `T`.
//!
//! 1. A *touch* is a request that was answered on the present connection. It counts from when it was sent, and had
//!    reached the server by when it was answered.
//! 2. A *sync* is a request that only the leader can answer: ZooKeeper's own, or a quorum write. If it was sent a `lag`
//!    after a touch was answered, the leader has sent the server a ping in between, and on their way to the server that
//!    ping precedes the answer. So when the sync is answered the server has reported the touch. `lag` is the half tick
//!    between pings, and a quarter for a leader that is late.
//! 3. A *confirmation* is an acknowledged quorum write: the leader that the connection's server follows is a real one. The
//!    reports that the server had sent by then precede it on their way to the leader, so the leader has heard of every
//!    touch that a sync asked for which was answered before the write was sent.
//! 4. Establishing a session is a quorum write that touches at the leader: it counts from before it was asked for.
//! 5. Resuming one touches at whatever takes itself for the leader, which need not be one any more. It counts from
//!    the last look at the client's state that found it as before, because the loss of the old connection, and then
//!    the request for the new one, came after that; and only once a quorum write was acknowledged on the same
//!    connection: the server still follows, or is, the one that resumed the session, because a server that changes
//!    leaders drops its clients.
//!
//! So the ensemble keeps the session's nodes until `known + T` at least, where `known` is the latest touch that the
//! leader certainly knows of. A margin allows for clocks that run at different speeds.

use std::collections::VecDeque;
use std::time::Duration;

use crate::recipe::SessionEnd;

/// The longest time between a session's heartbeats.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(10);

/// The shortest time between a session's heartbeats.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);

/// The tick to reckon with unless told: the servers' default.
const DEFAULT_TICK: Duration = Duration::from_secs(2);

/// The lengths a lease is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lengths {
    /// The session timeout the server granted.
    pub timeout: Duration,
    /// How long it takes at most until the leader asks for a touch: half a tick, and a quarter should it be late.
    pub lag: Duration,
    /// For clocks that run at different speeds: 1% of the session timeout.
    pub margin: Duration,
    /// How often the session touches: a quarter of what the lag leaves, from 100 ms to 10 s.
    pub heartbeat: Duration,
}

impl Lengths {
    /// For a session timeout and the servers' tick; without one, the smaller of 2 s and half the timeout, because a
    /// server's shortest session timeout is two ticks by default. `Err` if heartbeats cannot keep such a lease.
    pub fn new(timeout: Duration, tick: Option<Duration>) -> Result<Self, Self> {
        let tick = tick.unwrap_or(DEFAULT_TICK.min(timeout / 2));
        let lag = tick / 2 + tick / 4;
        let margin = timeout / 100;
        let left = timeout.saturating_sub(lag);
        let heartbeat = (left / 4).clamp(SHORTEST_HEARTBEAT, LONGEST_HEARTBEAT);
        let lengths = Self { timeout, lag, margin, heartbeat };
        // A touch waits for the next confirmation after `lag`, and that for its reply: two heartbeats, and one spare.
        if left.saturating_sub(margin) >= heartbeat * 3 { Ok(lengths) } else { Err(lengths) }
    }

    /// What a lease never falls below while every heartbeat is answered within a quarter of one: a confirmation is up to
    /// two heartbeats behind, one for the last touch it confirms and one until the next, and waits for both their replies.
    pub fn longest_stop_margin(&self) -> Duration {
        (self.timeout - self.lag - self.margin).saturating_sub(self.heartbeat * 5 / 2)
    }
}

/// Why a lease is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lapse {
    /// Nothing was confirmed for too long; the session may live.
    Unconfirmed,
    /// The session is over.
    Ended(SessionEnd),
}

/// One uninterrupted stretch of validity. A guard belongs to the term it was granted in, so that a lease which becomes
/// valid again revives no guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Touch {
    sent: Duration,
    answered: Duration,
}

/// A touch that the leader has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked {
    /// When the touch was sent.
    touch: Duration,
    /// By when the server had reported it.
    reported: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Connection {
    Up,
    Down,
}

/// The lease of one ZooKeeper session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    lengths: Lengths,
    /// Answered requests of the present connection that the leader may not have asked for, oldest first.
    touches: VecDeque<Touch>,
    /// Those that it has asked for, and of which it may not have heard, oldest first.
    asked: VecDeque<Asked>,
    /// What was last heard of the connection.
    connection: Connection,
    /// How many connections there have been.
    connections: u64,
    /// No request sent before this instant counts: it may have been answered on an earlier connection.
    since: Duration,
    /// The last look at the client's state that found it unchanged.
    unchanged: Duration,
    /// From when on the present connection's own resumption counts; gone once it was confirmed.
    resumed: Option<Duration>,
    /// The latest touch that the leader certainly knows of.
    known: Duration,
    term: Term,
    end: Option<SessionEnd>,
}

impl Lease {
    /// The lease of a session that was asked for at `connecting`, and established since.
    pub fn established(lengths: Lengths, connecting: Duration) -> Self {
        Self {
            lengths,
            touches: VecDeque::new(),
            asked: VecDeque::new(),
            connection: Connection::Up,
            connections: 0,
            since: connecting,
            unchanged: connecting,
            resumed: None,
            known: connecting,
            term: Term(0),
            end: None,
        }
    }

    /// A request that was sent at `sent` has been answered by `now`.
    fn touched(&mut self, sent: Duration, now: Duration) {
        if sent < self.since || self.touches.back().is_some_and(|last| last.sent >= sent) {
            return;
        }
        self.touches.push_back(Touch { sent, answered: now });
        // Whatever is confirmed from now on confirms the second one, too; the first is of no more use.
        while self.touches.get(1).is_some_and(|second| second.answered + self.lengths.lag <= sent) {
            self.touches.pop_front();
        }
    }

    /// A quorum write that was sent at `sent` has been acknowledged by `now`; on the present connection, if that is
    /// told by its number.
    pub fn confirmed(&mut self, sent: Duration, now: Duration) -> Option<u64> {
        if sent < self.since {
            return None;
        }
        let mut known = self.known.max(self.resumed.take().unwrap_or_default());
        while let Some(asked) = self.asked.front().filter(|asked| asked.reported <= sent) {
            known = known.max(asked.touch);
            self.asked.pop_front();
        }
        if now >= self.deadline() && known > self.known {
            self.term.0 += 1;
        }
        self.known = known;
        self.synced(sent, now);
        self.connection()
    }

    /// The leader has answered, by `now`, what was sent at `sent`.
    pub fn synced(&mut self, sent: Duration, now: Duration) {
        if sent < self.since {
            return;
        }
        let mut asked = None;
        while let Some(touch) = self.touches.front().filter(|touch| touch.answered + self.lengths.lag <= sent)
        {
            asked = Some(Asked { touch: touch.sent, reported: now });
            self.touches.pop_front();
        }
        self.asked.extend(asked);
        // The first one alone is known by a write from before the second was reported, which comes too late by now. A
        // session that nobody writes in asks for ever.
        while self.asked.get(1).is_some_and(|second| second.reported + self.lengths.timeout <= now) {
            self.asked.pop_front();
        }
        self.touched(sent, now);
    }

    /// The client's state has been looked at after `before`, and was the one that was told last.
    pub fn unchanged(&mut self, before: Duration) {
        self.unchanged = before;
    }

    /// The connection has been lost, by `now`.
    pub fn disconnected(&mut self, now: Duration) {
        self.renew(now);
        self.connection = Connection::Down;
    }

    /// A connection has been made, by `now`.
    pub fn connected(&mut self, now: Duration) {
        if self.connection == Connection::Up {
            // Nobody saw the loss of the last one, so what was sent by now may have been answered on that.
            self.renew(now);
        }
        self.connection = Connection::Up;
    }

    /// The number of the present connection, if there is one.
    pub fn connection(&self) -> Option<u64> {
        (self.connection == Connection::Up).then_some(self.connections)
    }

    fn renew(&mut self, since: Duration) {
        self.touches.clear();
        self.asked.clear();
        self.since = since;
        self.resumed = Some(self.unchanged);
        self.connections += 1;
    }

    /// The session is over, for good.
    pub fn ended(&mut self, end: SessionEnd) {
        self.end.get_or_insert(end);
    }

    /// When the last request was sent that is known to have been answered.
    pub fn heard(&self) -> Duration {
        self.touches.back().map_or(self.known, |last| last.sent)
    }

    /// Whether the lease lasts until heartbeats have had two chances to extend it, and one before this margin begins.
    pub fn is_ample(&self, stop_margin: Duration, now: Duration) -> bool {
        let heartbeat = self.lengths.heartbeat;
        now + heartbeat + heartbeat.max(stop_margin) <= self.deadline()
    }

    /// The instant from which on the lease is not valid, unless more is confirmed.
    pub fn deadline(&self) -> Duration {
        self.known + self.lengths.timeout - self.lengths.margin
    }

    /// The present term, or why there is none.
    pub fn term(&self, now: Duration) -> Result<Term, Lapse> {
        match self.end {
            Some(end) => Err(Lapse::Ended(end)),
            None if now < self.deadline() => Ok(self.term),
            None => Err(Lapse::Unconfirmed),
        }
    }

    /// Whether `term` still lasts, or why it does not.
    pub fn check(&self, term: Term, now: Duration) -> Result<(), Lapse> {
        match self.term(now) {
            Ok(present) if present == term => Ok(()),
            Ok(_) => Err(Lapse::Unconfirmed),
            Err(lapse) => Err(lapse),
        }
    }

    /// How the session ended, if it has.
    pub fn end(&self) -> Option<SessionEnd> {
        self.end
    }
}

#[cfg(test)]
mod tests;
