//! What an observer sees, and the watch that tells it of a change.

use std::panic::AssertUnwindSafe;

use futures::future::{join, pending};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use zklock_recipe::{Event, Footing, Stamp};
use zookeeper_client::{EventType, PersistentWatcher, WatchedEvent};

use super::reply::failure;
use super::watchers::{Lingering, Watching};

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
        let who = |(stamp, found)| (stamp, who(found));
        Sighting { found: self.found.map(|found| found.map(who)), changes: self.changes }
    }
}

/// The changes that a watch reports, each with the zxid of its transaction, if the server has named it. It is pending for
/// ever after the last one.
pub(crate) type Changes = BoxStream<'static, Option<i64>>;

/// Sends a request about a node. Without a watch of this connection, it sets one before that. Both requests are sent in one poll, and
/// a server serves a session's requests in their order.
pub(crate) async fn watched<T>(
    watching: &Watching,
    path: &str,
    footing: Footing,
    look: impl Future<Output = T>,
) -> Result<(Option<Changes>, T), Event> {
    match footing {
        Footing::Watched => Ok((None, look.await)),
        Footing::Unwatched => {
            let watch = watching.send(|server| server.changes(path)).await;
            let (watcher, seen) = join(watch, look).await;
            Ok((Some(persistent_changes(watcher.map_err(failure)?)), seen))
        }
    }
}

/// The changes that a persistent watch reports, until its connection is lost.
fn persistent_changes(watcher: Lingering<PersistentWatcher>) -> Changes {
    let events =
        stream::unfold(watcher, |mut watcher| async { Some((next_zxid(watcher.changed()).await, watcher)) });
    events.boxed()
}

pub(crate) fn single_change(watcher: impl Future<Output = WatchedEvent> + Send + 'static) -> Changes {
    stream::once(next_zxid(watcher)).chain(stream::pending()).boxed()
}

/// Resolves with the next event. A watcher panics if the client's task has died. The stream is then revoked with its connection.
/// After the end of the session no event follows, and the watcher would panic.
async fn next_zxid(changed: impl Future<Output = WatchedEvent>) -> Option<i64> {
    match AssertUnwindSafe(changed).catch_unwind().await {
        Ok(event) if event.event_type != EventType::Session => {
            (event.zxid != WatchedEvent::NO_ZXID).then_some(event.zxid)
        }
        _ => pending().await,
    }
}
