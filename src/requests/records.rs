//! Requests about the records of the slots that have run. They are persistent nodes in a directory beside the lock's.

use std::sync::Arc;

use zklock_recipe::Event;
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, Error, MultiReadResult, MultiWriteError, MultiWriteResult};

use super::read::READ_CHUNK;
use super::reply::failure;
use crate::settings::Settings;

/// The directory of the records, and one of them.
pub(crate) struct Page {
    /// The directory's data.
    pub(crate) data: Vec<u8>,
    /// The version of that data.
    pub(crate) version: i32,
    /// The names of all records.
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
    let acls = lock.acl.to_client();
    // Not a container: its own data must outlive its children.
    let options = CreateMode::Persistent.with_acls(zk::Acls::new(&acls));
    match client.create(&directory, &[], &options).await {
        Ok(_) | Err(Error::NodeExists) => Ok(true),
        Err(Error::NoNode) => Ok(false),
        Err(error) => Err(failure(error)),
    }
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
    let acls = lock.acl.to_client();
    let options = CreateMode::Persistent.with_acls(zk::Acls::new(&acls));
    let mut transaction = client.new_multi_writer();
    let built = transaction.add_create(&probe, &[], &options);
    let built = built.and_then(|()| transaction.add_set_data(&probe, &[], None));
    if let Err(error) = built.and_then(|()| transaction.add_delete(&probe, None)) {
        return Err(failure(error));
    }
    match transaction.commit().await {
        Ok(results) => match results.as_slice() {
            [_, MultiWriteResult::SetData { stat }, _] => Ok(Some(stat.mtime)),
            _ => Err(Event::Unanswered),
        },
        Err(MultiWriteError::OperationFailed { source: Error::NoNode, .. }) => Ok(None),
        Err(error) => Err(failure(error.into())),
    }
}

/// Reads the directory of the records, and the record of this name, in one request. `None` if the directory does not
/// exist.
pub(crate) async fn page(
    client: Arc<Client>,
    directory: String,
    name: String,
) -> Result<Option<Page>, Event> {
    let mut reader = client.new_multi_reader();
    let built = reader.add_get_data(&directory).and_then(|()| reader.add_get_children(&directory));
    let built = built.and_then(|()| reader.add_get_data(&format!("{directory}/{name}")));
    built.map_err(failure)?;
    let results = reader.commit().await.map_err(failure)?;
    let Ok([own, children, record]) = <[MultiReadResult; 3]>::try_from(results) else {
        return Err(Event::Unanswered);
    };
    let (data, version, names) = match (own, children) {
        (MultiReadResult::Data { data, stat }, MultiReadResult::Children { children }) => {
            (data, stat.version, children)
        }
        (MultiReadResult::Error { err: Error::NoNode }, _)
        | (_, MultiReadResult::Error { err: Error::NoNode }) => return Ok(None),
        (MultiReadResult::Error { err }, _) | (_, MultiReadResult::Error { err }) => {
            return Err(failure(err));
        }
        _ => return Err(Event::Unanswered),
    };
    let record = match record {
        MultiReadResult::Data { data, stat } => Some(Kept { name, data, stat }),
        MultiReadResult::Error { err: Error::NoNode } => None,
        MultiReadResult::Error { err } => return Err(failure(err)),
        _ => return Err(Event::Unanswered),
    };
    Ok(Some(Page { data, version, names, record }))
}

/// Reads one record; `None` if it does not exist.
pub(crate) async fn record(
    client: Arc<Client>,
    directory: String,
    name: String,
) -> Result<Option<Kept>, Event> {
    match client.get_data(&format!("{directory}/{name}")).await {
        Ok((data, stat)) => Ok(Some(Kept { name, data, stat })),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

/// Reads the records of these names. It leaves out records that are gone, or that this session may not read.
pub(crate) async fn records(
    client: Arc<Client>,
    directory: String,
    names: Vec<String>,
) -> Result<Vec<Kept>, Event> {
    let mut kept = Vec::with_capacity(names.len());
    for chunk in names.chunks(READ_CHUNK) {
        let mut reader = client.new_multi_reader();
        for name in chunk {
            reader.add_get_data(&format!("{directory}/{name}")).map_err(failure)?;
        }
        for (name, result) in chunk.iter().zip(reader.commit().await.map_err(failure)?) {
            if let MultiReadResult::Data { data, stat } = result {
                kept.push(Kept { name: name.clone(), data, stat });
            }
        }
    }
    Ok(kept)
}

/// Reads every record that this session may read. Without a directory there is none.
pub(crate) async fn all_records(client: Arc<Client>, directory: String) -> Result<Vec<Kept>, Event> {
    match client.list_children(&directory).await {
        Ok(names) => records(client, directory, names).await,
        Err(Error::NoNode) => Ok(Vec::new()),
        Err(error) => Err(failure(error)),
    }
}
