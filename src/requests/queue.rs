//! Requests that list the queue.

use std::sync::Arc;

use zklock_recipe::{Event, Place};
use zookeeper_client::{Client, Error};

use super::foreign::stranger;
use super::read::{Node, READ_CHUNK, read};
use super::reply::{Reply, failure};
use crate::settings::Settings;

/// Lists the lock's directory.
pub(crate) async fn list(client: Arc<Client>, lock: Arc<Settings>) -> Reply {
    match client.list_children(lock.path.as_str()).await {
        Ok(children) => match stranger(&client, &lock, &children).await {
            Ok(None) => {
                lock.hints.saw_queue(children.len());
                Event::Listed(children)
            }
            Ok(Some(stranger)) => Event::Foreign(stranger),
            Err(error) => failure(error),
        },
        Err(Error::NoNode) => Event::NoDirectory,
        Err(error) => failure(error),
    }
    .into()
}

/// Returns every contender in the queue, with the holder first, or what went wrong.
pub(crate) async fn contenders(client: Arc<Client>, lock: Arc<Settings>) -> Result<Vec<Node>, Event> {
    let mut contenders = match client.list_children(lock.path.as_str()).await {
        Ok(children) => children.iter().filter_map(|name| Place::parse(name)).collect::<Vec<_>>(),
        Err(Error::NoNode) => Vec::new(),
        Err(error) => return Err(failure(error)),
    };
    contenders.sort_unstable();
    let mut nodes = Vec::with_capacity(contenders.len());
    for chunk in contenders.chunks(READ_CHUNK) {
        nodes.extend(read(&client, &lock, chunk).await.map_err(failure)?);
    }
    Ok(nodes)
}
