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

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::{Level, debug, enabled};
use zklock_recipe::{Lapse, Lease, Lengths, Moment, Present, Proof, Sent, SessionEnd, SessionLease, Term};

use crate::clock;
use crate::mutex::Mutex;
use crate::requests::Evidence;

/// A suspension that is shorter than this makes no timer late enough to matter.
const SHORT: Duration = Duration::from_millis(50);

/// A session's lease, which is compared with this machine's clocks.
pub(crate) struct SharedLease {
    lease: watch::Sender<SessionLease>,
    /// The latest request that only a leader answers, and that was answered.
    heard: watch::Sender<Sent>,
    /// The latest heartbeat that was answered in full. Only holders at risk wait for it.
    beaten: watch::Sender<Sent>,
    /// For how long the machine had been suspended when all were last woken for that reason.
    suspended: Mutex<Duration>,
    runtime: Handle,
}

impl SharedLease {
    /// Makes the shared lease of a session that zklock asked for at `asked`, and whose tasks run on this runtime.
    pub(crate) fn new(lease: Lease, asked: Moment, runtime: Handle) -> Self {
        let asked = Sent { connection: 0, at: asked };
        Self {
            lease: watch::Sender::new(SessionLease::new(lease)),
            heard: watch::Sender::new(asked),
            beaten: watch::Sender::new(asked),
            suspended: Mutex::new(clock::suspended()),
            runtime,
        }
    }

    /// Takes in what the answer to a request, which was sent then and there, says of the session. No other function credits the
    /// lease.
    pub(crate) fn credit(self: &Arc<Self>, answer: &impl Evidence, sent: Sent) {
        if let Some(end) = answer.session_end() {
            debug!(?end, "an answer says that the session is over");
            self.ended_quietly(end);
        }
        let proof = answer.proof();
        if proof == Proof::Nothing {
            return;
        }
        if enabled!(Level::DEBUG) && proof == Proof::Quorum {
            self.tell_late(sent);
        }
        // Before, because foreign code hears of it, which may ask for this very lease.
        let was_suspended = self.was_suspended();
        self.lease.send_if_modified(|lease| lease.credit(proof, sent, clock::now()) || was_suspended);
        // Answers may come late, so an earlier request changes nothing. Only heartbeats wake the observers: a session may have
        // thousands of those, and as many acquisitions a second.
        self.heard.send_if_modified(|heard| {
            if sent.is_after(heard) {
                *heard = sent;
            }
            proof == Proof::Leader
        });
    }

    /// Tells of an answer that comes late.
    fn tell_late(&self, sent: Sent) {
        if self.remaining().is_zero() {
            debug!("a quorum's answer comes after the lease has ended");
        } else if clock::now().least_since(sent.at) > self.lengths().validity() / 2 {
            debug!("a quorum's answer comes after half of the lease that it proves");
        }
    }

    /// Wakes all if the machine was suspended since they were last woken for that: their timers stood still.
    pub(crate) fn wake_after_suspension(&self) {
        if self.was_suspended() {
            self.wake();
        }
    }

    /// Whether the machine was suspended since the last call that said so.
    fn was_suspended(&self) -> bool {
        let mut before = self.suspended.lock();
        let suspended = clock::suspended();
        let was_suspended = suspended.saturating_sub(*before) > SHORT;
        if was_suspended {
            *before = suspended;
            drop(before);
            debug!("the machine was suspended");
        }
        was_suspended
    }

    /// Returns a receiver of the latest request that only a leader answers, and that was answered: a sync or a quorum
    /// write. The server of that connection had by then what the leader had done before the request was sent. Each
    /// heartbeat wakes the receivers.
    pub(crate) fn heard(&self) -> watch::Receiver<Sent> {
        self.heard.subscribe()
    }

    /// Takes in that a heartbeat which began with this request was answered in full.
    pub(crate) fn beat(&self, sent: Sent) {
        self.beaten.send_replace(sent);
    }

    /// How long the heartbeats certainly do not fail, as [`SessionLease::calm`] says.
    pub(crate) fn calm(&self) -> Duration {
        let beaten = *self.beaten.borrow();
        self.lease.borrow().calm(beaten, clock::now())
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
        self.lease.send_modify(SessionLease::attempt_failed);
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
        self.lease.send_modify(|lease| lease.disconnected(clock::now()));
    }

    /// Takes in that the session is over, and wakes all at once.
    pub(crate) fn ended(&self, end: SessionEnd) {
        self.lease.send_modify(|lease| lease.ended(end));
    }

    /// As [`ended`](Self::ended), for a caller that may hold a mutex: a task of its own wakes all, because their wakers are foreign
    /// code.
    pub(crate) fn ended_quietly(self: &Arc<Self>, end: SessionEnd) {
        self.lease.send_if_modified(|lease| {
            lease.ended(end);
            false
        });
        let lease = self.clone();
        self.runtime.spawn(async move { lease.wake() });
    }

    /// Wakes all.
    fn wake(&self) {
        self.lease.send_modify(|_| {});
    }

    /// Resolves once the session is over.
    pub(crate) async fn over(&self) -> SessionEnd {
        let mut lease = self.changes();
        // `self` owns the sender, so it is not dropped before this future.
        lease
            .wait_for(|lease| lease.lease().end().is_some())
            .await
            .ok()
            .and_then(|lease| lease.lease().end())
            .unwrap_or(SessionEnd::Closed)
    }

    /// The session timeout with which zklock computes the lease, and the lengths that follow from it.
    pub(crate) fn lengths(&self) -> Lengths {
        self.lease.borrow().lease().lengths()
    }

    /// How the session stands, for a holder with this stop margin.
    pub(crate) fn present(&self, stop_margin: Duration) -> Present {
        self.lease.borrow().lease().present(stop_margin, clock::now())
    }

    /// For how long a doubt leaves the lease unproven, though answers come in time. `None` without a doubt.
    pub(crate) fn doubted_for(&self) -> Option<Duration> {
        self.lease.borrow().lease().doubted_for()
    }

    /// Whether the lease lasts until two heartbeats have had a chance to extend it, one of them before this margin
    /// begins.
    pub(crate) fn is_ample(&self, stop_margin: Duration) -> bool {
        self.lease.borrow().lease().is_ample(stop_margin, clock::now())
    }

    /// Whether a term still lasts.
    pub(crate) fn check(&self, term: Term) -> Result<(), Lapse> {
        self.lease.borrow().lease().check(term, clock::now())
    }

    /// How long a guard of this term, whose node was last seen on this connection, still lasts, or why it has ended; as
    /// [`SessionLease::remaining_of`] says.
    pub(crate) fn remaining_of(&self, term: Term, seen: Option<u64>) -> Result<Duration, Lapse> {
        self.lease.borrow().remaining_of(term, seen, clock::now())
    }

    /// How long the lease still lasts if nothing more is confirmed.
    pub(crate) fn remaining(&self) -> Duration {
        self.lease.borrow().lease().remaining(clock::now())
    }

    /// When the lease has ended, if that is known; else this instant.
    pub(crate) fn lapsed(&self) -> Moment {
        let deadline = self.lease.borrow().lease().deadline();
        let now = clock::now();
        if now.until(deadline).is_zero() { deadline } else { now }
    }

    /// The number of the present connection, if the session has one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.lease.borrow().lease().connection()
    }

    /// How the session ended, if it has.
    pub(crate) fn end(&self) -> Option<SessionEnd> {
        self.lease.borrow().lease().end()
    }

    /// Returns a receiver that sees each change of the lease, except that the lease grows.
    pub(crate) fn changes(&self) -> watch::Receiver<SessionLease> {
        self.lease.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use zklock_recipe::{Event, Reckoning};

    use super::*;
    use crate::clock::tests::suspend;
    use crate::requests::{Acknowledged, Synced};

    fn lease(asked: Moment) -> Arc<SharedLease> {
        let reckoning = Reckoning { tick: Duration::from_millis(100), drift_ppm: 0 };
        let lease = Lease::established(reckoning, Duration::from_secs(10), asked);
        let lease = lease.unwrap_or_else(|short| panic!("{short:?}"));
        Arc::new(SharedLease::new(lease, asked, Handle::current()))
    }

    fn confirm(lease: &Arc<SharedLease>, connection: u64) {
        lease.credit(&Acknowledged(()), Sent { connection, at: clock::now() });
    }

    fn sync(lease: &Arc<SharedLease>, connection: u64) {
        lease.credit(&Synced, Sent { connection, at: clock::now() });
    }

    #[tokio::test]
    async fn evidence_for_a_valid_lease_wakes_nobody() {
        let lease = lease(clock::now());
        let mut changes = lease.changes();
        let heard = lease.heard();
        confirm(&lease, 0);
        assert!(!heard.has_changed().unwrap());
        sync(&lease, 0);
        assert!(heard.has_changed().unwrap(), "observers know the age of what they say by heartbeats");
        assert!(!changes.has_changed().unwrap());
        lease.disconnected();
        assert!(!lease.attempting(Duration::from_secs(5)), "the lease would be shorter");
        assert!(lease.attempting(Duration::from_secs(10)));
        lease.resumed(Duration::from_secs(10)).unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        confirm(&lease, 1);
        assert!(!changes.has_changed().unwrap());
        sync(&lease, 1);
        assert!(changes.has_changed().unwrap(), "a guard may end whose node was not seen on this connection");
    }

    #[tokio::test]
    async fn the_first_evidence_after_a_suspension_wakes_all() {
        let lease = lease(clock::now());
        // The lease is still valid, and the timers of those who wait for its end are late by a second.
        suspend(Duration::from_secs(1));
        assert!(!lease.remaining().is_zero());
        let mut changes = lease.changes();
        confirm(&lease, 0);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        confirm(&lease, 0);
        assert!(!changes.has_changed().unwrap());
    }

    #[tokio::test]
    async fn a_look_after_a_suspension_wakes_all_though_no_evidence_comes() {
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

    #[tokio::test]
    async fn evidence_for_a_lapsed_lease_wakes_all() {
        // The machine has run for longer than the session timeout.
        let lease = lease(Moment::default());
        assert!(lease.remaining().is_zero());
        let changes = lease.changes();
        confirm(&lease, 0);
        assert!(changes.has_changed().unwrap());
    }

    #[tokio::test]
    async fn an_answer_that_says_that_the_session_is_over_ends_it_and_wakes_from_elsewhere() {
        let lease = lease(clock::now());
        let mut changes = lease.changes();
        let sent = Sent { connection: 0, at: clock::now() };
        lease.credit(&Event::Unanswered, sent);
        assert_eq!(lease.end(), None);
        lease.credit(&Event::SessionOver(SessionEnd::Expired), sent);
        assert_eq!(lease.end(), Some(SessionEnd::Expired));
        assert!(!changes.has_changed().unwrap(), "the caller may hold a mutex");
        changes.changed().await.unwrap();
    }
}
