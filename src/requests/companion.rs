//! A holder's [companion](recipe::Companion), and the requests that take it back.

use zklock_recipe::companion::{self as recipe, CompanionCommand, CompanionEvent, SeenCompanion};
use zookeeper_client::{Client, Error};

use super::reply::failure;
use crate::mutex::Mutex;
use crate::node::{LeaderData, decode};

/// The companion of a holder. Its contender, and the requests that remove the contender's node, share it.
pub(crate) struct SharedCompanion {
    pub(crate) path: String,
    machine: Mutex<recipe::Companion>,
}

impl SharedCompanion {
    pub(crate) fn new(path: String, session: i64, token: i64) -> Self {
        Self { path, machine: Mutex::new(recipe::Companion::new(session, token)) }
    }

    pub(crate) fn handle(&self, event: CompanionEvent) -> Option<CompanionCommand> {
        self.machine.lock().handle(event)
    }

    /// Whether it is to go along with the holder's own node.
    pub(crate) fn goes_along(&self) -> bool {
        self.machine.lock().goes_along()
    }
}

/// Reads the companion at `path`, as the leader has it. A server that lags behind would show one that the next holder's has
/// replaced, and both have the same version.
pub(crate) async fn read_companion(client: &Client, path: &str) -> CompanionEvent {
    let read = async {
        client.sync(path).await?;
        client.get_data(path).await
    };
    match read.await {
        Ok((data, stat)) => CompanionEvent::Seen(Some(SeenCompanion {
            session: stat.ephemeral_owner,
            token: decode::<LeaderData>(&data).map(|data| data.token),
            version: stat.version,
        })),
        Err(Error::NoNode) => CompanionEvent::Seen(None),
        Err(error) => companion_failure(error),
    }
}

/// Deletes the companion at `path`, if it has this version.
pub(crate) async fn delete_companion(client: &Client, path: &str, version: i32) -> CompanionEvent {
    match client.delete(path, Some(version)).await {
        Ok(()) | Err(Error::NoNode) => CompanionEvent::Deleted,
        Err(Error::BadVersion) => CompanionEvent::Changed,
        Err(error) => companion_failure(error),
    }
}

/// If the session is over, no request is answered any more, and the companion goes with it.
fn companion_failure(error: Error) -> CompanionEvent {
    match failure(error) {
        zklock_recipe::Event::Unanswered => CompanionEvent::Unanswered,
        _ => CompanionEvent::Refused,
    }
}
