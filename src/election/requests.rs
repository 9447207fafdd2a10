//! The requests about an election's announcement: reading it, and watching it.

use std::sync::Arc;

use zklock_recipe::{Event, Footing, Stamp};
use zookeeper_client as zk;
use zookeeper_client::Client;

use crate::node::{LeaderData, decode};
use crate::requests::read_nodes::existing;
use crate::requests::sighting::{Sighting, watched};
use crate::requests::watchers::Watching;

/// The version of an announcement. A leader only creates announcements, and writes to none. So a node with another
/// version was written to by somebody else.
const ANNOUNCED_VERSION: i32 = 0;

/// An announcement, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) data: LeaderData,
    /// The id of the session that owns the node.
    pub(crate) session: i64,
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
        genuine.then_some(Self { data, session: stat.ephemeral_owner })
    }
}

/// Reads the announcement at `path`.
pub(crate) async fn read_announcement(client: Arc<Client>, path: String) -> Result<Option<Announced>, Event> {
    let read = existing(client.get_data(&path).await)?;
    Ok(read.and_then(|(data, stat)| Announced::new(&data, &stat)))
}

/// Reads the announcement at `path`. Without a watch of this connection, it sets one before that.
pub(crate) async fn watch_announcement(
    watching: Watching,
    path: String,
    footing: Footing,
) -> Result<Sighting<Announced>, Event> {
    let read = async { watching.client.get_data(&path).await };
    let (changes, read) = watched(&watching, &path, footing, read).await?;
    let announced = |(data, stat): (Vec<u8>, zk::Stat)| {
        let announced = Announced::new(&data, &stat)?;
        Some((Some(Stamp { token: announced.data.token, zxid: stat.czxid }), announced))
    };
    // A watch stands even if this node may not be read. The next one may.
    Ok(Sighting { found: existing(read).map(|read| read.and_then(announced)), changes })
}
