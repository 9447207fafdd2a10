//! Requests about the contender's own node: whether it exists, and giving it up.

use std::sync::Arc;

use futures::future::{join, join_all};
use zklock_recipe::acquisition::Certainty;
use zklock_recipe::companion::{Target, removal};
use zklock_recipe::nodes::{self, confirmation};
use zklock_recipe::transaction::Operation;
use zklock_recipe::{Event, Input, Own, companion};
use zookeeper_client::{Client, Error, MultiWriteError};

use super::companion::Companion;
use super::read::is_there;
use super::reply::{Reply, failure};
use super::transaction::plain;
use crate::settings::Settings;

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

/// A contender's node: the lock in whose queue it is, and the node.
pub(crate) type OwnNode = (Arc<Settings>, Own);

/// Releases as a holder does: one transaction writes to each of these nodes and deletes it. A lock's release so grants
/// the lock to its successors. The companion of a single node goes in the same transaction.
pub(crate) async fn release(
    client: Arc<Client>,
    nodes: Vec<OwnNode>,
    companion: Option<Arc<Companion>>,
    certainty: Certainty,
) -> Input {
    let released = match nodes.as_slice() {
        [node] => release_node(&client, node, companion, certainty).await.map_err(|event| (0, event)),
        nodes => release_nodes(&client, nodes, certainty).await,
    };
    match released {
        Ok(()) => Input::All(Event::Released(true)),
        Err((index, event)) => failed(index, event),
    }
}

/// As [`release`], for one of several nodes. It has no companion.
pub(crate) async fn release_one(client: Arc<Client>, node: OwnNode, certainty: Certainty) -> Reply {
    let released = release_node(&client, &node, None, certainty).await;
    released.map_or_else(|event| event, |()| Event::Released(true)).into()
}

async fn release_node(
    client: &Client,
    (lock, own): &OwnNode,
    companion: Option<Arc<Companion>>,
    certainty: Certainty,
) -> Result<(), Event> {
    let path = lock.path.contender(own.place);
    still_ours(client, &path, *own, certainty, Event::Released(false)).await?;
    remove(client, &path, companion, true).await.map_err(unreleased)
}

/// Releases several nodes. They have no companions. `Err` says which node was in the way, and why.
async fn release_nodes(
    client: &Client,
    nodes: &[OwnNode],
    certainty: Certainty,
) -> Result<(), (usize, Event)> {
    let looks = nodes.iter().map(async |(lock, own)| {
        let path = lock.path.contender(own.place);
        still_ours(client, &path, *own, certainty, Event::Released(false)).await
    });
    for (index, look) in join_all(looks).await.into_iter().enumerate() {
        look.map_err(|event| (index, event))?;
    }
    release_all(client, nodes).await.map_err(|(index, error)| (index, unreleased(error)))
}

fn unreleased(error: Error) -> Event {
    if error == Error::NoNode { Event::Released(false) } else { failure(error) }
}

async fn release_all(client: &Client, nodes: &[OwnNode]) -> Result<(), (usize, Error)> {
    let paths = nodes.iter().map(|(lock, own)| lock.path.contender(own.place)).collect::<Vec<_>>();
    let operations = nodes::release(0..nodes.len());
    let node = |index: usize| operations.get(index).map_or(0, |operation| *operation.node());
    let named = operations.iter().map(|operation| operation.clone().map(|node| paths[node].as_str()));
    let mut transaction = plain(client, named).map_err(|(index, error)| (node(index), error))?;
    match transaction.commit().await {
        Ok(_) => Ok(()),
        Err(MultiWriteError::OperationFailed { index, source }) => Err((node(index), source)),
        Err(error) => Err((0, error.into())),
    }
}

/// Returns what an event about one node means for a request about several.
fn failed(index: usize, event: Event) -> Input {
    match event {
        Event::Unanswered | Event::SessionOver(_) => Input::All(event),
        event => Input::Failed(index, event),
    }
}

/// Removes our node, and its companion with it, in one transaction. It may be a release.
///
/// The companion is deleted by its name, whosever it is. That is safe: the transaction fails as a whole unless our own node
/// exists, and until our node is gone, nobody behind us can have made one. If the companion cannot be deleted (it is gone, or
/// an ACL or a child of it forbids that), our node goes without it: a successor must not wait for a companion. It may be there
/// all the same: it may have been under way when the transaction found none. So the contender takes it back in the end.
async fn remove(
    client: &Client,
    path: &str,
    companion: Option<Arc<Companion>>,
    releases: bool,
) -> Result<(), Error> {
    if let Some(companion) = companion.filter(|companion| companion.goes_along()) {
        match remove_with(client, path, releases, Some(&companion.path)).await {
            Err((Target::Companion, _)) => {}
            removed => {
                removed.map_err(|(_, error)| error)?;
                companion.handle(companion::Event::WentAlong);
                return Ok(());
            }
        }
    }
    remove_with(client, path, releases, None).await.map_err(|(_, error)| error)
}

/// `Err` says which node was in the way, and why.
async fn remove_with(
    client: &Client,
    path: &str,
    releases: bool,
    companion: Option<&str>,
) -> Result<(), (Target, Error)> {
    let operations = removal(releases, companion.is_some());
    if let [Operation::Delete(target, version)] = operations.as_slice() {
        return client.delete(path, *version).await.map_err(|error| (*target, error));
    }
    let name = |target| match target {
        Target::Own => path,
        Target::Companion => companion.unwrap_or(path),
    };
    let failed = |index: usize| operations.get(index).map_or(Target::Own, |operation| *operation.node());
    let named = operations.iter().map(|operation| operation.clone().map(name));
    let mut transaction = plain(client, named).map_err(|(_, error)| (Target::Own, error))?;
    match transaction.commit().await {
        Ok(_) => Ok(()),
        Err(MultiWriteError::OperationFailed { index, source }) => Err((failed(index), source)),
        Err(error) => Err((Target::Own, error.into())),
    }
}

/// Sends a sync, which the leader must answer. Returns false if no answer came.
pub(crate) async fn sync(client: Arc<Client>) -> bool {
    client.sync("/").await.is_ok()
}

/// Returns once the server has answered, whatever it says, all that was sent before on this connection.
pub(crate) async fn answered(client: &Client) {
    let _ = client.check_stat("/").await;
}

/// Sends a transaction that a quorum must acknowledge. Returns whether one did. The root need not exist, as a chroot may not.
pub(crate) async fn heartbeat(client: Arc<Client>) -> bool {
    matches!(check(&client, "/").await, Ok(()) | Err(Event::OwnTouched))
}

/// Asks a quorum whether our nodes exist, in any version.
pub(crate) async fn confirm(client: Arc<Client>, nodes: Vec<OwnNode>) -> Result<(), Input> {
    let nodes = nodes.iter().map(|(lock, own)| (lock.path.contender(own.place), *own)).collect::<Vec<_>>();
    confirm_version(&client, &nodes, None).await.map_err(|(index, event)| failed(index, event))
}

/// Asks a quorum whether these nodes of ours exist with this version. `Err` says what is wrong, and with which of them.
/// The transaction knows only their names, so reads go with it. A server handles one session's requests in order, so no
/// read is older than the transaction.
pub(crate) async fn confirm_version(
    client: &Client,
    nodes: &[(String, Own)],
    version: Option<i32>,
) -> Result<(), (usize, Event)> {
    let paths = nodes.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>();
    let reads = join_all(nodes.iter().map(|(path, own)| is_there(client, path, *own)));
    let (checked, seen) = join(check_all(client, &paths, version), reads).await;
    for (index, seen) in seen.into_iter().enumerate() {
        match seen {
            Ok(true) => {}
            Ok(false) => return Err((index, Event::OwnTouched)),
            Err(failure) => return Err((index, failure)),
        }
    }
    checked
}

/// As [`check_version`], for several nodes in one transaction.
async fn check_all(client: &Client, paths: &[&str], version: Option<i32>) -> Result<(), (usize, Event)> {
    let checks = confirmation(paths.iter().copied(), version);
    let mut transaction = plain(client, checks).map_err(|(index, error)| (index, failure(error)))?;
    match transaction.commit().await {
        Ok(_) => Ok(()),
        Err(MultiWriteError::OperationFailed { index, source: Error::NoNode | Error::BadVersion }) => {
            Err((index, Event::OwnTouched))
        }
        // A node that this session may not read exists all the same. The server has not looked at those behind it.
        Err(MultiWriteError::OperationFailed { index, source: Error::NoAuth }) => {
            match paths.split_at_checked(index + 1) {
                Some((_, [])) | None => Ok(()),
                Some((checked, rest)) => Box::pin(check_all(client, rest, version))
                    .await
                    .map_err(|(index, event)| (checked.len() + index, event)),
            }
        }
        Err(MultiWriteError::OperationFailed { index, source }) => Err((index, failure(source))),
        Err(error) => Err((0, failure(error.into()))),
    }
}

/// Sends a transaction that checks one node. It changes nothing, but it is a write, so only a quorum can acknowledge
/// it.
pub(super) async fn check(client: &Client, node: &str) -> Result<(), Event> {
    check_all(client, &[node], None).await.map_err(|(_, event)| event)
}

/// As [`check`], and also checks that the node has this version.
pub(crate) async fn check_version(client: &Client, node: &str, version: i32) -> Result<(), Event> {
    check_all(client, &[node], Some(version)).await.map_err(|(_, event)| event)
}

/// Leaves the queue by a plain deletion of our node. The companion of a holder that does so, because its guard was lost, goes
/// along.
pub(crate) async fn delete(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    companion: Option<Arc<Companion>>,
    certainty: Certainty,
) -> Reply {
    let path = lock.path.contender(own.place);
    if let Err(event) = still_ours(&client, &path, own, certainty, Event::Deleted).await {
        return event.into();
    }
    match remove(&client, &path, companion, false).await {
        Ok(()) | Err(Error::NoNode) => Event::Deleted,
        Err(error) => failure(error),
    }
    .into()
}
