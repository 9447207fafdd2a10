//! One look at a lock's queue.

use futures::future::try_join;
use zklock::{Lock, QueryError};

use crate::queue::{Entry, Stranger, entries};

/// The queue, and the contenders of other clients in the lock's directory.
pub(super) async fn seen(lock: &Lock) -> Result<(Vec<Entry>, Vec<Stranger>), QueryError> {
    let (queue, foreign) = try_join(lock.contenders(), lock.foreign_contenders()).await?;
    Ok((entries(&queue), foreign.iter().map(Stranger::from).collect()))
}
