//! Looks for nodes whose create was not answered, and for nodes that may be gone.
//!
//! A session searches for all lost creates at once: a quorum write, the list of the session's nodes, and then their ids.
//! A server handles one session's requests in order. So the list has every create that was sent before the search on this
//! connection, or on an earlier one, and that ever takes effect; as to the exception, see `zk::session::late_creates`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::{join, try_join_all};
use tracing::{debug, warn};
use uuid::Uuid;
use zklock_recipe::acquisition::{Certainty, Search};
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Own, QueueLayout, QueuePlace, Refusal};
use zookeeper_client::Client;

use super::confirm::answer_of_quorum;
use super::leave::delete;
use super::read_nodes::{READ_CHUNK, READS, Seen, read_paths};
use super::reply::{Reply, failure};
use crate::joint::{Joint, WeakJoint};
use crate::mutex::Mutex;
use crate::path::name_of;
use crate::settings::{QueueEntry, Settings};

/// Finds our node by the `id` in its data, after the reply to its create was lost.
pub(crate) async fn find(
    client: Arc<Client>,
    lock: Arc<Settings>,
    id: Uuid,
    searches: Arc<Searches>,
    search: Search,
) -> Reply {
    match searches.join(client, search).await {
        Ok(found) => match found.own_node(&lock, id) {
            Ok(own) => {
                if own.is_some() {
                    debug!("the node of a create that was not answered is there");
                }
                Event::Recovered(own)
            }
            // That node may be ours. A second node of ours would wait behind it for ever.
            Err(refusal) => Event::Refused(refusal),
        },
        Err(event) => event,
    }
    .into()
}

/// A create whose reply was lost: the lock, and the id in its node's data.
pub(crate) type LostCreate = (Arc<Settings>, Uuid);

/// What a sweep found of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swept {
    /// No node. The create may still take effect.
    Nothing,
    /// Its node, which is gone now.
    Gone,
    /// Its node, which may be there still.
    Stays,
}

/// Deletes the nodes of these creates, which took effect after zklock had looked for them. Returns what became of each;
/// `None` if it could not look. The error is a path, and the reason why it cannot tell whose a node there is, or may not
/// delete it.
pub(crate) async fn sweep(
    client: Arc<Client>,
    creates: Vec<LostCreate>,
    searches: Arc<Searches>,
) -> Result<Option<Vec<Swept>>, (String, Refusal)> {
    let Ok(found) = searches.join(client.clone(), Search::After).await else { return Ok(None) };
    let mut swept = Vec::with_capacity(creates.len());
    for (lock, id) in creates {
        let refused = |refusal| (lock.queue.path.to_string(), refusal);
        let Some(own) = found.own_node(&lock, id).map_err(refused)? else {
            swept.push(Swept::Nothing);
            continue;
        };
        warn!(path = %lock.queue.path, "the servers executed a create late, after zklock had looked for its node and not \
                                  found it; zklock deletes the node");
        match delete(client.clone(), lock.clone(), own, None, Certainty::Unsure).await.event {
            Event::Deleted => swept.push(Swept::Gone),
            Event::Refused(refusal) => return Err(refused(refusal)),
            _ => swept.push(Swept::Stays),
        }
    }
    Ok(Some(swept))
}

/// The nodes of one session that may be contenders'.
#[derive(Debug, Default)]
pub(crate) struct FoundNodes {
    /// By the id in their data. The nodes of several locks that are acquired at once have one id.
    by_id: HashMap<Uuid, Vec<(String, i64)>>,
    /// The nodes that may be any contender's, with the reason: nobody can read their ids.
    unclear: Vec<(String, Refusal)>,
}

impl FoundNodes {
    /// The node with this id in the lock's directory, if it is there. The error is a reason why nobody can tell.
    fn own_node(&self, lock: &Settings, id: Uuid) -> Result<Option<Own>, Refusal> {
        let place = |path: &str| lock.queue.own_place(lock.queue.path.child(path)?);
        let nodes = self.by_id.get(&id).into_iter().flatten();
        if let Some(own) =
            nodes.filter_map(|(path, czxid)| Some(Own { place: place(path)?, czxid: *czxid })).next()
        {
            return Ok(Some(own));
        }
        let unclear = self.unclear.iter().find(|(path, _)| place(path).is_some());
        unclear.map_or(Ok(None), |(_, refusal)| Err(refusal.clone()))
    }
}

type Searched = Result<Arc<FoundNodes>, Event>;

/// What the contenders of one session know of their nodes, and the search for others.
pub(crate) struct Searches {
    /// The length of the connect string's chroot.
    chroot: usize,
    known: Mutex<Nodes>,
    /// The latest search. After a lost connection, all contenders that were about to enter search at once, and n searches
    /// would read n nodes each.
    latest: Mutex<Option<LatestSearch>>,
}

#[derive(Default)]
struct Nodes {
    /// Their paths, with their `czxid`.
    czxids: HashMap<String, i64>,
    /// What their paths take when the session ends, with those of nodes that are being created.
    bytes: usize,
}

/// How long the paths of a session's nodes may be together. One transaction has all of them when the session ends. A server
/// reads no transaction of more than 2 MiB by default (ZOOKEEPER-4306; `PrepRequestProcessor`, `BinaryInputArchive`). The rest
/// is for the announcements of leaders, and for nodes of callers that have not heard of them yet.
const LONGEST_END: usize = 900 * 1024;

/// What a path takes there beside its own bytes.
const LENGTH: usize = 4;

/// How many digits the server appends to a contender's name.
const DIGITS: usize = 10;

/// A search, and whether it has begun.
struct LatestSearch {
    search: WeakJoint<Searched>,
    begun: Arc<AtomicBool>,
}

/// A node that its contender knows. A search need not read the id of such a node.
pub(crate) struct KnownNode {
    searches: Arc<Searches>,
    path: String,
    czxid: i64,
}

impl Searches {
    pub(crate) fn new(chroot: &str) -> Arc<Self> {
        Arc::new(Self { chroot: chroot.len(), known: Mutex::default(), latest: Mutex::default() })
    }

    /// Remembers a contender's node until the returned value is dropped.
    pub(crate) fn know(self: &Arc<Self>, lock: &Settings, own: Own) -> KnownNode {
        let path = lock.queue.path.contender(own.place);
        let mut known = self.known.lock();
        if known.czxids.insert(path.clone(), own.czxid).is_none() {
            known.bytes += self.length(path.len());
        }
        drop(known);
        KnownNode { searches: self.clone(), path, czxid: own.czxid }
    }

    /// Takes room for a node in each of these queues, until the returned value is dropped. Returns `None` if the session has
    /// none.
    pub(crate) fn reserve_room(self: &Arc<Self>, entries: &[QueueEntry]) -> Option<Room> {
        let bytes = entries
            .iter()
            .map(|entry| self.length(entry.lock.queue.path.prefix(entry.kind).len() + DIGITS))
            .sum();
        let mut known = self.known.lock();
        if known.bytes + bytes > LONGEST_END {
            return None;
        }
        known.bytes += bytes;
        drop(known);
        Some(Room { searches: self.clone(), bytes })
    }

    /// What a path of this length takes when the session ends.
    fn length(&self, path: usize) -> usize {
        self.chroot + path + LENGTH
    }

    /// Whether a contender knows the node with this path and this `czxid`. The `czxid` of a node that may not be read is
    /// not known.
    fn knows(&self, path: &str, czxid: Option<i64>) -> bool {
        let known = self.known.lock().czxids.get(path).copied();
        known.is_some_and(|known| czxid.is_none_or(|czxid| czxid == known))
    }

    /// Joins the latest search, or makes the next one, which begins once the latest one is over. Only those who await a
    /// search hold it, so no search outlives its connection.
    fn join(self: &Arc<Self>, client: Arc<Client>, which: Search) -> Joint<Searched> {
        let mut latest = self.latest.lock();
        let running =
            latest.as_ref().and_then(|latest| Some((latest.search.upgrade()?, latest.begun.clone())));
        let before = match running {
            // If it begins right now, it begins after this call did.
            Some((search, begun)) if which == Search::Present || !begun.load(Ordering::Acquire) => {
                drop(latest);
                debug!("several look for their nodes by one search");
                return search;
            }
            Some((search, _)) => Some(search),
            None => None,
        };
        let searches = self.clone();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let search = async move {
            if let Some(before) = before {
                let _done = before.await;
            }
            begins.store(true, Ordering::Release);
            searches.run(client).await
        };
        let search = Joint::new(search.boxed());
        *latest = Some(LatestSearch { search: search.downgrade(), begun });
        search
    }

    /// Lists this session's nodes, after a write that a quorum must acknowledge, and reads them.
    async fn run(self: Arc<Self>, client: Arc<Client>) -> Searched {
        // zookeeper-client sends some requests when they are made. This one must go out behind the write.
        let listing = async { client.list_ephemerals("/").await };
        let (answered, listed) = join(answer_of_quorum(&client), listing).await;
        answered?;
        let mut paths = listed.map_err(failure)?;
        paths.retain(|path| is_contender(path));
        // A contender may leave before its node was read, and after that.
        let known = paths.iter().filter(|path| self.knows(path, None)).cloned().collect::<HashSet<_>>();
        let mut reads = Vec::with_capacity(paths.len());
        for chunks in paths.chunks(READ_CHUNK * READS) {
            let read = chunks.chunks(READ_CHUNK).map(|chunk| read_paths(&client, chunk, |_| true));
            reads.extend(try_join_all(read).await.map_err(failure)?.into_iter().flatten());
        }
        let mut found = FoundNodes::default();
        for (path, seen) in paths.into_iter().zip(reads) {
            let (czxid, refusal) = match seen {
                None => continue,
                Some(Some(Seen { czxid, version: UNTOUCHED, data: Some(data), .. })) => {
                    found.by_id.entry(data.id).or_default().push((path, czxid));
                    continue;
                }
                // Somebody who wrote to a node has overwritten its id.
                Some(Some(Seen { czxid, .. })) => {
                    (Some(czxid), Refusal::Other(format!("somebody has written to {path}")))
                }
                Some(None) => (None, Refusal::NotAuthorized),
            };
            if !known.contains(&path) && !self.knows(&path, czxid) {
                debug!(path, "a search finds a node of this session whose contender nobody can tell");
                found.unclear.push((path, refusal));
            }
        }
        Ok(Arc::new(found))
    }
}

/// Whether a node with this path may be a contender's, or a permit's.
fn is_contender(path: &str) -> bool {
    let name = name_of(path);
    let queues = QueueLayout::ALL.iter().any(|layout| layout.own(name).is_some());
    queues || QueuePlace::parse_permit(name).is_some()
}

/// Room for nodes that are being created.
pub(crate) struct Room {
    searches: Arc<Searches>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.searches.known.lock().bytes -= self.bytes;
    }
}

impl Drop for KnownNode {
    fn drop(&mut self) {
        let mut known = self.searches.known.lock();
        // If the directory was made again, another node has the name by now.
        if known.czxids.get(&self.path) == Some(&self.czxid) {
            known.czxids.remove(&self.path);
            known.bytes -= self.searches.length(self.path.len());
        }
    }
}
