//! Checks whether a holder still has its lock.

use std::sync::Arc;

use futures::future::join;
use zklock_recipe::Event;
use zklock_recipe::transaction::UNTOUCHED;
use zookeeper_client::{Client, Error};

use crate::acquire::query::query;
use crate::error::QueryError;
use crate::fence::Sequencer;
use crate::requests::{check, failure};
use crate::zk::Succession;

/// Asks a quorum whether the holder still has its lock.
pub(super) async fn verify(succession: &Succession, sequencer: &Sequencer) -> Result<(), QueryError> {
    let asked = sequencer.clone();
    let holds = query(succession, &sequencer.node(), |wire| stands(wire.client, asked)).await?;
    if holds { Ok(()) } else { Err(QueryError::Outdated { sequencer: sequencer.clone() }) }
}

/// Sends a check and a read. The check is a write, so only a quorum can acknowledge it, but it names the node by path
/// and version only. The read that follows distinguishes the node from an earlier or later one of the same name. A
/// server handles the requests of one session in order, and a session never moves to a server that knows less than the
/// session has seen. So the read is not older than the check. Returns whether the holder's node stands.
async fn stands(client: Arc<Client>, sequencer: Sequencer) -> Result<bool, Event> {
    // This never fails: "/" is a valid path.
    let root = Client::clone(&client).chroot("/").unwrap_or_else(|unchanged| unchanged);
    let node = sequencer.node();
    let read = async { root.get_data(&node).await };
    match join(check(&root, &node, Some(UNTOUCHED)), read).await {
        (Ok(()), Ok((_, stat))) => Ok(stat.czxid == sequencer.token().zxid()
            && stat.ephemeral_owner == sequencer.session()
            && stat.version == UNTOUCHED),
        (Ok(()), Err(Error::NoNode)) | (Err(Event::OwnTouched | Event::OwnWritten), _) => Ok(false),
        (Ok(()), Err(error)) => Err(failure(error)),
        (Err(unconfirmed), _) => Err(unconfirmed),
    }
}
