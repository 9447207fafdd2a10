//! The requests by which an acquisition enters its queues.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use zklock_recipe::nodes::{Entered, entry};
use zklock_recipe::{Event, Own, QueuePlace, Refusal, Report, Sight, Stranger};
use zookeeper_client::{Client, Error, MultiReadResult, MultiWriteResult};

use super::ask_node::read_ask_at;
use super::enter_one::{
    child_count, create_failure, enter_one, entry_operand, sight_beside, sight_of_listing,
};
use super::path_kind::{announced_above, look_above};
use super::read_nodes::read_data;
use super::reply::failure;
use super::search::Searches;
use super::transaction::commit;
use crate::settings::QueueEntry;

/// Creates a contender in each of these queues, and then looks at the queues.
pub(crate) async fn enter(
    client: Arc<Client>,
    entries: Vec<QueueEntry>,
    data: Vec<u8>,
    searches: Arc<Searches>,
) -> Report {
    let Some(_room) = searches.reserve_room(&entries) else {
        return Report::Failed(0, Event::Refused(Refusal::SessionFull));
    };
    let input = match entries.as_slice() {
        [entry] => match enter_one(&client, entry, &data).await {
            Event::Entered { own, sight } => Report::Entered(vec![(own, sight)]),
            event @ Event::Refused(_) => Report::Failed(0, event),
            event => Report::All(event),
        },
        _ => enter_all(&client, &entries, &data).await.unwrap_or_else(|input| input),
    };
    match input {
        Report::Failed(index, Event::Refused(Refusal::EphemeralParent)) => {
            let lock = &entries[index].lock;
            let event = match read_ask_at(&client, lock.queue.path.as_str()).await {
                Some(ask) => Event::Refused(Refusal::Asked(ask.who, Duration::from_millis(ask.within))),
                None => {
                    let other = announced_above(&client, lock).await;
                    let refused = Event::Refused(Refusal::EphemeralParent);
                    other.map_or(refused, |other| Event::Foreign(Stranger::Kind(other)))
                }
            };
            Report::Failed(index, event)
        }
        Report::Entered(nodes) => {
            for (entry, (_, sight)) in entries.iter().zip(&nodes) {
                match sight {
                    Sight::Children(children) => entry.lock.hints.saw_children(children.len()),
                    Sight::Count(count) => entry.lock.hints.saw_children(*count),
                    Sight::Foreign(_) | Sight::Free | Sight::Nothing => {}
                }
            }
            Report::Entered(nodes)
        }
        input => input,
    }
}

/// Creates all contenders in one transaction, and looks at their queues. `Err` is the reply if that had no effect, or
/// an unknown one.
async fn enter_all(client: &Client, entries: &[QueueEntry], data: &[u8]) -> Result<Report, Report> {
    learn_directories(client, entries).await?;
    let created = loop {
        if let Some(created) = create_all(client, entries, data).await? {
            break created;
        }
    };
    let czxid = match created.iter().find_map(|created| created.czxid) {
        Some(czxid) => czxid,
        None => own_czxid(client, entries, &created).await?,
    };
    let looks = entries.iter().zip(created).map(async |(entry, Created { place, sight: seen, .. })| {
        let seen = match seen {
            Some(seen) => seen,
            None => match client.list_children(entry.lock.queue.path.as_str()).await {
                Ok(children) => sight_of_listing(client, &entry.lock, children).await,
                Err(_) => Sight::Nothing,
            },
        };
        let above = look_above(client, &entry.lock).await;
        (Own { place, czxid }, sight_beside(&entry.lock, seen, above))
    });
    Ok(Report::Entered(join_all(looks).await))
}

/// Reads each directory whose data is not known yet.
async fn learn_directories(client: &Client, entries: &[QueueEntry]) -> Result<(), Report> {
    let unknown = entries.iter().filter(|entry| entry.lock.hints.is_unknown()).collect::<Vec<_>>();
    let paths = unknown.iter().map(|entry| entry.lock.queue.path.as_str()).collect::<Vec<_>>();
    let results = read_data(client, &paths).await.map_err(|error| Report::All(failure(error)))?;
    for (entry, result) in unknown.iter().zip(results) {
        match result {
            MultiReadResult::Data { data, .. } => entry.lock.hints.saw_directory(data.is_empty()),
            MultiReadResult::Error { err: Error::NoNode } => return Err(Report::All(Event::NoDirectory)),
            _ => entry.lock.hints.must_not_write_directory(),
        }
    }
    Ok(())
}

/// What the transaction shows of one contender.
struct Created {
    place: QueuePlace,
    /// The transaction's zxid, if the answer has it.
    czxid: Option<i64>,
    /// The number of the directory's children, if the transaction wrote to the directory.
    sight: Option<Sight>,
}

/// Creates all contenders in one transaction. The transaction also writes nothing to each directory whose data is
/// zklock's, and the answers to these writes are the directories' stats. Returns `None` if zklock may not write to one
/// of them; the transaction then had no effect.
async fn create_all(
    client: &Client,
    entries: &[QueueEntry],
    data: &[u8],
) -> Result<Option<Vec<Created>>, Report> {
    let contenders = entries.iter().enumerate();
    let operations = entry(contenders.map(|(index, entry)| (index, entry.lock.hints.may_write_directory())));
    let committed = commit(client, &operations, |node| {
        let (Entered::Own(index) | Entered::Directory(index)) = *node;
        entry_operand(node, &entries[index], data)
    });
    let results = match committed.await {
        Ok(results) => results,
        Err((Some(Entered::Directory(index)), Error::NoAuth)) => {
            entries[*index].lock.hints.must_not_write_directory();
            return Ok(None);
        }
        Err((node, error)) => {
            return Err(match (create_failure(error), node) {
                (event @ Event::Refused(_), Some(Entered::Own(index) | Entered::Directory(index))) => {
                    Report::Failed(*index, event)
                }
                (event, _) => Report::All(event),
            });
        }
    };
    let mut created = Vec::with_capacity(entries.len());
    for (operation, result) in operations.iter().zip(results) {
        match (operation.node(), result) {
            (Entered::Own(index), MultiWriteResult::Create { path, stat }) => {
                let place = entries[*index].lock.queue.path.child(&path).and_then(QueuePlace::parse);
                let place = place.ok_or(Report::All(Event::Unanswered))?;
                // Servers with ZOOKEEPER-4667 send no stat with it.
                let czxid = (stat.czxid > 0).then_some(stat.czxid);
                created.push(Created { place, czxid, sight: None });
            }
            // The same transaction created the nodes and wrote to the directory, so `mzxid` is the nodes' `czxid`.
            (Entered::Directory(index), MultiWriteResult::SetData { stat }) => {
                created[*index].czxid = Some(stat.mzxid);
                created[*index].sight = Some(child_count(&stat));
            }
            _ => return Err(Report::All(Event::Unanswered)),
        }
    }
    Ok(Some(created))
}

async fn own_czxid(client: &Client, entries: &[QueueEntry], created: &[Created]) -> Result<i64, Report> {
    let first = entries.first().zip(created.first());
    let path = first.map(|(entry, created)| entry.lock.queue.path.contender(created.place));
    match client.get_data(&path.unwrap_or_default()).await {
        Ok((_, stat)) if stat.ephemeral_owner == client.session_id().0 => Ok(stat.czxid),
        // Another contender's node may have the name by now. The contender looks for its nodes then.
        _ => Err(Report::All(Event::Unanswered)),
    }
}
