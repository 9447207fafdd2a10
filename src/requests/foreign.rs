//! Contenders of other clients, by what reading their nodes shows.

use std::sync::Arc;

use zklock_recipe::{Child, Event, Foreign, ForeignClient};
use zookeeper_client as zk;
use zookeeper_client::{Client, Error, MultiReadResult};

use super::read::READ_CHUNK;
use super::reply::failure;
use crate::node::NodeData;
use crate::settings::Settings;

/// A contender of another client among these children, if there is one. Only what may be one is read.
pub(super) async fn live_suspect(
    client: &Client,
    lock: &Settings,
    children: &[String],
) -> Result<Option<Foreign>, Error> {
    let is_suspect = |name: &&String| matches!(Child::of(name), Child::Suspect(_));
    let suspects = children.iter().filter(is_suspect).collect::<Vec<_>>();
    for chunk in suspects.chunks(READ_CHUNK) {
        if let Some(foreign) = foreign(client, lock, chunk).await?.into_iter().next() {
            return Ok(Some(foreign));
        }
    }
    Ok(None)
}

/// Every contender of another client; or what went wrong.
pub(crate) async fn foreigners(client: Arc<Client>, lock: Arc<Settings>) -> Result<Vec<Foreign>, Event> {
    let children = match client.list_children(lock.path.as_str()).await {
        Ok(children) => children,
        Err(Error::NoNode) => return Ok(Vec::new()),
        Err(error) => return Err(failure(error)),
    };
    let numbered = children.iter().filter(|name| Child::of(name) != Child::Other).collect::<Vec<_>>();
    let mut found = Vec::new();
    for chunk in numbered.chunks(READ_CHUNK) {
        found.extend(foreign(&client, &lock, chunk).await.map_err(failure)?);
    }
    Ok(found)
}

/// The contenders of other clients among some children, by one request that reads them all.
async fn foreign(client: &Client, lock: &Settings, names: &[&String]) -> Result<Vec<Foreign>, Error> {
    let mut reader = client.new_multi_reader();
    for name in names {
        reader.add_get_data(&lock.path.of_child(name))?;
    }
    let judged = names.iter().zip(reader.commit().await?).filter_map(|(name, result)| match result {
        MultiReadResult::Data { data, stat } => judge(name, Some((&data, &stat))),
        MultiReadResult::Error { err: Error::NoAuth } => judge(name, None),
        _ => None,
    });
    Ok(judged.collect())
}

/// Whether a child is another client's contender, by its name and what reading it shows: `None` if it is not ours to
/// read.
pub(super) fn judge(name: &str, read: Option<(&[u8], &zk::Stat)>) -> Option<Foreign> {
    let session = read.and_then(|(_, stat)| zklock_recipe::session(stat.ephemeral_owner));
    match (Child::of(name), read) {
        (Child::Suspect(client), _) if read.is_none() || session.is_some() => {
            Some(Foreign { name: name.to_owned(), client, session })
        }
        // Whatever data a node was created with may have been overwritten since: then it tells nothing. A node that is
        // not ephemeral never goes by itself.
        (Child::Contender(_), Some((data, stat)))
            if stat.ephemeral_owner == 0 || (stat.version == 0 && NodeData::decode(data).is_none()) =>
        {
            Some(lookalike(name, stat))
        }
        _ => None,
    }
}

/// A node with a name like zklock's that is not zklock's.
pub(super) fn lookalike(name: &str, stat: &zk::Stat) -> Foreign {
    let session = zklock_recipe::session(stat.ephemeral_owner);
    Foreign { name: name.to_owned(), client: ForeignClient::Lookalike, session }
}
