//! The requests that depend on a holder's node: the question whether it exists, and writes that take effect only while
//! it does.

use std::sync::Arc;

use zklock_recipe::nodes::confirmation;
use zklock_recipe::transaction::UNTOUCHED;
use zklock_recipe::{Event, Own};
use zookeeper_client as zk;
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, MultiWriteResult};

use super::operation::{Applied, NodeOptions, Operation, Task};
use super::transaction_error::ConditionProblem;
use crate::requests::{confirm_version, failure, plain};

/// Asks a quorum whether the holder's nodes exist and nobody has written to them.
pub(super) async fn confirm(client: &Client, nodes: &[(String, Own)]) -> Result<(), Event> {
    confirm_version(client, nodes, Some(UNTOUCHED)).await.map_err(|(_, event)| event)
}

/// The outcome of a transaction.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The transaction was committed.
    Committed(Vec<Applied>),
    /// A node of the holder is gone, or somebody else wrote to it. Nothing was written.
    NotHeld,
    /// The caller's operation with this index failed. Nothing was written.
    Failed(usize, ConditionProblem),
    /// The server refused the transaction. Nothing was written.
    Refused(String),
    /// The server has too much to do. Nothing was written.
    Throttled,
    /// No server gave a definite answer.
    Unknown,
}

/// Sends a transaction that begins with a check of each node of the holder. ZooKeeper commits it whole or not at all.
pub(super) async fn commit(client: Arc<Client>, nodes: Vec<String>, operations: Vec<Operation>) -> Verdict {
    let held = confirmation(nodes.iter().map(String::as_str), Some(UNTOUCHED));
    let built = plain(&client, held).map_err(|(_, error)| error).and_then(|mut transaction| {
        operations.iter().try_for_each(|operation| add(&mut transaction, operation))?;
        Ok(transaction)
    });
    let mut transaction = match built {
        Ok(transaction) => transaction,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    match transaction.commit().await {
        Ok(results) => {
            let applied = results.into_iter().skip(nodes.len()).map(applied).collect::<Option<Vec<_>>>();
            // If the reply does not fit the request, the transaction was committed, but its results are unknown.
            applied
                .filter(|applied| applied.len() == operations.len())
                .map_or(Verdict::Unknown, Verdict::Committed)
        }
        Err(MultiWriteError::OperationFailed { index, source: Error::NoNode | Error::BadVersion })
            if index < nodes.len() =>
        {
            Verdict::NotHeld
        }
        Err(MultiWriteError::OperationFailed { index, source }) if is_definite(&source) => {
            match index.checked_sub(nodes.len()) {
                Some(operation) => Verdict::Failed(operation, problem(source)),
                None => Verdict::Refused(format!("the holder's own node: {source}")),
            }
        }
        Err(MultiWriteError::RequestFailed { source: Error::Throttled }) => Verdict::Throttled,
        Err(MultiWriteError::RequestFailed { source }) if is_definite(&source) => {
            Verdict::Refused(source.to_string())
        }
        Err(_) => Verdict::Unknown,
    }
}

fn add(transaction: &mut zk::MultiWriter<'_>, operation: &Operation) -> Result<(), Error> {
    let path = operation.path.as_str();
    match &operation.task {
        Task::Create { data, options } => {
            let acls = options.acl.to_client();
            transaction.add_create(path, data, &mode(options).with_acls(zk::Acls::new(&acls)))
        }
        Task::Set { data, version } => transaction.add_set_data(path, data, *version),
        Task::Delete { version } => transaction.add_delete(path, *version),
        // On the wire, -1 stands for any version.
        Task::Check { version } => transaction.add_check_version(path, version.unwrap_or(-1)),
    }
}

fn mode(options: &NodeOptions) -> CreateMode {
    match (options.ephemeral, options.sequential) {
        (false, false) => CreateMode::Persistent,
        (false, true) => CreateMode::PersistentSequential,
        (true, false) => CreateMode::Ephemeral,
        (true, true) => CreateMode::EphemeralSequential,
    }
}

fn applied(result: MultiWriteResult) -> Option<Applied> {
    match result {
        MultiWriteResult::Create { path, .. } => Some(Applied::Created { path }),
        MultiWriteResult::SetData { stat } => Some(Applied::Set { version: stat.version }),
        MultiWriteResult::Delete => Some(Applied::Deleted),
        MultiWriteResult::Check => Some(Applied::Checked),
        _ => None,
    }
}

/// Whether an error is a definite answer of a server.
fn is_definite(error: &Error) -> bool {
    matches!(failure(error.clone()), Event::Refused(_))
}

fn problem(error: Error) -> ConditionProblem {
    match error {
        Error::NoNode => ConditionProblem::NoNode,
        Error::NodeExists => ConditionProblem::NodeExists,
        Error::BadVersion => ConditionProblem::BadVersion,
        Error::NotEmpty => ConditionProblem::NotEmpty,
        Error::NoChildrenForEphemerals => ConditionProblem::EphemeralParent,
        Error::NoAuth => ConditionProblem::NotAuthorized,
        Error::InvalidAcl => ConditionProblem::InvalidAcl,
        Error::QuotaExceeded => ConditionProblem::QuotaExceeded,
        error => ConditionProblem::Other(error.to_string()),
    }
}
