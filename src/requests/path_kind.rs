//! Looks at what a path is used for, by the nodes that its kind keeps there.
//!
//! A contender looks behind its create, so of two that come at once, one sees the other at least. It looks at its own
//! directory if its listing has a name that an election or a pool would use. It looks at the path above if its own
//! directory has such a name: the queue of an election or of a pool always has. That look goes out with the first entry
//! of a lock in a process, and after the directory was made. Later entries rely on it.

use zklock_recipe::{OtherKind, PathKind, QueuePlace, Signs};
use zookeeper_client::{Client, Error, MultiReadResult};

use crate::node::{LeaderData, NodeData, PoolData, decode};
use crate::path::{child_of, name_of};
use crate::settings::Settings;

/// Looks whether the path above a lock's directory is of another kind. Our contender is in the directory by then. `None`, and
/// nothing is sent, if that is known, or if no kind but a lock would use a directory of this name.
pub(crate) async fn look_above(client: &Client, lock: &Settings) -> Option<Result<Option<OtherKind>, Error>> {
    let above = lock.queue.path.inner_of().filter(|_| !lock.hints.fits())?;
    // Who contends in this very directory is seen by those who wait there.
    let lists_queue = name_of(lock.queue.path.as_str()) != PathKind::QUEUE;
    Some(look_at_path(client, above, lock.queue.kind(), lists_queue).await)
}

/// The kind of the path above a lock's directory, if the server refuses contenders there because the directory is ephemeral:
/// it may be the announcement of an election's leader. It looks also if the path above was of no other kind before.
pub(crate) async fn announced_above(client: &Client, lock: &Settings) -> Option<OtherKind> {
    look_at_path(client, lock.queue.path.inner_of()?, lock.queue.kind(), false).await.ok().flatten()
}

/// Whether the directory of a lock is a path of another kind, by the names of its children. It sends nothing if no name is
/// that of a node which another kind keeps.
pub(crate) async fn look_around(
    client: &Client,
    lock: &Settings,
    children: &[String],
) -> Result<Option<OtherKind>, Error> {
    let is_inner = |name: &String| PathKind::INNER.contains(&name.as_str());
    if lock.queue.kind() != PathKind::Lock || !children.iter().any(is_inner) {
        return Ok(None);
    }
    other_kind(client, lock.queue.path.as_str(), lock.queue.kind()).await
}

/// Whether a path is used for something else than this. Nodes that this session may not read show nothing.
pub(crate) async fn other_kind(
    client: &Client,
    path: &str,
    expected: PathKind,
) -> Result<Option<OtherKind>, Error> {
    look_at_path(client, path, expected, true).await
}

async fn look_at_path(
    client: &Client,
    path: &str,
    expected: PathKind,
    lists_queue: bool,
) -> Result<Option<OtherKind>, Error> {
    loop {
        let (mut signs, queued) = read_signs(client, path, expected, lists_queue).await?;
        if let (Some(first), None) = (queued, signs.other_than(expected)) {
            signs.queued = match client.get_data(&first).await {
                Ok((data, _)) => decode::<NodeData>(&data).map(|data| data.kind),
                // It was admitted meanwhile, or made room for the next one.
                Err(Error::NoNode) => continue,
                Err(Error::NoAuth) => None,
                Err(error) => return Err(error),
            };
        }
        return Ok(signs.other_than(expected).map(|found| OtherKind { found, at: path.to_owned() }));
    }
}

/// What one request shows of a path that is to be of this kind. Also returns the path of the first contender in its inner
/// queue, if that is asked for. A listing may be long, so none is asked for in vain: contenders at the path itself are locks'.
async fn read_signs(
    client: &Client,
    path: &str,
    expected: PathKind,
    lists_queue: bool,
) -> Result<(Signs, Option<String>), Error> {
    let [queue, leader, permits] = PathKind::INNER.map(|name| child_of(path, name));
    let mut request = client.new_multi_reader();
    request.add_get_data(&leader)?;
    request.add_get_data(&permits)?;
    let lists = [(expected != PathKind::Lock, path), (lists_queue, queue.as_str())];
    lists.iter().filter(|(listed, _)| *listed).try_for_each(|(_, path)| request.add_get_children(path))?;
    let mut results = request.commit().await?.into_iter();
    let leader = results.next();
    let permits = results.next();
    let [children, queued] = lists.map(|(listed, _)| match listed.then(|| results.next()).flatten() {
        Some(MultiReadResult::Children { children }) => children,
        _ => Vec::new(),
    });
    let mut signs = Signs::of_children(&children);
    if let Some(MultiReadResult::Data { data, stat }) = leader {
        let is_ephemeral = zklock_recipe::session(stat.ephemeral_owner).is_some();
        signs.announced = is_ephemeral && decode::<LeaderData>(&data).is_some();
    }
    if let Some(MultiReadResult::Data { data, .. }) = permits {
        signs.stock = PoolData::decode(&data);
    }
    // The first one there says what all of them contend for.
    let first = queued.iter().filter_map(|name| QueuePlace::parse(name)).min();
    Ok((signs, first.map(|first| child_of(&queue, &first.name()))))
}
