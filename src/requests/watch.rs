//! Watches: on the predecessor, whose end may be a release, and on our own node.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join, pending, ready};
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, OtherKind, Own, PathKind, QueuePlace, Stranger};
use zookeeper_client as zk;
use zookeeper_client::{Error, EventType, WatchedEvent};

use super::confirm::{is_own, is_own_hidden, is_own_there};
use super::foreign::{judge, lookalike};
use super::reply::{Reply, failure};
use super::watchers::{DataWatcher, Watcher, Watching};
use crate::node::{NodeData, decode};
use crate::settings::Settings;

/// Watches the predecessor's node for its end, and for how it ends, by two watches. Both are sent in one poll.
///
/// The watches are set by reads, not by `exists`. A server with ZOOKEEPER-4799 (3.8.4, 3.9.2) accepts `exists` with a
/// watch from a session that may not read the node, and never fires it. A waiter would then wait for ever. The server
/// refuses a read at once. A read also leaves no watch on a node that is gone.
pub(crate) async fn watch_predecessor(
    watching: Watching,
    lock: Arc<Settings>,
    predecessor: QueuePlace,
    own: Own,
) -> Reply {
    let Some(path) = lock.contender(predecessor) else { return Event::PredecessorWatched(false).into() };
    let name = lock.queue.path.child(&path).unwrap_or_default();
    let is_ours = path == lock.queue.path.contender(predecessor);
    let children = async { watching.send(|server| server.children(&path)).await.await };
    let (data, children) = join(watching.data(&path), children).await;
    let (bytes, stat, data) = match data {
        Ok(read) => read,
        Err(Error::NoNode) => return Event::PredecessorWatched(false).into(),
        Err(error) => return failure(error).into(),
    };
    if stat.czxid > own.czxid {
        // The node has a lower number than ours but was created later. So the directory was made again since, and our
        // node was deleted with the old one.
        match is_own_there(&watching.client, &lock.queue.path.contender(own.place), own).await {
            Ok(false) => return Event::OwnTouched.into(),
            // Our node still exists, so somebody created the other node by hand with that number.
            Ok(true) => {
                return Event::Foreign(Stranger::Client(lookalike(name, &stat))).into();
            }
            Err(failure) => return failure.into(),
        }
    }
    if let Some(foreign) = judge(lock.queue.layout(), name, Some((&bytes, &stat))) {
        return Event::Foreign(Stranger::Client(foreign)).into();
    }
    if is_ours && let Some(other) = other_kind_of(&lock, &bytes) {
        return Event::Foreign(Stranger::Kind(other)).into();
    }
    let watch = match children {
        Ok((_, _, children)) => predecessor_end(data, children, is_ours).boxed(),
        // The node went while one watch stood.
        Err(Error::NoNode) => ready(Event::PredecessorDeleted).boxed(),
        Err(error) => return failure(error).into(),
    };
    Reply { watch: Some(watch), ..Event::PredecessorWatched(true).into() }
}

/// Whether the predecessor, a node of zklock's, contends by its data for something else than we do.
fn other_kind_of(lock: &Settings, data: &[u8]) -> Option<OtherKind> {
    let found = decode::<NodeData>(data)?.kind;
    let at = if found == PathKind::Lock { Some(lock.queue.path.as_str()) } else { lock.queue.path.parent() };
    (found != lock.queue.kind()).then(|| OtherKind { found, at: at.unwrap_or("/").to_owned() })
}

/// Resolves once the predecessor's node is gone. A write to the node fires the watch of its data. Its deletion fires
/// the watch of its children, of which it has none. Only a release does both in one transaction. A client that may
/// write to the directory can write to a waiter's node, and that waiter may give up later. That grants nobody. Nor does
/// another client's contender, whatever it does.
async fn predecessor_end(data: DataWatcher, children: Watcher, is_ours: bool) -> Event {
    let gone = fired(children).await;
    // The event of a write always arrives before the event of the deletion, so nothing is awaited here. A server may
    // also have withheld the event of the write, if it no longer lets us read the node.
    match fired(data).now_or_never() {
        Some(written) if is_ours && is_release(&written, &gone) => Event::PredecessorReleased,
        _ => Event::PredecessorDeleted,
    }
}

/// Whether a write and a deletion were one transaction. Servers before 3.9 do not say in which an event was (ZOOKEEPER-4655).
fn is_release(written: &WatchedEvent, gone: &WatchedEvent) -> bool {
    (written.event_type, gone.event_type) == (EventType::NodeDataChanged, EventType::NodeDeleted)
        && written.zxid == gone.zxid
        && written.zxid != WatchedEvent::NO_ZXID
}

pub(crate) async fn watch_own(watching: Watching, lock: Arc<Settings>, own: Own) -> Reply {
    let path = lock.queue.path.contender(own.place);
    match watching.data(&path).await {
        Ok((_, stat, watcher)) => Reply {
            watch: Some(touched(watcher)),
            ..Event::OwnWatched(is_own(Some(&stat), own) && !is_displaced(&lock, &stat)).into()
        },
        Err(Error::NoNode) => Event::OwnWatched(false).into(),
        // The holder watches a hidden node again on the next connection.
        Err(Error::NoAuth) => match is_own_hidden(&watching.client, &path).await {
            Ok(true) => Reply { watch: Some(pending().boxed()), ..Event::OwnWatched(true).into() },
            Ok(false) => Event::OwnWatched(false).into(),
            Err(failure) => failure.into(),
        },
        Err(error) => failure(error).into(),
    }
}

/// Whether somebody has written to our node in a queue that is shared, and so has asked its contender to leave.
fn is_displaced(lock: &Settings, own: &zk::Stat) -> bool {
    lock.queue.layout().is_shared() && own.version != UNTOUCHED
}

/// Resolves when a watch fires that shows a node as touched, whatever its event.
pub(crate) fn touched(
    watcher: impl Future<Output = WatchedEvent> + Send + 'static,
) -> BoxFuture<'static, Event> {
    fired(watcher).map(|_| Event::OwnTouched).boxed()
}

/// Resolves when the watch fires. It is pending for ever once the client says that the session is over, or has died of a panic:
/// then the connection is lost, and the watch is revoked with it.
pub(crate) async fn fired(watcher: impl Future<Output = WatchedEvent>) -> WatchedEvent {
    match AssertUnwindSafe(watcher).catch_unwind().await {
        Ok(event) if event.event_type != EventType::Session => event,
        Ok(_) | Err(_) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_write_and_a_deletion_of_one_transaction() {
        let event =
            |event_type, zxid| WatchedEvent::new(event_type, "/lock/a/lock-0000000001").with_zxid(zxid);
        let written = EventType::NodeDataChanged;
        let deleted = EventType::NodeDeleted;
        assert!(is_release(&event(written, 7), &event(deleted, 7)));
        for (first, last) in [
            (event(written, 7), event(deleted, 8)),
            (event(deleted, 7), event(deleted, 7)),
            (event(written, 7), event(EventType::NodeChildrenChanged, 7)),
            // Events of a server before 3.9, and of any server that sets a lost watch again.
            (event(written, WatchedEvent::NO_ZXID), event(deleted, WatchedEvent::NO_ZXID)),
        ] {
            assert!(!is_release(&first, &last), "{first:?} {last:?}");
        }
    }
}
