//! Finds contenders of other clients by reading their nodes.

use futures::future::try_join_all;
use zklock_recipe::{Child, Foreign, ForeignClient, QueueLayout, Stranger};
use zookeeper_client as zk;
use zookeeper_client::{Client, Error, MultiReadResult};

use super::path_kind::{look_above, look_around};
use super::read_nodes::{READS, read_data};
use crate::node::{NodeData, decode};
use crate::path::child_of;
use crate::settings::Settings;

/// How many suspects one request reads. Each may have 1 MiB of data, and the session's heartbeats wait behind the answer.
const SUSPECTS: usize = 8;

/// Whether a node of this name may be a contender of another client.
pub(crate) fn is_suspect(layout: QueueLayout, name: &str) -> bool {
    matches!(layout.child(name), Child::Suspect(_))
}

/// Whether a node of this name, which has this owner, is a contender of another client.
pub(crate) fn is_foreign(name: &str, ephemeral_owner: i64) -> bool {
    matches!(Child::of(name), Child::Suspect(client) if client.contends(ephemeral_owner))
}

/// Returns something with which our contender cannot share the queue: a contender of another client among the children, or
/// another kind that the path has.
pub(crate) async fn find_stranger(
    client: &Client,
    lock: &Settings,
    children: &[String],
) -> Result<Option<Stranger>, Error> {
    if let Some(foreign) =
        find_foreigner(client, lock.queue.path.as_str(), lock.queue.layout(), children).await?
    {
        return Ok(Some(Stranger::Client(foreign)));
    }
    if let Some(other) = look_around(client, lock, children).await? {
        return Ok(Some(Stranger::Kind(other)));
    }
    match look_above(client, lock).await {
        Some(looked) => Ok(looked?.map(Stranger::Kind)),
        None => Ok(None),
    }
}

/// Returns a contender of another client among these children, if one is there. It reads only suspects, a few in one request.
pub(crate) async fn find_foreigner(
    client: &Client,
    directory: &str,
    layout: QueueLayout,
    children: &[String],
) -> Result<Option<Foreign>, Error> {
    let suspects = children.iter().filter(|name| is_suspect(layout, name)).collect::<Vec<_>>();
    for some in suspects.chunks(SUSPECTS * READS) {
        let reads = some.chunks(SUSPECTS).map(|few| foreigners_among(client, directory, layout, few));
        if let Some(found) = try_join_all(reads).await?.into_iter().flatten().next() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the contenders of other clients among some children, which it reads.
pub(crate) async fn foreigners_among(
    client: &Client,
    directory: &str,
    layout: QueueLayout,
    names: &[&String],
) -> Result<Vec<Foreign>, Error> {
    let paths = names.iter().map(|name| child_of(directory, name)).collect::<Vec<_>>();
    let judged =
        names.iter().zip(read_data(client, &paths).await?).filter_map(|(name, result)| match result {
            MultiReadResult::Data { data, stat } => judge(layout, name, Some((&data, &stat))),
            MultiReadResult::Error { err: Error::NoAuth } => judge(layout, name, None),
            _ => None,
        });
    Ok(judged.collect())
}

/// Decides by a child's name and its node whether it is a contender that cannot share this queue. `read` is `None` if this
/// session may not read the node.
pub(crate) fn judge(layout: QueueLayout, name: &str, read: Option<(&[u8], &zk::Stat)>) -> Option<Foreign> {
    let session = read.and_then(|(_, stat)| zklock_recipe::session(stat.ephemeral_owner));
    match (layout.child(name), read) {
        (Child::Suspect(client), _) if read.is_none_or(|(_, stat)| client.contends(stat.ephemeral_owner)) => {
            Some(Foreign { name: name.to_owned(), client, session })
        }
        // If somebody has written to a node since its creation, its data proves nothing. A node that is not ephemeral
        // never vanishes by itself.
        (Child::Contender(_), Some((data, stat)))
            if !layout.is_shared()
                && (stat.ephemeral_owner == 0 || stat.version == 0 && decode::<NodeData>(data).is_none()) =>
        {
            Some(lookalike(name, stat))
        }
        _ => None,
    }
}

/// Returns the foreign contender of a node whose name looks like zklock's.
pub(crate) fn lookalike(name: &str, stat: &zk::Stat) -> Foreign {
    let session = zklock_recipe::session(stat.ephemeral_owner);
    Foreign { name: name.to_owned(), client: ForeignClient::Lookalike, session }
}
