//! The contender's own node: is it there, give it up.

use std::sync::Arc;

use futures::future::join;
use zklock_recipe::{Event, Own, Refusal};
use zookeeper_client::{Client, Error, MultiWriteError};

use super::read::is_there;
use super::reply::{Reply, failure};
use crate::settings::Settings;

/// The version of a holder's node. A contender's data is written by its creation and by its release only, so somebody else
/// wrote to a node of another version, which takes the lock from its holder.
pub(crate) const HELD_VERSION: i32 = 0;

/// The version that every node has.
const ANY_VERSION: i32 = -1;

/// Whether what has our node's name is our node, by a look at it unless that is certain.
async fn still_ours(client: &Client, path: &str, own: Own, certainty: Certainty) -> Result<bool, Event> {
    match certainty {
        Certainty::Seen(_) => Ok(true),
        Certainty::Unsure => is_there(client, path, own).await,
    }
}

/// How sure a contender is that what has its node's name is its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// It has seen its node on the present connection, which has this number.
    Seen(u64),
    /// It must look first.
    Unsure,
}

/// Releases as a holder: a write and a deletion that are one transaction grant the successor.
pub(crate) async fn release(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    certainty: Certainty,
) -> Reply {
    let path = lock.path.contender(own.sequence);
    match still_ours(&client, &path, own, certainty).await {
        Ok(true) => {}
        Ok(false) => return Event::Released(false).into(),
        Err(failure) => return failure.into(),
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

/// Has the leader answer; false if it is not known to have.
pub(crate) async fn sync(client: Arc<Client>) -> bool {
    client.sync("/").await.is_ok()
}

/// Has a quorum acknowledge a transaction that names a node: whether there was a node of that name; `None` if no quorum
/// is known to have.
pub(crate) async fn heartbeat(client: Arc<Client>, node: String) -> Option<bool> {
    match check(&client, &node).await {
        Event::Confirmed => Some(true),
        Event::OwnTouched => Some(false),
        _ => None,
    }
}

/// Asks the quorum whether our node is there. The transaction only knows its name, so a read goes with it.
pub(crate) async fn confirm(client: Arc<Client>, lock: Arc<Settings>, own: Own) -> Reply {
    confirm_version(&client, &lock.path.contender(own.sequence), own, ANY_VERSION).await.into()
}

/// As [`confirm`], for our node at `path` with this version. A server takes one session's requests in their order, so
/// the read sees what the transaction saw, or later.
pub(crate) async fn confirm_version(client: &Client, path: &str, own: Own, version: i32) -> Event {
    let (checked, seen) = join(check_version(client, path, version), is_there(client, path, own)).await;
    match seen {
        Ok(true) | Err(Event::Refused(Refusal::NotAuthorized)) => checked,
        Ok(false) => Event::OwnTouched,
        Err(failure) => failure,
    }
}

/// A transaction that checks one node: a write, which only a quorum can acknowledge, though it changes nothing.
pub(super) async fn check(client: &Client, node: &str) -> Event {
    check_version(client, node, ANY_VERSION).await
}

/// As [`check`], and whether the node has this version.
pub(crate) async fn check_version(client: &Client, node: &str, version: i32) -> Event {
    let mut transaction = client.new_multi_writer();
    if let Err(error) = transaction.add_check_version(node, version) {
        return failure(error);
    }
    match transaction.commit().await {
        // A node that is not ours to read is there all the same.
        Ok(_) | Err(MultiWriteError::OperationFailed { source: Error::NoAuth, .. }) => Event::Confirmed,
        Err(MultiWriteError::OperationFailed { source: Error::NoNode | Error::BadVersion, .. }) => {
            Event::OwnTouched
        }
        Err(error) => failure(error.into()),
    }
}

/// Leaves the queue.
pub(crate) async fn delete(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    certainty: Certainty,
) -> Reply {
    let path = lock.path.contender(own.sequence);
    match still_ours(&client, &path, own, certainty).await {
        Ok(true) => {}
        Ok(false) => return Event::Deleted.into(),
        Err(failure) => return failure.into(),
    }
    match client.delete(&path, None).await {
        Ok(()) | Err(Error::NoNode) => Event::Deleted,
        Err(error) => failure(error),
    }
    .into()
}
