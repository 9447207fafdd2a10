//! One ZooKeeper session: its client, its lease, its requests, and what it does in the background.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use slab::Slab;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, Sleep};
use zookeeper_client::{Client, StateWatcher};

use super::dialer::Established;
use super::keeper::{Keeper, Obituary};
use super::revocable::{Registry, Revocable};
use super::vitals::Vitals;
use super::wire;
use crate::clock;
use crate::lease::Lengths;
use crate::recipe::SessionEnd;

/// How long a lock is held before its holder watches its own node: short critical sections need not pay for it.
pub(crate) const SETTLING: Duration = Duration::from_millis(20);

/// One ZooKeeper session. Drivers and guards share it; when the last of them and the [`Session`](super::Session)
/// are gone, so is the client, and with it the session.
pub(crate) struct Generation {
    id: i64,
    chroot: String,
    lengths: Lengths,
    runtime: Handle,
    client: Mutex<Option<Arc<Client>>>,
    requests: Arc<Registry>,
    vitals: Arc<Vitals>,
    /// The nodes of this session's guards; a heartbeat names one of them.
    held: Mutex<Slab<String>>,
    /// Asks for a heartbeat at once.
    hurry: Arc<Notify>,
    over: watch::Receiver<Option<Obituary>>,
    kept: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    young: Mutex<Vec<Weak<dyn Settle>>>,
}

/// A guard that is to be looked after in the background once it has been held for [`SETTLING`].
pub(crate) trait Settle: Send + Sync {
    /// True if that time has come.
    fn is_due(&self) -> bool;

    /// What is to be done from then on; `None` if the guard is no longer held.
    fn settle(self: Arc<Self>) -> Option<BoxFuture<'static, ()>>;
}

impl Generation {
    /// Takes over a session that was just established, on this runtime.
    pub(super) fn start(established: Established, runtime: Handle) -> Arc<Self> {
        let Established { client, lease, connecting } = established;
        let lengths = lease.lengths();
        let vitals = Arc::new(Vitals::new(&client, lease, connecting));
        let (kept, queue) = mpsc::unbounded_channel();
        let (ended, over) = watch::channel(None);
        let states = client.state_watcher();
        let keeper = Keeper::new(client.state_watcher(), vitals.clone(), lengths, ended, queue);
        runtime.spawn(keeper.run());
        let generation = Arc::new(Self {
            id: client.session_id().0,
            chroot: client.path().trim_end_matches('/').to_owned(),
            lengths,
            runtime,
            client: Mutex::new(Some(Arc::new(client))),
            requests: Arc::default(),
            vitals,
            held: Mutex::default(),
            hurry: Arc::default(),
            over,
            kept,
            young: Mutex::default(),
        });
        generation.keep(beat(Arc::downgrade(&generation), states, lengths.heartbeat).boxed());
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

    /// The session timeout, as the server granted it, and what follows from it.
    pub(crate) fn lengths(&self) -> Lengths {
        self.lengths
    }

    /// Starts a request. It is sent when it is first polled, and resolves to `None` once the session is closed.
    pub(crate) fn request<T, F>(&self, request: impl FnOnce(Arc<Client>) -> F) -> Revocable<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match client {
            Some(client) => self.requests.register(request(client).boxed()),
            // Only closing takes the client away, and it revokes all that is registered then or later.
            None => self.requests.register(std::future::pending().boxed()),
        }
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
    /// ends before that.
    pub(crate) fn pause(
        &self,
        length: Duration,
    ) -> impl Future<Output = Option<SessionEnd>> + Send + 'static + use<> {
        let (timer, mut lease) = (self.sleep(length), self.vitals.changes());
        async move {
            let over = pin!(lease.wait_for(|lease| lease.end().is_some()));
            match select(over, pin!(timer)).await {
                Either::Left((lease, _)) => lease.ok().and_then(|lease| lease.end()),
                Either::Right(_) => None,
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

    /// Ends the session: every guard is lost, every request revoked, and the server told.
    pub(crate) fn close(&self) {
        self.vitals.ended(SessionEnd::Closed);
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.requests.revoke();
        // Requests hold the only other clones, so this is the last one: zookeeper-client now closes the session.
        drop(client);
    }

    /// Resolves once the session is over: who says so, or `None` if its runtime is gone and nobody can tell.
    pub(crate) async fn over(&self) -> Option<Obituary> {
        let mut over = self.over.clone();
        over.wait_for(Option::is_some).await.ok().and_then(|end| *end)
    }
}

impl Drop for Generation {
    /// A heartbeat under way must not keep the session open.
    fn drop(&mut self) {
        self.requests.revoke();
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

/// Touches the session every heartbeat, and whenever it is connected anew, by a sync; then confirms it by a quorum write
/// while it has a guard. So much a session, however many guards and waiters it has.
async fn beat(generation: Weak<Generation>, mut states: StateWatcher, heartbeat: Duration) {
    let Some(hurry) = generation.upgrade().map(|generation| generation.hurry.clone()) else { return };
    let mut next = Instant::now() + heartbeat;
    loop {
        // Whichever comes first; the cleanup task awaits this, inside its runtime.
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            _ = states.changed() => {}
            () = hurry.notified() => {}
        }
        // From when it is sent: an answer that took long must not delay the next one.
        next = Instant::now() + heartbeat;
        let sent = clock::now();
        let Some(sync) = generation.upgrade().map(|generation| generation.request(wire::sync)) else {
            return;
        };
        match sync.await {
            None => return,
            Some(false) => continue,
            Some(true) => {}
        }
        let Some(generation) = generation.upgrade() else { return };
        generation.vitals.synced(sent);
        let Some(node) = generation.held_node() else { continue };
        let vitals = generation.vitals.clone();
        let sent = clock::now();
        let confirmation = generation.request(|client| wire::heartbeat(client, node));
        drop(generation);
        match confirmation.await {
            None => return,
            Some(false) => {}
            Some(true) => drop(vitals.confirmed(sent)),
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
