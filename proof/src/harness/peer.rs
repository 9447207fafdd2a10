//! zookeeper-client's own recipe.

use zookeeper_client::{Acls, Client, CreateMode, Error, LockOptions, LockPrefix, OwnedLockClient};

/// Acquires the lock at this directory by `Client::lock`, with a node that has this data.
pub(crate) async fn peer_lock(
    client: &Client,
    directory: &str,
    data: &[u8],
) -> Result<OwnedLockClient, Error> {
    let acls = Acls::anyone_all();
    let options = LockOptions::new(acls).with_ancestor_options(CreateMode::Persistent.with_acls(acls))?;
    let lock = client.lock(LockPrefix::new_curator(directory, "lock-")?, data, options).await?;
    Ok(lock.into_owned())
}
