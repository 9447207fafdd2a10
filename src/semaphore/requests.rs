//! Requests about a pool: the directory of a semaphore's permits, or of slots.
//!
//! The directory is persistent and no container: its data says how much the pool has, and must not be forgotten while
//! nobody holds a permit.

use std::sync::Arc;

use futures::future::{BoxFuture, join};
use uuid::Uuid;
use zklock_recipe::acquisition::Search;
use zklock_recipe::admission::{self, AdmissionTarget, AttemptFate, SeenPool, TurnstileStanding};
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Kind, OtherKind, Own, QueuePlace, Stock};
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, Error, MultiReadResult, MultiWriteResult};

use crate::node::PoolData;
use crate::requests::confirm::{OwnNode, is_own, is_own_hidden};
use crate::requests::directory::{create_directory, create_lasting};
use crate::requests::evidence::Evidence;
use crate::requests::path_kind::other_kind;
use crate::requests::read_nodes::{self, NodeRead, QueueNode, existing, read_at_once, read_contenders};
use crate::requests::reply::failure;
use crate::requests::search::{Searches, find};
use crate::requests::transaction::{Operand, commit, problem};
use crate::requests::watch::touched;
use crate::requests::watchers::Watching;
use crate::settings::Settings;

/// Looks at a pool, and at our node in its turnstile, in one request. `None` if the pool does not exist.
///
/// The server serves the reads in their order. So each permit that was added before the data had this version is among
/// the children.
pub(crate) async fn look_at_pool(
    client: Arc<Client>,
    turnstile: OwnNode,
    pool: Arc<Settings>,
    connection: u64,
) -> Result<(TurnstileStanding, Option<SeenPool>), Event> {
    let (lock, own) = turnstile;
    let directory = pool.queue.path.as_str();
    let node = lock.queue.path.contender(own.place);
    let reads = [NodeRead::Data(&node), NodeRead::Data(directory), NodeRead::Children(directory)];
    let [ours, data, children] = read_at_once(&client, reads).await?;
    let ours = match ours {
        MultiReadResult::Data { stat, .. } => Ok(stat),
        MultiReadResult::Error { err } => Err(err),
        _ => return Err(Event::Unanswered),
    };
    let standing = standing_of(&client, &node, own, ours).await?;
    let seen = read_nodes::existing_directory(data, children)?
        .map(|(data, stat, children)| seen_pool(data, &stat, children, connection));
    Ok((standing, seen))
}

fn seen_pool(data: Vec<u8>, stat: &zk::Stat, children: Vec<String>, connection: u64) -> SeenPool {
    let stock = PoolData::decode(&data);
    SeenPool { data, stock, version: stat.version, czxid: stat.czxid, children, connection }
}

/// How our node in the turnstile stands, by what a read of its name shows.
async fn standing_of(
    client: &Client,
    node: &str,
    own: Own,
    read: Result<zk::Stat, Error>,
) -> Result<TurnstileStanding, Event> {
    match read {
        Ok(stat) if !is_own(Some(&stat), own) => Ok(TurnstileStanding::Gone),
        Ok(stat) if stat.version == UNTOUCHED => Ok(TurnstileStanding::Held),
        Ok(_) => Ok(TurnstileStanding::Touched),
        Err(Error::NoAuth) if is_own_hidden(client, node).await? => Ok(TurnstileStanding::Held),
        Err(Error::NoAuth | Error::NoNode) => Ok(TurnstileStanding::Gone),
        Err(error) => Err(failure(error)),
    }
}

/// What a pool's watch shows: its children, and the watches for its next change.
pub(crate) struct PoolWatched {
    pub(crate) seen: SeenPool,
    /// Resolves when the data changes; `None` if that watch was not asked for.
    pub(crate) data: Option<BoxFuture<'static, Event>>,
    /// Resolves when a permit comes or goes.
    pub(crate) children: BoxFuture<'static, Event>,
}

/// Watches a pool: its children, for a permit that goes, and its data, for another capacity. Both requests are sent in one
/// poll, the one for the data first. If the data `is_watched` since before it was seen, that watch need not be set again. `None`
/// if the pool does not exist, or has changed in between.
pub(crate) async fn watch_pool(
    watching: Watching,
    pool: Arc<Settings>,
    before: SeenPool,
    is_watched: bool,
) -> Result<Option<PoolWatched>, Event> {
    let directory = pool.queue.path.as_str();
    let children = async { watching.send(|server| server.children(directory)).await.await };
    let (data, children) = if is_watched {
        (Ok((before.data, before.version, before.czxid, None)), children.await)
    } else {
        let (read, children) = join(watching.data(directory), children).await;
        let data = read.map(|(data, stat, watcher)| (data.to_vec(), stat.version, stat.czxid, Some(watcher)));
        (data, children)
    };
    let Some((data, version, czxid, watcher)) = existing(data)? else { return Ok(None) };
    let Some((children, stat, changed)) = existing(children)? else { return Ok(None) };
    if (stat.version, stat.czxid) != (version, czxid) {
        return Ok(None);
    }
    let seen = seen_pool(data, &stat, children, before.connection);
    Ok(Some(PoolWatched { seen, data: watcher.map(touched), children: touched(changed) }))
}

/// Creates the directory of a pool. `Ok(false)` if its parent does not exist.
pub(crate) async fn create_pool(
    client: Arc<Client>,
    pool: Arc<Settings>,
    stock: Stock,
) -> Result<bool, Event> {
    create_lasting(&client, &pool, pool.queue.path.as_str(), &PoolData::encode(stock)).await
}

/// Sends an admission's attempt: creates a permit and passes the turnstile, in one transaction.
pub(crate) async fn send_attempt(
    client: Arc<Client>,
    turnstile: OwnNode,
    pool: Arc<Settings>,
    kind: Kind,
    data: Vec<u8>,
    seen: SeenPool,
) -> admission::AdmissionEvent {
    let (lock, own) = turnstile;
    let node = lock.queue.path.contender(own.place);
    let prefix = pool.queue.path.prefix(kind);
    let attempt = admission::attempt(kind, seen.version);
    let committed = commit(&client, &attempt, |target| match target {
        AdmissionTarget::Turnstile => node.as_str().into(),
        AdmissionTarget::Permit(_) => {
            let options = pool.options.acl.on(CreateMode::EphemeralSequential);
            Operand { path: prefix.as_str().into(), data: &data, options }
        }
        AdmissionTarget::Pool => (pool.queue.path.as_str(), seen.data.as_slice()).into(),
    });
    match committed.await {
        Ok(results) => match results.as_slice() {
            [_, MultiWriteResult::Create { path, .. }, MultiWriteResult::SetData { stat }, _] => {
                // The same transaction created the permit and wrote to the pool, so `mzxid` is the permit's `czxid`.
                let place = pool.queue.path.child(path).and_then(QueuePlace::parse_permit);
                match place.map(|place| Own { place, czxid: stat.mzxid }) {
                    Some(permit) if stat.czxid == seen.czxid => admission::AdmissionEvent::Admitted(permit),
                    Some(permit) => admission::AdmissionEvent::OtherPool(permit),
                    None => admission::AdmissionEvent::Unanswered,
                }
            }
            _ => admission::AdmissionEvent::Unanswered,
        },
        Err((target, error)) => match (target, problem(&error)) {
            (Some(target), Some(problem)) => admission::attempt_failed(*target, problem),
            _ => admission_failure(failure(error)),
        },
    }
}

/// The event for a request of an admission that did not do what it was sent for.
pub(crate) fn admission_failure(event: Event) -> admission::AdmissionEvent {
    match event {
        Event::Refused(refusal) => admission::AdmissionEvent::Refused(refusal),
        Event::SessionOver(end) => admission::AdmissionEvent::SessionOver(end),
        _ => admission::AdmissionEvent::Unanswered,
    }
}

/// Finds out what became of an admission, after its reply was lost or our node in the turnstile was found gone.
///
/// The turnstile is read first, then a quorum is asked, and then this session's permits are listed. An admission deletes
/// the node in the turnstile in the same transaction. So if that node was gone at the read, no admission takes effect
/// after it, and the listing shows the permit of one that did.
pub(crate) async fn recover_attempt(
    client: Arc<Client>,
    turnstile: OwnNode,
    pool: Arc<Settings>,
    id: Uuid,
    searches: Arc<Searches>,
) -> Result<AttemptFate, Event> {
    let (lock, own) = turnstile;
    let node = lock.queue.path.contender(own.place);
    let search = find(client.clone(), pool, id, searches, Search::After);
    let (read, found) = join(client.get_data(&node), search).await;
    match found.event {
        Event::Recovered(Some(permit)) => return Ok(AttemptFate::Admitted(permit)),
        Event::Recovered(None) => {}
        Event::Refused(refusal) => return Ok(AttemptFate::Unclear(refusal)),
        event => return Err(event),
    }
    standing_of(&client, &node, own, read.map(|(_, stat)| stat)).await.map(AttemptFate::Not)
}

/// The outcome of a change of a pool's stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stocked {
    Done,
    /// The path is used for something else.
    OtherKind(OtherKind),
    /// The pool's data is not zklock's.
    Foreign,
}

impl Evidence for Stocked {}

/// Writes to a pool how much it has. It creates the pool if there is none; `turnstile` is what its contenders pass.
pub(crate) async fn set_stock(
    client: Arc<Client>,
    turnstile: Arc<Settings>,
    pool: Arc<Settings>,
    stock: Stock,
) -> Result<Stocked, Event> {
    let directory = pool.queue.path.as_str();
    // Each round answers a change that came between two requests.
    loop {
        let Some((data, stat)) = existing(client.get_data(directory).await)? else {
            let other = other_kind(&client, turnstile.queue.subject().as_str(), stock.into())
                .await
                .map_err(failure)?;
            if let Some(other) = other {
                return Ok(Stocked::OtherKind(other));
            }
            if create_pool(client.clone(), pool.clone(), stock).await? {
                continue;
            }
            match create_directory(&client, &turnstile).await {
                Event::DirectoryReady => continue,
                event => return Err(event),
            }
        };
        match (PoolData::decode(&data), stock) {
            (Some(Stock::Permits(_)), Stock::Permits(_)) | (Some(Stock::Slots(_)), Stock::Slots(_)) => {}
            (Some(found), _) => {
                let at = turnstile.queue.subject().to_string();
                return Ok(Stocked::OtherKind(OtherKind { found: found.into(), at }));
            }
            (None, _) => return Ok(Stocked::Foreign),
        }
        // It is written even if it is there already: this server may be behind.
        match client.set_data(directory, &PoolData::encode(stock), Some(stat.version)).await {
            Ok(_) => return Ok(Stocked::Done),
            Err(Error::BadVersion | Error::NoNode) => {}
            Err(error) => return Err(failure(error)),
        }
    }
}

/// Returns a pool's data, and every permit that is held, the oldest first. `None` if the pool does not exist.
pub(crate) async fn read_permits(
    client: Arc<Client>,
    pool: Arc<Settings>,
) -> Result<Option<(Vec<u8>, Vec<QueueNode>)>, Event> {
    let directory = pool.queue.path.as_str();
    let reads = [NodeRead::Data(directory), NodeRead::Children(directory)];
    let [data, children] = read_at_once(&client, reads).await?;
    let Some((data, _, children)) = read_nodes::existing_directory(data, children)? else { return Ok(None) };
    let permits = read_contenders(&client, &pool, &read_nodes::permits_among(&children)).await?;
    Ok(Some((data, permits)))
}
