//! The lease of one ZooKeeper session. Connections, requests and heartbeats bring evidence for it; guards and drivers
//! rely on it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use zklock_recipe::{Lapse, Lease, Lengths, Moment, SessionEnd, Term};

use crate::clock;

/// A session's lease, which is compared with this machine's clocks.
pub(crate) struct SharedLease {
    lease: watch::Sender<Lease>,
    /// The connections that were lost, and the instant at which the lease was to end when each was lost. An entry is
    /// kept only until that instant.
    lost: Mutex<VecDeque<(u64, Moment)>>,
    /// The latest request that only a leader answers, and that was answered.
    heard: watch::Sender<Sent>,
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
        let heard = watch::Sender::new(Sent { connection: 0, at: asked });
        Self { lease: watch::Sender::new(lease), lost: Mutex::default(), heard }
    }

    /// Takes in that the leader has answered a request that was sent then.
    pub(crate) fn synced(&self, sent: Sent) {
        self.lease.send_modify(|lease| lease.synced(sent.connection, sent.at, clock::now()));
        self.hear(sent);
    }

    /// Takes in that a quorum has acknowledged a write that was sent then.
    pub(crate) fn confirmed(&self, sent: Sent) {
        self.lease.send_modify(|lease| {
            lease.confirmed(sent.connection, sent.at, clock::now());
        });
        self.hear(sent);
    }

    /// Answers may come late, so an earlier connection or an earlier request changes nothing.
    fn hear(&self, sent: Sent) {
        self.heard.send_if_modified(|heard| {
            let newer = sent.connection > heard.connection
                || sent.connection == heard.connection && heard.at.until(sent.at) > Duration::ZERO;
            if newer {
                *heard = sent;
            }
            newer
        });
    }

    /// Returns a receiver of the latest request that only a leader answers, and that was answered: a sync or a quorum
    /// write. The server of that connection had by then what the leader had done before the request was sent.
    pub(crate) fn heard(&self) -> watch::Receiver<Sent> {
        self.heard.subscribe()
    }

    /// Takes in that a request to resume the session is about to be sent, to a server that grants no less than this.
    pub(crate) fn attempting(&self, least: Duration) {
        self.lease.send_modify(|lease| {
            self.losing(lease);
            lease.attempting(clock::now(), least);
        });
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

    /// Takes in that the session is over.
    pub(crate) fn ended(&self, end: SessionEnd) {
        self.lease.send_modify(|lease| lease.ended(end));
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

    /// The session timeout that zklock reckons with, and the lengths that follow from it.
    pub(crate) fn lengths(&self) -> Lengths {
        self.lease.borrow().lengths()
    }

    /// Whether the lease lasts until two heartbeats have had a chance to extend it, one of them before this margin
    /// begins.
    pub(crate) fn is_ample(&self, stop_margin: Duration) -> bool {
        self.lease.borrow().is_ample(stop_margin, clock::now())
    }

    /// The lease's present term, or why the lease is not valid.
    pub(crate) fn term(&self) -> Result<Term, Lapse> {
        self.lease.borrow().term(clock::now())
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
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let end = lost.iter().find(|(number, _)| Some(*number) == seen).map(|(_, end)| now.until(*end));
        let remaining = remaining.min(end.unwrap_or_default());
        if remaining.is_zero() { Err(Lapse::Unconfirmed) } else { Ok(remaining) }
    }

    /// How long the lease still lasts if nothing more is confirmed.
    pub(crate) fn remaining(&self) -> Duration {
        self.lease.borrow().remaining(clock::now())
    }

    /// The number of the present connection, if the session has one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.lease.borrow().connection()
    }

    /// How the session ended, if it has.
    pub(crate) fn end(&self) -> Option<SessionEnd> {
        self.lease.borrow().end()
    }

    /// Returns a receiver that sees each change of the lease.
    pub(crate) fn changes(&self) -> watch::Receiver<Lease> {
        self.lease.subscribe()
    }
}
