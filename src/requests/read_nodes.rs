//! Reads contenders' nodes.

use std::sync::Arc;
use std::time::SystemTime;

use zklock_recipe::{Event, QueueLayout, QueuePlace, Stamp};
use zookeeper_client as zk;
use zookeeper_client::{Client, Error, MultiReadResult};

use super::reply::failure;
use crate::node::{NodeData, decode, time};
use crate::settings::Settings;

/// A node in the queue, of any contender.
pub(crate) struct QueueNode {
    pub(crate) place: QueuePlace,
    pub(crate) path: String,
    /// What reading the node shows; `None` if this session may not read it.
    pub(crate) seen: Option<Seen>,
}

impl QueueNode {
    /// The stamp by which an observer knows the node; `None` if this session may not read it.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.seen.as_ref().map(|seen| Stamp { token: seen.czxid, zxid: seen.czxid })
    }
}

/// What reading a node shows.
pub(crate) struct Seen {
    pub(crate) czxid: i64,
    pub(crate) version: i32,
    /// The id of the session that owns the node.
    pub(crate) session: i64,
    /// When the node was created, by the leader's clock.
    pub(crate) created: Option<SystemTime>,
    /// The node's data; `None` if it is not zklock's.
    pub(crate) data: Option<NodeData>,
}

impl Seen {
    /// `is_ours` says whether the node has a name of zklock's ([`is_ours`]).
    pub(crate) fn new(is_ours: bool, data: &[u8], stat: &zk::Stat) -> Self {
        Self {
            czxid: stat.czxid,
            version: stat.version,
            session: stat.ephemeral_owner,
            created: stat.ctime.try_into().ok().and_then(time),
            data: is_ours.then(|| decode::<NodeData>(data)).flatten(),
        }
    }
}

/// Whether the node of a contender is zklock's, by its name. In a queue that is shared, the other client's nodes have any data, also
/// such as zklock writes.
pub(crate) fn is_ours(layout: QueueLayout, name: &str) -> bool {
    !layout.is_shared() || layout.own(name).is_some()
}

pub(crate) const READ_CHUNK: usize = 128;

/// How many such requests are under way at once. The server answers the session's heartbeats behind them, and the data of nodes
/// may be long.
pub(crate) const READS: usize = 4;

/// One of several reads in one request.
pub(crate) enum NodeRead<'a> {
    Data(&'a str),
    Children(&'a str),
}

/// Sends these reads in one request. A server serves them in their order.
pub(crate) async fn read_at_once<const N: usize>(
    client: &Client,
    reads: [NodeRead<'_>; N],
) -> Result<[MultiReadResult; N], Event> {
    let mut request = client.new_multi_reader();
    for read in reads {
        let added = match read {
            NodeRead::Data(path) => request.add_get_data(path),
            NodeRead::Children(path) => request.add_get_children(path),
        };
        added.map_err(failure)?;
    }
    let results = request.commit().await.map_err(failure)?;
    results.try_into().map_err(|_| Event::Unanswered)
}

/// What a read of a node shows; `None` if the node does not exist.
pub(crate) fn existing<T>(read: Result<T, Error>) -> Result<Option<T>, Event> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

/// A directory: its data and its stat, and the names of its children.
pub(crate) type ReadDirectory = (Vec<u8>, zk::Stat, Vec<String>);

/// What the reads of a directory's data and of its children show; `None` if the directory does not exist.
pub(crate) fn existing_directory(
    data: MultiReadResult,
    children: MultiReadResult,
) -> Result<Option<ReadDirectory>, Event> {
    match (data, children) {
        (MultiReadResult::Data { data, stat }, MultiReadResult::Children { children }) => {
            Ok(Some((data, stat, children)))
        }
        (MultiReadResult::Error { err }, _) | (_, MultiReadResult::Error { err }) => existing(Err(err)),
        _ => Err(Event::Unanswered),
    }
}

/// The permits and slots among these names, the oldest first.
pub(crate) fn permits_among(names: &[String]) -> Vec<(QueuePlace, &str)> {
    let permit = |name| Some((QueuePlace::parse_permit(name)?, name));
    let mut permits = names.iter().filter_map(|name| permit(name.as_str())).collect::<Vec<_>>();
    permits.sort_unstable();
    permits
}

/// Reads the data of these nodes, [`READ_CHUNK`] in one request.
pub(crate) async fn read_data(
    client: &Client,
    paths: &[impl AsRef<str>],
) -> Result<Vec<MultiReadResult>, Error> {
    let mut results = Vec::with_capacity(paths.len());
    for chunk in paths.chunks(READ_CHUNK) {
        let mut request = client.new_multi_reader();
        chunk.iter().try_for_each(|path| request.add_get_data(path.as_ref()))?;
        results.extend(request.commit().await?);
    }
    Ok(results)
}

/// Reads nodes of which `is_ours` says whether they are zklock's, by their paths. `None` stands for a node that is gone, and
/// `Some(None)` for one that this session may not read.
pub(crate) async fn read_paths<P: AsRef<str>>(
    client: &Client,
    paths: &[P],
    is_ours: impl Fn(&str) -> bool,
) -> Result<Vec<Option<Option<Seen>>>, Error> {
    let seen = paths.iter().zip(read_data(client, paths).await?).map(|(path, result)| match result {
        MultiReadResult::Data { data, stat } => Some(Some(Seen::new(is_ours(path.as_ref()), &data, &stat))),
        MultiReadResult::Error { err: Error::NoAuth } => Some(None),
        _ => None,
    });
    Ok(seen.collect())
}

/// Reads the nodes of some contenders in a directory. Nodes that are gone are left out.
pub(crate) async fn read_contenders(
    client: &Client,
    lock: &Settings,
    contenders: &[(QueuePlace, &str)],
) -> Result<Vec<QueueNode>, Event> {
    let paths = contenders.iter().map(|(_, name)| lock.queue.path.of_child(name)).collect::<Vec<_>>();
    let is_ours =
        |path: &str| lock.queue.path.child(path).is_some_and(|name| is_ours(lock.queue.layout(), name));
    let seen = read_paths(client, &paths, is_ours).await.map_err(failure)?;
    let nodes = contenders.iter().zip(paths).zip(seen);
    let node = |((&(place, _), path), seen): ((&(QueuePlace, &str), String), Option<_>)| {
        Some(QueueNode { place, path, seen: seen? })
    };
    Ok(nodes.filter_map(node).collect())
}

/// Reads these nodes, each given with the transaction that created it. Returns for each whether the node of its name is this
/// node, as far as this session may know; `None` if no server answered.
pub(crate) async fn are_there(client: Arc<Client>, nodes: Vec<(String, i64)>) -> Option<Vec<bool>> {
    let paths = nodes.iter().map(|(path, _)| path).collect::<Vec<_>>();
    let is_there = |((_, czxid), result): (&(String, i64), MultiReadResult)| match result {
        MultiReadResult::Data { stat, .. } => stat.czxid == *czxid,
        result => !matches!(result, MultiReadResult::Error { err: Error::NoNode }),
    };
    Some(nodes.iter().zip(read_data(&client, &paths).await.ok()?).map(is_there).collect())
}
