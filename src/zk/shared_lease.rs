//! The lease of one ZooKeeper session, shared by all who bring evidence for it and all who rest on it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use zklock_recipe::{Lapse, Lease, Lengths, Moment, SessionEnd, Term};

use crate::clock;

/// A session's lease, and the clock that it is compared with.
pub(crate) struct SharedLease {
    lease: watch::Sender<Lease>,
    /// Which connections were lost, and when the lease was to end then; while it would still last.
    lost: Mutex<VecDeque<(u64, Moment)>>,
}

/// When and where a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The number of the connection.
    pub(crate) connection: u64,
    /// That instant, or shortly before.
    pub(crate) at: Moment,
}

impl SharedLease {
    /// Of a session with this lease.
    pub(crate) fn new(lease: Lease) -> Self {
        Self { lease: watch::Sender::new(lease), lost: Mutex::default() }
    }

    /// The leader has answered what was sent then.
    pub(crate) fn synced(&self, sent: Sent) {
        self.lease.send_modify(|lease| lease.synced(sent.connection, sent.at, clock::now()));
    }

    /// A quorum write that was sent then has been acknowledged.
    pub(crate) fn confirmed(&self, sent: Sent) {
        self.lease.send_modify(|lease| {
            lease.confirmed(sent.connection, sent.at, clock::now());
        });
    }

    /// A request to resume the session is about to go out, to a server that grants no less than this.
    pub(crate) fn attempting(&self, least: Duration) {
        self.lease.send_modify(|lease| {
            self.losing(lease);
            lease.attempting(clock::now(), least);
        });
    }

    /// That request was not answered.
    pub(crate) fn attempt_failed(&self) {
        self.lease.send_modify(Lease::attempt_failed);
    }

    /// The session was resumed with this timeout: the number of its new connection. `Err` if heartbeats cannot keep a
    /// lease with it.
    pub(crate) fn resumed(&self, granted: Duration) -> Result<u64, Lengths> {
        let mut number = Ok(0);
        self.lease.send_modify(|lease| number = lease.resumed(granted));
        number
    }

    /// The connection is lost.
    pub(crate) fn disconnected(&self) {
        self.lease.send_modify(|lease| {
            self.losing(lease);
            lease.disconnected();
        });
    }

    fn losing(&self, lease: &Lease) {
        let Some(number) = lease.connection() else { return };
        let (mut lost, now) = (self.lost.lock().unwrap_or_else(PoisonError::into_inner), clock::now());
        lost.retain(|(_, end)| !now.until(*end).is_zero());
        lost.push_back((number, lease.deadline()));
    }

    /// The session is over.
    pub(crate) fn ended(&self, end: SessionEnd) {
        self.lease.send_modify(|lease| lease.ended(end));
    }

    /// Resolves once the session is over.
    pub(crate) async fn over(&self) -> SessionEnd {
        let mut lease = self.changes();
        // The sender is ours, so it does not go before this does.
        lease
            .wait_for(|lease| lease.end().is_some())
            .await
            .ok()
            .and_then(|lease| lease.end())
            .unwrap_or(SessionEnd::Closed)
    }

    /// The session timeout that may be in force, and what follows from it.
    pub(crate) fn lengths(&self) -> Lengths {
        self.lease.borrow().lengths()
    }

    /// Whether the lease lasts until heartbeats have had two chances to extend it, and one before this margin begins.
    pub(crate) fn is_ample(&self, stop_margin: Duration) -> bool {
        self.lease.borrow().is_ample(stop_margin, clock::now())
    }

    /// The lease's present term, or why there is none.
    pub(crate) fn term(&self) -> Result<Term, Lapse> {
        self.lease.borrow().term(clock::now())
    }

    /// Whether a term still lasts.
    pub(crate) fn check(&self, term: Term) -> Result<(), Lapse> {
        self.lease.borrow().check(term, clock::now())
    }

    /// How long a guard of this term still lasts, if nothing more is confirmed, or why it does not. `seen` is the connection
    /// on which its node was seen last: what is confirmed on a later one says nothing of a node that an operator may have
    /// deleted in between.
    pub(crate) fn remaining_of(&self, term: Term, seen: Option<u64>) -> Result<Duration, Lapse> {
        let (lease, now) = (self.lease.borrow(), clock::now());
        lease.check(term, now)?;
        let remaining = lease.remaining(now);
        if seen.is_some() && lease.connection() == seen {
            return Ok(remaining);
        }
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let end = lost.iter().find(|(number, _)| Some(*number) == seen).map(|(_, end)| now.until(*end));
        let remaining = remaining.min(end.unwrap_or_default());
        if remaining.is_zero() { Err(Lapse::Unconfirmed) } else { Ok(remaining) }
    }

    /// How long the lease still lasts, if nothing more is confirmed.
    pub(crate) fn remaining(&self) -> Duration {
        self.lease.borrow().remaining(clock::now())
    }

    /// The number of the present connection, if there is one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.lease.borrow().connection()
    }

    /// How the session ended, if it has.
    pub(crate) fn end(&self) -> Option<SessionEnd> {
        self.lease.borrow().end()
    }

    /// Follows the lease: each change of it is seen.
    pub(crate) fn changes(&self) -> watch::Receiver<Lease> {
        self.lease.subscribe()
    }
}
