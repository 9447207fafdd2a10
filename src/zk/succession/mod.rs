//! One ZooKeeper session after the other. A [`Session`](crate::Session) and its locks share one succession.

pub(crate) mod events;
pub(crate) mod state;
pub(crate) mod survey;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Timeout};
use tracing::{info, warn};
use zklock_recipe::SessionLease;

use self::state::{SessionEvent, SessionState};
use self::survey::establish;
use super::session::ZkSession;
use crate::mutex::Mutex;
use crate::wire::dialer::{Dialer, Established, Refused, pauses};
use crate::wire::error::ConnectError;

/// The pause after the first round that failed. Each further pause is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two rounds, without its jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// For how many session timeouts those servers that answer may refuse, while others do not answer: they may accept.
const LONGEST_REFUSAL: u32 = 10;

/// A ZooKeeper session that nobody uses for as many session timeouts is closed: its heartbeats would cost the servers more than the
/// next session does.
const IDLE: u32 = 10;

/// The ZooKeeper sessions of one [`Session`](crate::Session). They are opened one after the other, and only the last
/// one can live. It is closed once nobody has used it for a while, or once nobody has the succession any more.
pub(crate) struct Succession {
    runtime: Handle,
    present: Mutex<Present>,
    /// Whether somebody has wanted to use the present ZooKeeper session since the last look.
    used: AtomicBool,
    /// Wakes the successor when an idle session is wanted.
    wanted: Arc<Notify>,
    /// The last event. It holds no `ZkSession`, because a reader of events must not keep a session open.
    news: watch::Sender<SessionEvent>,
    /// How many times an acquisition had to join its queue again.
    pub(crate) requeued: AtomicU64,
    pub(crate) dialer: Arc<Dialer>,
    /// Why no other ZooKeeper session can be opened, once that is so.
    pub(crate) failure: OnceLock<ConnectError>,
}

/// The present ZooKeeper session of a succession, or the last one.
struct Present {
    session: Arc<ZkSession>,
    opening: Opening,
}

/// Whether a ZooKeeper session is there for its users.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// One is there, or has expired.
    Done,
    /// Nobody used the last one, so it was closed, and nobody has wanted another one since then.
    Idle,
    /// Somebody wants one: the first one, or the next one after an idle one.
    Begun,
}

/// Why no other ZooKeeper session will follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The session was closed.
    Closed,
    /// The servers refuse to open another session like it, or nothing can open one.
    Failed(ConnectError),
}

impl Succession {
    /// Takes over the first ZooKeeper session, and opens the next ones with the same dialer, in a task on this runtime.
    /// Without a first one, that task opens the first one, too.
    pub(crate) fn start(first: Option<Established>, dialer: Dialer, runtime: Handle) -> Arc<Self> {
        let dialer = Arc::new(dialer);
        let (state, opening, first, life) = match first {
            Some(established) => {
                let first = ZkSession::start(established, dialer.clone(), runtime.clone());
                let life = first.lease.changes();
                (SessionState::Connected, Opening::Done, first, Some(life))
            }
            None => {
                let none = ZkSession::unopened(&dialer, runtime.clone());
                (SessionState::Connecting, Opening::Begun, none, None)
            }
        };
        let succession = Arc::new(Self {
            runtime: runtime.clone(),
            news: watch::Sender::new(SessionEvent { state, generation: 0, id: first.id }),
            present: Mutex::new(Present { session: first, opening }),
            used: AtomicBool::new(false),
            wanted: Arc::default(),
            requeued: AtomicU64::new(0),
            dialer: dialer.clone(),
            failure: OnceLock::new(),
        });
        let successor = Successor { succession: Arc::downgrade(&succession), dialer };
        runtime.spawn(async move {
            if let Err(panic) = AssertUnwindSafe(successor.run(life)).catch_unwind().await {
                successor.fail(ConnectError::panicked(&*panic));
            }
        });
        succession
    }

    /// Returns the present ZooKeeper session, or the last one while none is established. A request goes to the session that
    /// [`opened`](Self::opened) or [`living`](Self::living) returns.
    pub(crate) fn present(&self) -> Arc<ZkSession> {
        self.present.lock().session.clone()
    }

    /// Returns the present ZooKeeper session to somebody who uses it, so it does not become idle; `None` while it is being opened. If
    /// it was idle, it is being opened from here on.
    fn used(&self) -> Option<Arc<ZkSession>> {
        self.used.store(true, Ordering::Relaxed);
        let mut present = self.present.lock();
        if present.opening == Opening::Done {
            return Some(present.session.clone());
        }
        let is_first = std::mem::replace(&mut present.opening, Opening::Begun) == Opening::Idle;
        drop(present);
        if is_first {
            self.wanted.notify_one();
        }
        None
    }

    /// As [`present`](Self::present), for a request. If the session is being opened, or was idle, waits until it is open.
    pub(crate) async fn opened(&self) -> Arc<ZkSession> {
        let mut news = self.news();
        loop {
            // `take_over` changes the present session first, and the state after that.
            let is_final = news.borrow_and_update().state.is_final();
            match self.used() {
                Some(present) => return present,
                None if is_final => return self.present(),
                None => {}
            }
            // The sender is in `self`, so this does not fail.
            let _changed = news.changed().await;
        }
    }

    /// Looks whether anybody uses the present ZooKeeper session, or has done so since the last look, and counts the looks in a row
    /// that saw nobody. Closes the session after as many as [`IDLE`]. Returns whether it did so.
    fn rest(&self, unused: &mut u32) -> bool {
        let mut present = self.present.lock();
        // Its users have clones of it. Clones are made under this mutex, or from another clone.
        let has_users = Arc::strong_count(&present.session) > 1 || present.session.is_needed();
        // A session without a connection is resumed, or expires, and so tells of an outage.
        let counts = !has_users && present.session.lease.connection().is_some();
        *unused = if self.used.swap(false, Ordering::Relaxed) || !counts { 0 } else { *unused + 1 };
        if *unused < IDLE {
            return false;
        }
        present.opening = Opening::Idle;
        let session = present.session.clone();
        // Readers of events are woken outside the mutex.
        drop(present);
        session.close();
        self.tell_event(|event| event.state = SessionState::Idle);
        true
    }

    /// Waits for a ZooKeeper session that is not known to have ended, and returns it.
    pub(crate) async fn living(self: &Arc<Self>) -> Result<Arc<ZkSession>, Over> {
        Bystander::new(self).session().await.ok_or_else(|| match (self.event().state, self.failure.get()) {
            (SessionState::AuthFailed | SessionState::Failed, Some(failure)) => Over::Failed(failure.clone()),
            _ => Over::Closed,
        })
    }

    /// Returns the last event.
    pub(crate) fn event(&self) -> SessionEvent {
        *self.news.borrow()
    }

    /// Resolves once somebody closes the session.
    pub(crate) async fn closed(&self) {
        // The sender is in `self`, so this does not fail.
        let mut news = self.news();
        let _closed = news.wait_for(|event| event.state == SessionState::Closed).await;
    }

    /// Returns a receiver of the last event. It does not keep the succession open.
    pub(crate) fn news(&self) -> watch::Receiver<SessionEvent> {
        self.news.subscribe()
    }

    /// Runs a task in the succession's runtime.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// How long a call that only asks waits for ZooKeeper: half a session timeout. zklock leaves a silent server after
    /// two fifths, so another one still has a chance to answer.
    pub(crate) fn patience(&self) -> Duration {
        self.present().lease.lengths().timeout / 2
    }

    /// Waits for an answer for as long as [`patience`](Self::patience) says. `Err` holds that time if no answer came.
    pub(crate) async fn patiently<F: Future>(&self, future: F) -> Result<F::Output, Duration> {
        let patience = self.patience();
        self.timeout_at(Instant::now() + patience, future).await.map_err(|_| patience)
    }

    /// Returns a bounded wait that can also be awaited outside a runtime.
    pub(crate) fn timeout_at<F: Future>(&self, deadline: Instant, future: F) -> Timeout<F> {
        let _entered = self.runtime.enter();
        tokio::time::timeout_at(deadline, future)
    }

    /// As [`timeout_at`](Self::timeout_at), for what may fail; `None` if the deadline passes first. Without a deadline it waits
    /// for as long as that takes.
    pub(crate) async fn by<T, E>(
        &self,
        deadline: Option<Instant>,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<Option<T>, E> {
        match deadline {
            Some(deadline) => self.timeout_at(deadline, future).await.ok().transpose(),
            None => future.await.map(Some),
        }
    }

    /// Closes the session for good, and returns its last ZooKeeper session.
    pub(crate) fn close(&self) -> Arc<ZkSession> {
        // Before that is told: acquisitions that hear of it leave, too, and the session's end deletes their nodes at once.
        let is_leaving = self.present().is_leaving();
        // This comes before the rest, so that no other ZooKeeper session takes over from here on.
        self.finish(SessionState::Closed);
        let last = self.present();
        if is_leaving {
            last.close_after_leaving();
        } else {
            last.close();
        }
        last
    }

    fn finish(&self, state: SessionState) {
        self.tell_event(|event| event.state = state);
    }

    /// Changes the last event, and so notifies the readers of events. After a final state nothing changes.
    fn tell_event(&self, change: impl FnOnce(&mut SessionEvent)) {
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
        let mut present = self.present.lock();
        // This look happens under the mutex. `close` sets the final state before it takes the mutex, so it closes
        // either the old ZooKeeper session or the new one.
        if self.news.borrow().state.is_final() {
            drop(present);
            next.close();
            return None;
        }
        let last = std::mem::replace(&mut present.session, next.clone());
        present.opening = Opening::Done;
        drop(present);
        // The lease of the last ZooKeeper session has ended, perhaps because a server said so and its client has not
        // heard it yet. Closing it tells everything that still uses it.
        last.close();
        self.tell_event(|event| {
            *event = SessionEvent {
                state: SessionState::Connected,
                // No server gives a session the id 0: it is that of the time before the first one.
                generation: event.generation + u64::from(event.id != 0),
                id: next.id,
            };
        });
        Some(next)
    }
}

/// How far apart two ZooKeeper sessions begin at least. A server may end each one at its first request. One that has local
/// sessions and does not upgrade them does so (`localSessionsUpgradingEnabled`).
const APART: Duration = Duration::from_secs(1);

/// Looks on at a succession without keeping it open.
pub(crate) struct Bystander {
    succession: Weak<Succession>,
    news: watch::Receiver<SessionEvent>,
}

impl Bystander {
    pub(crate) fn new(succession: &Arc<Succession>) -> Self {
        Self { succession: Arc::downgrade(succession), news: succession.news() }
    }

    /// Waits for a ZooKeeper session that is not known to have ended. Returns `None` after a final state, or once nobody
    /// uses the succession any more.
    pub(crate) async fn session(&mut self) -> Option<Arc<ZkSession>> {
        loop {
            // The state is marked as seen first, so every change after this look wakes this task.
            if self.news.borrow_and_update().state.is_final() {
                return None;
            }
            let present = self.succession.upgrade()?.used();
            if let Some(present) = present.filter(|present| present.lease.end().is_none()) {
                return Some(present);
            }
            self.news.changed().await.ok()?;
        }
    }
}

/// The background task that reports the state of the present ZooKeeper session, and opens the next one.
struct Successor {
    succession: Weak<Succession>,
    dialer: Arc<Dialer>,
}

impl Successor {
    /// Runs until the session is over, or until nobody uses it any more. `life` is the lease of the first ZooKeeper
    /// session, if one is established.
    ///
    /// Opening a session is boxed, so that a `Session` does not keep the memory for it all its life.
    async fn run(&self, life: Option<watch::Receiver<SessionLease>>) {
        let mut life = match life {
            Some(life) => life,
            None => match self.open(Instant::now()).boxed().await {
                Some(first) => first.lease.changes(),
                None => return,
            },
        };
        let dialer = self.dialer.clone();
        let mut survey = JoinSet::new();
        survey.spawn(async move { survey::grants(&dialer).await });
        loop {
            let next = Instant::now() + APART;
            if self.follow(&mut life).await.is_none() || self.wanted().await.is_none() {
                return;
            }
            let Some(next) = self.open(next).boxed().await else { return };
            life = next.lease.changes();
        }
    }

    /// Reports every state of a ZooKeeper session, and closes it once it is idle. Returns once it has ended, or `None` if nobody uses
    /// the succession any more.
    async fn follow(&self, life: &mut watch::Receiver<SessionLease>) -> Option<()> {
        let mut connections = None;
        let mut last = Instant::now();
        let mut unused = 0;
        loop {
            let (has_ended, state, connection, timeout) = {
                let life = life.borrow_and_update();
                let lease = life.lease();
                (lease.end().is_some(), SessionState::of(lease), lease.connection(), lease.lengths().timeout)
            };
            let succession = self.succession.upgrade()?;
            if connection.is_some() && connections.is_some_and(|last| Some(last) != connection) {
                // The connection was lost and another one was made between two looks.
                succession.tell_event(|event| event.state = SessionState::Disconnected);
            }
            connections = connection.or(connections);
            succession.tell_event(|event| event.state = state);
            drop(succession);
            if has_ended {
                return Some(());
            }
            tokio::select! {
                changed = life.changed() => changed.ok()?,
                () = tokio::time::sleep_until(last + timeout) => {
                    if self.succession.upgrade()?.rest(&mut unused) {
                        info!("nobody uses the ZooKeeper session, so it is closed; the next use opens another one");
                        return Some(());
                    }
                    last = Instant::now();
                }
            }
        }
    }

    /// If the last ZooKeeper session was closed because nobody used it, waits until somebody does. `None` if nobody uses the
    /// succession any more.
    async fn wanted(&self) -> Option<()> {
        let (mut news, wanted) = {
            let succession = self.succession.upgrade()?;
            (succession.news(), succession.wanted.clone())
        };
        if news.borrow().state != SessionState::Idle {
            return Some(());
        }
        tokio::select! {
            // The session is over, or nobody uses it any more.
            _ = news.wait_for(|event| event.state.is_final()) => {}
            () = wanted.notified() => {}
        }
        self.succession.upgrade()?.tell_event(|event| event.state = SessionState::Connecting);
        Some(())
    }

    /// Opens the next ZooKeeper session, not before that instant. Returns `None` if the session is over, or if nobody uses it
    /// any more.
    async fn open(&self, at: Instant) -> Option<Arc<ZkSession>> {
        let mut news = self.succession.upgrade()?.news();
        let redial = async {
            tokio::time::sleep_until(at).await;
            redial(&self.dialer).await
        };
        let established = tokio::select! {
            // The session is over, or nobody uses it any more.
            _ = news.wait_for(|event| event.state.is_final()) => return None,
            established = redial => established,
        };
        let established = match established {
            Ok(established) => established,
            Err(error) => {
                warn!(%error, "no other ZooKeeper session can be opened");
                self.fail(error);
                return None;
            }
        };
        let next = self.succession.upgrade()?.take_over(established)?;
        info!(id = format_args!("{:#x}", next.id), "a new ZooKeeper session takes over");
        Some(next)
    }

    /// Ends the session for good, because no other ZooKeeper session can be opened.
    fn fail(&self, error: ConnectError) {
        let state = match error {
            ConnectError::AuthFailed => SessionState::AuthFailed,
            _ => SessionState::Failed,
        };
        if let Some(succession) = self.succession.upgrade()
            && !succession.event().state.is_final()
        {
            let _first = succession.failure.set(error);
            succession.finish(state);
        }
    }
}

impl Drop for Successor {
    /// Without this task no other ZooKeeper session follows: its runtime is shutting down, or the session is over.
    fn drop(&mut self) {
        self.fail(ConnectError::RuntimeGone);
    }
}

/// Asks every server, again and again, with growing pauses, until one establishes a session. The pauses are jittered,
/// so that clients which lost their sessions together do not all come back at once.
///
/// `Err` says why no server will establish one: every server has refused for good for a session timeout, or every one that has answered
/// for ten of them.
async fn redial(dialer: &Dialer) -> Result<Established, ConnectError> {
    let mut pauses = pauses(SHORTEST_PAUSE, LONGEST_PAUSE);
    let mut refused_since = None;
    loop {
        let Refused { error, unanimous } = match establish(dialer).await {
            Ok(established) => return Ok(established),
            Err(refused) => refused,
        };
        let patience = if unanimous { dialer.timeout } else { dialer.timeout * LONGEST_REFUSAL };
        if let ConnectError::Unreachable { .. } = error {
            refused_since = None;
        } else if refused_since.get_or_insert_with(Instant::now).elapsed() >= patience {
            return Err(error);
        }
        let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
        warn!(%error, ?pause, "no server establishes a new session");
        tokio::time::sleep(pause).await;
    }
}
