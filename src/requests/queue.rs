//! Requests that list the queue.

use std::sync::Arc;

use zklock_recipe::Event;
use zookeeper_client::{Client, Error};

use super::enter_one::directory;
use super::foreign::{is_suspect, stranger};
use super::read::{Node, existing, read};
use super::reply::{Reply, failure};
use crate::settings::Settings;

/// Lists the lock's directory.
pub(crate) async fn list(client: Arc<Client>, lock: Arc<Settings>) -> Reply {
    match client.get_children(lock.path.as_str()).await {
        Ok((children, stat)) => match stranger(&client, &lock, &children).await {
            Ok(None) => {
                lock.hints.saw_queue(children.len());
                let layout = lock.layout();
                let shows_release = layout.is_shared() && directory(&stat).shows_release();
                // A suspect may have gone since, and may have written to the directory as it entered.
                let listed = match shows_release && !children.iter().any(|name| is_suspect(layout, name)) {
                    true => Event::ListedAfterRelease,
                    false => Event::Listed,
                };
                listed(lock.translated(children))
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
    let children = existing(client.list_children(lock.path.as_str()).await)?.unwrap_or_default();
    read(&client, &lock, &lock.queue(&children)).await
}
