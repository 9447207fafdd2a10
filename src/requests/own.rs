//! Requests about the contender's own node: whether it exists, and giving it up.

use std::sync::Arc;

use futures::future::{join, join_all};
use zklock_recipe::acquisition::Certainty;
use zklock_recipe::companion::{CompanionTarget, removal};
use zklock_recipe::nodes::{self, Entered, confirmation};
use zklock_recipe::transaction::{Operation, UNTOUCHED};
use zklock_recipe::{Event, Own, Report, companion};
use zookeeper_client::{Client, Error};

use super::companion::SharedCompanion;
use super::read::is_there;
use super::reply::{Reply, failure};
use super::transaction::commit;
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

/// The path of that node.
pub(crate) fn path_of((lock, own): &OwnNode) -> String {
    lock.path.contender(own.place)
}

/// Releases as a holder does: one transaction writes to each of these nodes and deletes it. A lock's release so grants
/// the lock to its successors. The companion of a single node goes in the same transaction.
pub(crate) async fn release(
    client: Arc<Client>,
    nodes: Vec<OwnNode>,
    companion: Option<Arc<SharedCompanion>>,
    certainty: Certainty,
) -> Report {
    match release_all(&client, &nodes, companion, certainty).await {
        Ok(()) => Report::All(Event::Released(true)),
        Err((index, event)) => failed(index, event),
    }
}

/// As [`release`], for one of several nodes. It has no companion.
pub(crate) async fn release_one(client: Arc<Client>, node: OwnNode, certainty: Certainty) -> Reply {
    let released = release_all(&client, &[node], None, certainty).await;
    released.map_or_else(|(_, event)| event, |()| Event::Released(true)).into()
}

/// `Err` says which node was in the way, and why.
async fn release_all(
    client: &Client,
    nodes: &[OwnNode],
    companion: Option<Arc<SharedCompanion>>,
    certainty: Certainty,
) -> Result<(), (usize, Event)> {
    let paths = nodes.iter().map(path_of).collect::<Vec<_>>();
    let looks = nodes
        .iter()
        .zip(&paths)
        .map(|((_, own), path)| still_ours(client, path, *own, certainty, Event::Released(false)));
    for (index, look) in join_all(looks).await.into_iter().enumerate() {
        look.map_err(|event| (index, event))?;
    }
    let released = match paths.as_slice() {
        [path] => match nodes.first() {
            Some((lock, _)) if lock.layout().is_shared() => release_shared(client, lock, path).await,
            _ => remove(client, path, companion, true).await,
        }
        .map_err(|error| (0, error)),
        paths => {
            let operations = nodes::release(0..paths.len());
            let released = commit(client, &operations, |node| paths[*node].as_str()).await;
            released.map(drop).map_err(|(node, error)| (node.copied().unwrap_or(0), error))
        }
    };
    released.map_err(|(index, error)| match error {
        Error::NoNode => (index, Event::Released(false)),
        error => (index, failure(error)),
    })
}

/// Releases a node in a queue that another client shares. It has no companion. If somebody has written to the directory
/// since we looked, their data stay, and the release leaves no trace.
async fn release_shared(client: &Client, lock: &Settings, own: &str) -> Result<(), Error> {
    let mut trace = lock.hints.blank_version();
    loop {
        let operations = nodes::release_shared(trace);
        let released = commit(client, &operations, |node| match node {
            Entered::Own(()) => own,
            Entered::Directory(()) => lock.path.as_str(),
        });
        match released.await {
            Err((Some(Entered::Directory(())), error @ (Error::NoAuth | Error::BadVersion))) => {
                if error == Error::NoAuth {
                    lock.hints.must_not_write_directory();
                }
                trace = None;
            }
            released => return released.map(drop).map_err(|(_, error)| error),
        }
    }
}

/// Returns what an event about one node means for a request about several.
fn failed(index: usize, event: Event) -> Report {
    match event {
        Event::Unanswered | Event::SessionOver(_) => Report::All(event),
        event => Report::Failed(index, event),
    }
}

/// Removes our node, and its companion with it, in one transaction. It may be a release.
///
/// If the companion cannot be deleted (it is gone, or an ACL or a child of it forbids that), our node goes without it: a
/// successor must not wait for a companion. It may be there all the same: it may have been under way when the transaction found
/// none. So the contender takes it back in the end.
async fn remove(
    client: &Client,
    path: &str,
    companion: Option<Arc<SharedCompanion>>,
    releases: bool,
) -> Result<(), Error> {
    if let Some(companion) = companion.filter(|companion| companion.goes_along()) {
        match remove_with(client, path, releases, Some(&companion.path)).await {
            Err((CompanionTarget::Companion, _)) => {}
            removed => {
                removed.map_err(|(_, error)| error)?;
                companion.handle(companion::CompanionEvent::WentAlong);
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
) -> Result<(), (CompanionTarget, Error)> {
    let operations = removal(releases, companion.is_some());
    if let [Operation::Delete(target, version)] = operations.as_slice() {
        return client.delete(path, *version).await.map_err(|error| (*target, error));
    }
    let removed = commit(client, &operations, |target| match target {
        CompanionTarget::Own => path,
        CompanionTarget::Companion => companion.unwrap_or(path),
    });
    removed
        .await
        .map(drop)
        .map_err(|(target, error)| (target.copied().unwrap_or(CompanionTarget::Own), error))
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
    matches!(check(&client, "/", None).await, Ok(()) | Err(Event::OwnTouched))
}

/// Asks a quorum whether our nodes exist. In a queue that is shared, a write to one of them is a request to leave.
pub(crate) async fn confirm(client: Arc<Client>, nodes: Vec<OwnNode>) -> Result<(), Report> {
    let shared = nodes.iter().map(|(lock, _)| lock).filter(|lock| lock.layout().is_shared());
    let version = shared.clone().next().map(|_| UNTOUCHED);
    // The release of a predecessor has written to it.
    let looks = join_all(shared.map(async |lock| {
        if let Ok(Some(stat)) = client.check_stat(lock.path.as_str()).await {
            lock.saw_shared_directory(&stat);
        }
    }));
    let nodes = nodes.iter().map(|(lock, own)| (lock.path.contender(own.place), *own)).collect::<Vec<_>>();
    let (confirmed, _) = join(confirm_version(&client, &nodes, version), looks).await;
    confirmed.map_err(|(index, event)| failed(index, event))
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

/// As [`check`], for several nodes in one transaction.
async fn check_all(client: &Client, paths: &[&str], version: Option<i32>) -> Result<(), (usize, Event)> {
    let checks = confirmation(0..paths.len(), version).collect::<Vec<_>>();
    match commit(client, &checks, |index| paths[*index]).await {
        Ok(_) => Ok(()),
        Err((Some(index), Error::NoNode)) => Err((*index, Event::OwnTouched)),
        Err((Some(index), Error::BadVersion)) => Err((*index, Event::OwnWritten)),
        // A node that this session may not read exists all the same. The server has not looked at those behind it.
        Err((Some(index), Error::NoAuth)) => {
            let (checked, rest) = paths.split_at(index + 1);
            if rest.is_empty() {
                return Ok(());
            }
            let behind = Box::pin(check_all(client, rest, version)).await;
            behind.map_err(|(index, event)| (checked.len() + index, event))
        }
        Err((index, error)) => Err((index.copied().unwrap_or(0), failure(error))),
    }
}

/// Sends a transaction that checks one node, and that it has this version, if one is given. It changes nothing, but it is a
/// write, so only a quorum can acknowledge it.
pub(crate) async fn check(client: &Client, node: &str, version: Option<i32>) -> Result<(), Event> {
    check_all(client, &[node], version).await.map_err(|(_, event)| event)
}

/// Leaves the queue by a plain deletion of our node. The companion of a holder that does so, because its guard was lost, goes
/// along.
pub(crate) async fn delete(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    companion: Option<Arc<SharedCompanion>>,
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
