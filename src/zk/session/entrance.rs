//! The entrance of one session: so many entries are under way at the same time, and the others wait in line.
//!
//! A server handles the requests of one session in order. So a heartbeat that is sent behind 20,000 creates waits for all
//! of them, and the guards of the session may be lost meanwhile. If the connection breaks then, 20,000 creates are lost.
//! So an entry takes a place. Heartbeats, releases and all other requests need none.
//!
//! 1. Entries get places in the order in which they ask for one.
//! 2. A caller that does not poll blocks nobody. An entry that finds a place free sends its request in the same poll. It
//!    gives the place back when the reply wakes its caller, whether or not that caller polls. The session's background
//!    task sends the requests of those who wait in line, and gives their places back.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::background::Background;
use crate::mutex::Mutex;
use crate::wire::link::{LinkAnswer, Requester};

/// How many entries are under way at the same time. A server on a small machine creates a few thousand nodes a second,
/// so a heartbeat waits for about 0.1 s. With a round trip of 50 ms, 256 at a time are still 5,000 entries a second.
const PLACES: usize = 256;

/// The entrance of one session.
pub(crate) struct Entrance {
    requester: Requester,
    places: Arc<Semaphore>,
    /// How many entries wait in line.
    waiting: Arc<AtomicUsize>,
    line: mpsc::UnboundedSender<WaitingEntry>,
}

/// Sends an entry that waits in line; returns `None` if nobody wants it any more.
type WaitingEntry = Box<dyn FnOnce() -> Option<BoxFuture<'static, ()>> + Send>;

impl Entrance {
    /// Makes the entrance. The background task serves those who wait in line.
    pub(crate) fn new(requester: Requester, background: Background) -> Arc<Self> {
        let (line, waiters) = mpsc::unbounded_channel();
        let entrance =
            Self { requester, places: Arc::new(Semaphore::new(PLACES)), waiting: Arc::default(), line };
        let serve = serve(waiters, entrance.places.clone(), entrance.waiting.clone(), background.clone());
        background.finish(serve.boxed());
        Arc::new(entrance)
    }

    /// Makes a request that needs a place. It is lost if the session is over.
    pub(crate) async fn pass<T: Send + 'static>(
        self: Arc<Self>,
        ticket: Arc<EntryTicket>,
        request: BoxFuture<'static, LinkAnswer<T>>,
    ) -> LinkAnswer<T> {
        // Without a connection the request would wait with its place.
        let goes = self.requester.is_up() && self.waiting.load(Ordering::Relaxed) == 0;
        if goes && let Ok(place) = self.places.clone().try_acquire_owned() {
            ticket.send();
            return Placed::new(request, place).await;
        }
        let (sender, answer) = oneshot::channel();
        let waiting: WaitingEntry = Box::new(move || {
            let wanted = !sender.is_closed() && ticket.send();
            // The caller may have gone.
            wanted.then(|| request.map(|answer| drop(sender.send(answer))).boxed())
        });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Without the background task, `waiting` is dropped here or with the line.
        drop(self.line.send(waiting));
        drop(self);
        answer.await.unwrap_or(LinkAnswer::Lost)
    }
}

/// Gives each of those who wait in line a place, one after the other, until nobody uses the entrance any more.
async fn serve(
    mut line: mpsc::UnboundedReceiver<WaitingEntry>,
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    background: Background,
) {
    while let Some(entry) = line.recv().await {
        // Nobody closes the semaphore.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(entry) = entry() {
            background.finish(entry.map(|()| drop(place)).boxed());
        }
    }
}

/// Whether the request of an entry has been sent, or was withdrawn.
#[derive(Default)]
pub(crate) struct EntryTicket(AtomicBool);

impl EntryTicket {
    /// Sees to it that the request is never sent. Returns false if it may have been sent.
    pub(crate) fn withdraw(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Returns false if the entry was withdrawn. It is sent once.
    fn send(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// A request with a place.
struct Placed<T> {
    request: BoxFuture<'static, T>,
    place: Arc<EntrancePlace>,
}

/// A place that is given back when the caller is woken.
struct EntrancePlace {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    caller: AtomicWaker,
}

impl<T> Placed<T> {
    fn new(request: BoxFuture<'static, T>, permit: OwnedSemaphorePermit) -> Self {
        let place = EntrancePlace { permit: Mutex::new(Some(permit)), caller: AtomicWaker::new() };
        Self { request, place: Arc::new(place) }
    }
}

impl<T> Future for Placed<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.place.caller.register(cx.waker());
        let waker = self.place.clone().into();
        self.request.poll_unpin(&mut Context::from_waker(&waker))
    }
}

impl<T> Drop for Placed<T> {
    fn drop(&mut self) {
        self.place.give_back();
    }
}

impl EntrancePlace {
    fn give_back(&self) {
        let permit = self.permit.lock().take();
        drop(permit);
    }
}

impl Wake for EntrancePlace {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.give_back();
        self.caller.wake();
    }
}
