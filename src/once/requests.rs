//! Requests about the records of runs. They are persistent nodes in a directory beside the lock's.

use std::sync::Arc;

use zklock_recipe::Event;
use zklock_recipe::transaction::Operation;
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, Error, MultiReadResult, MultiWriteResult};

use crate::path::child_of;
use crate::requests::directory::create_lasting;
use crate::requests::read_nodes::{self, NodeRead, existing, read_at_once, read_data};
use crate::requests::reply::failure;
use crate::requests::transaction::{Operand, commit};
use crate::settings::Settings;

/// The directory of the records, and one of them.
pub(crate) struct RecordsPage {
    pub(crate) data: Vec<u8>,
    pub(crate) version: i32,
    pub(crate) names: Vec<String>,
    /// The record that was asked for, if it exists.
    pub(crate) record: Option<Kept>,
}

/// A record's node, as it was read.
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
    pub(crate) stat: zk::Stat,
}

/// Creates the directory of the records with the lock's ACL. `Ok(false)` if its parent does not exist.
pub(crate) async fn create_records(
    client: Arc<Client>,
    lock: Arc<Settings>,
    directory: String,
) -> Result<bool, Event> {
    create_lasting(&client, &lock, &directory, &[]).await
}

/// Returns the time by the clock of ZooKeeper's leader, in milliseconds since the Unix epoch; `None` if the directory
/// does not exist.
///
/// One transaction creates a node, writes to it and deletes it. The answer to that write has the leader's time. Nobody
/// ever sees the node, so nothing is left behind if the answer is lost or the caller goes.
pub(crate) async fn leader_time(
    client: Arc<Client>,
    lock: Arc<Settings>,
    probe: String,
) -> Result<Option<i64>, Event> {
    let operations = [Operation::Create(()), Operation::Set((), None), Operation::Delete((), None)];
    let probed = commit(&client, &operations, |()| {
        let path = probe.as_str().into();
        let options = lock.options.acl.on(CreateMode::Persistent);
        Operand { path, data: &[], options }
    });
    match probed.await {
        Ok(results) => match results.as_slice() {
            [_, MultiWriteResult::SetData { stat }, _] => Ok(Some(stat.mtime)),
            _ => Err(Event::Unanswered),
        },
        Err((_, Error::NoNode)) => Ok(None),
        Err((_, error)) => Err(failure(error)),
    }
}

/// Reads the directory of the records, and the record of this name, in one request. `None` if the directory does not
/// exist.
pub(crate) async fn read_records_page(
    client: Arc<Client>,
    directory: String,
    name: String,
) -> Result<Option<RecordsPage>, Event> {
    let record = child_of(&directory, &name);
    let reads = [NodeRead::Data(&directory), NodeRead::Children(&directory), NodeRead::Data(&record)];
    let [own, children, record] = read_at_once(&client, reads).await?;
    let Some((data, stat, names)) = read_nodes::existing_directory(own, children)? else { return Ok(None) };
    let record = match record {
        MultiReadResult::Data { data, stat } => Some(Kept { name, data, stat }),
        MultiReadResult::Error { err: Error::NoNode } => None,
        MultiReadResult::Error { err } => return Err(failure(err)),
        _ => return Err(Event::Unanswered),
    };
    Ok(Some(RecordsPage { data, version: stat.version, names, record }))
}

/// Reads one record; `None` if it does not exist.
pub(crate) async fn read_record(
    client: Arc<Client>,
    directory: String,
    name: String,
) -> Result<Option<Kept>, Event> {
    let read = existing(client.get_data(&child_of(&directory, &name)).await)?;
    Ok(read.map(|(data, stat)| Kept { name, data, stat }))
}

/// Reads the records of these names. It leaves out records that are gone, or that this session may not read.
pub(crate) async fn read_records(
    client: Arc<Client>,
    directory: String,
    names: Vec<String>,
) -> Result<Vec<Kept>, Event> {
    let paths = names.iter().map(|name| child_of(&directory, name)).collect::<Vec<_>>();
    let results = read_data(&client, &paths).await.map_err(failure)?;
    let kept = names.into_iter().zip(results).filter_map(|(name, result)| match result {
        MultiReadResult::Data { data, stat } => Some(Kept { name, data, stat }),
        _ => None,
    });
    Ok(kept.collect())
}

/// Reads every record that this session may read. Without a directory there is none.
pub(crate) async fn read_all_records(client: Arc<Client>, directory: String) -> Result<Vec<Kept>, Event> {
    let names = existing(client.list_children(&directory).await)?.unwrap_or_default();
    read_records(client, directory, names).await
}
