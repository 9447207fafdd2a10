//! The lease of one ZooKeeper session. Connections, requests and heartbeats bring evidence for it; guards and drivers
//! rely on it.
//!
//! # Who is woken
//!
//! Thousands of guards wait for the end of one lease, and each answered request may put that end off. So nobody is woken
//! because a lease has grown. A waiter sleeps until the end that it last saw, looks again, and sleeps on.
//!
//! 1. Evidence never brings the end of a valid lease nearer, ends its term, or changes its connection. So while the machine
//!    runs, the sleep of each waiter is over at the end, or before it.
//! 2. Everything else wakes all: a connection that comes or goes, a request to resume the session, the session's end.
//! 3. Timers stand still while the machine is suspended and the clocks of the lease go on, so a waiter may sleep on after
//!    its end. The first evidence after a suspension wakes all. Evidence for a lease that has lapsed wakes all, too. The
//!    session's patrol does so if no evidence comes (`zk::session::polled`). The clocks say for how long the machine was suspended.
//! 4. A guard whose node was not seen since a connection was lost ends earlier than the lease. So until the last such end is
//!    over, heartbeats wake all.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::watch;
use zklock_recipe::{Lapse, Lease, Lengths, Moment, Present, SessionEnd, Term};

use crate::clock;
use crate::mutex::Mutex;

/// A suspension that is shorter than this makes no timer late enough to matter.
const SHORT: Duration = Duration::from_millis(50);

/// A session's lease, which is compared with this machine's clocks.
pub(crate) struct SharedLease {
    lease: watch::Sender<Lease>,
    /// The connections that were lost, and the instant at which the lease was to end when each was lost. An entry is
    /// kept only until that instant.
    lost: Mutex<VecDeque<(u64, Moment)>>,
    /// The latest request that only a leader answers, and that was answered.
    heard: watch::Sender<Sent>,
    /// The latest heartbeat that was answered in full. Only holders at risk wait for it.
    beaten: watch::Sender<Sent>,
    /// For how long the machine had been suspended when all were last woken for that reason.
    suspended: Mutex<Duration>,
}

/// When and where a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The number of the connection on which the request was sent.
    pub(crate) connection: u64,
    /// The instant at which the request was sent, or shortly before.
    pub(crate) at: Moment,
}

impl SharedLease {
    /// Makes the shared lease of a session that zklock asked for at `asked`.
    pub(crate) fn new(lease: Lease, asked: Moment) -> Self {
        let asked = Sent { connection: 0, at: asked };
        let (heard, beaten) = (watch::Sender::new(asked), watch::Sender::new(asked));
        let suspended = Mutex::new(clock::suspended());
        Self { lease: watch::Sender::new(lease), lost: Mutex::default(), heard, beaten, suspended }
    }

    /// Takes in that the leader has answered a heartbeat's sync that was sent then.
    pub(crate) fn synced(&self, sent: Sent) {
        let unsettled = self.is_unsettled();
        self.prove(unsettled, |lease, now| lease.synced(sent.connection, sent.at, now));
        self.hear(sent, true);
    }

    /// Takes in that a quorum has acknowledged a write that was sent then.
    pub(crate) fn confirmed(&self, sent: Sent) {
        self.prove(false, |lease, now| {
            lease.confirmed(sent.connection, sent.at, now);
        });
        self.hear(sent, false);
    }

    /// Takes in evidence of the session's life.
    fn prove(&self, wakes: bool, evidence: impl FnOnce(&mut Lease, Moment)) {
        self.lease.send_if_modified(|lease| {
            let now = clock::now();
            let lapsed = lease.remaining(now).is_zero();
            evidence(lease, now);
            wakes || lapsed || self.was_suspended()
        });
    }

    /// Wakes all if the machine was suspended since they were last woken for that: their timers stood still.
    pub(super) fn wake_after_suspension(&self) {
        if self.was_suspended() {
            self.wake();
        }
    }

    /// Whether the machine was suspended since the last call that said so.
    fn was_suspended(&self) -> bool {
        let (mut before, suspended) = (self.suspended.lock(), clock::suspended());
        let was_suspended = suspended.saturating_sub(*before) > SHORT;
        if was_suspended {
            *before = suspended;
        }
        was_suspended
    }

    /// Whether a guard may have ended, since the last call, before the lease does.
    fn is_unsettled(&self) -> bool {
        let (mut lost, now) = (self.lost.lock(), clock::now());
        let unsettled = !lost.is_empty();
        lost.retain(|(_, end)| !now.until(*end).is_zero());
        unsettled
    }

    /// Answers may come late, so an earlier connection or an earlier request changes nothing. Only heartbeats wake the
    /// observers: a session may have thousands of those, and as many acquisitions a second.
    fn hear(&self, sent: Sent, wakes: bool) {
        self.heard.send_if_modified(|heard| {
            let newer = sent.connection > heard.connection
                || sent.connection == heard.connection && heard.at.until(sent.at) > Duration::ZERO;
            if newer {
                *heard = sent;
            }
            wakes
        });
    }

    /// Returns a receiver of the latest request that only a leader answers, and that was answered: a sync or a quorum
    /// write. The server of that connection had by then what the leader had done before the request was sent. Each
    /// heartbeat wakes the receivers.
    pub(crate) fn heard(&self) -> watch::Receiver<Sent> {
        self.heard.subscribe()
    }

    /// Takes in that a heartbeat which began with this request was answered in full.
    pub(super) fn beat(&self, sent: Sent) {
        self.beaten.send_replace(sent);
    }

    /// The latest heartbeat that was answered in full.
    fn beaten(&self) -> Sent {
        *self.beaten.borrow()
    }

    /// How long the heartbeats certainly do not fail; zero if they fail now: without a connection, if a heartbeat is overdue, or if
    /// less is left of the lease than the longest stop margin.
    pub(crate) fn calm(&self) -> Duration {
        let (lengths, beaten) = (self.lengths(), self.beaten());
        if self.connection() != Some(beaten.connection) {
            return Duration::ZERO;
        }
        // The next heartbeat is sent a heartbeat after this one. A half is for its reply, twice what the longest margin allows.
        let overdue = (lengths.heartbeat * 3 / 2).saturating_sub(clock::now().most_since(beaten.at));
        overdue.min(self.remaining().saturating_sub(lengths.longest_stop_margin()))
    }

    /// Returns a receiver that each heartbeat wakes which was answered in full.
    pub(crate) fn heartbeats(&self) -> watch::Receiver<Sent> {
        self.beaten.subscribe()
    }

    /// Takes in that a request to resume the session is about to be sent, to a server that grants no less than this. False if
    /// it must not be sent now, because it might bring the end of the lease nearer.
    #[must_use]
    pub(crate) fn attempting(&self, least: Duration) -> bool {
        self.lease.send_if_modified(|lease| lease.attempting(clock::now(), least))
    }

    /// Takes in that the request to resume the session was not answered.
    pub(crate) fn attempt_failed(&self) {
        self.lease.send_modify(Lease::attempt_failed);
    }

    /// Takes in that a server resumed the session with this timeout. Returns the number of the new connection. `Err`
    /// means that heartbeats cannot keep a lease with this timeout.
    pub(crate) fn resumed(&self, granted: Duration) -> Result<u64, Lengths> {
        let mut number = Ok(0);
        self.lease.send_modify(|lease| number = lease.resumed(granted));
        number
    }

    /// Takes in that the connection is lost.
    pub(crate) fn disconnected(&self) {
        self.lease.send_modify(|lease| {
            if let Some(number) = lease.connection() {
                let now = clock::now();
                let mut lost = self.lost.lock();
                lost.retain(|(_, end)| !now.until(*end).is_zero());
                lost.push_back((number, lease.deadline()));
            }
            lease.disconnected();
        });
    }

    /// Takes in that the session is over.
    pub(crate) fn ended(&self, end: SessionEnd) {
        self.lease.send_modify(|lease| lease.ended(end));
    }

    /// As [`ended`](Self::ended), but wakes nobody: [`wake`](Self::wake) has to follow.
    pub(super) fn ended_silently(&self, end: SessionEnd) {
        self.lease.send_if_modified(|lease| {
            lease.ended(end);
            false
        });
    }

    /// Wakes all. Their wakers are foreign code.
    pub(super) fn wake(&self) {
        self.lease.send_modify(|_| {});
    }

    /// Resolves once the session is over.
    pub(crate) async fn over(&self) -> SessionEnd {
        let mut lease = self.changes();
        // `self` owns the sender, so it is not dropped before this future.
        lease
            .wait_for(|lease| lease.end().is_some())
            .await
            .ok()
            .and_then(|lease| lease.end())
            .unwrap_or(SessionEnd::Closed)
    }

    /// The session timeout with which zklock computes the lease, and the lengths that follow from it.
    pub(crate) fn lengths(&self) -> Lengths {
        self.lease.borrow().lengths()
    }

    /// How the session stands, for a holder with this stop margin.
    pub(crate) fn present(&self, stop_margin: Duration) -> Present {
        self.lease.borrow().present(stop_margin, clock::now())
    }

    /// For how long a doubt leaves the lease unproven, though answers come in time. `None` without a doubt.
    pub(crate) fn doubted_for(&self) -> Option<Duration> {
        self.lease.borrow().doubted_for()
    }

    /// Whether the lease lasts until two heartbeats have had a chance to extend it, one of them before this margin
    /// begins.
    pub(crate) fn is_ample(&self, stop_margin: Duration) -> bool {
        self.lease.borrow().is_ample(stop_margin, clock::now())
    }

    /// Whether a term still lasts.
    pub(crate) fn check(&self, term: Term) -> Result<(), Lapse> {
        self.lease.borrow().check(term, clock::now())
    }

    /// How long a guard of this term still lasts if nothing more is confirmed, or why it has ended. `seen` is the
    /// connection on which the guard's node was last seen. A confirmation on a later connection says nothing of that
    /// node: an operator may have deleted it in between.
    pub(crate) fn remaining_of(&self, term: Term, seen: Option<u64>) -> Result<Duration, Lapse> {
        let (lease, now) = (self.lease.borrow(), clock::now());
        lease.check(term, now)?;
        let remaining = lease.remaining(now);
        if seen.is_some() && lease.connection() == seen {
            return Ok(remaining);
        }
        let lost = self.lost.lock();
        let end = lost.iter().find(|(number, _)| Some(*number) == seen).map(|(_, end)| now.until(*end));
        let remaining = remaining.min(end.unwrap_or_default());
        if remaining.is_zero() { Err(Lapse::Unconfirmed) } else { Ok(remaining) }
    }

    /// How long the lease still lasts if nothing more is confirmed.
    pub(crate) fn remaining(&self) -> Duration {
        self.lease.borrow().remaining(clock::now())
    }

    /// When the lease has ended, if that is known; else this instant.
    pub(crate) fn lapsed(&self) -> Moment {
        let (deadline, now) = (self.lease.borrow().deadline(), clock::now());
        if now.until(deadline).is_zero() { deadline } else { now }
    }

    /// The number of the present connection, if the session has one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.lease.borrow().connection()
    }

    /// How the session ended, if it has.
    pub(crate) fn end(&self) -> Option<SessionEnd> {
        self.lease.borrow().end()
    }

    /// Returns a receiver that sees each change of the lease, except that the lease grows.
    pub(crate) fn changes(&self) -> watch::Receiver<Lease> {
        self.lease.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use zklock_recipe::Reckoning;

    use super::*;
    use crate::clock::tests::suspend;

    fn lease(asked: Moment) -> SharedLease {
        let reckoning = Reckoning { tick: Duration::from_millis(100), drift_ppm: 0 };
        let lease = Lease::established(reckoning, Duration::from_secs(10), asked);
        SharedLease::new(lease.unwrap_or_else(|short| panic!("{short:?}")), asked)
    }

    fn now(connection: u64) -> Sent {
        Sent { connection, at: clock::now() }
    }

    #[test]
    fn evidence_for_a_valid_lease_wakes_nobody() {
        let lease = lease(clock::now());
        let (mut changes, heard) = (lease.changes(), lease.heard());
        lease.confirmed(now(0));
        assert!(!heard.has_changed().unwrap());
        lease.synced(now(0));
        assert!(heard.has_changed().unwrap(), "observers know the age of what they say by heartbeats");
        assert!(!changes.has_changed().unwrap());
        lease.disconnected();
        assert!(!lease.attempting(Duration::from_secs(5)), "the lease would be shorter");
        assert!(lease.attempting(Duration::from_secs(10)));
        lease.resumed(Duration::from_secs(10)).unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        lease.confirmed(now(1));
        assert!(!changes.has_changed().unwrap());
        lease.synced(now(1));
        assert!(changes.has_changed().unwrap(), "a guard may end whose node was not seen on this connection");
    }

    #[test]
    fn the_first_evidence_after_a_suspension_wakes_all() {
        let lease = lease(clock::now());
        // The lease is still valid, and the timers of those who wait for its end are late by a second.
        suspend(Duration::from_secs(1));
        assert!(!lease.remaining().is_zero());
        let mut changes = lease.changes();
        lease.confirmed(now(0));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        lease.confirmed(now(0));
        assert!(!changes.has_changed().unwrap());
    }

    #[test]
    fn a_look_after_a_suspension_wakes_all_though_no_evidence_comes() {
        let lease = lease(clock::now());
        let mut changes = lease.changes();
        lease.wake_after_suspension();
        assert!(!changes.has_changed().unwrap());
        suspend(Duration::from_secs(1));
        lease.wake_after_suspension();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        lease.wake_after_suspension();
        assert!(!changes.has_changed().unwrap());
    }

    #[test]
    fn evidence_for_a_lapsed_lease_wakes_all() {
        // The machine has run for longer than the session timeout.
        let lease = lease(Moment::default());
        assert!(lease.remaining().is_zero());
        let changes = lease.changes();
        lease.confirmed(now(0));
        assert!(changes.has_changed().unwrap());
    }
}
