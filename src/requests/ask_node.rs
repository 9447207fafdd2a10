//! The node of an ask, as the holder who is asked sees it, and a contender that finds it at its path.

use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Footing, Stamp};
use zookeeper_client as zk;
use zookeeper_client::Client;

use super::read_nodes::existing;
use super::reply::failure;
use super::sighting::{Sighting, watched};
use super::watchers::Watching;
use crate::node::{ASK, AskData};

/// Reads the ask at `path`; sets a watch, if none stands. Also returns when it was made, by the leader's clock.
///
/// It looks at the node before it reads it: anybody may make one of 1 MiB there, and heartbeats wait behind the answer.
pub(crate) async fn watch_ask(
    watching: Watching,
    path: String,
    footing: Footing,
) -> Result<Sighting<(AskData, i64)>, Event> {
    let look = async { watching.client.check_stat(&path).await };
    let (changes, stat) = watched(&watching, &path, footing, look).await?;
    let found = match stat.map_err(failure) {
        Ok(Some(stat)) if may_be_ask(&stat) => existing(watching.client.get_data(&path).await),
        other => other.map(|_| None),
    };
    let ask = |(data, stat): (Vec<u8>, zk::Stat)| {
        let ask = ask_in_node(&data, &stat)?;
        Some((Some(Stamp { token: stat.czxid, zxid: stat.czxid }), (ask, stat.ctime)))
    };
    Ok(Sighting { found: found.map(|read| read.and_then(ask)), changes })
}

/// The ask whose node has this path; `None` if there is none that this session can read.
pub(crate) async fn read_ask_at(client: &Client, path: &str) -> Option<AskData> {
    path.strip_suffix(ASK)?.strip_suffix('/')?;
    let (data, stat) = client.get_data(path).await.ok()?;
    ask_in_node(&data, &stat)
}

/// The ask in a node, if the node is as an asker makes it.
pub(crate) fn ask_in_node(data: &[u8], stat: &zk::Stat) -> Option<AskData> {
    AskData::decode(data).filter(|_| may_be_ask(stat))
}

/// Whether a node may be an ask: it goes with a session, nobody has written to it, and it is not too long.
fn may_be_ask(stat: &zk::Stat) -> bool {
    zklock_recipe::session(stat.ephemeral_owner).is_some()
        && stat.version == UNTOUCHED
        && usize::try_from(stat.data_length).is_ok_and(|length| length <= AskData::LONGEST)
}
