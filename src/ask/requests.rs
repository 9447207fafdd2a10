//! The requests about an ask: who holds, the ask's node, and the end of a hold.
//!
//! The node is an ephemeral one of the asker's session, at a fixed name at the path. Nobody takes it for a contender: its name has
//! no number. Where a lock's contenders count the children of their directory, it costs those one more request.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join};
use uuid::Uuid;
use zklock_recipe::{Event, Kind, PathKind, QueueLayout, QueuePlace, Refusal};
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, Error, MultiReadResult};

use crate::acl::Acl;
use crate::node::{ASK, AskData, PoolData, decode};
use crate::path::{child_of, name_of};
use crate::requests::ask_node::ask_in_node;
use crate::requests::confirm::is_own_hidden;
use crate::requests::evidence::Evidence;
use crate::requests::foreign::find_foreigner;
use crate::requests::read_nodes::{
    NodeRead, QueueNode, Seen, existing, existing_directory, permits_among, read_at_once, read_paths,
};
use crate::requests::reply::failure;
use crate::requests::watch::fired;
use crate::requests::watchers::Watching;

/// Who holds what is at a path.
pub(crate) enum Holders {
    /// These, the first one first.
    Here(Vec<QueueNode>),
    /// The queue there is another client's, too.
    Shared,
    /// The path is the queue of what is at the path above it.
    Inner,
    /// The session may not read this node, so nobody knows.
    Hidden(String),
    /// The path does not exist.
    Nowhere,
}

impl Evidence for Holders {}

/// Finds those who hold the lock, the election, the semaphore or the slots at `path`.
pub(crate) async fn find_holders(client: Arc<Client>, path: String) -> Result<Holders, Event> {
    // Each round answers a change that came between two requests.
    loop {
        let children = match client.list_children(&path).await {
            Err(Error::NoAuth) => return Ok(Holders::Hidden(path)),
            listed => existing(listed)?,
        };
        let Some(children) = children else {
            return Ok(Holders::Nowhere);
        };
        let layout = QueueLayout::of_queue(children.iter().map(String::as_str)).unwrap_or_default();
        if layout.is_shared()
            || find_foreigner(&client, &path, layout, &children).await.map_err(failure)?.is_some()
        {
            return Ok(Holders::Shared);
        }
        let (directory, first) = match holders_among(&children) {
            first if !first.is_empty() => (path.clone(), first),
            _ => match read_inner(&client, &path).await? {
                Inner::Permits(permits) => (child_of(&path, PathKind::PERMITS), permits),
                Inner::Queue(queue) => (child_of(&path, PathKind::QUEUE), holders_among(&queue)),
                Inner::Hidden(node) => return Ok(Holders::Hidden(node)),
            },
        };
        let paths = first.iter().map(|(_, name)| child_of(&directory, name)).collect::<Vec<_>>();
        let seen = read_paths(&client, &paths, |_| true).await.map_err(failure)?;
        let nodes = first.iter().zip(paths).zip(seen);
        let nodes =
            nodes.filter_map(|((&(place, _), path), seen)| Some(QueueNode { place, path, seen: seen? }));
        let mut nodes = nodes.collect::<Vec<_>>();
        if nodes.is_empty() && !first.is_empty() {
            continue;
        }
        let kind = |node: &QueueNode| Some(node.seen.as_ref()?.data.as_ref()?.kind);
        if directory == path && nodes.iter().any(|node| kind(node).is_some_and(|kind| kind != PathKind::Lock))
        {
            return Ok(Holders::Inner);
        }
        // A lock at `path/queue` says nothing of `path`.
        if directory != path && name_of(&directory) == PathKind::QUEUE {
            nodes.retain(|node| kind(node).is_none_or(|kind| kind == PathKind::Election));
        }
        return Ok(Holders::Here(nodes));
    }
}

/// Of the contenders among these names, those that hold: the first one, and the readers beside a first reader.
fn holders_among(names: &[String]) -> Vec<(QueuePlace, String)> {
    let mut queue = QueueLayout::Own.queue(names);
    let readers = queue.iter().take_while(|(place, _)| place.kind == Kind::Shared).count();
    queue.truncate(readers.max(1));
    queue.into_iter().map(|(place, name)| (place, name.to_owned())).collect()
}

/// What an election or a pool keeps at its path.
enum Inner {
    Permits(Vec<(QueuePlace, String)>),
    Queue(Vec<String>),
    /// The session may not read this node.
    Hidden(String),
}

/// What an election or a pool keeps at `path`, if one is there.
async fn read_inner(client: &Client, path: &str) -> Result<Inner, Event> {
    let [pool, queue] = [PathKind::PERMITS, PathKind::QUEUE].map(|name| child_of(path, name));
    let reads = [NodeRead::Data(&pool), NodeRead::Children(&pool), NodeRead::Children(&queue)];
    let [data, names, queued] = read_at_once(client, reads).await?;
    let is_hidden =
        |result: &MultiReadResult| matches!(result, MultiReadResult::Error { err: Error::NoAuth });
    if is_hidden(&data) || is_hidden(&names) {
        return Ok(Inner::Hidden(pool));
    }
    if let Some((data, _, names)) = existing_directory(data, names)?
        && PoolData::decode(&data).is_some()
    {
        return Ok(Inner::Permits(
            permits_among(&names).into_iter().map(|(place, name)| (place, name.to_owned())).collect(),
        ));
    }
    match queued {
        MultiReadResult::Children { children } => Ok(Inner::Queue(children)),
        MultiReadResult::Error { err: Error::NoNode } => Ok(Inner::Queue(Vec::new())),
        MultiReadResult::Error { err: Error::NoAuth } => Ok(Inner::Hidden(queue)),
        MultiReadResult::Error { err } => Err(failure(err)),
        _ => Err(Event::Unanswered),
    }
}

/// What an ask came to.
pub(crate) enum MadeAsk {
    /// It stands, in the node that this transaction created.
    Stands(i64),
    /// Another one stands there, which was made then, by the leader's clock.
    Taken(AskData, i64),
    /// The node there is no ask.
    Occupied,
    LockDirectory,
    /// The session may not read the node there.
    Hidden,
    /// The path does not exist any more, so nobody holds anything there.
    Nowhere,
}

impl Evidence for MadeAsk {}

/// What an asker knows of its node: the id in the data, and the transaction that created the node, once a server has named it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAsk {
    pub(crate) id: Uuid,
    pub(crate) czxid: Option<i64>,
}

impl OwnAsk {
    /// Whether a node is the asker's. Others may have written to it, so that it has another id.
    fn made(self, data: &[u8], stat: &zk::Stat) -> bool {
        zklock_recipe::session(stat.ephemeral_owner).is_some()
            && (self.czxid == Some(stat.czxid)
                || decode::<AskData>(data).is_some_and(|ask| ask.id == self.id))
    }
}

/// Makes the node of an ask at `path`. If its reply was lost before, it finds the node. It replaces a node of the asker's that goes
/// with an earlier session or that somebody has written to, and an ask of which nobody holds any more.
pub(crate) async fn make_ask(
    client: Arc<Client>,
    path: String,
    data: Vec<u8>,
    own: OwnAsk,
    acl: Acl,
) -> Result<MadeAsk, Event> {
    let node = child_of(&path, ASK);
    loop {
        match client.create(&node, &data, &acl.on(CreateMode::Ephemeral)).await {
            Ok((stat, _)) => return Ok(MadeAsk::Stands(stat.czxid)),
            Err(Error::NoNode) => return Ok(MadeAsk::Nowhere),
            Err(Error::NodeExists) => {}
            Err(error) => return Err(failure(error)),
        }
        let (found, stat) = match client.get_data(&node).await {
            Err(Error::NoAuth) => return Ok(MadeAsk::Hidden),
            read => match existing(read)? {
                Some(found) => found,
                None => continue,
            },
        };
        let other = match ask_in_node(&found, &stat) {
            Some(ask) if ask.id == own.id && stat.ephemeral_owner == client.session_id().0 => {
                return Ok(MadeAsk::Stands(stat.czxid));
            }
            _ if own.made(&found, &stat) => None,
            None if is_lock_directory(&client, &node).await? => return Ok(MadeAsk::LockDirectory),
            None => return Ok(MadeAsk::Occupied),
            Some(ask) if is_moot(&client, &path, &ask).await? => Some(ask),
            Some(ask) => return Ok(MadeAsk::Taken(ask, stat.ctime)),
        };
        match (client.delete(&node, Some(stat.version)).await, other) {
            (Ok(()) | Err(Error::NoNode | Error::BadVersion), _) => {}
            (Err(Error::NoAuth), Some(ask)) => return Ok(MadeAsk::Taken(ask, stat.ctime)),
            // The node of the last session goes by itself.
            (Err(Error::NoAuth), None) => return Err(Event::Unanswered),
            (Err(error), _) => return Err(failure(error)),
        }
    }
}

async fn is_lock_directory(client: &Client, path: &str) -> Result<bool, Event> {
    let children = existing(client.list_children(path).await)?.unwrap_or_default();
    Ok(children.iter().any(|name| QueuePlace::parse(name).is_some()))
}

/// Whether nobody whom an ask names holds any more. The ask was read before. Its asker has seen them hold before it made the ask, so
/// they are listed, or they have gone.
async fn is_moot(client: &Arc<Client>, path: &str, ask: &AskData) -> Result<bool, Event> {
    let is_meant = |node: &QueueNode| {
        let name = name_of(&node.path);
        let is = |seen: &Seen, czxid: i64| seen.czxid == czxid;
        ask.of.iter().any(|(of, czxid)| of == name && node.seen.as_ref().is_none_or(|seen| is(seen, *czxid)))
    };
    Ok(match find_holders(client.clone(), path.to_owned()).await? {
        Holders::Here(nodes) => !nodes.iter().any(is_meant),
        Holders::Nowhere => true,
        Holders::Shared | Holders::Inner | Holders::Hidden(_) => false,
    })
}

/// Deletes the node of this ask, if this session has it. A create that was sent before on this connection has taken effect by the
/// read, if it ever does. The `sync` before the read brings the server up to what the leader had done by then.
pub(crate) async fn withdraw_ask(client: Arc<Client>, node: String, own: OwnAsk) -> Result<(), Event> {
    loop {
        let read = async { client.get_data(&node).await };
        let (synced, read) = join(client.sync(&node), read).await;
        synced.map_err(failure)?;
        let version = match read {
            // Somebody has changed its ACL.
            Err(Error::NoAuth) if own.czxid.is_some() && is_own_hidden(&client, &node).await? => None,
            read => match existing(read)? {
                Some((data, stat))
                    if own.made(&data, &stat) && stat.ephemeral_owner == client.session_id().0 =>
                {
                    Some(stat.version)
                }
                _ => return Ok(()),
            },
        };
        match client.delete(&node, version).await {
            Ok(()) | Err(Error::NoNode) => return Ok(()),
            // Somebody has written to it meanwhile, or the node is another one.
            Err(Error::BadVersion) => {}
            Err(error) => return Err(failure(error)),
        }
    }
}

/// Watches a holder's node. `None` if it is gone.
///
/// It reads the node, though `exists` would do: a server accepts that one from a session that may not read the node, and then never
/// fires the watch (ZOOKEEPER-4799).
pub(crate) async fn watch_end(
    watching: Watching,
    path: String,
    czxid: i64,
) -> Result<Option<BoxFuture<'static, ()>>, Event> {
    match watching.data(&path).await {
        Ok((_, stat, watcher)) if stat.czxid == czxid => Ok(Some(fired(watcher).map(|_| ()).boxed())),
        Ok(_) | Err(Error::NoNode) => Ok(None),
        Err(Error::NoAuth) => Err(Event::Refused(Refusal::NotAuthorized)),
        Err(error) => Err(failure(error)),
    }
}
