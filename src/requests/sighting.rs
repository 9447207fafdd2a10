//! What an observer sees, and the watch that tells it of a change.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::StreamExt;
use futures::future::{BoxFuture, pending};
use futures::stream::{self, BoxStream};
use zklock_recipe::{Event, Stamp};
use zookeeper_client::{EventType, OneshotWatcher, PersistentWatcher, WatchedEvent};

/// Who leads, if anybody does, and the stamp, unless this session may not read it.
pub(crate) type Found<T> = Option<(Option<Stamp>, T)>;

/// What a look shows.
pub(crate) struct Sighting<T> {
    /// Who leads; or why the server did not say so, though the watch may stand.
    pub(crate) found: Result<Found<T>, Event>,
    /// The watch that the look has set; `None` if an earlier one stands.
    pub(crate) changes: Option<Changes>,
}

impl<T> Sighting<T> {
    pub(crate) fn map<U>(self, who: impl FnOnce(T) -> U) -> Sighting<U> {
        let found = self.found.map(|found| found.map(|(stamp, found)| (stamp, who(found))));
        Sighting { found, changes: self.changes }
    }
}

/// The changes that a watch reports, each with the zxid of its transaction, if the server has named it. It is pending for
/// ever after the last one.
pub(crate) struct Changes(BoxStream<'static, Option<i64>>);

impl Changes {
    /// The changes that a persistent watch reports, until its connection is lost.
    pub(super) fn persistent(watcher: PersistentWatcher) -> Self {
        let events = stream::unfold(watcher, |mut watcher| async {
            // The watcher panics if the client's task has died. The stream is then revoked with its connection.
            let event = match AssertUnwindSafe(watcher.changed()).catch_unwind().await {
                Ok(event) if event.event_type != EventType::Session => event,
                // After the end of the session no event follows, and the watcher would panic.
                _ => pending().await,
            };
            Some((zxid(&event), watcher))
        });
        Self(events.boxed())
    }

    /// The one change that a watch reports.
    pub(super) fn single(watcher: OneshotWatcher) -> Self {
        let event = async {
            match AssertUnwindSafe(watcher.changed()).catch_unwind().await {
                Ok(event) if event.event_type != EventType::Session => zxid(&event),
                _ => pending().await,
            }
        };
        Self(stream::once(event).chain(stream::pending()).boxed())
    }

    /// Sends each change to `seen`. It never resolves; it ends with the connection that keeps it.
    pub(crate) fn forward(mut self, seen: impl Fn(Option<i64>) + Send + 'static) -> BoxFuture<'static, ()> {
        std::future::poll_fn(move |cx: &mut Context<'_>| {
            while let Poll::Ready(Some(change)) = Pin::new(&mut self.0).poll_next_unpin(cx) {
                seen(change);
            }
            Poll::Pending
        })
        .boxed()
    }
}

fn zxid(event: &WatchedEvent) -> Option<i64> {
    (event.zxid != WatchedEvent::NO_ZXID).then_some(event.zxid)
}
