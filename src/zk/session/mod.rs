//! One ZooKeeper session: its lease, its requests, and its background tasks.

mod background;
mod confirmation;
pub(crate) mod entrance;
mod feeds;
pub(crate) mod holds;
pub(crate) mod late_creates;
pub(crate) mod polled;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, OptionFuture, select};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Sleep;
use uuid::Uuid;
use zklock_recipe::{Lease, SessionEnd, Tries};

use self::background::Background;
use self::confirmation::Confirmation;
use self::entrance::Entrance;
use self::feeds::Feeds;
use self::holds::{Holds, SessionHold};
use self::late_creates::LateCreates;
use self::polled::Polled;
use crate::clock;
use crate::requests::{self, Evidence, OwnNode, Searches};
use crate::settings::Settings;
use crate::telemetry;
use crate::wire::dialer::{Dialer, Established};
use crate::wire::link::{Link, LinkAnswer, Requester};
use crate::wire::resume::{Closing, Connections};
use crate::wire::{SharedLease, Wire};

/// One ZooKeeper session. Drivers and guards share it. It is closed once the last of them and the
/// [`Session`](crate::Session) are gone.
pub(crate) struct ZkSession {
    /// The session id that the server gave.
    pub(crate) id: i64,
    /// The connect string's chroot; empty if it has none.
    pub(crate) chroot: String,
    /// Whether the first lock creates the chroot.
    pub(crate) creates_chroot: bool,
    runtime: Handle,
    /// Sends requests to the servers.
    pub(crate) requester: Requester,
    /// The entrance, which the entries pass.
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) lease: Arc<SharedLease>,
    over: watch::Receiver<Option<Closing>>,
    background: Background,
    /// The futures of the background task that a close waits for.
    leaving: watch::Sender<Leaving>,
    /// Each [`SessionView`] has a clone of it.
    views: Arc<()>,
    /// Whether callers may have made nodes that go with the session.
    owns_nodes: AtomicBool,
    holds: Arc<Holds>,
    /// The work that callers should poll.
    pub(crate) polled: Arc<Polled>,
    late: Arc<LateCreates>,
    /// What the contenders know of their nodes, and their searches for nodes of lost creates.
    pub(crate) searches: Arc<Searches>,
    confirmation: Confirmation,
    /// What several callers follow together.
    pub(crate) feeds: Feeds,
}

impl ZkSession {
    /// Takes over a session that was just established, and runs its tasks on this runtime.
    pub(crate) fn start(established: Established, dialer: Arc<Dialer>, runtime: Handle) -> Arc<Self> {
        let Established { opened, lease } = established;
        let client = &opened.client;
        let id = client.session_id().0;
        let info = client.session().clone();
        telemetry::describe();
        let lease = Arc::new(SharedLease::new(lease, opened.asked, runtime.clone()));
        let (link_sender, link) = watch::channel(Link::Down);
        let (ended, over) = watch::channel(None);
        let (background, queue) = Background::new();
        let connections = Connections {
            session: info,
            dialer: dialer.clone(),
            lease: lease.clone(),
            link: link_sender,
            over: ended,
        };
        runtime.spawn(connections.run(opened));
        runtime.spawn(background::run(queue, lease.clone()));
        let session = Self::new(id, &dialer, runtime, link, lease, over, background);
        let holds = Arc::downgrade(&session.holds);
        let polled = Arc::downgrade(&session.polled);
        session.finish(holds::beat(holds, session.lease.clone(), session.requester.clone()).boxed());
        session.finish(polled::patrol(polled, session.lease.clone()).boxed());
        // The background task drops its futures at the end of the session, so this is no future of its.
        session.runtime.spawn(holds::note_ends(Arc::downgrade(&session.holds), session.lease.clone()));
        Arc::new(session)
    }

    /// Makes a placeholder for the time before the first ZooKeeper session. It is over from the start.
    pub(super) fn unopened(dialer: &Dialer, runtime: Handle) -> Arc<Self> {
        let now = clock::now();
        let lease = Lease::unopened(dialer.reckoning(), dialer.timeout, now);
        let (_, link) = watch::channel(Link::Over(SessionEnd::Expired));
        let (_, over) = watch::channel(Some(Closing::Confirmed));
        let (background, _) = Background::new();
        let lease = Arc::new(SharedLease::new(lease, now, runtime.clone()));
        Arc::new(Self::new(0, dialer, runtime, link, lease, over, background))
    }

    fn new(
        id: i64,
        dialer: &Dialer,
        runtime: Handle,
        link: watch::Receiver<Link>,
        lease: Arc<SharedLease>,
        over: watch::Receiver<Option<Closing>>,
        background: Background,
    ) -> Self {
        let requester = Requester::new(link, lease.clone());
        let chroot = dialer.servers.chroot.clone();
        Self {
            id,
            runtime,
            entrance: Entrance::new(requester.clone(), background.clone()),
            requester,
            lease,
            over,
            holds: Holds::new(background.clone()),
            background,
            leaving: watch::Sender::default(),
            views: Arc::default(),
            owns_nodes: AtomicBool::new(false),
            polled: Arc::default(),
            late: Arc::default(),
            searches: Searches::new(&chroot),
            chroot,
            creates_chroot: dialer.creates_chroot,
            confirmation: Confirmation::default(),
            feeds: Feeds::default(),
        }
    }

    /// What an observer needs of the session. It does not keep the session open.
    pub(crate) fn view(&self) -> SessionView {
        SessionView {
            requester: self.requester.clone(),
            lease: self.lease.clone(),
            _view: self.views.clone(),
        }
    }

    /// Whether an observer, a future that a close waits for, or a node of a caller needs the session though it does not keep it
    /// open.
    pub(crate) fn is_needed(&self) -> bool {
        let is_awaited = Arc::strong_count(&self.views) > 1 || self.is_leaving();
        is_awaited || self.owns_nodes.load(Ordering::Relaxed)
    }

    /// Takes in that a caller is about to make a node that goes with the session. From now on the session does not become idle.
    pub(crate) fn will_own_nodes(&self) {
        self.owns_nodes.store(true, Ordering::Relaxed);
    }

    /// Asks a quorum to confirm the lease, together with everybody else in this session who asks now. Resolves to whether
    /// a quorum has answered.
    pub(crate) fn confirmation(&self) -> impl Future<Output = bool> + Send + 'static + use<> {
        self.confirmation.join(&self.requester)
    }

    /// Registers a guard and its nodes. Heartbeats are quorum writes until the returned value is dropped.
    pub(crate) fn hold(
        self: &Arc<Self>,
        nodes: &[OwnNode],
        holder: &Weak<dyn SessionHold>,
        stop_margin: Duration,
    ) -> Holding {
        let keys = nodes.iter().map(|node @ (lock, own)| {
            self.holds.insert((requests::path_of(node), own.czxid, lock.options.longest_node), holder.clone())
        });
        let keys = keys.collect();
        if !self.lease.is_ample(stop_margin) {
            self.holds.hurry();
        }
        Holding { session: self.clone(), keys }
    }

    /// Returns a pause that can also be awaited outside a runtime.
    pub(crate) fn sleep(&self, pause: Duration) -> Sleep {
        let _entered = self.runtime.enter();
        tokio::time::sleep(pause)
    }

    /// Returns a pause. It is over when each clock that leases are computed with says so. If the session ends first,
    /// the pause ends, too, and returns how the session ended. Without a runtime the timer does not fire, but then the
    /// lease ends before that.
    pub(crate) fn pause(
        &self,
        length: Duration,
    ) -> impl Future<Output = Option<SessionEnd>> + Send + 'static + use<> {
        let began = clock::now();
        let runtime = self.runtime.clone();
        let lease = self.lease.clone();
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
                let over = std::pin::pin!(lease.over());
                let timer = std::pin::pin!(sleep(left));
                if let Either::Left((end, _)) = select(over, timer).await {
                    return Some(end);
                }
            }
        }
    }

    /// Counts a request that was not answered, and pauses before the next one, or until the session is over.
    pub(crate) async fn repeat(&self, tries: &mut Tries) {
        tries.failed();
        self.pause_after(*tries).await;
    }

    /// Makes a request after the pause that these tries call for. If a connection is given, it goes out on the one with this
    /// number only.
    pub(crate) fn request_after<
        F: Future<Output: Evidence + Send> + Send + 'static,
        R: FnOnce(Wire) -> F + Send + 'static,
    >(
        &self,
        tries: Tries,
        connection: Option<u64>,
        request: R,
    ) -> impl Future<Output = LinkAnswer<F::Output>> + Send + 'static + use<F, R> {
        let pause = self.pause_after(tries);
        let answer = self.requester.request_where(connection, request);
        async move {
            match pause.await {
                Some(end) => LinkAnswer::Over(end),
                None => answer.await,
            }
        }
    }

    /// Pauses before the next request after these tries, as [`pause`](Self::pause) does.
    pub(crate) fn pause_after(
        &self,
        tries: Tries,
    ) -> impl Future<Output = Option<SessionEnd>> + Send + 'static + use<> {
        let pause = OptionFuture::from(tries.pause().map(|pause| self.pause(pause)));
        pause.map(Option::flatten)
    }

    /// Gives the background task a future that nobody awaits any more.
    pub(crate) fn finish(&self, future: BoxFuture<'static, ()>) {
        self.background.finish(future);
    }

    /// As [`finish`](Self::finish), for a future that a close should not forestall: a release, or a write of what outlasts the
    /// session. [`close_after_leaving`](Self::close_after_leaving) waits for it.
    pub(crate) fn finish_leaving(&self, future: BoxFuture<'static, ()>) {
        let mut number = 0;
        self.leaving.send_modify(|leaving| {
            number = leaving.next;
            leaving.next += 1;
            leaving.numbers.insert(number);
        });
        let counted = Counted { leaving: self.leaving.clone(), number };
        self.finish(future.map(|()| drop(counted)).boxed());
    }

    /// Resolves once all has left that is [leaving](Self::finish_leaving) now.
    #[cfg(feature = "blocking")]
    pub(crate) async fn left(&self) {
        let mut leaving = self.leaving.subscribe();
        let next = leaving.borrow().next;
        let has_left = |leaving: &Leaving| leaving.numbers.first().is_none_or(|first| *first >= next);
        let _left = leaving.wait_for(has_left).await;
    }

    /// Makes the background task poll a guard's driver once the guard has been held for a while.
    pub(crate) fn settle_later(&self, guard: Weak<dyn SessionHold>) {
        if self.holds.insert_young(guard) {
            self.finish(holds::settle_young(Arc::downgrade(&self.holds)).boxed());
        }
    }

    /// Takes in a create that was not answered, and whose node was not found. For as long as that create may still take
    /// effect, the session looks for its node again, and deletes it.
    pub(crate) fn expect_late(&self, lock: Arc<Settings>, id: Uuid) {
        if self.late.insert(lock, id) {
            let late = Arc::downgrade(&self.late);
            self.finish(
                late_creates::sweep(late, self.searches.clone(), self.lease.clone(), self.requester.clone())
                    .boxed(),
            );
        }
    }

    /// Ends the session: every guard is lost at once, then every request is revoked, and a server is asked to close the
    /// session.
    pub(crate) fn close(&self) {
        self.lease.ended(SessionEnd::Closed);
    }

    /// Whether anything is [leaving](Self::finish_leaving).
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.borrow().numbers.is_empty()
    }

    /// As [`close`](Self::close), once what is [leaving](Self::finish_leaving) has left, or a tenth of the session timeout is over.
    pub(crate) fn close_after_leaving(&self) {
        let mut leaving = self.leaving.subscribe();
        let lease = self.lease.clone();
        let patience = self.lease.lengths().timeout / 10;
        self.finish(
            async move {
                // The background task awaits this, inside its runtime.
                // What it returns locks the channel, and the end of the lease wakes others, who may use the channel.
                drop(tokio::time::timeout(patience, leaving.wait_for(|it| it.numbers.is_empty())).await);
                lease.ended(SessionEnd::Closed);
            }
            .boxed(),
        );
    }

    /// Resolves once the session is over, with how that is known; `None` if the runtime has gone first.
    pub(crate) async fn over(&self) -> Option<Closing> {
        let mut over = self.over.clone();
        over.wait_for(Option::is_some).await.ok().and_then(|end| *end)
    }
}

/// One future that a close waits for, until this is dropped.
struct Counted {
    leaving: watch::Sender<Leaving>,
    number: u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.leaving.send_modify(|leaving| {
            leaving.numbers.remove(&self.number);
        });
    }
}

/// The numbers of the futures that a close waits for, and the next one's.
#[derive(Clone, Default)]
struct Leaving {
    next: u64,
    numbers: BTreeSet<u64>,
}

/// One ZooKeeper session, as those use it who only look on: it does not keep the session open.
pub(crate) struct SessionView {
    pub(crate) requester: Requester,
    pub(crate) lease: Arc<SharedLease>,
    _view: Arc<()>,
}

impl Drop for ZkSession {
    fn drop(&mut self) {
        self.close();
    }
}

/// Registers a guard's nodes for as long as the guard is held.
pub(crate) struct Holding {
    /// The session in which the lock is held.
    pub(crate) session: Arc<ZkSession>,
    keys: Vec<usize>,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.keys.iter().for_each(|key| self.session.holds.remove(*key));
    }
}
