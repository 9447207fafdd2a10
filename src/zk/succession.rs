//! One ZooKeeper session after the other: what a [`Session`](crate::Session) is, and every lock of it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, Timeout};
use tracing::{info, warn};
use zklock_recipe::{Lease, SessionEnd};

use super::dialer::{Dialer, Established};
use super::error::ConnectError;
use super::events::SessionEvents;
use super::session::ZkSession;
use super::state::{SessionEvent, SessionState};
use super::{establish, survey};

/// The ZooKeeper sessions that were opened one after the other, of which only the last one can live. When all who use
/// them are gone, so is the last one.
pub(crate) struct Succession {
    runtime: Handle,
    present: Mutex<Arc<ZkSession>>,
    /// It holds no `ZkSession`: a reader of events must not keep a session open.
    news: watch::Sender<SessionEvent>,
    requeued: AtomicU64,
    dialer: Arc<Dialer>,
    /// Why no other ZooKeeper session can be opened.
    failure: OnceLock<ConnectError>,
}

/// Why there will be no other ZooKeeper session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The session was closed, or its runtime is shutting down.
    Closed,
    /// ZooKeeper rejected the credentials.
    AuthFailed,
    /// The servers refuse the session that is wanted.
    Failed(ConnectError),
}

impl Succession {
    /// Takes over the first session, and has this runtime open the next ones by the same dialer. Without a first one, it
    /// is opened in the background, too.
    pub(crate) fn start(first: Option<Established>, dialer: Dialer, runtime: Handle) -> Arc<Self> {
        let dialer = Arc::new(dialer);
        let (state, first, life) = match first {
            Some(established) => {
                let first = ZkSession::start(established, dialer.clone(), runtime.clone());
                let life = first.lease().changes();
                (SessionState::Connected, first, Some(life))
            }
            None => (SessionState::Connecting, ZkSession::unopened(&dialer, runtime.clone()), None),
        };
        let succession = Arc::new(Self {
            runtime: runtime.clone(),
            news: watch::Sender::new(SessionEvent { state, generation: 0, id: first.id() }),
            present: Mutex::new(first),
            requeued: AtomicU64::new(0),
            dialer: dialer.clone(),
            failure: OnceLock::new(),
        });
        runtime.spawn(Successor { succession: Arc::downgrade(&succession), dialer }.run(life));
        succession
    }

    /// The present ZooKeeper session; the last one, if there is none.
    pub(crate) fn present(&self) -> Arc<ZkSession> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The present ZooKeeper session, once there is one that is not known to have ended.
    pub(crate) async fn living(&self) -> Result<Arc<ZkSession>, Over> {
        let mut news = self.news.subscribe();
        loop {
            // First marked as seen: whatever comes after this look wakes us.
            let state = news.borrow_and_update().state;
            if state.is_final() {
                return Err(self.over(state));
            }
            let present = self.present();
            if present.lease().end().is_none() {
                return Ok(present);
            }
            if news.changed().await.is_err() {
                return Err(Over::Closed);
            }
        }
    }

    /// Why there will be no other ZooKeeper session, in this final state.
    fn over(&self, state: SessionState) -> Over {
        match (state, self.failure.get()) {
            (SessionState::AuthFailed, _) => Over::AuthFailed,
            (SessionState::Failed, Some(failure)) => Over::Failed(failure.clone()),
            _ => Over::Closed,
        }
    }

    /// Why the servers refuse a session for good, if they do.
    pub(crate) fn failure(&self) -> Option<&ConnectError> {
        self.failure.get()
    }

    /// The tick that leases are reckoned with.
    pub(crate) fn tick(&self) -> Duration {
        self.dialer.reckoning().tick
    }

    /// Counts an acquisition that has to queue again.
    pub(crate) fn requeue(&self) {
        self.requeued.fetch_add(1, Ordering::Relaxed);
    }

    /// How many acquisitions had to queue again.
    pub(crate) fn requeued(&self) -> u64 {
        self.requeued.load(Ordering::Relaxed)
    }

    /// The last event.
    pub(crate) fn event(&self) -> SessionEvent {
        *self.news.borrow()
    }

    /// The last event, and each later one; skips what a later one has overtaken, and ends with the final one.
    pub(crate) fn events(&self) -> SessionEvents {
        SessionEvents::new(self.news.subscribe())
    }

    /// How long a call that only asks waits for ZooKeeper: half a session timeout. A server that is silent is given up
    /// after two fifths, so another one has a chance to answer.
    pub(crate) fn patience(&self) -> Duration {
        self.present().lengths().timeout / 2
    }

    /// Waits for an answer for as long as [`patience`](Self::patience) says; `Err` with that time if there is none.
    pub(crate) async fn patiently<F: Future>(&self, future: F) -> Result<F::Output, Duration> {
        let patience = self.patience();
        self.timeout_at(Instant::now() + patience, future).await.map_err(|_| patience)
    }

    /// A bounded wait that can be awaited outside a runtime, too.
    pub(crate) fn timeout_at<F: Future>(&self, deadline: Instant, future: F) -> Timeout<F> {
        let _entered = self.runtime.enter();
        tokio::time::timeout_at(deadline, future)
    }

    /// Closes the session for good, and gives back the last ZooKeeper session.
    pub(crate) fn close(&self) -> Arc<ZkSession> {
        // First of all: no other ZooKeeper session takes over from here on.
        self.finish(SessionState::Closed);
        let last = self.present();
        last.close();
        last
    }

    fn finish(&self, state: SessionState) {
        self.tell(|event| event.state = state);
    }

    /// Tells of a change; nothing changes after a final state.
    fn tell(&self, change: impl FnOnce(&mut SessionEvent)) {
        self.news.send_if_modified(|event| {
            let before = *event;
            if !before.state.is_final() {
                change(event);
            }
            *event != before
        });
    }

    /// Makes this the present ZooKeeper session, unless the session is over.
    fn take_over(&self, established: Established) -> Option<Arc<ZkSession>> {
        let next = ZkSession::start(established, self.dialer.clone(), self.runtime.clone());
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, which whoever closes the session takes after saying so.
        if self.news.borrow().state.is_final() {
            drop(present);
            next.close();
            return None;
        }
        let last = std::mem::replace(&mut *present, next.clone());
        drop(present);
        // Its lease has ended, perhaps by a server's word that its client has not heard yet: whatever still uses it is
        // to hear of it.
        last.close();
        self.tell(|event| {
            *event = SessionEvent {
                state: SessionState::Connected,
                generation: match event.state {
                    SessionState::Connecting => event.generation,
                    _ => event.generation + 1,
                },
                id: next.id(),
            };
        });
        Some(next)
    }
}

/// The session's other background task: tells of the present ZooKeeper session's state, and opens the next one.
struct Successor {
    succession: Weak<Succession>,
    dialer: Arc<Dialer>,
}

impl Successor {
    /// Runs until the session is over, or nobody uses it any more. `life` is that of the first ZooKeeper session, if there is
    /// one yet.
    async fn run(self, life: Option<watch::Receiver<Lease>>) {
        let mut life = match life {
            Some(life) => life,
            None => match self.open().await {
                Some(first) => first.lease().changes(),
                None => return,
            },
        };
        let survey = tokio::spawn({
            let dialer = self.dialer.clone();
            async move { survey::grants(&dialer).await }
        });
        self.succeed(&mut life).await;
        survey.abort();
    }

    async fn succeed(&self, life: &mut watch::Receiver<Lease>) {
        loop {
            match self.follow(life).await {
                Some(SessionEnd::Expired | SessionEnd::Closed) => {}
                Some(SessionEnd::AuthFailed) | None => return,
            }
            let Some(next) = self.open().await else { return };
            *life = next.lease().changes();
        }
    }

    /// Tells of every state of a ZooKeeper session; how it ended, or `None` if nobody is left to tell.
    async fn follow(&self, life: &mut watch::Receiver<Lease>) -> Option<SessionEnd> {
        let mut connections = None;
        loop {
            let (end, state, connection) = {
                let lease = life.borrow_and_update();
                (lease.end(), SessionState::of(&lease), lease.connection())
            };
            let succession = self.succession.upgrade()?;
            if connection.is_some() && connections.is_some_and(|last| Some(last) != connection) {
                // It was lost and made again before we looked.
                succession.tell(|event| event.state = SessionState::Disconnected);
            }
            connections = connection.or(connections);
            succession.tell(|event| event.state = state);
            drop(succession);
            if end.is_some() {
                return end;
            }
            life.changed().await.ok()?;
        }
    }

    /// Opens the next ZooKeeper session; `None` if the session is over, or nobody uses it any more.
    async fn open(&self) -> Option<Arc<ZkSession>> {
        let mut news = self.succession.upgrade()?.news.subscribe();
        let established = tokio::select! {
            // Whether it is over, or there is nobody left to say so.
            _ = news.wait_for(|event| event.state.is_final()) => return None,
            established = establish::redial(&self.dialer) => established,
        };
        let established = match established {
            Ok(established) => established,
            Err(error) => {
                warn!(%error, "there will be no other ZooKeeper session");
                self.fail(error);
                return None;
            }
        };
        let next = self.succession.upgrade()?.take_over(established)?;
        info!(id = format_args!("{:#x}", next.id()), "a new ZooKeeper session takes over");
        Some(next)
    }

    /// Ends the session for good, because no other one can be opened.
    fn fail(&self, error: ConnectError) {
        let state = match error {
            ConnectError::AuthFailed => SessionState::AuthFailed,
            _ => SessionState::Failed,
        };
        if let Some(succession) = self.succession.upgrade() {
            let _first = succession.failure.set(error);
            succession.finish(state);
        }
    }

    fn finish(&self, state: SessionState) {
        if let Some(succession) = self.succession.upgrade() {
            succession.finish(state);
        }
    }
}

impl Drop for Successor {
    /// Without this task there will be no other ZooKeeper session: its runtime is shutting down, or the session is over.
    fn drop(&mut self) {
        self.finish(SessionState::Closed);
    }
}
