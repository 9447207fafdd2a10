//! One ZooKeeper session: its lease, its requests, and what it does in the background.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, Sleep};

use super::connection::Wire;
use super::connections::{Connections, Link, Obituary};
use super::dialer::{Dialer, Established};
use super::keeper;
use super::vitals::{Sent, Vitals};
use super::wire::{self, Searches};
use crate::clock;
use crate::lease::Lengths;
use crate::recipe::SessionEnd;

/// How long a lock is held before its holder watches its own node: short critical sections need not pay for it.
pub(crate) const SETTLING: Duration = Duration::from_millis(20);

/// One ZooKeeper session. Drivers and guards share it; when the last of them and the [`Session`](super::Session)
/// are gone, it is closed.
pub(crate) struct Generation {
    id: i64,
    chroot: String,
    runtime: Handle,
    link: watch::Receiver<Link>,
    vitals: Arc<Vitals>,
    /// The nodes of this session's guards; a heartbeat names one of them.
    held: Mutex<Slab<String>>,
    /// Asks for a heartbeat at once.
    hurry: Arc<Notify>,
    over: watch::Receiver<Option<Obituary>>,
    kept: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    young: Mutex<Vec<Weak<dyn Settle>>>,
    waiting: Mutex<Vec<Weak<dyn Overdue>>>,
    searches: Arc<Searches>,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    /// This was answered to what was sent there and then.
    Given(T, Sent),
    /// The connection was lost first. The request may have been served.
    Lost,
    /// The session is over.
    Over(SessionEnd),
}

/// A guard that is to be looked after in the background once it has been held for [`SETTLING`].
pub(crate) trait Settle: Send + Sync {
    /// True if that time has come.
    fn is_due(&self) -> bool;

    /// What is to be done from then on; `None` if the guard is no longer held.
    fn settle(self: Arc<Self>) -> Option<BoxFuture<'static, ()>>;
}

/// How often the session looks at its acquisitions in a session timeout.
const LOOKS: u32 = 8;

/// After so many looks an acquisition that asks to be polled is overdue: half a session timeout. Looks are counted, not
/// time, since a blocked runtime polls nobody.
pub(crate) const LOOKS_UNTIL_OVERDUE: u32 = LOOKS / 2;

/// An acquisition that may not be polled.
pub(crate) trait Overdue: Send + Sync {
    /// Looks whether it is overdue, and has it give its place up then. True while it is to be looked at again.
    fn look(&self) -> bool;
}

impl Generation {
    /// Takes over a session that was just established, on this runtime.
    pub(super) fn start(established: Established, dialer: Arc<Dialer>, runtime: Handle) -> Arc<Self> {
        let Established { opened, lease } = established;
        let client = &opened.client;
        let (id, chroot) = (client.session_id().0, client.path().trim_end_matches('/').to_owned());
        let session = client.session().clone();
        let heartbeat = lease.lengths().heartbeat;
        let vitals = Arc::new(Vitals::new(lease));
        let (link_sender, link) = watch::channel(Link::Down);
        let (ended, over) = watch::channel(None);
        let (kept, queue) = mpsc::unbounded_channel();
        let connections =
            Connections { session, dialer, vitals: vitals.clone(), link: link_sender, over: ended };
        runtime.spawn(connections.run(opened));
        runtime.spawn(keeper::run(queue, vitals.clone()));
        let generation = Arc::new(Self {
            id,
            chroot,
            runtime,
            link: link.clone(),
            vitals,
            held: Mutex::default(),
            hurry: Arc::default(),
            over,
            kept,
            young: Mutex::default(),
            waiting: Mutex::default(),
            searches: Arc::default(),
        });
        generation.keep(beat(Arc::downgrade(&generation), link, heartbeat).boxed());
        generation.keep(patrol(Arc::downgrade(&generation)).boxed());
        generation
    }

    /// The session id, as the server gave it.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// The connect string's chroot; empty if it has none.
    pub(crate) fn chroot(&self) -> &str {
        &self.chroot
    }

    /// The session timeout that may be in force, and what follows from it.
    pub(crate) fn lengths(&self) -> Lengths {
        self.vitals.lengths()
    }

    /// A request, which waits for a connection if there is none. It is sent when it is first polled.
    pub(crate) fn request<T, F>(
        &self,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> BoxFuture<'static, Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        ask(self.link.clone(), None, request).boxed()
    }

    /// As [`request`](Self::request), on the connection of this number: on no other one.
    pub(crate) fn request_on<T, F>(
        &self,
        connection: u64,
        request: impl FnOnce(Wire) -> F + Send + 'static,
    ) -> BoxFuture<'static, Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        ask(self.link.clone(), Some(connection), request).boxed()
    }

    /// The searches for lost nodes that are under way.
    pub(crate) fn searches(&self) -> &Arc<Searches> {
        &self.searches
    }

    /// What is known about the session's life.
    pub(crate) fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// Registers a guard's node, so that heartbeats are quorum writes until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>, node: String, stop_margin: Duration) -> Holding {
        let key = self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
        if !self.vitals.is_ample(stop_margin) {
            self.hurry.notify_one();
        }
        Holding { generation: self.clone(), key }
    }

    fn held_node(&self) -> Option<String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().next().map(|(_, node)| node.clone())
    }

    /// A pause that can be awaited outside a runtime, too.
    pub(crate) fn sleep(&self, pause: Duration) -> Sleep {
        let _entered = self.runtime.enter();
        tokio::time::sleep(pause)
    }

    /// A pause that the session's end cuts short, and then tells. Without a runtime there is no timer either; the lease
    /// ends before that. Over by each clock that the lease is reckoned with.
    pub(crate) fn pause(
        &self,
        length: Duration,
    ) -> impl Future<Output = Option<SessionEnd>> + Send + 'static + use<> {
        let (began, runtime, vitals) = (clock::now(), self.runtime.clone(), self.vitals.clone());
        let sleep = move |pause| {
            let _entered = runtime.enter();
            tokio::time::sleep(pause)
        };
        async move {
            loop {
                let left = clock::now().left_of(length, began);
                if left.is_zero() {
                    return None;
                }
                let (over, timer) = (std::pin::pin!(vitals.over()), std::pin::pin!(sleep(left)));
                if let Either::Left((end, _)) = select(over, timer).await {
                    return Some(end);
                }
            }
        }
    }

    /// Has the cleanup task finish something nobody awaits any more. Never blocks, spawns or panics; once the
    /// session or its runtime is gone there is nothing left to finish.
    pub(crate) fn keep(&self, future: BoxFuture<'static, ()>) {
        drop(self.kept.send(future));
    }

    /// Has the cleanup task look after a guard once it has been held for a while.
    pub(crate) fn keep_settled(self: &Arc<Self>, guard: Weak<dyn Settle>) {
        let mut young = self.young.lock().unwrap_or_else(PoisonError::into_inner);
        young.push(guard);
        if young.len() == 1 {
            self.keep(settle(Arc::downgrade(self)).boxed());
        }
    }

    /// Looks at an acquisition now and then, until it is over.
    pub(crate) fn look_after(&self, acquisition: Weak<dyn Overdue>) {
        self.waiting().push(acquisition);
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Weak<dyn Overdue>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session: every guard is lost at once, and then every request, and the server is told.
    pub(crate) fn close(&self) {
        self.vitals.ended(SessionEnd::Closed);
    }

    /// Resolves once the session is over: who says so, or `None` if its runtime is gone and nobody can tell.
    pub(crate) async fn over(&self) -> Option<Obituary> {
        let mut over = self.over.clone();
        over.wait_for(Option::is_some).await.ok().and_then(|end| *end)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits for a connection, for this one if it has a number, and sends a request on it.
async fn ask<T, F>(
    mut link: watch::Receiver<Link>,
    number: Option<u64>,
    request: impl FnOnce(Wire) -> F + Send + 'static,
) -> Answer<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (sent, wire) = loop {
        match &*link.borrow_and_update() {
            Link::Up(connection) if number.is_none_or(|number| number == connection.number()) => {
                // It may be gone already; then the next one is waited for like any other.
                if let Some(wire) = connection.wire() {
                    break (Sent { connection: connection.number(), at: clock::now() }, wire);
                }
            }
            Link::Over(end) => return Answer::Over(*end),
            Link::Up(_) | Link::Down => {}
        }
        if number.is_some() {
            return Answer::Lost;
        }
        if link.changed().await.is_err() {
            return Answer::Over(SessionEnd::Closed);
        }
    };
    let asked = wire.request(request);
    // Nothing of this future keeps the connection: whoever forgets it does not keep the session open.
    match asked.await {
        Some(answer) => Answer::Given(answer, sent),
        None => match &*link.borrow() {
            Link::Over(end) => Answer::Over(*end),
            Link::Up(_) | Link::Down => Answer::Lost,
        },
    }
}

/// A guard's node, for as long as it is held.
pub(crate) struct Holding {
    generation: Arc<Generation>,
    key: usize,
}

impl Holding {
    /// The session it is held in.
    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.generation.held.lock().unwrap_or_else(PoisonError::into_inner).try_remove(self.key);
    }
}

/// Touches the session every heartbeat, and on each new connection, by a sync; then confirms it by a quorum write while it
/// has a guard. So much a session, however many guards and waiters it has.
async fn beat(generation: Weak<Generation>, mut link: watch::Receiver<Link>, heartbeat: Duration) {
    let Some(hurry) = generation.upgrade().map(|generation| generation.hurry.clone()) else { return };
    let mut next = Instant::now() + heartbeat;
    loop {
        // Whichever comes first; the cleanup task awaits this, inside its runtime.
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            changed = link.changed() => if changed.is_err() { return },
            () = hurry.notified() => {}
        }
        let Some(heartbeat) = generation.upgrade().map(|generation| generation.lengths().heartbeat) else {
            return;
        };
        // From when it is sent: an answer that took long must not delay the next one.
        next = Instant::now() + heartbeat;
        let Some(sync) =
            generation.upgrade().map(|generation| generation.request(|wire| wire::sync(wire.client)))
        else {
            return;
        };
        let sent = match sync.await {
            Answer::Given(true, sent) => sent,
            Answer::Given(false, _) | Answer::Lost => continue,
            Answer::Over(_) => return,
        };
        let Some(generation) = generation.upgrade() else { return };
        generation.vitals.synced(sent);
        let Some(node) = generation.held_node() else { continue };
        let vitals = generation.vitals.clone();
        let confirmation = generation.request(|wire| wire::heartbeat(wire.client, node));
        drop(generation);
        if let Answer::Given(true, sent) = confirmation.await {
            vitals.confirmed(sent);
        }
    }
}

/// Looks every little while whether a young guard has come of age, until there is none.
async fn settle(generation: Weak<Generation>) {
    loop {
        // The cleanup task awaits this, inside its runtime.
        tokio::time::sleep(SETTLING).await;
        let Some(generation) = generation.upgrade() else { return };
        let mut due = Vec::new();
        let mut young = generation.young.lock().unwrap_or_else(PoisonError::into_inner);
        young.retain(|guard| match guard.upgrade() {
            Some(guard) if guard.is_due() => {
                due.push(guard);
                false
            }
            Some(_) => true,
            None => false,
        });
        let done = young.is_empty();
        // A guard that is released meanwhile must not find this lock taken.
        drop(young);
        due.into_iter().filter_map(Settle::settle).for_each(|guard| generation.keep(guard));
        if done {
            return;
        }
    }
}

/// Looks at all acquisitions now and then.
async fn patrol(generation: Weak<Generation>) {
    while let Some(pause) = generation.upgrade().map(|generation| generation.lengths().timeout / LOOKS) {
        // The cleanup task awaits this, inside its runtime.
        tokio::time::sleep(pause).await;
        let Some(generation) = generation.upgrade() else { return };
        // One that begins or ends meanwhile must not find this lock taken.
        let mut waiting = std::mem::take(&mut *generation.waiting());
        waiting.retain(|acquisition| acquisition.upgrade().is_some_and(|acquisition| acquisition.look()));
        generation.waiting().append(&mut waiting);
    }
}
