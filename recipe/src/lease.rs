//! The lease of a session: how long the session's nodes certainly exist. A guard is valid only while its session's
//! lease is. This file is pure: every instant is an argument, as three clocks show it.
//!
//! # The leader
//!
//! Only the leader expires sessions. It expires a session one timeout after the last touch that it handled. It uses the
//! timeout that came *with that touch*, and `ExpiryQueue.update` also moves an expiry to an earlier time. A client's
//! requests touch the server it is connected to, with the timeout that this server granted. A follower reports these
//! touches in its answers to the leader's pings, every half tick. The answers travel on the same first-in-first-out
//! stream that later carries forwarded writes. Forwarded writes do not touch by themselves. A new leader gives every
//! session the timeout of its creation, starting anew.
//!
//! # What is known of touches
//!
//! 1. A *touch* is a request that was answered on the present connection. It counts from the instant when it was sent.
//!    When it was answered, it had reached the server.
//! 2. A *sync* is a request that only the leader can answer: ZooKeeper's own `sync`, or a quorum write. If it was sent
//!    a `lag` after a touch was answered, the leader sent the server a ping in between, and that ping reaches the
//!    server before the answer. So when the sync is answered, the server has *reported* the touch. The `lag` is the
//!    half tick between two pings, and a quarter tick in case the leader is late.
//! 3. A report precedes everything that the server forwards after it. So if another sync was sent after the touch was
//!    reported, then by its answer the server that acts as the leader has *heard* of the touch.
//! 4. A *confirmation* is an acknowledged quorum write. It shows that the server which the connection's server follows
//!    is the real leader. It has been the real leader since the connection was made, because a server that changes
//!    leaders drops its clients. That leader has heard of every touch that was reported before the write was sent.
//! 5. The leader handles the establishment of a session, and each resumption, before it answers. Both are touches, and
//!    count from an instant before the request was sent. A server that only acts as the leader resumes sessions, too.
//!    So a resumption needs a confirmation on the same connection, as any report does.
//!
//! # The smallest timeout
//!
//! On each resumption a server clips the timeout by its own limits. So touches with different timeouts may be under way
//! at once: an old follower's report, and a request to resume the session that was never answered. The lease reckons
//! with `T`, the smallest timeout that any connection of this session was granted, and never with a longer one again.
//! `known` is the latest touch that the leader certainly has heard of. Whichever touch the leader handles after
//! `known`, it expires the session no earlier than `known + T`.
//!
//! A request to resume the session may move the expiry to the request's own instant plus the least timeout that its
//! server grants, its *floor*. So no request goes to a server with a floor below `T` while the lease is valid: holders
//! have told the end of the lease to others, who cannot always be told again. If such a request is sent later and fails,
//! the leader may still handle it at any time, so from then on `T` is no more than the floor.
//!
//! # The instant of expiry
//!
//! The leader takes the sessions that are due from their queue, and marks each as closing a moment later
//! (`SessionTrackerImpl.run`). In between it accepts a touch in vain, and it commits a write. So a touch proves
//! something only if the leader has heard of it before the session could expire by the earlier touches. That is certain
//! if the leader *heard* of it (3) within the validity of the touch before. Otherwise the touch is in doubt until a
//! confirmation that was sent a lag after the leader heard of the touch. By then the leader would have marked the
//! session, and would have refused that write.
//!
//! # Clocks
//!
//! The leader expires and pings by its own clock. That clock may be slewed, and so may our own. The lease is valid
//! while all our clocks say so, and a lag has passed when all say so. For either question one of them is not slewed, and
//! no suspension deceives it. So the `margin`, and the part of the lag that allows for drift, must cover only the
//! leader's clock and the oscillators.
//!
//! So the ensemble keeps the session's nodes at least until `T - margin` after `known`.

use alloc::collections::VecDeque;
use core::time::Duration;

mod lengths;
mod limit;
mod moment;
mod session_lease;

pub use lengths::{DEFAULT_DRIFT_PPM, Lengths, Reckoning};
pub use limit::Limit;
pub use moment::Moment;
pub use session_lease::{Proof, Sent, SessionLease};

/// How a session ended. Its nodes are gone, or will be soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEnd {
    /// ZooKeeper expired the session.
    Expired,
    /// Its owner closed the session.
    Closed,
}

/// Why a lease is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lapse {
    /// Nothing was confirmed for too long. The session may still live.
    Unconfirmed,
    /// The session is over.
    Ended(SessionEnd),
}

/// One uninterrupted stretch of validity. A guard belongs to the term in which it was granted, so a lease that becomes
/// valid again revives no guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term(u64);

#[cfg(test)]
impl Term {
    pub(crate) const FIRST: Self = Self(0);
}

/// How a session stands at one instant, as far as an acquisition has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// The number of its connection, if it has one.
    pub connection: Option<u64>,
    /// The lease's present term, or why the lease is not valid.
    pub term: Result<Term, Lapse>,
    /// Whether the lease is [ample](Lease::is_ample) for the holder's stop margin.
    pub is_ample: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Touch {
    sent: Moment,
    answered: Moment,
}

/// A touch that the server has reported to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ReportedTouch {
    /// When the touch was sent.
    touch: Moment,
    /// By this instant the server had reported the touch.
    reported: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LeaseConnection {
    Up,
    Down,
    /// A request to resume the session is under way.
    Attempted {
        since: Moment,
        floor: Duration,
    },
}

impl Present {
    /// Returns how the session ended, if it has.
    pub fn end(&self) -> Option<SessionEnd> {
        match self.term {
            Err(Lapse::Ended(end)) => Some(end),
            Ok(_) | Err(Lapse::Unconfirmed) => None,
        }
    }
}

/// The lease of one ZooKeeper session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    reckoning: Reckoning,
    lengths: Lengths,
    connection: LeaseConnection,
    /// The number of the present connection, or of the last one.
    number: u64,
    /// Answered requests of the present connection, oldest first. The server may not have reported them yet.
    touches: VecDeque<Touch>,
    /// Touches that the server has reported, and that no quorum write has confirmed, oldest first.
    reports: VecDeque<ReportedTouch>,
    /// The latest touch that the leader has heard of, provided that the real leader answers on the present connection.
    heard: Moment,
    /// The instant at which the leader heard of a touch so late that the session may have been expiring. What `known`
    /// says is in doubt.
    doubt: Option<Moment>,
    /// The latest touch that the leader certainly has heard of.
    known: Moment,
    /// The end of the present term. Only a confirmation puts it off.
    deadline: Moment,
    term: Term,
    end: Option<SessionEnd>,
}

impl Lease {
    /// Makes the lease of a session that zklock asked for at `connecting`, and that a server established with the
    /// timeout `granted`. Its connection has the number 0. `Err` means that heartbeats cannot keep the lease.
    pub fn established(reckoning: Reckoning, granted: Duration, connecting: Moment) -> Result<Self, Lengths> {
        Ok(Self::new(reckoning, Lengths::new(granted, &reckoning)?, connecting))
    }

    /// Makes the lease of a session that no server has established or will establish. The lease is over, and has the
    /// lengths for this timeout.
    pub fn unopened(reckoning: Reckoning, timeout: Duration, now: Moment) -> Self {
        let lengths = Lengths::new(timeout, &reckoning).unwrap_or_else(|short| short);
        Self {
            connection: LeaseConnection::Down,
            end: Some(SessionEnd::Expired),
            ..Self::new(reckoning, lengths, now)
        }
    }

    fn new(reckoning: Reckoning, lengths: Lengths, connecting: Moment) -> Self {
        Self {
            reckoning,
            lengths,
            connection: LeaseConnection::Up,
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

    /// Returns the lengths for the smallest timeout that may be in force.
    pub fn lengths(&self) -> Lengths {
        self.lengths
    }

    /// Takes in that a request to resume the session is about to be sent to a server that grants at least `floor`. The
    /// previous connection, if it still exists, no longer counts. Returns false, and takes nothing in, if the request might
    /// bring the end of a valid lease nearer: then it must not be sent.
    #[must_use]
    pub fn attempting(&mut self, now: Moment, floor: Duration) -> bool {
        if floor < self.lengths.timeout && !self.remaining(now).is_zero() {
            return false;
        }
        let left = self.remaining(now);
        self.attempt_failed();
        self.disconnected();
        debug_assert!(
            self.remaining(now) == left,
            "a request to resume the session brings the end of the lease nearer"
        );
        self.connection = LeaseConnection::Attempted { since: now, floor };
        true
    }

    /// Takes in that the request to resume the session was not answered. It may have reached the server, or may still
    /// reach it.
    pub fn attempt_failed(&mut self) {
        if let LeaseConnection::Attempted { floor, .. } = self.connection {
            self.connection = LeaseConnection::Down;
            // If heartbeats cannot keep such a lease, the next resumption returns that.
            let _ = self.reckon_with(floor);
        }
    }

    /// Takes in that a server resumed the session with the timeout `granted`. Returns the number of the new connection. If
    /// the server grants less than its floor was said to be, the lease ends earlier than was known.
    /// `Err` means that heartbeats cannot keep such a lease: then no new connection counts, and the lease is never
    /// extended again.
    pub fn resumed(&mut self, granted: Duration) -> Result<u64, Lengths> {
        let LeaseConnection::Attempted { since, .. } = self.connection else { return Err(self.lengths) };
        self.connection = LeaseConnection::Down;
        self.reckon_with(granted)?;
        self.connection = LeaseConnection::Up;
        self.number += 1;
        self.reports.push_back(ReportedTouch { touch: since, reported: since });
        Ok(self.number)
    }

    /// Takes in that the present connection is lost.
    pub fn disconnected(&mut self) {
        if self.connection == LeaseConnection::Up {
            self.connection = LeaseConnection::Down;
        }
        self.touches.clear();
        self.reports.clear();
        // The leader that answered on that connection may not have been the real one any more.
        self.heard = self.known;
    }

    /// Returns the number of the present connection, if the session has one.
    pub fn connection(&self) -> Option<u64> {
        (self.connection == LeaseConnection::Up).then_some(self.number)
    }

    fn reckon_with(&mut self, timeout: Duration) -> Result<(), Lengths> {
        let lengths = Lengths::new(timeout.min(self.lengths.timeout), &self.reckoning);
        self.lengths = lengths.unwrap_or_else(|short| short);
        self.deadline = self.deadline.earliest(self.known.plus(self.lengths.validity()));
        lengths.map(drop)
    }

    /// Takes in that a request which was sent at `sent` was answered by `now`.
    fn touched(&mut self, sent: Moment, now: Moment) {
        if self.touches.back().is_some_and(|last| last.sent.has_reached(sent)) {
            return;
        }
        self.touches.push_back(Touch { sent, answered: now });
        // A report from now on includes the second touch, too, so the first one is of no more use.
        while self.touches.get(1).is_some_and(|second| self.is_due(second, sent)) {
            self.touches.pop_front();
        }
    }

    /// Whether the leader has asked for a touch before it answers a request that was sent at `sent`.
    fn is_due(&self, touch: &Touch, sent: Moment) -> bool {
        sent.has_reached(touch.answered.plus(self.lengths.lag))
    }

    /// Takes in that by `now` the leader has answered a request that was sent at `sent` on this connection.
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
            due = Some(ReportedTouch { touch: touch.sent, reported: now });
            self.touches.pop_front();
        }
        self.reports.extend(due);
        // Only a write from before the second report could confirm the first report alone, and by now that write would
        // come too late. If nobody writes in a session, its reports would otherwise pile up for ever.
        let late = |report: &ReportedTouch| now.has_reached(report.reported.plus(self.lengths.timeout));
        while self.reports.get(1).is_some_and(late) {
            self.reports.pop_front();
        }
        self.touched(sent, now);
    }

    /// Takes in that by `now` the leader has heard of this touch.
    fn hear(&mut self, touch: Moment, now: Moment) {
        if !touch.is_after(self.heard) {
            return;
        }
        if now.most_since(self.heard) >= self.lengths.validity() {
            self.doubt = Some(now);
        }
        self.heard = touch;
    }

    /// Takes in that by `now` a quorum has acknowledged a write that was sent at `sent` on this connection. Returns
    /// whether that is the present connection.
    pub fn confirmed(&mut self, connection: u64, sent: Moment, now: Moment) -> bool {
        if self.connection() != Some(connection) {
            return false;
        }
        let before = self.deadline;
        let left = self.remaining(now);
        let lapsed = left.is_zero();
        while let Some(report) = self.reports.front().copied() {
            if !sent.has_reached(report.reported) {
                break;
            }
            self.hear(report.touch, now);
            if report.touch.is_after(self.known) {
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
        let longest = sent.plus(self.lengths.validity());
        debug_assert!(
            self.deadline == before || longest.has_reached(self.deadline),
            "an answer proves more than a lease from its request on"
        );
        debug_assert!(self.remaining(now) >= left, "evidence brings the end of a lease nearer");
        if lapsed && !self.remaining(now).is_zero() {
            self.term.0 += 1;
        }
        self.synced(connection, sent, now);
        true
    }

    /// For how long a doubt leaves the lease unproven, though answers come in time. The leader may have marked the session as expired when
    /// the doubt began. `None` without a doubt.
    pub fn doubted_for(&self) -> Option<Duration> {
        self.doubt.map(|_| self.lengths.lag)
    }

    /// Takes in that the session is over for good. The first end counts.
    pub fn ended(&mut self, end: SessionEnd) {
        self.end.get_or_insert(end);
    }

    /// Returns how the session ended, if it has.
    pub fn end(&self) -> Option<SessionEnd> {
        self.end
    }

    /// Returns when the present term ends if nothing more is confirmed.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Returns how long the lease still lasts if nothing more is confirmed, by the clock that says less. It is zero
    /// once the session is over.
    pub fn remaining(&self, now: Moment) -> Duration {
        if self.end.is_some() { Duration::ZERO } else { now.until(self.deadline) }
    }

    /// Returns whether the lease lasts until two heartbeats have had a chance to extend it, one of them before this
    /// margin begins.
    pub fn is_ample(&self, stop_margin: Duration, now: Moment) -> bool {
        self.remaining(now) >= self.lengths.ample(stop_margin)
    }

    /// Returns how the session stands, for a holder with this stop margin.
    pub fn present(&self, stop_margin: Duration, now: Moment) -> Present {
        let is_ample = self.is_ample(stop_margin, now);
        Present { connection: self.connection(), term: self.term(now), is_ample }
    }

    /// Returns the present term, or why the lease is not valid.
    pub fn term(&self, now: Moment) -> Result<Term, Lapse> {
        match self.end {
            Some(end) => Err(Lapse::Ended(end)),
            None if self.remaining(now).is_zero() => Err(Lapse::Unconfirmed),
            None => Ok(self.term),
        }
    }

    /// Returns whether `term` still lasts, or why it has ended.
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
