//! Requests that list the queue.

use std::sync::Arc;

use futures::future::join;
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Own};
use zookeeper_client::{Client, Error};

use super::confirm::is_own;
use super::enter_one::directory_stats;
use super::foreign::{find_stranger, is_suspect};
use super::reply::{Reply, failure};
use crate::settings::Settings;

/// Lists the lock's directory. Where another client shares the queue, it also looks whether somebody has written to our node.
pub(crate) async fn list(client: Arc<Client>, lock: Arc<Settings>, own: Option<Own>) -> Reply {
    let written = is_written(&client, &lock, own.filter(|_| lock.queue.layout().is_shared()));
    let (listed, written) = join(client.get_children(lock.queue.path.as_str()), written).await;
    if written {
        return Event::OwnWritten.into();
    }
    match listed {
        Ok((children, stat)) => match find_stranger(&client, &lock, &children).await {
            Ok(None) => {
                lock.hints.saw_children(children.len());
                let layout = lock.queue.layout();
                let shows_release = layout.is_shared() && directory_stats(&stat).shows_release();
                // A suspect may have gone since, and may have written to the directory as it entered.
                let shows_release = shows_release && !children.iter().any(|name| is_suspect(layout, name));
                let children = lock.translated(children);
                if shows_release { Event::ListedAfterRelease(children) } else { Event::Listed(children) }
            }
            Ok(Some(stranger)) => Event::Foreign(stranger),
            Err(error) => failure(error),
        },
        Err(Error::NoNode) => Event::NoDirectory,
        Err(error) => failure(error),
    }
    .into()
}

/// Lists the names in the directory of a lock that is held. Its queue is not shared.
pub(crate) async fn review(client: Arc<Client>, lock: Arc<Settings>) -> Reply {
    match client.list_children(lock.queue.path.as_str()).await {
        Ok(children) => Event::Listed(children),
        Err(Error::NoNode) => Event::NoDirectory,
        Err(error) => failure(error),
    }
    .into()
}

/// Whether somebody has certainly written to our node.
async fn is_written(client: &Client, lock: &Settings, own: Option<Own>) -> bool {
    let Some(own) = own else { return false };
    let stat = client.check_stat(&lock.queue.path.contender(own.place)).await.ok().flatten();
    stat.is_some_and(|stat| is_own(Some(&stat), own) && stat.version != UNTOUCHED)
}
