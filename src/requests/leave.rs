//! Requests by which a contender leaves its queue: it releases its lock, or deletes its node.

use std::sync::Arc;

use futures::future::join_all;
use zklock_recipe::acquisition::Certainty;
use zklock_recipe::companion::{CompanionTarget, removal};
use zklock_recipe::nodes::{self, Entered};
use zklock_recipe::transaction::Operation;
use zklock_recipe::{Event, Own, Report, companion};
use zookeeper_client::{Client, Error};

use super::companion::SharedCompanion;
use super::confirm::{OwnNode, path_of, report_failure, still_ours};
use super::reply::{Reply, failure};
use super::transaction::commit;
use crate::settings::Settings;

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
        Err((index, event)) => report_failure(index, event),
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
            Some((lock, _)) if lock.queue.layout().is_shared() => release_shared(client, lock, path).await,
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
            Entered::Directory(()) => lock.queue.path.as_str(),
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

/// Leaves the queue by a plain deletion of our node. The companion of a holder that does so, because its guard was lost, goes
/// along.
pub(crate) async fn delete(
    client: Arc<Client>,
    lock: Arc<Settings>,
    own: Own,
    companion: Option<Arc<SharedCompanion>>,
    certainty: Certainty,
) -> Reply {
    let path = lock.queue.path.contender(own.place);
    if let Err(event) = still_ours(&client, &path, own, certainty, Event::Deleted).await {
        return event.into();
    }
    match remove(&client, &path, companion, false).await {
        Ok(()) | Err(Error::NoNode) => Event::Deleted,
        Err(error) => failure(error),
    }
    .into()
}
