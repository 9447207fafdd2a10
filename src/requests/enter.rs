//! The requests by which an acquisition enters its queues.

use std::sync::Arc;

use futures::future::join_all;
use zklock_recipe::nodes::{Entered, entry};
use zklock_recipe::{Event, Input, Look, Own, Place, Refusal, Sight, Stranger};
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, Error, MultiReadResult, MultiWriteError, MultiWriteResult};

use super::enter_one::{beside, count, create_failure, enter_one, sight};
use super::path_kind::{above, announced_above};
use super::read::READ_CHUNK;
use super::reply::failure;
use super::transaction::add;
use crate::settings::Entry;

/// Creates a contender in each of these queues, and then looks at the queues.
pub(crate) async fn enter(client: Arc<Client>, entries: Vec<Entry>, data: Vec<u8>, look: Look) -> Input {
    let input = match entries.as_slice() {
        [entry] => match enter_one(&client, entry, &data, look).await {
            Event::Entered { own, sight } => Input::Entered(vec![(own, sight)]),
            event @ Event::Refused(_) => Input::Failed(0, event),
            event => Input::All(event),
        },
        _ => enter_all(&client, &entries, &data).await.unwrap_or_else(|input| input),
    };
    match input {
        Input::Failed(index, Event::Refused(Refusal::EphemeralParent)) => {
            let other = announced_above(&client, &entries[index].lock).await;
            let refused = Event::Refused(Refusal::EphemeralParent);
            Input::Failed(index, other.map_or(refused, |other| Event::Foreign(Stranger::Kind(other))))
        }
        Input::Entered(nodes) => {
            for (entry, (_, sight)) in entries.iter().zip(&nodes) {
                match sight {
                    Sight::Children(children) => entry.lock.hints.saw_queue(children.len()),
                    Sight::Count(count) => entry.lock.hints.saw_queue(*count),
                    Sight::Foreign(_) | Sight::Nothing => {}
                }
            }
            Input::Entered(nodes)
        }
        input => input,
    }
}

/// Creates all contenders in one transaction, and looks at their queues. `Err` is the reply if that had no effect, or
/// an unknown one.
async fn enter_all(client: &Client, entries: &[Entry], data: &[u8]) -> Result<Input, Input> {
    learn(client, entries).await?;
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
            None => match client.list_children(entry.lock.path.as_str()).await {
                Ok(children) => sight(client, &entry.lock, children).await,
                Err(_) => Sight::Nothing,
            },
        };
        let above = above(client, &entry.lock).await;
        (Own { place, czxid }, beside(&entry.lock, seen, above))
    });
    Ok(Input::Entered(join_all(looks).await))
}

/// Reads each directory whose data is not known yet.
async fn learn(client: &Client, entries: &[Entry]) -> Result<(), Input> {
    let unknown = entries.iter().filter(|entry| entry.lock.hints.is_unknown()).collect::<Vec<_>>();
    for chunk in unknown.chunks(READ_CHUNK) {
        let mut reader = client.new_multi_reader();
        let added = chunk.iter().try_for_each(|entry| reader.add_get_data(entry.lock.path.as_str()));
        let read = async { added.map(|()| reader.commit())?.await };
        for (entry, result) in chunk.iter().zip(read.await.map_err(|error| Input::All(failure(error)))?) {
            match result {
                MultiReadResult::Data { data, .. } => entry.lock.hints.saw_directory(data.is_empty()),
                MultiReadResult::Error { err: Error::NoNode } => return Err(Input::All(Event::NoDirectory)),
                _ => entry.lock.hints.must_not_write_directory(),
            }
        }
    }
    Ok(())
}

/// What the transaction shows of one contender.
struct Created {
    place: Place,
    /// The transaction's zxid, if the answer has it.
    czxid: Option<i64>,
    /// The number of the directory's children, if the transaction wrote to the directory.
    sight: Option<Sight>,
}

/// Creates all contenders in one transaction. The transaction also writes nothing to each directory whose data is
/// zklock's, and the answers to these writes are the directories' stats. Returns `None` if zklock may not write to one
/// of them; the transaction then had no effect.
async fn create_all(client: &Client, entries: &[Entry], data: &[u8]) -> Result<Option<Vec<Created>>, Input> {
    let mut transaction = client.new_multi_writer();
    let contenders = entries.iter().enumerate();
    let operations = entry(contenders.map(|(index, entry)| (index, entry.lock.hints.may_write_directory())));
    for operation in &operations {
        let (Entered::Own(index) | Entered::Directory(index)) = *operation.node();
        let Entry { lock, kind } = &entries[index];
        let acls = lock.acl.to_client();
        let options = CreateMode::EphemeralSequential.with_acls(zk::Acls::new(&acls));
        let prefix = lock.path.prefix(*kind);
        let name = |node| match node {
            Entered::Own(_) => (prefix.as_str(), data),
            Entered::Directory(_) => (lock.path.as_str(), [].as_slice()),
        };
        let added = add(&mut transaction, operation.clone().map(name), &options);
        added.map_err(|error| Input::Failed(index, failure(error)))?;
    }
    let results = match transaction.commit().await {
        Ok(results) if results.len() == operations.len() => results,
        Ok(_) => return Err(Input::All(Event::Unanswered)),
        Err(MultiWriteError::OperationFailed { index, source }) => {
            let failed = operations.get(index).map_or(Entered::Own(0), |operation| *operation.node());
            let contender = match failed {
                Entered::Directory(contender) if source == Error::NoAuth => {
                    entries[contender].lock.hints.must_not_write_directory();
                    return Ok(None);
                }
                Entered::Own(contender) | Entered::Directory(contender) => contender,
            };
            return Err(match create_failure(source) {
                Event::Refused(refusal) => Input::Failed(contender, Event::Refused(refusal)),
                event => Input::All(event),
            });
        }
        Err(error) => return Err(Input::All(create_failure(error.into()))),
    };
    let mut created = Vec::with_capacity(entries.len());
    for result in results {
        match (result, created.len().checked_sub(1)) {
            (MultiWriteResult::Create { path, stat }, last) => {
                let entry = last.map_or(0, |last| last + 1);
                let lock = entries.get(entry).map(|entry| &entry.lock.path);
                let place = lock.and_then(|lock| lock.child(&path)).and_then(Place::parse);
                let place = place.ok_or(Input::All(Event::Unanswered))?;
                // Servers with ZOOKEEPER-4667 send no stat with it.
                let czxid = (stat.czxid > 0).then_some(stat.czxid);
                created.push(Created { place, czxid, sight: None });
            }
            // The same transaction created the nodes and wrote to the directory, so `mzxid` is the nodes' `czxid`.
            (MultiWriteResult::SetData { stat }, Some(last)) => {
                created[last].czxid = Some(stat.mzxid);
                created[last].sight = Some(count(&stat));
            }
            _ => return Err(Input::All(Event::Unanswered)),
        }
    }
    Ok(Some(created))
}

/// Reads the `czxid` of a node of ours.
async fn own_czxid(client: &Client, entries: &[Entry], created: &[Created]) -> Result<i64, Input> {
    let first = entries.first().zip(created.first());
    let path = first.map(|(entry, created)| entry.lock.path.contender(created.place));
    match client.get_data(&path.unwrap_or_default()).await {
        Ok((_, stat)) => Ok(stat.czxid),
        // The contender looks for its nodes then.
        Err(_) => Err(Input::All(Event::Unanswered)),
    }
}
