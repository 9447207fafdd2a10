//! Reads contenders' nodes.

use zklock_recipe::{Event, Own, Sequence};
use zookeeper_client as zk;
use zookeeper_client::{Client, Error, MultiReadResult};

use super::reply::failure;
use crate::node::NodeData;
use crate::settings::Settings;

/// A node in the queue, of any contender.
pub(crate) struct Node {
    pub(crate) sequence: Sequence,
    /// What reading the node shows; `None` if this session may not read it.
    pub(crate) seen: Option<Seen>,
}

/// What reading a node shows.
pub(crate) struct Seen {
    pub(crate) czxid: i64,
    /// The id of the session that owns the node.
    pub(crate) session: i64,
    /// The node's data; `None` if it is not zklock's.
    pub(crate) data: Option<NodeData>,
}

impl Seen {
    pub(super) fn new(data: &[u8], stat: &zk::Stat) -> Self {
        Self { czxid: stat.czxid, session: stat.ephemeral_owner, data: NodeData::decode(data) }
    }
}

/// How many nodes one request reads.
pub(super) const READ_CHUNK: usize = 128;

/// Reads the nodes of some contenders, in one request. Nodes that are gone are left out.
pub(super) async fn read(
    client: &Client,
    lock: &Settings,
    contenders: &[Sequence],
) -> Result<Vec<Node>, Error> {
    let mut reader = client.new_multi_reader();
    for sequence in contenders {
        reader.add_get_data(&lock.path.contender(*sequence))?;
    }
    let mut nodes = Vec::with_capacity(contenders.len());
    for (sequence, result) in contenders.iter().zip(reader.commit().await?) {
        let seen = match result {
            MultiReadResult::Data { data, stat } => Some(Seen::new(&data, &stat)),
            MultiReadResult::Error { err: Error::NoAuth } => None,
            _ => continue,
        };
        nodes.push(Node { sequence: *sequence, seen });
    }
    Ok(nodes)
}

/// Whether a node that was found under our node's name is our node. Once the directory was made again, names are used
/// again.
pub(super) fn is(found: Option<&zk::Stat>, own: Own) -> bool {
    found.is_some_and(|stat| stat.czxid == own.czxid)
}

/// Reads our node. Returns whether it exists, or what went wrong.
pub(super) async fn is_there(client: &Client, path: &str, own: Own) -> Result<bool, Event> {
    match client.get_data(path).await {
        Ok((_, stat)) => Ok(is(Some(&stat), own)),
        Err(Error::NoNode) => Ok(false),
        Err(error) => Err(failure(error)),
    }
}
