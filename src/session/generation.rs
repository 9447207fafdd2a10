//! One ZooKeeper session: its lease, its requests, and what it does in the background.

mod chores;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, Sleep};
use uuid::Uuid;

use super::connection::Wire;
use super::connections::{Connections, Link, Obituary};
use super::dialer::{Dialer, Established};
use super::keeper;
use super::vitals::{Sent, Vitals};
use super::wire::Searches;
use crate::clock;
use crate::lease::Lengths;
use crate::lock::Settings;
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
    /// This session's guards, and the names of their nodes. Each heartbeat asks for the next one's.
    held: Mutex<Slab<(String, Weak<dyn Holder>)>>,
    /// Asks for a heartbeat at once.
    hurry: Arc<Notify>,
    over: watch::Receiver<Option<Obituary>>,
    kept: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    young: Mutex<Vec<Weak<dyn Holder>>>,
    looked: Mutex<Vec<Weak<dyn Looked>>>,
    searches: Arc<Searches>,
    strays: Mutex<Vec<Stray>>,
}

/// A create that was not answered, and of which no node was found.
#[derive(Clone)]
struct Stray {
    lock: Arc<Settings>,
    id: Uuid,
    since: Instant,
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

/// A guard, to the session.
pub(crate) trait Holder: Send + Sync {
    /// True if it has been held for [`SETTLING`], so that it is to be looked after in the background.
    fn is_due(&self) -> bool;

    /// What is to be done from then on; `None` if the guard is no longer held.
    fn settle(self: Arc<Self>) -> Option<BoxFuture<'static, ()>>;

    /// A quorum has found no node of its name.
    fn node_is_gone(&self);
}

/// For so long after a create was looked for in vain it may yet take effect. A leader drops a server that it does not hear
/// of for `syncLimit` ticks, 10 s by default, and with it whatever that server has not delivered.
const LATEST: Duration = Duration::from_secs(60);

/// How often the session looks at those of its drivers that callers poll, in a session timeout.
pub(crate) const LOOKS: u32 = 8;

/// A driver that a caller polls, or does not.
pub(crate) trait Looked: Send + Sync {
    /// Looks at it. True while it is to be looked at again.
    fn look(&self) -> bool;
}

impl Generation {
    /// Takes over a session that was just established, on this runtime.
    pub(super) fn start(established: Established, dialer: Arc<Dialer>, runtime: Handle) -> Arc<Self> {
        let Established { opened, lease } = established;
        let client = &opened.client;
        let (id, chroot) = (client.session_id().0, client.path().trim_end_matches('/').to_owned());
        let session = client.session().clone();
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
            looked: Mutex::default(),
            searches: Arc::default(),
            strays: Mutex::default(),
        });
        generation.keep(chores::beat(Arc::downgrade(&generation), link).boxed());
        generation.keep(chores::patrol(Arc::downgrade(&generation)).boxed());
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

    /// Registers a guard and its node, so that heartbeats are quorum writes until the result is dropped.
    pub(crate) fn hold(
        self: &Arc<Self>,
        node: String,
        holder: Weak<dyn Holder>,
        stop_margin: Duration,
    ) -> Holding {
        let key = self.held.lock().unwrap_or_else(PoisonError::into_inner).insert((node, holder));
        if !self.vitals.is_ample(stop_margin) {
            self.hurry.notify_one();
        }
        Holding { generation: self.clone(), key }
    }

    /// The guard behind the one that was registered as `last`, in their order round and round.
    fn next_held(&self, last: usize) -> Option<(usize, String, Weak<dyn Holder>)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let next = held.iter().find(|(key, _)| *key > last).or_else(|| held.iter().next());
        next.map(|(key, (node, holder))| (key, node.clone(), holder.clone()))
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
    pub(crate) fn keep_settled(self: &Arc<Self>, guard: Weak<dyn Holder>) {
        let mut young = self.young.lock().unwrap_or_else(PoisonError::into_inner);
        young.push(guard);
        if young.len() == 1 {
            self.keep(chores::settle(Arc::downgrade(self)).boxed());
        }
    }

    /// Looks at a driver now and then, until it is over.
    pub(crate) fn look_after(&self, driver: Weak<dyn Looked>) {
        self.looked().push(driver);
    }

    fn looked(&self) -> MutexGuard<'_, Vec<Weak<dyn Looked>>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for a node again, for as long as it may yet come to be, and deletes it: its create was not answered, and no node
    /// was found.
    ///
    /// What a session sends by a server is refused once it has moved to another one, by the leader's note of its server. But
    /// the leader takes that note when it reads a request to resume the session, and looks at it when it handles a request
    /// (`LearnerHandler`, `PrepRequestProcessor`). So if a create is stuck on its way, and behind it a request to resume the
    /// session there, of which the client has heard nothing, then both may arrive after the session has moved, and the create
    /// is carried out.
    pub(crate) fn stray(self: &Arc<Self>, lock: Arc<Settings>, id: Uuid) {
        let mut strays = self.strays();
        strays.push(Stray { lock, id, since: Instant::now() });
        if strays.len() == 1 {
            self.keep(chores::sweep(Arc::downgrade(self), self.link.clone()).boxed());
        }
    }

    fn strays(&self) -> MutexGuard<'_, Vec<Stray>> {
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
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
