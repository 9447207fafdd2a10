//! What is at a path: a lock, an election, a semaphore or slots.

use zklock::{Lock, Session};

use crate::election::Election;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::pool::Pool;
use crate::queue;

/// The lock at the path, or the one for which the candidates of an election there queue; and the pool there.
pub(crate) async fn found(
    session: &Session,
    path: &str,
    layout: Option<Layout>,
) -> Result<(Lock, Option<Election>, Option<Pool>), Failure> {
    let (lock, election) = match queue::lock(session, path, layout).await? {
        (lock, Some(_)) => (lock, None),
        (lock, None) => candidates(session, lock).await?,
    };
    Ok((lock, election, Pool::at(session, path).await?))
}

/// This lock. If nobody holds it, and somebody leads an election at its path, the lock for which the candidates queue.
async fn candidates(session: &Session, lock: Lock) -> Result<(Lock, Option<Election>), Failure> {
    let election = match Election::of_queue(session, lock.path()).await? {
        None if lock.holder().await?.is_none() => Election::at(session, lock.path()).await?,
        election => election,
    };
    Ok(match election {
        Some(election) => (session.lock(&election.queue)?, Some(election)),
        None => (lock, None),
    })
}
