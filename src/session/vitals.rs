//! What is known about the session's life: its lease, and the client's state, told in the right order.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;
use tracing::{info, warn};
use zookeeper_client::{Client, SessionState, StateWatcher};

use super::wire;
use crate::clock;
use crate::lease::{Lapse, Lease, Moment, Term};
use crate::recipe::SessionEnd;

/// A session's lease. Whoever has evidence for it brings it here; before it counts, the lease hears of every change of
/// connection until then, so that no answer from an earlier connection is mixed with one from the present.
pub(crate) struct Vitals {
    states: Mutex<States>,
    lease: watch::Sender<Lease>,
}

struct States {
    watcher: StateWatcher,
    /// No request sent before this instant counts: it may have been answered on an earlier connection.
    since: Moment,
    /// The last look at the client's state that found it unchanged.
    unchanged: Moment,
    /// When the last request was sent that is known to have been answered.
    heard: Moment,
    timeout: Duration,
}

impl Vitals {
    /// Of a session that was asked for at `connecting`, and is established since.
    pub(crate) fn new(client: &Client, mut lease: Lease, connecting: Moment) -> Self {
        let mut states = States {
            watcher: client.state_watcher(),
            since: connecting,
            unchanged: connecting,
            heard: connecting,
            timeout: client.session_timeout(),
        };
        // Connections may have come and gone before we began to watch.
        apply(&mut states, &mut lease, client.state());
        Self { states: Mutex::new(states), lease: watch::Sender::new(lease) }
    }

    /// Hears of every change of connection until now.
    pub(crate) fn follow(&self) {
        let mut states = self.states();
        let mut news = None;
        self.lease.send_if_modified(|lease| {
            news = catch_up(&mut states, lease);
            news.is_some()
        });
        drop(states);
        tell(news);
    }

    /// The leader has answered what was sent at `sent`.
    pub(crate) fn synced(&self, sent: Moment) {
        self.evidence(sent, |lease, connection| lease.synced(connection, sent, clock::now()));
    }

    /// A quorum write that was sent at `sent` has been acknowledged; on the present connection, if that is told by its
    /// number.
    pub(crate) fn confirmed(&self, sent: Moment) -> Option<u64> {
        self.evidence(sent, |lease, connection| {
            lease.confirmed(connection, sent, clock::now());
        })
    }

    /// The session is over.
    pub(crate) fn ended(&self, end: SessionEnd) {
        self.record(|_, lease| lease.ended(end));
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

    /// How long the lease still lasts, if nothing more is confirmed.
    pub(crate) fn remaining(&self) -> Duration {
        self.lease.borrow().remaining(clock::now())
    }

    /// The number of the present connection, if there is one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.follow();
        self.lease.borrow().connection()
    }

    /// How long ago the last request was sent that is known to have been answered.
    pub(crate) fn silence(&self) -> Duration {
        clock::now().most_since(self.states().heard)
    }

    /// How the session ended, if it has.
    pub(crate) fn end(&self) -> Option<SessionEnd> {
        self.lease.borrow().end()
    }

    /// Follows the lease: each change of it is seen.
    pub(crate) fn changes(&self) -> watch::Receiver<Lease> {
        self.lease.subscribe()
    }

    fn evidence(&self, sent: Moment, evidence: impl FnOnce(&mut Lease, u64)) -> Option<u64> {
        self.record(|states, lease| {
            let connection = lease.connection().filter(|_| states.since.until(sent) > Duration::ZERO)?;
            evidence(lease, connection);
            states.heard = sent;
            Some(connection)
        })
    }

    fn record<T: Default>(&self, evidence: impl FnOnce(&mut States, &mut Lease) -> T) -> T {
        let mut states = self.states();
        let (mut news, mut result) = (None, T::default());
        self.lease.send_modify(|lease| {
            news = catch_up(&mut states, lease);
            result = evidence(&mut states, lease);
        });
        drop(states);
        tell(news);
        result
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the lease of every change of state until now; the last one, if there was any.
fn catch_up(states: &mut States, lease: &mut Lease) -> Option<SessionState> {
    let mut news = None;
    loop {
        let before = clock::now();
        let Some(state) = states.watcher.changed().now_or_never() else {
            states.unchanged = before;
            return news;
        };
        apply(states, lease, state);
        news = Some(state);
    }
}

/// Tells the lease of a change of state that was just seen.
fn apply(states: &mut States, lease: &mut Lease, state: SessionState) {
    match (wire::end(state), state) {
        (Some(end), _) => lease.ended(end),
        (None, SessionState::SyncConnected) => {
            // Nobody saw the loss of the last one, perhaps, so what was sent by now may have been answered on that.
            lease.attempting(states.unchanged, states.timeout);
            let _ = lease.resumed(states.timeout);
            states.since = clock::now();
        }
        (None, _) => lease.disconnected(),
    }
}

/// Logs a change of state; outside all locks, since a subscriber may ask a guard.
fn tell(news: Option<SessionState>) {
    let Some(state) = news else { return };
    match (wire::end(state), state) {
        (Some(end), _) => info!(?end, "the ZooKeeper session is over"),
        (None, SessionState::SyncConnected) => info!("connected to ZooKeeper"),
        (None, _) => warn!("the connection to ZooKeeper is lost"),
    }
}
