//! Sends a transaction that takes effect only while its holder's nodes exist.

use std::sync::Arc;

use zklock_recipe::Event;
use zklock_recipe::nodes::confirmation;
use zklock_recipe::transaction::UNTOUCHED;
use zookeeper_client::{Client, Error, MultiWriteResult};

use super::operation::{Applied, Node, NodeOperation};
use super::transaction_error::{ConditionProblem, TransactionError};
use crate::requests::{self, Acknowledged, failure, worded};

/// A node of the transaction.
enum Part {
    /// The holder's, at this path.
    Holder(String),
    /// That of the caller's operation with this index.
    Caller(usize, Node),
}

/// Sends a transaction that begins with a check of each node of this lock's holder. ZooKeeper commits it whole or not at all.
/// `Err(None)` means that a node of the holder is gone, or that somebody else wrote to it.
pub(super) async fn commit(
    client: Arc<Client>,
    lock: String,
    nodes: Vec<String>,
    operations: Vec<NodeOperation>,
) -> Result<Acknowledged<Vec<Applied>>, Option<TransactionError>> {
    let held = confirmation(nodes.into_iter().map(Part::Holder), Some(UNTOUCHED));
    let asked = operations.into_iter().enumerate();
    let asked = asked.map(|(index, operation)| operation.map(|node| Part::Caller(index, node)));
    let transaction = held.chain(asked).collect::<Vec<_>>();
    let committed = requests::commit(&client, &transaction, |part| match part {
        Part::Holder(path) => path.as_str().into(),
        Part::Caller(_, node) => node.operand(),
    });
    let (part, error) = match committed.await {
        Ok(results) => {
            let asked =
                transaction.iter().zip(results).filter(|(it, _)| matches!(it.node(), Part::Caller(..)));
            // If the reply does not fit the request, the transaction was committed, but its results are unknown.
            let applied = asked.map(|(_, result)| applied(result)).collect::<Option<_>>();
            return applied.map(Acknowledged).ok_or(Some(TransactionError::Unknown { path: lock }));
        }
        Err(failed) => failed,
    };
    Err(Some(match (part, error) {
        (Some(Part::Holder(_)), Error::NoNode | Error::BadVersion) => return Err(None),
        (None, Error::Throttled) => TransactionError::Throttled { path: lock },
        (_, error) if !is_definite(&error) => TransactionError::Unknown { path: lock },
        (Some(Part::Caller(operation, node)), error) => {
            let operation = *operation;
            let path = node.path.clone();
            TransactionError::Condition { operation, path, problem: problem(error) }
        }
        (Some(Part::Holder(_)), error) => TransactionError::Refused {
            path: lock,
            cause: format!("the holder's own node: {}", worded(&error)),
        },
        (None, error) => TransactionError::Refused { path: lock, cause: worded(&error) },
    }))
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
        error => ConditionProblem::Other(worded(&error)),
    }
}
