//! Looks for nodes whose create was not answered, and for nodes that may be gone.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::join;
use tracing::warn;
use uuid::Uuid;
use zklock_recipe::{Event, Own, Place, Refusal};
use zookeeper_client::Client;

use super::own::{Certainty, HELD_VERSION, check, delete};
use super::read::{Node, READ_CHUNK, Seen, is_there, read};
use super::reply::{Reply, failure};
use crate::joint::{Joint, WeakJoint};
use crate::settings::Settings;

/// Checks whether our node exists after a reply about it was lost. The write in front makes sure that every request
/// which was sent before it on this connection has taken effect, or never will: a server handles one session's requests
/// in order. The leader refuses requests that come by a server which the session has left. But if that server had been
/// asked to resume the session, too, the leader may take the session for having gone back there (`zk::late_creates`).
pub(crate) async fn recover(client: Arc<Client>, lock: Arc<Settings>, own: Own) -> Reply {
    let path = lock.path.contender(own.place);
    match join(check(&client, "/"), is_there(&client, &path, own)).await {
        // If the root does not exist, as a chroot may not, a quorum has still answered.
        (Event::Confirmed | Event::OwnTouched, Ok(there)) => Event::Recovered(there.then_some(own)),
        (Event::Confirmed | Event::OwnTouched, Err(failure)) => failure,
        (unknown, _) => unknown,
    }
    .into()
}

/// Finds our node by the `id` in its data, after the reply to its create was lost.
pub(crate) async fn find(
    client: Arc<Client>,
    lock: Arc<Settings>,
    id: Uuid,
    searches: Arc<Searches>,
    search: Search,
) -> Reply {
    let found = match search {
        Search::Alone => searches.run(client, lock).await,
        Search::Together => searches.join(client, &lock).await,
    };
    match found {
        Ok(found) => match (found.by_id.get(&id), &found.unclear) {
            (Some(own), _) => Event::Recovered(Some(*own)),
            // That node may be ours. A second node of ours would wait behind it for ever.
            (None, Some(refusal)) => Event::Refused(refusal.clone()),
            (None, None) => Event::Recovered(None),
        },
        Err(event) => event,
    }
    .into()
}

/// Deletes nodes with one of these ids: their creates took effect after zklock had looked for them. Returns the ids of
/// the nodes that are gone now; `None` if it could not look. The error is a reason why it cannot tell.
pub(crate) async fn sweep(
    client: Arc<Client>,
    lock: Arc<Settings>,
    ids: Vec<Uuid>,
    searches: Arc<Searches>,
) -> Result<Option<Vec<Uuid>>, Refusal> {
    let Ok(found) = searches.run(client.clone(), lock.clone()).await else { return Ok(None) };
    if let Some(refusal) = &found.unclear {
        return Err(refusal.clone());
    }
    let mut gone = Vec::new();
    for (id, own) in ids.into_iter().filter_map(|id| Some((id, *found.by_id.get(&id)?))) {
        warn!(path = %lock.path, "the servers have carried out a create after zklock looked for its node in vain; zklock deletes the node");
        if delete(client.clone(), lock.clone(), own, Certainty::Unsure).await.event == Event::Deleted {
            gone.push(id);
        }
    }
    Ok(Some(gone))
}

/// This session's nodes in one directory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    by_id: HashMap<Uuid, Own>,
    /// Why a node of this session may be any contender's, if there is such a node: nobody can read its id.
    unclear: Option<Refusal>,
}

/// The result of a search.
type Searched = Result<Arc<Found>, Event>;

/// How a contender searches.
pub(crate) enum Search {
    /// Alone: the create was sent on this very connection, perhaps after another search began.
    Alone,
    /// Together with contenders that already search there: the create was sent on an earlier connection.
    Together,
}

/// What the contenders of one session know of their nodes, and their searches for others.
#[derive(Default)]
pub(crate) struct Searches {
    /// The nodes that contenders know, by directory and place, with their `czxid`.
    known: Mutex<HashMap<(String, Place), i64>>,
    /// The searches under way, by directory. After a lost connection, all contenders that were about to enter search
    /// at once, and n searches would read n nodes each.
    running: Mutex<HashMap<String, WeakJoint<Searched>>>,
}

/// A node that its contender knows. A search need not read the id of such a node.
pub(crate) struct Known {
    searches: Arc<Searches>,
    key: (String, Place),
    czxid: i64,
}

impl Searches {
    /// Remembers a contender's node until the returned value is dropped.
    pub(crate) fn know(self: &Arc<Self>, lock: &Settings, own: Own) -> Known {
        let key = (lock.path.to_string(), own.place);
        lock_of(&self.known).insert(key.clone(), own.czxid);
        Known { searches: self.clone(), key, czxid: own.czxid }
    }

    /// Whether a contender knows this node. The `czxid` of a node that may not be read is not known.
    fn knows(&self, lock: &Settings, place: Place, czxid: Option<i64>) -> bool {
        let known = lock_of(&self.known).get(&(lock.path.to_string(), place)).copied();
        known.is_some_and(|known| czxid.is_none_or(|czxid| czxid == known))
    }

    /// Joins the search that is under way, or begins another one. Only the contenders that await a search hold it, so no
    /// search outlives its connection.
    fn join(self: &Arc<Self>, client: Arc<Client>, lock: &Arc<Settings>) -> Joint<Searched> {
        let mut running = lock_of(&self.running);
        running.retain(|_, search| search.upgrade().is_some());
        running.get(lock.path.as_str()).and_then(WeakJoint::upgrade).unwrap_or_else(|| {
            let search = Joint::new(self.clone().run(client, lock.clone()).boxed());
            running.insert(lock.path.to_string(), search.downgrade());
            search
        })
    }

    /// Lists this session's nodes in the lock's directory, after a write as in [`recover`].
    async fn run(self: Arc<Self>, client: Arc<Client>, lock: Arc<Settings>) -> Searched {
        let (checked, listed) = join(check(&client, "/"), client.list_ephemerals(lock.path.as_str())).await;
        let paths = match checked {
            Event::Confirmed | Event::OwnTouched => listed.map_err(failure)?,
            unknown => return Err(unknown),
        };
        let contenders = paths.iter().filter_map(|path| lock.place(lock.path.child(path)?));
        let contenders = contenders.collect::<Vec<_>>();
        let mut found = Found::default();
        for chunk in contenders.chunks(READ_CHUNK) {
            // A contender may leave before its node was read, and after that.
            let known = chunk.iter().filter(|place| self.knows(&lock, **place, None));
            let known = known.copied().collect::<BTreeSet<_>>();
            for Node { place, seen } in read(&client, &lock, chunk).await.map_err(failure)? {
                match seen {
                    Some(Seen { czxid, version: HELD_VERSION, data: Some(data), .. }) => {
                        found.by_id.insert(data.id, Own { place, czxid });
                    }
                    // Whoever wrote to a node has overwritten its id.
                    Some(Seen { czxid, .. })
                        if !known.contains(&place) && !self.knows(&lock, place, Some(czxid)) =>
                    {
                        found.unclear =
                            Some(Refusal::Other(format!("somebody has written to {}", place.name())));
                    }
                    None if !known.contains(&place) && !self.knows(&lock, place, None) => {
                        found.unclear = Some(Refusal::NotAuthorized)
                    }
                    Some(_) | None => {}
                }
            }
        }
        Ok(Arc::new(found))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut known = lock_of(&self.searches.known);
        // If the directory was made again, another node has the name by now.
        if known.get(&self.key) == Some(&self.czxid) {
            known.remove(&self.key);
        }
    }
}

/// Locks a mutex, poisoned or not. No code under these mutexes can panic.
fn lock_of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
