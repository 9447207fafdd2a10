//! The watchers of one connection, and the requests that set them.
//!
//! zookeeper-client sends a removal for a watcher that is dropped, and for an event of a path that has no watcher. It defers
//! a removal while a request that sets a watch on its path is unanswered. If it defers two removals for all watches of one
//! path, it frees the key of the first one and reads it later (0.11.2; `contrib/zookeeper-client-removals/`).
//!
//! So zklock lets it defer none. A watcher that nobody needs any more is left here, and so is a request that nobody awaits
//! any more, because its reply brings a watcher. Once something was left, the connection calls [`remove_left`] a second
//! later. So what is left here is bounded, also at a node that lives for ever:
//!
//! 1. From here on, requests that set watches wait.
//! 2. The server answers a request. It answers in order, so no request that sets a watch is unanswered.
//! 3. The watchers and requests that were left are dropped. The client sends its removals at once, for these watchers and for
//!    events of their paths.
//! 4. The server answers another request. So these watches are gone, and each of their events has come.
//!
//! No path has both a persistent watch and a watch for one event: zookeeper-client removes neither while the other one stands, and
//! servers before 3.9 would replace the first one. The name of the node decides ([`has_persistent_watches`]): asks and announcements
//! are watched by persistent ones alone, and so is the directory of a lock that has such a name. All other nodes have watches for one
//! event.

use std::collections::HashMap;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use futures::future::{BoxFuture, Either, pending};
use tokio::sync::Notify;
use zklock_recipe::PathKind;
use zookeeper_client::{AddWatchMode, Client, Error, OneshotWatcher, PersistentWatcher, Stat, WatchedEvent};

use super::confirm::answered;
use crate::joint::{Joint, WeakJoint};
use crate::mutex::Mutex;
use crate::node::ASK;
use crate::path::name_of;

/// Whether the watches of this path are persistent: an ask's, an announcement's, and those of all else at their names. Otherwise
/// each is for one event.
pub(crate) fn has_persistent_watches(path: &str) -> bool {
    [ASK, PathKind::LEADER].contains(&name_of(path))
}

/// The watchers of one connection.
#[derive(Default)]
pub(crate) struct Watchers {
    state: Mutex<WatchersState>,
    /// Says that something was left.
    pub(crate) left: Notify,
    /// The reads under way that watch data, by their paths: the one that is shared, if a second caller has asked.
    reads: Mutex<HashMap<String, Option<WeakJoint<SharedRead>>>>,
}

type WatchedRead<W> = Result<(Arc<Vec<u8>>, Stat, W), Error>;

/// The answer that all have who share a read. The last one leaves its watcher to the watchers of its connection.
type SharedRead = WatchedRead<Joint<WatchedEvent>>;

/// A watcher of data, which others may have, too.
pub(crate) type DataWatcher = Either<Watcher, Joint<WatchedEvent>>;

#[derive(Default)]
struct WatchersState {
    /// Who waits to set a watch, while watches are removed.
    waiting: Option<Vec<Waker>>,
    /// Requests that nobody awaits any more. Each holds a clone of the client.
    requests: Vec<Box<dyn Send>>,
    /// Whether the connection is to end, for which every clone of the client must go.
    is_ending: bool,
    /// Watchers that nobody needs any more.
    watchers: Vec<BoxFuture<'static, ()>>,
}

impl WatchersState {
    fn keep_request(&mut self, request: impl Send + 'static) {
        if !self.is_ending {
            self.requests.push(Box::new(request));
        }
    }

    /// Keeps a watcher that does not say whether it has fired.
    fn keep(&mut self, watcher: impl Send + 'static) {
        let kept = async move {
            let _kept = watcher;
            pending().await
        };
        self.watchers.push(kept.boxed());
    }
}

impl Watchers {
    /// Forgets the watches that have fired. Returns whether any is left to be removed.
    pub(crate) fn forget_fired(&self) -> bool {
        let mut state = self.state.lock();
        state.watchers.retain_mut(|watcher| watcher.now_or_never().is_none());
        !(state.requests.is_empty() && state.watchers.is_empty())
    }

    /// Drops the requests that were left, and keeps none from now on: the server has answered them, or never will.
    pub(crate) fn end_requests(&self) {
        let requests = {
            let mut state = self.state.lock();
            state.is_ending = true;
            std::mem::take(&mut state.requests)
        };
        drop(requests);
    }

    pub(crate) fn drop_left(&self) {
        let left = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.requests), std::mem::take(&mut state.watchers))
        };
        drop(left);
    }

    /// Removes what was left. `answered` sends a request, and resolves once the server has answered it.
    async fn remove<F: Future>(&self, answered: impl Fn() -> F) {
        self.state.lock().waiting = Some(Vec::new());
        answered().await;
        self.drop_left();
        answered().await;
        let waiting = self.state.lock().waiting.take();
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Keeps a watcher.
    fn oneshot(self: Arc<Self>, watcher: OneshotWatcher) -> Watcher {
        Lingering::new(watcher.changed().boxed(), self, |it, left| left.watchers.push(it.map(drop).boxed()))
    }

    /// Resolves to what `send` returns, which sends requests that set watches.
    async fn send<R>(&self, mut send: impl FnMut() -> R) -> R {
        poll_fn(|cx| {
            // The mutex stays locked while they are sent: a removal begins before it or behind it.
            let mut state = self.state.lock();
            match &mut state.waiting {
                Some(waiting) => {
                    waiting.push(cx.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(send()),
            }
        })
        .await
    }
}

/// Removes the watches that nobody needs any more.
pub(crate) async fn remove_left(client: Arc<Client>, watchers: Arc<Watchers>) {
    let answered = || {
        let client = client.clone();
        async move { answered(&client).await }
    };
    watchers.remove(answered).await;
}

/// The client of a connection, for requests that set watches.
#[derive(Clone)]
pub(crate) struct Watching {
    pub(crate) client: Arc<Client>,
    watchers: Arc<Watchers>,
}

impl Watching {
    pub(crate) fn new(client: Arc<Client>, watchers: Arc<Watchers>) -> Self {
        Self { client, watchers }
    }

    /// Sends requests that set watches, in one poll and in their order, once no watch is being removed. Resolves to the futures of
    /// the replies.
    pub(crate) async fn send<R>(&self, send: impl Fn(&Sender) -> R) -> R {
        self.watchers.send(|| send(&Sender(self))).await
    }

    /// Reads a node, and watches its data. The first poll sends the request. Callers that ask while a read is under way share a second
    /// one: the node may have 1 MiB of data, and the session's heartbeats wait behind each answer. A predecessor has mostly one caller,
    /// so the first one shares nothing, and pays little for it.
    ///
    /// A server answers in order. So an answer that has not come yet is as new as the answer to a read that the caller would send, and
    /// its watch has not fired. A read that is answered is shared with nobody else: the node's name may have been given again since.
    pub(crate) async fn data(&self, path: &str) -> WatchedRead<DataWatcher> {
        let present = {
            let mut reads = self.watchers.reads.lock();
            let present = reads.get(path).cloned();
            if present.is_none() {
                reads.insert(path.to_owned(), None);
            }
            present
        };
        let under_way = |is_shared| UnderWay { watching: self.clone(), path: path.to_owned(), is_shared };
        let Some(shared) = present else {
            let _under_way = under_way(false);
            let (data, stat, watcher) = self.send(|server| server.data(path)).await.await?;
            return Ok((Arc::new(data), stat, Either::Left(watcher)));
        };
        // The answer may have come though nobody has taken it in. The poll shows it.
        let shared = shared.as_ref().and_then(WeakJoint::upgrade);
        let shared = shared.filter(|read| read.clone().now_or_never().is_none()).unwrap_or_else(|| {
            let under_way = under_way(true);
            let read = async move {
                let UnderWay { watching, path, .. } = &under_way;
                let (data, stat, watcher) = watching.send(|server| server.data(path)).await.await?;
                Ok((Arc::new(data), stat, Joint::new(watcher.boxed())))
            };
            let read = Joint::new(read.boxed());
            self.watchers.reads.lock().insert(path.to_owned(), Some(read.downgrade()));
            read
        });
        let (data, stat, watcher) = shared.await?;
        Ok((data, stat, Either::Right(watcher)))
    }
}

/// A read under way, until it is answered or nobody awaits it any more.
struct UnderWay {
    watching: Watching,
    path: String,
    is_shared: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut reads = self.watching.watchers.reads.lock();
        // The first read may be answered before the shared one, which later callers still share.
        if reads.get(&self.path).is_some_and(|shared| shared.is_some() == self.is_shared) {
            reads.remove(&self.path);
        }
    }
}

/// The reply to a request that was sent.
type WatchReply<T> = BoxFuture<'static, Result<T, Error>>;

/// Sends requests that set watches. Each is sent by the call.
pub(crate) struct Sender<'a>(&'a Watching);

impl Sender<'_> {
    fn data(&self, path: &str) -> WatchReply<(Vec<u8>, Stat, Watcher)> {
        let (client, path) = self.for_one_event(path);
        let read = async move { client.get_and_watch_data(&path).await };
        self.sent(read, |(data, stat, watcher), watchers| (data, stat, watchers.oneshot(watcher)))
    }

    pub(crate) fn children(&self, path: &str) -> WatchReply<(Vec<String>, Stat, Watcher)> {
        let (client, path) = self.for_one_event(path);
        let list = async move { client.get_and_watch_children(&path).await };
        self.sent(list, |(children, stat, watcher), watchers| (children, stat, watchers.oneshot(watcher)))
    }

    /// Looks whether a node exists, and watches for its creation or its change.
    pub(crate) fn stat(&self, path: &str) -> WatchReply<(Option<Stat>, Watcher)> {
        let (client, path) = self.for_one_event(path);
        let look = async move { client.check_and_watch_stat(&path).await };
        self.sent(look, |(stat, watcher), watchers| (stat, watchers.oneshot(watcher)))
    }

    pub(crate) fn changes(&self, path: &str) -> WatchReply<Lingering<PersistentWatcher>> {
        debug_assert!(has_persistent_watches(path), "{path} has watches for one event");
        let client = self.0.client.clone();
        let path = path.to_owned();
        let watch = async move { client.watch(&path, AddWatchMode::Persistent).await };
        self.sent(watch, |watcher, watchers| Lingering::new(watcher, watchers, |it, left| left.keep(it)))
    }

    /// What a request needs that watches this path for one event.
    fn for_one_event(&self, path: &str) -> (Arc<Client>, String) {
        debug_assert!(!has_persistent_watches(path), "{path} has persistent watches");
        (self.0.client.clone(), path.to_owned())
    }

    /// Sends a request. `keep` keeps the watcher of its reply.
    fn sent<T: Send + 'static, U: 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
        keep: impl FnOnce(T, Arc<Watchers>) -> U + Send + 'static,
    ) -> WatchReply<U> {
        let mut request = request.boxed();
        // The first poll sends it.
        let reply = match (&mut request).now_or_never() {
            Some(reply) => ready(reply).boxed(),
            None => request,
        };
        let watchers = self.0.watchers.clone();
        let reply = Lingering::new(reply, watchers.clone(), |it, left| left.keep_request(it));
        reply.map(|reply| reply.map(|reply| keep(reply, watchers))).boxed()
    }
}

/// What is left to the watchers of its connection if it is dropped before it has resolved.
pub(crate) struct Lingering<W: Send + 'static> {
    it: Option<W>,
    watchers: Arc<Watchers>,
    leave: fn(W, &mut WatchersState),
}

/// Resolves when the watch fires, or when the session ends.
pub(crate) type Watcher = Lingering<BoxFuture<'static, WatchedEvent>>;

impl<W: Send> Lingering<W> {
    fn new(it: W, watchers: Arc<Watchers>, leave: fn(W, &mut WatchersState)) -> Self {
        Self { it: Some(it), watchers, leave }
    }
}

impl<T: 'static> Future for Lingering<BoxFuture<'static, T>> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(it) = &mut self.it else { return Poll::Pending };
        let output = std::task::ready!(it.poll_unpin(cx));
        self.it = None;
        Poll::Ready(output)
    }
}

impl Lingering<PersistentWatcher> {
    /// Resolves with the next event.
    pub(crate) async fn changed(&mut self) -> WatchedEvent {
        match &mut self.it {
            Some(watcher) => watcher.changed().await,
            None => pending().await,
        }
    }
}

impl<W: Send> Drop for Lingering<W> {
    fn drop(&mut self) {
        if let Some(it) = self.it.take() {
            (self.leave)(it, &mut self.watchers.state.lock());
            self.watchers.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::channel::oneshot;
    use zklock_testcontainers::{Link, RequestKind, ZooKeeper};
    use zookeeper_client::{Acls, CreateMode, EventType};

    use super::*;

    fn left(watchers: &Arc<Watchers>) -> Arc<()> {
        let watcher = Arc::new(());
        drop(Lingering::new(watcher.clone(), watchers.clone(), |it, left| left.keep(it)));
        watcher
    }

    /// So the client never defers a removal.
    #[test]
    fn watches_are_removed_and_set_by_turns() {
        let watchers = Arc::<Watchers>::default();
        let watcher = left(&watchers);
        assert!(watchers.left.notified().now_or_never().is_some());
        let (answers, replies): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel::<()>()).unzip();
        let mut answers = answers.into_iter();
        let replies = Cell::new(replies.into_iter());
        let mut removal = Box::pin(watchers.remove(|| {
            let mut unanswered = replies.take();
            let reply = unanswered.next();
            replies.set(unanswered);
            async move { reply.unwrap().await.unwrap() }
        }));
        let mut answer = || answers.next().unwrap().send(()).unwrap();
        let sent = Cell::new(0);
        let mut setting = Box::pin(watchers.send(|| sent.set(sent.get() + 1)));
        assert!((&mut removal).now_or_never().is_none());
        assert!((&mut setting).now_or_never().is_none());
        assert_eq!(Arc::strong_count(&watcher), 2, "a request may be unanswered");
        answer();
        assert!((&mut removal).now_or_never().is_none());
        assert_eq!(Arc::strong_count(&watcher), 1);
        assert!((&mut setting).now_or_never().is_none(), "the watch may stand");
        let late = left(&watchers);
        answer();
        assert!((&mut removal).now_or_never().is_some());
        assert!((&mut setting).now_or_never().is_some());
        assert_eq!((sent.get(), Arc::strong_count(&late)), (1, 2), "that waits for another turn");
    }

    /// A request holds a clone of the client, and the session ends with the last one.
    #[test]
    fn a_connection_that_is_to_end_keeps_no_request() {
        let watchers = Arc::<Watchers>::default();
        let requests = [(), ()].map(Arc::new);
        let drop_one = |request: &Arc<()>| {
            drop(Lingering::new(request.clone(), watchers.clone(), |it, left| left.keep_request(it)));
        };
        drop_one(&requests[0]);
        assert_eq!(Arc::strong_count(&requests[0]), 2);
        watchers.end_requests();
        drop_one(&requests[1]);
        assert_eq!(requests.map(|request| Arc::strong_count(&request)), [1, 1]);
    }

    #[test]
    fn a_watch_that_has_fired_is_not_removed() {
        let watchers = Arc::<Watchers>::default();
        let watcher = |fires: oneshot::Receiver<()>| {
            let fires = fires.map(|_| ()).boxed();
            Lingering::new(fires, watchers.clone(), |it, left| left.watchers.push(it))
        };
        let [(fire, fires), (fire_late, fires_late)] = [oneshot::channel(), oneshot::channel()];
        fire.send(()).unwrap();
        assert_eq!(watcher(fires).now_or_never(), Some(()));
        assert!(!watchers.forget_fired());
        drop(watcher(fires_late));
        assert!(watchers.forget_fired());
        fire_late.send(()).unwrap();
        assert!(!watchers.forget_fired());
    }

    /// A watch of a node that is gone has fired, and says nothing of the next node of that name.
    #[tokio::test]
    async fn a_read_is_shared_until_its_answer_has_come() {
        let server = ZooKeeper::builder().start().await.unwrap();
        let client = Arc::new(Client::connect(&server.connect_string()).await.unwrap());
        let watching = Watching::new(client.clone(), Arc::default());
        let make = async || {
            let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
            client.create("/node", b"", &persistent).await.unwrap().0.czxid
        };
        let first = make().await;
        let mut reads = [(); 4].map(|()| Box::pin(watching.data("/node")));
        assert!(reads.iter_mut().all(|read| read.now_or_never().is_none()));
        client.delete("/node", None).await.unwrap();
        // All answers have come, and nobody has taken them in.
        let again = make().await;
        let (_, stat, last) = watching.data("/node").await.unwrap();
        assert_eq!(stat.czxid, again);
        let [alone, gone, one, other] = reads;
        drop(gone);
        let alone = alone.await.unwrap();
        let one = one.await.unwrap();
        let other = other.await.unwrap();
        assert!(Arc::ptr_eq(&one.0, &other.0) && !Arc::ptr_eq(&alone.0, &one.0));
        assert_eq!([alone.1.czxid, one.1.czxid], [first; 2]);
        assert_eq!(one.2.await, other.2.await);
        assert_eq!(alone.2.await.event_type, EventType::NodeDeleted);
        assert!(last.now_or_never().is_none());
        assert!(watching.watchers.reads.lock().is_empty());
    }

    /// Otherwise each answer would let two more reads be sent.
    #[tokio::test]
    async fn a_read_stays_shared_when_the_first_one_is_answered() {
        let server = ZooKeeper::builder().start().await.unwrap();
        let link = Link::start(server.connect_string()).await.unwrap();
        let client = Arc::new(Client::connect(&link.address()).await.unwrap());
        let watching = Watching::new(client, Arc::default());
        let mut reads = [(); 3].map(|()| Box::pin(watching.data("/zookeeper")));
        assert!((&mut reads[0]).now_or_never().is_none());
        while link.requests_of(RequestKind::GetData) == 0 {
            tokio::task::yield_now().await;
        }
        let held = link.hold_reply(RequestKind::GetData);
        assert!((&mut reads[1]).now_or_never().is_none());
        let [first, second, mut third] = reads;
        first.await.unwrap();
        assert!((&mut third).now_or_never().is_none());
        held.release();
        let second = second.await.unwrap();
        let third = third.await.unwrap();
        assert!(Arc::ptr_eq(&second.0, &third.0));
        assert!(watching.watchers.reads.lock().is_empty());
    }
}
