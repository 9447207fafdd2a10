//! The requests by which a contender enters one queue.

use futures::future::{join, join3};
use zklock_recipe::nodes::{Entered, entry};
use zklock_recipe::{Directory, Event, Kind, OtherKind, Own, QueuePlace, Refusal, Sequence, Sight, Stranger};
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, CreateSequence, Error, MultiWriteResult};

use super::foreign::find_stranger;
use super::path_kind::look_above;
use super::reply::failure;
use super::transaction::{Operand, commit};
use crate::settings::{QueueEntry, Settings};

/// Creates a contender and then looks at the queue, in one round trip. If the path above counts, the look at that one is
/// sent behind the create.
pub(crate) async fn enter_one(client: &Client, entry: &QueueEntry, data: &[u8]) -> Event {
    let lock = &entry.lock;
    if lock.queue.layout().is_shared() {
        return enter_shared(client, entry, data).await;
    }
    // Where zklock may write to the directory, counting takes one request, and a listing takes a second one.
    let may_write = lock.hints.may_write_directory();
    let lists = !may_write && lock.hints.is_short();
    if may_write {
        match join(enter_at_once(client, entry, data), look_above(client, lock)).await {
            (Some(event), above) => return entered_beside(lock, event, above),
            // Nothing was created, so that look came before the create.
            (None, _) => lock.hints.must_not_write_directory(),
        }
    }
    let (event, above) = join(enter_plainly(client, entry, data, lists), look_above(client, lock)).await;
    entered_beside(lock, event, above)
}

fn entered_beside(lock: &Settings, event: Event, above: Option<Result<Option<OtherKind>, Error>>) -> Event {
    match event {
        Event::Entered { own, sight } => Event::Entered { own, sight: sight_beside(lock, sight, above) },
        event => event,
    }
}

/// What a contender sees, if this is what a look at the path above shows. The contender exists.
pub(crate) fn sight_beside(
    lock: &Settings,
    sight: Sight,
    above: Option<Result<Option<OtherKind>, Error>>,
) -> Sight {
    match above {
        None => sight,
        Some(Ok(None)) => {
            lock.hints.saw_fit(true);
            sight
        }
        Some(Ok(Some(other))) => Sight::Foreign(Stranger::Kind(other)),
        Some(Err(_)) => Sight::Nothing,
    }
}

async fn enter_plainly(client: &Client, entry: &QueueEntry, data: &[u8], lists: bool) -> Event {
    let QueueEntry { lock, kind, .. } = entry;
    let prefix = lock.queue.path.prefix(*kind);
    let options = lock.options.acl.on(CreateMode::EphemeralSequential);
    let create = client.create(&prefix, data, &options);
    let (created, sight) = if lists {
        let (created, children) = join(create, client.list_children(lock.queue.path.as_str())).await;
        let sight = match children {
            Ok(children) if created.is_ok() => sight_of_listing(client, lock, children).await,
            _ => Sight::Nothing,
        };
        (created, sight)
    } else {
        let (created, stat) = join(create, client.check_stat(lock.queue.path.as_str())).await;
        let stat = stat.ok().flatten();
        if let Some(stat) = &stat {
            lock.hints.saw_directory(stat.data_length == 0);
        }
        (created, stat.map_or(Sight::Nothing, |stat| child_count(&stat)))
    };
    match created_own(created, *kind) {
        Ok(own) => Event::Entered { own, sight },
        Err(event) => event,
    }
}

/// As [`enter_one`] in a queue that another client shares: always with a listing, and with a look at the directory before
/// the create.
async fn enter_shared(client: &Client, QueueEntry { lock, kind, .. }: &QueueEntry, data: &[u8]) -> Event {
    let prefix = lock.queue.path.prefix(*kind);
    let options = lock.options.acl.on(CreateMode::EphemeralSequential);
    let (before, created, listed) = join3(
        client.check_stat(lock.queue.path.as_str()),
        client.create(&prefix, data, &options),
        client.get_children(lock.queue.path.as_str()),
    )
    .await;
    let own = match created_own(created, *kind) {
        Ok(own) => own,
        Err(event) => return event,
    };
    let Ok((children, after)) = listed else { return Event::Entered { own, sight: Sight::Nothing } };
    lock.hints.saw_shared_directory(&after);
    let sight = match sight_of_listing(client, lock, children).await {
        Sight::Children(queue) => {
            // This was looked at as well, behind our create.
            lock.hints.saw_fit(true);
            let is_free = queue == [own.place.name()] && was_free(before.ok().flatten(), &after, own);
            if is_free { Sight::Free } else { Sight::Children(queue) }
        }
        sight => sight,
    };
    Event::Entered { own, sight }
}

/// Whether the queue was free before our create, by the directory's stats before and after it.
fn was_free(before: Option<zk::Stat>, after: &zk::Stat, own: Own) -> bool {
    before.is_some_and(|before| directory_stats(&before).was_free(own.place.sequence, directory_stats(after)))
}

pub(crate) fn directory_stats(stat: &zk::Stat) -> Directory {
    let zk::Stat { czxid, mzxid, pzxid, cversion, num_children: children, .. } = *stat;
    Directory { czxid, mzxid, pzxid, cversion, children }
}

/// The node that a create has made, or what the failure of the create means.
fn created_own(created: Result<(zk::Stat, CreateSequence), Error>, kind: Kind) -> Result<Own, Event> {
    let (stat, sequence) = created.map_err(create_failure)?;
    let sequence = i32::try_from(sequence.into_i64()).map_err(|_| Event::Unanswered)?;
    Ok(Own { place: QueuePlace { sequence: Sequence(sequence), kind }, czxid: stat.czxid })
}

/// As [`enter_one`] by count, but in one request. A transaction creates the contender and writes nothing to the directory.
/// The answer to that write is the directory's stat. Returns `None` if zklock may not write to the directory.
///
/// Two requests that are sent back to back arrive a round trip apart. zookeeper-client leaves Nagle's algorithm on,
/// which holds back the second small segment until the server acknowledges the first one, mostly with its reply. (For
/// acquire and release at 1 ms round trip we measured 4.3 ms instead of 3.1 ms.)
async fn enter_at_once(client: &Client, own: &QueueEntry, data: &[u8]) -> Option<Event> {
    let operations = entry([((), true)]);
    match commit(client, &operations, |node| entry_operand(node, own, data)).await {
        Ok(results) => match results.as_slice() {
            [MultiWriteResult::Create { path, .. }, MultiWriteResult::SetData { stat }] => {
                // The same transaction created the node and wrote to the directory, so `mzxid` is the node's `czxid`.
                let place = own.lock.queue.path.child(path).and_then(QueuePlace::parse);
                let own = place.map(|place| Own { place, czxid: stat.mzxid });
                Some(own.map_or(Event::Unanswered, |own| Event::Entered { own, sight: child_count(stat) }))
            }
            _ => Some(Event::Unanswered),
        },
        Err((Some(Entered::Directory(())), Error::NoAuth)) => None,
        Err((_, error)) => Some(create_failure(error)),
    }
}

/// A node of the transaction that enters this queue: our own one, which gets these data, or the directory.
pub(crate) fn entry_operand<'a, C>(
    node: &Entered<C>,
    QueueEntry { lock, kind, .. }: &'a QueueEntry,
    data: &'a [u8],
) -> Operand<'a> {
    match node {
        Entered::Own(_) => {
            let path = lock.queue.path.prefix(*kind).into();
            let options = lock.options.acl.on(CreateMode::EphemeralSequential);
            Operand { path, data, options }
        }
        Entered::Directory(_) => lock.queue.path.as_str().into(),
    }
}

pub(crate) fn child_count(directory: &zk::Stat) -> Sight {
    usize::try_from(directory.num_children).map_or(Sight::Nothing, Sight::Count)
}

pub(crate) fn create_failure(error: Error) -> Event {
    match error {
        Error::NoNode => Event::NoDirectory,
        Error::NodeExists => Event::Refused(Refusal::Other(
            "the next contender's name is taken: that node was made by hand, or the numbers are at their end; \
             delete that node"
                .to_owned(),
        )),
        error => failure(error),
    }
}

pub(crate) async fn sight_of_listing(client: &Client, lock: &Settings, children: Vec<String>) -> Sight {
    match find_stranger(client, lock, &children).await {
        Ok(None) => Sight::Children(lock.translated(children)),
        Ok(Some(stranger)) => Sight::Foreign(stranger),
        Err(_) => Sight::Nothing,
    }
}
