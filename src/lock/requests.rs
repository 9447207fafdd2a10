//! Finds the contenders of a lock, and watches its holder: the first contender in the queue.

use std::sync::Arc;

use zklock_recipe::{Child, Event, Footing, Foreign, QueueLayout, QueuePlace};
use zookeeper_client::{Client, Error, WatchedEvent};

use crate::path::child_of;
use crate::requests::foreign::{foreigners_among, judge};
use crate::requests::read_nodes::{QueueNode, Seen, existing, is_ours, read_contenders};
use crate::requests::reply::failure;
use crate::requests::sighting::{Found, Sighting, single_change, watched};
use crate::requests::watchers::{Watching, has_persistent_watches};
use crate::settings::Settings;

/// Returns every contender in the queue, with the holder first, or what went wrong.
pub(crate) async fn read_queue(client: Arc<Client>, lock: Arc<Settings>) -> Result<Vec<QueueNode>, Event> {
    let children = existing(client.list_children(lock.queue.path.as_str()).await)?.unwrap_or_default();
    read_contenders(&client, &lock, &lock.queue.layout().queue(&children)).await
}

/// Returns every contender of another client, or what went wrong.
pub(crate) async fn find_foreigners(client: Arc<Client>, lock: Arc<Settings>) -> Result<Vec<Foreign>, Event> {
    let children = existing(client.list_children(lock.queue.path.as_str()).await)?.unwrap_or_default();
    let numbered =
        children.iter().filter(|name| lock.queue.layout().child(name) != Child::Other).collect::<Vec<_>>();
    foreigners_among(&client, lock.queue.path.as_str(), lock.queue.layout(), &numbered).await.map_err(failure)
}

/// Returns the first contender in the queue: one listing and one read. It reads further nodes only if those before them
/// go meanwhile.
pub(crate) async fn holder(client: Arc<Client>, lock: Arc<Settings>) -> Result<Option<QueueNode>, Event> {
    let children = existing(client.list_children(lock.queue.path.as_str()).await)?.unwrap_or_default();
    let queue = lock.queue.layout().queue(&children);
    let first = first_there(&client, lock.queue.path.as_str(), lock.queue.layout(), &queue).await?;
    Ok(first.map(|First { node, .. }| node))
}

/// The first of some nodes that still exists.
pub(crate) struct First {
    /// How many before it are gone.
    pub(crate) gone: usize,
    pub(crate) node: QueueNode,
    /// Whether the node only looks like zklock's.
    pub(crate) is_lookalike: bool,
}

/// Reads these nodes of a directory until one still exists.
pub(crate) async fn first_there(
    client: &Client,
    directory: &str,
    layout: QueueLayout,
    contenders: &[(QueuePlace, &str)],
) -> Result<Option<First>, Event> {
    for (gone, &(place, name)) in contenders.iter().enumerate() {
        let path = child_of(directory, name);
        let (seen, is_lookalike) = match client.get_data(&path).await {
            Ok((data, stat)) => {
                let is_lookalike = judge(layout, name, Some((&data, &stat))).is_some();
                (Some(Seen::new(is_ours(layout, name), &data, &stat)), is_lookalike)
            }
            Err(Error::NoAuth) => (None, false),
            Err(Error::NoNode) => continue,
            Err(error) => return Err(failure(error)),
        };
        return Ok(Some(First { gone, node: QueueNode { place, path, seen }, is_lookalike }));
    }
    Ok(None)
}

/// Finds the first contender in the queue, and watches its node. If nobody contends, or if this session may not read that
/// node, it watches the directory, whose children change then; if the directory does not exist, it watches for its
/// creation.
///
/// The watches are set by reads, which a server refuses to a session that may not read. Only a directory that does not
/// exist is watched by `exists`, and no ACL can hide that.
///
/// If watches of the directory are persistent, by its name, one of these is set instead, unless it stands. It reports each contender
/// that comes or goes.
pub(crate) async fn watch_holder(
    watching: Watching,
    lock: Arc<Settings>,
    footing: Footing,
) -> Result<Sighting<QueueNode>, Event> {
    let directory = lock.queue.path.as_str();
    if has_persistent_watches(directory) {
        let look = holder(watching.client.clone(), lock.clone());
        let (changes, seen) = watched(&watching, directory, footing, look).await?;
        return Ok(Sighting { found: seen.map(|first| first.map(|node| (node.stamp(), node))), changes });
    }
    // What a round found, if that calls for a watch on the directory: nobody, or somebody who is hidden.
    let mut unread = None;
    // Each round answers a change that came between two requests.
    loop {
        let listed = match unread {
            None => watching.client.list_children(directory).await.map(|children| (children, None)),
            Some(_) => {
                let listed = watching.send(|server| server.children(directory)).await.await;
                listed.map(|(children, _, watcher)| (children, Some(watcher)))
            }
        };
        let (children, watcher) = match listed {
            Ok(listed) => listed,
            Err(Error::NoNode) => {
                let looked = watching.send(|server| server.stat(directory)).await.await;
                match looked.map_err(failure)? {
                    (None, watcher) => return Ok(sighting(None, watcher)),
                    (Some(_), _) => continue,
                }
            }
            Err(error) => return Err(failure(error)),
        };
        let queue = lock.queue.layout().queue(&children).into_iter();
        let queue = queue.map(|(place, name)| (place, lock.queue.path.of_child(name))).collect::<Vec<_>>();
        let first = queue.first().cloned();
        let hidden = |(place, path)| (None, QueueNode { place, path, seen: None });
        let watcher = match watcher {
            Some(watcher) if unread.as_ref() == Some(&first) => {
                return Ok(sighting(first.map(hidden), watcher));
            }
            watcher => watcher,
        };
        unread = Some(None);
        for (place, path) in queue {
            let (data, stat, watcher) = match watching.data(&path).await {
                Ok(read) => read,
                Err(Error::NoNode) => continue,
                Err(Error::NoAuth) => {
                    // Those in front went after the listing, and its watch tells that.
                    if let Some(watcher) = watcher {
                        return Ok(sighting(Some(hidden((place, path))), watcher));
                    }
                    unread = Some(Some((place, path)));
                    break;
                }
                Err(error) => return Err(failure(error)),
            };
            let is_ours = lock.queue.path.child(&path).is_some_and(|name| is_ours(lock.queue.layout(), name));
            let node = QueueNode { place, path, seen: Some(Seen::new(is_ours, &data, &stat)) };
            return Ok(sighting(Some((node.stamp(), node)), watcher));
        }
    }
}

fn sighting(
    found: Found<QueueNode>,
    watcher: impl Future<Output = WatchedEvent> + Send + 'static,
) -> Sighting<QueueNode> {
    Sighting { found: Ok(found), changes: Some(single_change(watcher)) }
}
