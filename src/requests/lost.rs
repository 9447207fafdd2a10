//! Looks for nodes whose create was not answered, and for nodes that may be gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared, join};
use tracing::warn;
use uuid::Uuid;
use zklock_recipe::{Event, Own, Refusal, Sequence};
use zookeeper_client::Client;

use super::own::{Certainty, check, delete};
use super::read::{READ_CHUNK, Seen, is_there, read};
use super::reply::{Reply, failure};
use crate::settings::Settings;

/// Checks whether our node exists after a reply about it was lost. The write in front makes sure that every request
/// which was sent before it on this connection has taken effect, or never will: a server handles one session's requests
/// in order. The leader refuses requests that come by a server which the session has left. But if that server had been
/// asked to resume the session, too, the leader may take the session for having gone back there (`zk::late_creates`).
pub(crate) async fn recover(client: Arc<Client>, lock: Arc<Settings>, own: Own) -> Reply {
    let path = lock.path.contender(own.sequence);
    match join(check(&client, "/"), is_there(&client, &path, own)).await {
        // If the root does not exist, as a chroot may not, a quorum has still answered.
        (Event::Confirmed | Event::OwnTouched, Ok(there)) => Event::Recovered(there.then_some(own)),
        (Event::Confirmed | Event::OwnTouched, Err(failure)) => failure,
        (unknown, _) => unknown,
    }
    .into()
}

/// Finds our node by the `id` in its data, after the reply to its create was lost.
pub(crate) async fn find(client: Arc<Client>, lock: Arc<Settings>, id: Uuid, search: Search) -> Reply {
    match search.run(client, &lock).await {
        Ok(found) => match found.by_id.get(&id) {
            Some(own) => Event::Recovered(Some(*own)),
            // The hidden node may be ours. A second node of ours would wait behind it for ever.
            None if found.hidden => Event::Refused(Refusal::NotAuthorized),
            None => Event::Recovered(None),
        },
        Err(event) => event,
    }
    .into()
}

/// Deletes nodes with one of these ids: their creates took effect after zklock had looked for them. Returns the ids of
/// the nodes that are gone now; `None` if it could not look.
pub(crate) async fn sweep(client: Arc<Client>, lock: Arc<Settings>, ids: Vec<Uuid>) -> Option<Vec<Uuid>> {
    let found = search(client.clone(), lock.clone()).await.ok()?;
    let mut gone = Vec::new();
    for (id, own) in ids.into_iter().filter_map(|id| Some((id, *found.by_id.get(&id)?))) {
        warn!(path = %lock.path, "the servers have carried out a create after zklock looked for its node in vain; zklock deletes the node");
        if delete(client.clone(), lock.clone(), own, Certainty::Unsure).await.event == Event::Deleted {
            gone.push(id);
        }
    }
    Some(gone)
}

/// Lists this session's nodes in the lock's directory, after a write as in [`recover`].
async fn search(client: Arc<Client>, lock: Arc<Settings>) -> Result<Arc<Found>, Event> {
    let (checked, listed) = join(check(&client, "/"), client.list_ephemerals(lock.path.as_str())).await;
    let paths = match checked {
        Event::Confirmed | Event::OwnTouched => listed.map_err(failure)?,
        unknown => return Err(unknown),
    };
    let contenders = paths.iter().filter_map(|path| lock.path.child(path)).filter_map(Sequence::parse);
    let contenders = contenders.collect::<Vec<_>>();
    let mut found = Found::default();
    for chunk in contenders.chunks(READ_CHUNK) {
        for node in read(&client, &lock, chunk).await.map_err(failure)? {
            match node.seen {
                Some(Seen { czxid, data: Some(data), .. }) => {
                    found.by_id.insert(data.id, Own { sequence: node.sequence, czxid });
                }
                Some(_) => {}
                None => found.hidden = true,
            }
        }
    }
    Ok(Arc::new(found))
}

/// This session's nodes in one directory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    by_id: HashMap<Uuid, Own>,
    /// Whether this session may not read some of its nodes.
    hidden: bool,
}

/// A search under way.
type Running = BoxFuture<'static, Result<Arc<Found>, Event>>;

/// The searches under way in one session, by directory. After a lost connection, all contenders that were about to
/// enter search at once, and n searches would read n nodes each.
#[derive(Default)]
pub(crate) struct Searches(Mutex<HashMap<String, WeakShared<Running>>>);

/// How a contender searches.
pub(crate) enum Search {
    /// Alone: the create was sent on this very connection, perhaps after another search began.
    Alone,
    /// Together with contenders that already search there: the create was sent on an earlier connection.
    Together(Arc<Searches>),
}

impl Search {
    async fn run(self, client: Arc<Client>, lock: &Arc<Settings>) -> Result<Arc<Found>, Event> {
        let Self::Together(searches) = self else { return search(client, lock.clone()).await };
        searches.join(client, lock).await
    }
}

impl Searches {
    /// Only the contenders that await a search hold it, so no search outlives its connection.
    fn join(&self, client: Arc<Client>, lock: &Arc<Settings>) -> Shared<Running> {
        let mut searches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        searches.retain(|_, search| search.upgrade().is_some());
        if let Some(search) = searches.get(lock.path.as_str()).and_then(WeakShared::upgrade) {
            return search;
        }
        let search = search(client, lock.clone()).boxed().shared();
        if let Some(weak) = search.downgrade() {
            searches.insert(lock.path.to_string(), weak);
        }
        search
    }
}
