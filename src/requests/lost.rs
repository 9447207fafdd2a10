//! Looking for nodes whose creation was not answered, or of which nobody knows whether they are there.

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

/// Whether our node is there, though a reply about it was lost. The write in front makes sure that whatever was sent
/// before it on this connection has taken effect, or never will: a server handles one session's requests in their order. The
/// leader refuses requests that come by a server which the session has left; but it may take the session for having gone
/// back there, if that server had been asked to resume it, too (`zk::late`).
pub(crate) async fn recover(client: Arc<Client>, lock: Arc<Settings>, own: Own) -> Reply {
    let path = lock.path.contender(own.sequence);
    match join(check(&client, "/"), is_there(&client, &path, own)).await {
        // A root that is not there, as a chroot may not be, is an answer, too.
        (Event::Confirmed | Event::OwnTouched, Ok(there)) => Event::Recovered(there.then_some(own)),
        (Event::Confirmed | Event::OwnTouched, Err(failure)) => failure,
        (unknown, _) => unknown,
    }
    .into()
}

/// Finds our node by the `id` in its data, after the reply to its creation was lost.
pub(crate) async fn find(client: Arc<Client>, lock: Arc<Settings>, id: Uuid, search: Search) -> Reply {
    match search.run(client, &lock).await {
        Ok(found) => match found.by_id.get(&id) {
            Some(own) => Event::Recovered(Some(*own)),
            // It may be ours, and another one would queue behind it for ever.
            None if found.hidden => Event::Refused(Refusal::NotAuthorized),
            None => Event::Recovered(None),
        },
        Err(event) => event,
    }
    .into()
}

/// Deletes what has one of these ids: a node that was created after it was looked for. Which of them are gone now; `None` if
/// they could not be looked for.
pub(crate) async fn sweep(client: Arc<Client>, lock: Arc<Settings>, ids: Vec<Uuid>) -> Option<Vec<Uuid>> {
    let found = search(client.clone(), lock.clone()).await.ok()?;
    let mut gone = Vec::new();
    for (id, own) in ids.into_iter().filter_map(|id| Some((id, *found.by_id.get(&id)?))) {
        warn!(path = %lock.path, "a contender that was looked for in vain has come to be after all; deleting it");
        if delete(client.clone(), lock.clone(), own, Certainty::Unsure).await.event == Event::Deleted {
            gone.push(id);
        }
    }
    Some(gone)
}

/// Lists this session's nodes in the lock's directory, behind a write as in [`recover`].
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
    /// Some are not ours to read.
    hidden: bool,
}

/// A search under way.
type Running = BoxFuture<'static, Result<Arc<Found>, Event>>;

/// The searches under way in one session, by directory. After a lost connection all who were about to enter search at
/// once, and n searches would read n nodes each.
#[derive(Default)]
pub(crate) struct Searches(Mutex<HashMap<String, WeakShared<Running>>>);

/// How to search.
pub(crate) enum Search {
    /// On our own: what we look for was sent on this very connection, perhaps later than another search.
    Alone,
    /// With those that search there already: what we look for was sent on an earlier connection.
    Together(Arc<Searches>),
}

impl Search {
    async fn run(self, client: Arc<Client>, lock: &Arc<Settings>) -> Result<Arc<Found>, Event> {
        let Self::Together(searches) = self else { return search(client, lock.clone()).await };
        searches.join(client, lock).await
    }
}

impl Searches {
    /// Only those who await a search keep it, so none outlives its connection.
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
