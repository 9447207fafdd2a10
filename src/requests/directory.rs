//! Creates the directories of locks.

use std::sync::Arc;

use zklock_recipe::{Event, Refusal, Report};
use zookeeper_client::{Client, CreateMode, CreateOptions, Error};

use super::reply::failure;
use crate::settings::{QueueEntry, Settings};

/// Creates the directories of these queues. Of several, some may exist, and creating one that exists may be forbidden.
/// So it creates only those that it does not find.
pub(crate) async fn create_directories(client: Arc<Client>, entries: Vec<QueueEntry>) -> Report {
    for (index, QueueEntry { lock, .. }) in entries.iter().enumerate() {
        if entries.len() > 1
            && let Ok(Some(_)) = client.check_stat(lock.queue.path.as_str()).await
        {
            continue;
        }
        match create_directory(&client, lock).await {
            Event::DirectoryReady => {}
            Event::Refused(refusal) => return Report::Failed(index, Event::Refused(refusal)),
            event => return Report::All(event),
        }
    }
    Report::All(Event::DirectoryReady)
}

/// Creates a directory with the lock's ACL, unless it exists. It is no container: these data of its own must outlive its children.
/// `Ok(false)` if its parent does not exist.
pub(crate) async fn create_lasting(
    client: &Client,
    lock: &Settings,
    path: &str,
    data: &[u8],
) -> Result<bool, Event> {
    match client.create(path, data, &lock.options.acl.on(CreateMode::Persistent)).await {
        Ok(_) | Err(Error::NodeExists) => Ok(true),
        Err(Error::NoNode) => Ok(false),
        Err(error) => Err(failure(error)),
    }
}

/// Creates the lock's directory and its ancestors as container nodes. ZooKeeper removes container nodes once they are empty.
/// A directory that another client shares lasts: kazoo's `Lock` makes its own once, and fails when that is gone. The chroot is
/// created only if the session was asked to.
pub(crate) async fn create_directory(client: &Client, lock: &Settings) -> Event {
    // Before the directory was there, nobody of our kind kept others from the path above.
    lock.hints.saw_fit(false);
    let mode = if lock.queue.layout().is_shared() { CreateMode::Persistent } else { CreateMode::Container };
    let directory = lock.options.acl.on(mode);
    // The directory comes first: creating an ancestor that exists takes permission to create it.
    let mut created = client.create(lock.queue.path.as_str(), &[], &directory).await;
    if created == Err(Error::NoNode) {
        if let Err(refused) = create_ancestors(client, lock, &directory).await {
            return refused;
        }
        created = client.create(lock.queue.path.as_str(), &[], &directory).await;
    }
    match created {
        Ok(_) => {
            lock.hints.saw_directory(true);
            Event::DirectoryReady
        }
        // If ZooKeeper removed an ancestor in between, the contender's create shows it.
        Err(Error::NodeExists | Error::NoNode) => Event::DirectoryReady,
        Err(error) => failure(error),
    }
}

/// Creates what is above the directory. ZooKeeper may remove an ancestor before the next one is created in it. Then the create of the
/// directory shows it, as if it had been removed behind this.
async fn create_ancestors(
    client: &Client,
    lock: &Settings,
    directory: &CreateOptions<'_>,
) -> Result<(), Event> {
    let chroot = client.path().trim_end_matches('/');
    if !chroot.is_empty() {
        // This never fails: "/" is a valid path.
        let root = Client::clone(client).chroot("/").unwrap_or_else(|unchanged| unchanged);
        // A create of a chroot that exists would take the permission to create it.
        if root.check_stat(chroot).await.map_err(failure)?.is_none() {
            if !lock.options.creates_chroot {
                return Err(Event::Refused(Refusal::NoChroot));
            }
            // Sessions that do not create it need it as well, so it is no container.
            let lasting = lock.options.ancestors_acl.on(CreateMode::Persistent);
            there_or_removed(root.mkdir(chroot, &lasting).await)?;
        }
    }
    let parent = lock.queue.path.parent().unwrap_or_default();
    let above = match parent.rsplit_once('/') {
        // The parent of an inner directory belongs to the same kind, and has other children of it. So it has the lock's
        // own ACL.
        Some((above, _)) if *lock.queue.subject() != lock.queue.path => above,
        _ => parent,
    };
    if !above.is_empty() {
        there_or_removed(client.mkdir(above, &lock.options.ancestors_acl.on(CreateMode::Container)).await)?;
    }
    if above == parent {
        return Ok(());
    }
    there_or_removed(client.create(parent, &[], directory).await.map(drop))
}

fn there_or_removed(created: Result<(), Error>) -> Result<(), Event> {
    match created {
        Ok(()) | Err(Error::NodeExists | Error::NoNode) => Ok(()),
        Err(error) => Err(failure(error)),
    }
}
