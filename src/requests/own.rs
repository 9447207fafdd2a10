//! Requests about the contender's own node: whether it exists, and giving it up.

use std::sync::Arc;

use futures::future::join;
use zklock_recipe::{Event, Own, Refusal};
use zookeeper_client::{Client, Error, MultiWriteError};

use super::read::is_there;
use super::reply::{Reply, failure};
use crate::settings::Settings;

/// The version of a holder's node. Only a contender's create and its release write its data. If a node has another
/// version, somebody else wrote to it, and that takes the lock from its holder.
pub(crate) const HELD_VERSION: i32 = 0;

/// This version stands for any version.
const ANY_VERSION: i32 = -1;

/// Makes sure that the node of our node's name is our node, by a read unless that is certain. `Err` is the event that
/// takes the place of the request: `gone` if it is not our node, or what the read failed with.
async fn still_ours(
    client: &Client,
    path: &str,
    own: Own,
    certainty: Certainty,
    gone: Event,
) -> Result<(), Event> {
    match certainty {
        Certainty::Seen(_) => Ok(()),
        Certainty::Unsure => is_there(client, path, own).await?.then_some(()).ok_or(gone),
    }
}

/// How sure a contender is that the node of its node's name is its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The contender has seen its node on the present connection, which has this number.
    Seen(u64),
    /// The contender must look at the node first.
    Unsure,
}

/// Releases as a holder does: a write and a deletion in one transaction grant the lock to the successor.
pub(crate) async fn release(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    certainty: Certainty,
) -> Reply {
    let path = lock.path.contender(own.sequence);
    if let Err(event) = still_ours(&client, &path, own, certainty, Event::Released(false)).await {
        return event.into();
    }
    let mut transaction = client.new_multi_writer();
    if let Err(error) = transaction.add_set_data(&path, &[], None).and(transaction.add_delete(&path, None)) {
        return failure(error).into();
    }
    match transaction.commit().await {
        Ok(_) => Event::Released(true),
        Err(MultiWriteError::OperationFailed { source: Error::NoNode, .. }) => Event::Released(false),
        Err(error) => failure(error.into()),
    }
    .into()
}

/// Sends a sync, which the leader must answer. Returns false if no answer came.
pub(crate) async fn sync(client: Arc<Client>) -> bool {
    client.sync("/").await.is_ok()
}

/// Sends a transaction that names a node, and that a quorum must acknowledge. Returns whether a node of that name
/// exists; `None` if no quorum is known to have acknowledged it.
pub(crate) async fn heartbeat(client: Arc<Client>, node: String) -> Option<bool> {
    match check(&client, &node).await {
        Event::Confirmed => Some(true),
        Event::OwnTouched => Some(false),
        _ => None,
    }
}

/// Asks a quorum whether our node exists. The transaction knows only the node's name, so a read goes with it.
pub(crate) async fn confirm(client: Arc<Client>, lock: Arc<Settings>, own: Own) -> Reply {
    confirm_version(&client, &lock.path.contender(own.sequence), own, ANY_VERSION).await.into()
}

/// As [`confirm`], for our node at `path` with this version. A server handles one session's requests in order, so the
/// read is not older than the transaction.
pub(crate) async fn confirm_version(client: &Client, path: &str, own: Own, version: i32) -> Event {
    let (checked, seen) = join(check_version(client, path, version), is_there(client, path, own)).await;
    match seen {
        Ok(true) | Err(Event::Refused(Refusal::NotAuthorized)) => checked,
        Ok(false) => Event::OwnTouched,
        Err(failure) => failure,
    }
}

/// Sends a transaction that checks one node. It changes nothing, but it is a write, so only a quorum can acknowledge
/// it.
pub(super) async fn check(client: &Client, node: &str) -> Event {
    check_version(client, node, ANY_VERSION).await
}

/// As [`check`], and also checks that the node has this version.
pub(crate) async fn check_version(client: &Client, node: &str, version: i32) -> Event {
    let mut transaction = client.new_multi_writer();
    if let Err(error) = transaction.add_check_version(node, version) {
        return failure(error);
    }
    match transaction.commit().await {
        // A node that this session may not read exists all the same.
        Ok(_) | Err(MultiWriteError::OperationFailed { source: Error::NoAuth, .. }) => Event::Confirmed,
        Err(MultiWriteError::OperationFailed { source: Error::NoNode | Error::BadVersion, .. }) => {
            Event::OwnTouched
        }
        Err(error) => failure(error.into()),
    }
}

/// Leaves the queue by a plain deletion of our node.
pub(crate) async fn delete(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    certainty: Certainty,
) -> Reply {
    let path = lock.path.contender(own.sequence);
    if let Err(event) = still_ours(&client, &path, own, certainty, Event::Deleted).await {
        return event.into();
    }
    match client.delete(&path, None).await {
        Ok(()) | Err(Error::NoNode) => Event::Deleted,
        Err(error) => failure(error),
    }
    .into()
}
