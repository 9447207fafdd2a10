//! How long this session's nodes certainly exist: what a guard's validity rests on. Pure: every instant is an
//! argument, as two clocks show it.
//!
//! # The leader
//!
//! Only the leader expires sessions. It expires a session a timeout after the last touch that it handled, and by the
//! timeout that came *with that touch* (`ExpiryQueue.update` moves an expiry earlier, too). A client's requests touch the
//! server it is connected to, with the timeout that this server granted. A follower reports its touches in its answers
//! to the leader's pings, every half tick, on the same first-in-first-out stream that later carries forwarded writes.
//! Forwarded writes do not touch by themselves. A new leader gives every session the timeout of its creation, afresh.
//!
//! # What is known of touches
//!
//! 1. A *touch* is a request that was answered on the present connection. It counts from when it was sent, and had
//!    reached the server by when it was answered.
//! 2. A *sync* is a request that only the leader can answer: ZooKeeper's own, or a quorum write. If it was sent a `lag`
//!    after a touch was answered, the leader has sent the server a ping in between, and on their way to the server that
//!    ping precedes the answer. So when the sync is answered the server has *reported* the touch. `lag` is the half tick
//!    between pings, and a quarter for a leader that is late.
//! 3. A report precedes everything that the server forwards after it. So when another sync is answered that was sent after
//!    the touch was reported, whatever takes itself for the leader has *heard* of the touch.
//! 4. A *confirmation* is an acknowledged quorum write: the leader that the connection's server follows is a real one, and
//!    was so all the time since the connection was made, because a server that changes leaders drops its clients. The
//!    leader has heard of every touch that was reported before the write was sent.
//! 5. The leader handles the establishment of a session, and each resumption, before it answers it. Both touch, and count
//!    from before they were asked for. Whatever takes itself for the leader resumes a session, so a resumption needs a
//!    confirmation on the same connection like any report.
//!
//! # The smallest timeout
//!
//! A server clips the timeout on each resumption by its own limits. So touches with different timeouts may be on their
//! way at once: an old follower's report, and a request to resume the session of which nothing was ever heard. The lease
//! reckons with the smallest timeout `T` that any connection of this session was granted, for good. Whatever touch the
//! leader handles after `known`, the latest touch that it certainly has heard of, it expires the session no earlier than
//! `known + T`.
//!
//! A request to resume the session may set the expiry to as early as its own instant plus the least that its server
//! grants, its *floor*. While it is under way, the lease ends before that. If it fails, it may still be handled at any
//! time, so `T` is no more than the floor from then on.
//!
//! # The instant of expiry
//!
//! The leader takes the sessions of which the time has come from their queue, and marks each as closing a moment later
//! (`SessionTrackerImpl.run`). A touch in between is accepted, and in vain; a write in between is committed. So a touch
//! proves something only if the leader has heard of it before the session could expire by the touches before. That is
//! certain if it was *heard* of (3) within the validity of the one before. Otherwise the touch is in doubt until a
//! confirmation that was sent a lag after it was heard of: by then the leader would have marked the session.
//!
//! # Clocks
//!
//! The leader's clock, by which it expires and pings, may be slewed; so may our own. The lease is valid while both our
//! clocks say so, and a lag has passed when both say so. One of the two is not slewed, so the `margin`, and the part of the
//! lag that allows for drift, have to cover what the leader's clock does, and oscillators.
//!
//! So the ensemble keeps the session's nodes for `T - margin` after `known` at least.

use std::collections::VecDeque;
use std::time::Duration;

mod lengths;
mod moment;

pub use lengths::{DEFAULT_DRIFT_PPM, Lengths, Reckoning};
pub use moment::Moment;

use crate::event::SessionEnd;

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
    sent: Moment,
    answered: Moment,
}

/// A touch that the leader has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Report {
    /// When the touch was sent.
    touch: Moment,
    /// By when the server had reported it.
    reported: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Connection {
    Up,
    Down,
    /// A request to resume the session is under way.
    Attempted {
        since: Moment,
        floor: Duration,
    },
}

/// The lease of one ZooKeeper session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    reckoning: Reckoning,
    lengths: Lengths,
    connection: Connection,
    /// The number of the last connection.
    number: u64,
    /// Answered requests of the present connection that its server may not have reported, oldest first.
    touches: VecDeque<Touch>,
    /// Those that it has reported, and that no quorum write has confirmed, oldest first.
    reports: VecDeque<Report>,
    /// The latest touch that the leader has heard of, if what answers on the present connection is the leader.
    heard: Moment,
    /// When a touch was heard of so late that the session may have been expiring: what is known is in doubt.
    doubt: Option<Moment>,
    /// The latest touch that the leader certainly has heard of.
    known: Moment,
    /// When the present term ends. Only a confirmation puts it off.
    deadline: Moment,
    term: Term,
    end: Option<SessionEnd>,
}

impl Lease {
    /// The lease of a session that was asked for at `connecting`, and established since with the timeout `granted`. Its
    /// connection has the number 0. `Err` if heartbeats cannot keep it.
    pub fn established(reckoning: Reckoning, granted: Duration, connecting: Moment) -> Result<Self, Lengths> {
        Ok(Self::new(reckoning, Lengths::new(granted, &reckoning)?, connecting))
    }

    /// The lease of a session that no server has established, and none will: over, with the lengths for this timeout.
    pub fn unopened(reckoning: Reckoning, timeout: Duration, now: Moment) -> Self {
        let lengths = Lengths::new(timeout, &reckoning).unwrap_or_else(|short| short);
        Self {
            connection: Connection::Down,
            end: Some(SessionEnd::Expired),
            ..Self::new(reckoning, lengths, now)
        }
    }

    fn new(reckoning: Reckoning, lengths: Lengths, connecting: Moment) -> Self {
        Self {
            reckoning,
            lengths,
            connection: Connection::Up,
            number: 0,
            touches: VecDeque::new(),
            reports: VecDeque::new(),
            heard: connecting,
            doubt: None,
            known: connecting,
            deadline: connecting.plus(lengths.validity()),
            term: Term(0),
            end: None,
        }
    }

    /// The lengths for the smallest timeout that may be in force.
    pub fn lengths(&self) -> Lengths {
        self.lengths
    }

    /// A request to resume the session is about to be sent, to a server that grants `floor` at least. The connection
    /// before, if there still is one, counts no more.
    pub fn attempting(&mut self, now: Moment, floor: Duration) {
        self.attempt_failed();
        self.disconnected();
        let shortest = Lengths::new(floor, &self.reckoning).unwrap_or_else(|short| short);
        self.deadline = self.deadline.earliest(now.plus(shortest.validity()));
        self.connection = Connection::Attempted { since: now, floor };
    }

    /// The request to resume the session was not answered. It may have reached the server, and may yet.
    pub fn attempt_failed(&mut self) {
        if let Connection::Attempted { floor, .. } = self.connection {
            self.connection = Connection::Down;
            // If heartbeats cannot keep such a lease, the next resumption says so.
            let _ = self.reckon_with(floor);
        }
    }

    /// The session was resumed with the timeout `granted`; the number of the new connection. `Err` if heartbeats cannot keep
    /// such a lease: then there is no new connection, and the lease is never extended again.
    pub fn resumed(&mut self, granted: Duration) -> Result<u64, Lengths> {
        let Connection::Attempted { since, .. } = self.connection else { return Err(self.lengths) };
        self.connection = Connection::Down;
        self.reckon_with(granted)?;
        self.connection = Connection::Up;
        self.number += 1;
        self.reports.push_back(Report { touch: since, reported: since });
        Ok(self.number)
    }

    /// The present connection is gone.
    pub fn disconnected(&mut self) {
        if self.connection == Connection::Up {
            self.connection = Connection::Down;
        }
        self.touches.clear();
        self.reports.clear();
        // What has answered on that connection may have been a leader no more.
        self.heard = self.known;
    }

    /// The number of the present connection, if there is one.
    pub fn connection(&self) -> Option<u64> {
        (self.connection == Connection::Up).then_some(self.number)
    }

    fn reckon_with(&mut self, timeout: Duration) -> Result<(), Lengths> {
        let lengths = Lengths::new(timeout.min(self.lengths.timeout), &self.reckoning);
        self.lengths = lengths.unwrap_or_else(|short| short);
        self.deadline = self.deadline.earliest(self.known.plus(self.lengths.validity()));
        lengths.map(drop)
    }

    /// A request that was sent at `sent` has been answered by `now`.
    fn touched(&mut self, sent: Moment, now: Moment) {
        if self.touches.back().is_some_and(|last| last.sent.has_reached(sent)) {
            return;
        }
        self.touches.push_back(Touch { sent, answered: now });
        // Whatever is reported from now on reports the second one, too; the first is of no more use.
        while self.touches.get(1).is_some_and(|second| self.is_due(second, sent)) {
            self.touches.pop_front();
        }
    }

    /// Whether the leader has asked for a touch by what it answers to a request that was sent at `sent`.
    fn is_due(&self, touch: &Touch, sent: Moment) -> bool {
        sent.has_reached(touch.answered.plus(self.lengths.lag))
    }

    /// The leader has answered, by `now`, what was sent at `sent` on this connection.
    pub fn synced(&mut self, connection: u64, sent: Moment, now: Moment) {
        if self.connection() != Some(connection) {
            return;
        }
        let reported = self.reports.iter().rev().find(|report| sent.has_reached(report.reported));
        if let Some(touch) = reported.map(|report| report.touch) {
            self.hear(touch, now);
        }
        let mut due = None;
        while let Some(touch) = self.touches.front().copied().filter(|touch| self.is_due(touch, sent)) {
            due = Some(Report { touch: touch.sent, reported: now });
            self.touches.pop_front();
        }
        self.reports.extend(due);
        // The first one alone is known by a write from before the second was reported, which comes too late by now. A
        // session that nobody writes in reports for ever.
        let late = |report: &Report| now.has_reached(report.reported.plus(self.lengths.timeout));
        while self.reports.get(1).is_some_and(late) {
            self.reports.pop_front();
        }
        self.touched(sent, now);
    }

    /// By `now` the leader has heard of this touch.
    fn hear(&mut self, touch: Moment, now: Moment) {
        if self.heard.has_reached(touch) {
            return;
        }
        if now.most_since(self.heard) >= self.lengths.validity() {
            self.doubt = Some(now);
        }
        self.heard = touch;
    }

    /// A quorum write that was sent at `sent` on this connection has been acknowledged by `now`. Whether that was the
    /// present connection.
    pub fn confirmed(&mut self, connection: u64, sent: Moment, now: Moment) -> bool {
        if self.connection() != Some(connection) {
            return false;
        }
        let lapsed = self.remaining(now).is_zero();
        while let Some(report) = self.reports.front().copied() {
            if !sent.has_reached(report.reported) {
                break;
            }
            self.hear(report.touch, now);
            if !self.known.has_reached(report.touch) {
                self.known = report.touch;
            }
            self.reports.pop_front();
        }
        if self.doubt.is_some_and(|doubt| sent.has_reached(doubt.plus(self.lengths.lag))) {
            self.doubt = None;
        }
        if self.doubt.is_none() {
            self.deadline = self.known.plus(self.lengths.validity());
        }
        if lapsed && !self.remaining(now).is_zero() {
            self.term.0 += 1;
        }
        self.synced(connection, sent, now);
        true
    }

    /// The session is over, for good.
    pub fn ended(&mut self, end: SessionEnd) {
        self.end.get_or_insert(end);
    }

    /// How the session ended, if it has.
    pub fn end(&self) -> Option<SessionEnd> {
        self.end
    }

    /// When the present term ends, unless more is confirmed.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// How long the lease still lasts unless more is confirmed, by the clock that says less; zero once the session is over.
    pub fn remaining(&self, now: Moment) -> Duration {
        if self.end.is_some() { Duration::ZERO } else { now.until(self.deadline) }
    }

    /// Whether the lease lasts until heartbeats have had two chances to extend it, and one before this margin begins.
    pub fn is_ample(&self, stop_margin: Duration, now: Moment) -> bool {
        let heartbeat = self.lengths.heartbeat;
        self.remaining(now) >= heartbeat.saturating_add(heartbeat.max(stop_margin))
    }

    /// The present term, or why there is none.
    pub fn term(&self, now: Moment) -> Result<Term, Lapse> {
        match self.end {
            Some(end) => Err(Lapse::Ended(end)),
            None if self.remaining(now).is_zero() => Err(Lapse::Unconfirmed),
            None => Ok(self.term),
        }
    }

    /// Whether `term` still lasts, or why it does not.
    pub fn check(&self, term: Term, now: Moment) -> Result<(), Lapse> {
        match self.term(now) {
            Ok(present) if present == term => Ok(()),
            Ok(_) => Err(Lapse::Unconfirmed),
            Err(lapse) => Err(lapse),
        }
    }
}

#[cfg(test)]
mod tests;
