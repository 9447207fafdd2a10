//! The requests about an election's announcement: reading it, and watching it.

use std::sync::Arc;

use zklock_recipe::{Event, Footing, Stamp};
use zookeeper_client as zk;
use zookeeper_client::{AddWatchMode, Client};

use super::read::existing;
use super::reply::failure;
use super::sighting::{Sighting, persistent};
use crate::node::{LeaderData, decode};

/// The version of an announcement. A leader only creates announcements, and writes to none. So a node with another
/// version was written to by somebody else.
const ANNOUNCED_VERSION: i32 = 0;

/// An announcement, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) data: LeaderData,
    /// The id of the session that owns the node.
    pub(crate) session: i64,
    /// The transaction that created the node.
    pub(crate) zxid: i64,
}

impl Announced {
    /// Reads an announcement from a node; `None` if no leader made the node, or if somebody wrote to it.
    ///
    /// The leader's own node is older than its announcement, so its token is lower than the announcement's `czxid`.
    fn new(data: &[u8], stat: &zk::Stat) -> Option<Self> {
        let data = decode::<LeaderData>(data)?;
        let genuine = stat.version == ANNOUNCED_VERSION
            && zklock_recipe::session(stat.ephemeral_owner).is_some()
            && data.token < stat.czxid;
        genuine.then_some(Self { data, session: stat.ephemeral_owner, zxid: stat.czxid })
    }
}

/// Reads the announcement at `path`.
pub(crate) async fn announcement(client: Arc<Client>, path: String) -> Result<Option<Announced>, Event> {
    let read = existing(client.get_data(&path).await)?;
    Ok(read.and_then(|(data, stat)| Announced::new(&data, &stat)))
}

/// Reads the announcement at `path`. Without a watch of this connection, it sets one before that.
pub(crate) async fn watch_announcement(
    client: Arc<Client>,
    path: String,
    footing: Footing,
) -> Result<Sighting<Announced>, Event> {
    let announced = |data: &[u8], stat: &zk::Stat| {
        let announced = Announced::new(data, stat)?;
        Some((Stamp { token: announced.data.token, zxid: announced.zxid }, announced))
    };
    watch_node(client, path, footing, announced).await
}

/// Reads the node at `path`. Without a watch of this connection, it sets one before that; both requests are sent in one poll.
/// `found` says what the node shows, and the stamp of that.
pub(super) async fn watch_node<T>(
    client: Arc<Client>,
    path: String,
    footing: Footing,
    found: impl FnOnce(&[u8], &zk::Stat) -> Option<(Stamp, T)>,
) -> Result<Sighting<T>, Event> {
    let look = async { client.get_data(&path).await };
    let (changes, read) = match footing {
        Footing::Watched => (None, look.await),
        Footing::Unwatched => {
            let watch = client.watch(&path, AddWatchMode::Persistent);
            // The second request is sent behind the first one. A server serves a session's requests in their order.
            let (watcher, read) = futures::future::join(watch, look).await;
            (Some(persistent(watcher.map_err(failure)?)), read)
        }
    };
    // A watch stands even if this node may not be read. The next one may.
    let found = existing(read)
        .map(|read| read.and_then(|(data, stat)| found(&data, &stat)).map(|(stamp, it)| (Some(stamp), it)));
    Ok(Sighting { found, changes })
}
