//! Finds and watches the holder of a lock: the first contender in its queue.

use std::sync::Arc;

use zklock_recipe::{Event, Place, Stamp};
use zookeeper_client::{Client, Error, OneshotWatcher};

use super::read::{Node, Seen};
use super::reply::failure;
use super::sighting::{Changes, Found, Sighting};
use crate::settings::Settings;

/// Returns the first contender in the queue: one listing and one read. It reads further nodes only if those before them
/// go meanwhile.
pub(crate) async fn holder(client: Arc<Client>, lock: Arc<Settings>) -> Result<Option<Node>, Event> {
    let queue = match client.list_children(lock.path.as_str()).await {
        Ok(children) => places(&children),
        Err(Error::NoNode) => return Ok(None),
        Err(error) => return Err(failure(error)),
    };
    for place in queue {
        let seen = match client.get_data(&lock.path.contender(place)).await {
            Ok((data, stat)) => Some(Seen::new(&data, &stat)),
            Err(Error::NoAuth) => None,
            Err(Error::NoNode) => continue,
            Err(error) => return Err(failure(error)),
        };
        return Ok(Some(Node { place, seen }));
    }
    Ok(None)
}

/// Finds the first contender in the queue, and watches its node. If nobody contends, or if this session may not read that
/// node, it watches the directory, whose children change then; if the directory does not exist, it watches for its
/// creation.
///
/// The watches are set by reads, which a server refuses to a session that may not read. Only a directory that does not
/// exist is watched by `exists`, and no ACL can hide that.
pub(crate) async fn watch_holder(client: Arc<Client>, lock: Arc<Settings>) -> Result<Sighting<Node>, Event> {
    let directory = lock.path.as_str();
    // What a round found, if that calls for a watch on the directory: nobody, or somebody who is hidden.
    let mut unread = None;
    // Each round answers a change that came between two requests.
    loop {
        let listed = match unread {
            None => client.list_children(directory).await.map(|children| (children, None)),
            Some(_) => {
                let listed = client.list_and_watch_children(directory).await;
                listed.map(|(children, watcher)| (children, Some(watcher)))
            }
        };
        let (children, watcher) = match listed {
            Ok(listed) => listed,
            Err(Error::NoNode) => match client.check_and_watch_stat(directory).await.map_err(failure)? {
                (None, watcher) => return Ok(sighting(None, watcher)),
                (Some(_), _) => continue,
            },
            Err(error) => return Err(failure(error)),
        };
        let queue = places(&children);
        let first = queue.first().copied();
        let hidden = |place| (None, Node { place, seen: None });
        let watcher = match watcher {
            Some(watcher) if unread == Some(first) => return Ok(sighting(first.map(hidden), watcher)),
            watcher => watcher,
        };
        unread = Some(None);
        for place in queue {
            let (data, stat, watcher) = match client.get_and_watch_data(&lock.path.contender(place)).await {
                Ok(read) => read,
                Err(Error::NoNode) => continue,
                Err(Error::NoAuth) => {
                    // Those in front went after the listing, and its watch tells that.
                    if let Some(watcher) = watcher {
                        return Ok(sighting(Some(hidden(place)), watcher));
                    }
                    unread = Some(Some(place));
                    break;
                }
                Err(error) => return Err(failure(error)),
            };
            let stamp = Stamp { token: stat.czxid, zxid: stat.czxid };
            let node = Node { place, seen: Some(Seen::new(&data, &stat)) };
            return Ok(sighting(Some((Some(stamp), node)), watcher));
        }
    }
}

fn sighting(found: Found<Node>, watcher: OneshotWatcher) -> Sighting<Node> {
    Sighting { found: Ok(found), changes: Some(Changes::single(watcher)) }
}

/// The places of the contenders among these children, the first one first.
fn places(children: &[String]) -> Vec<Place> {
    let mut places = children.iter().filter_map(|name| Place::parse(name)).collect::<Vec<_>>();
    places.sort_unstable();
    places
}
