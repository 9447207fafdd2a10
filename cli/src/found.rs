//! What is at a path: a lock, an election, a semaphore or slots.

use zklock::{Lock, Session};

use crate::election::LedElection;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::pool::Pool;
use crate::queue;
pub(crate) struct Found {
    /// The lock there, or the one for which the candidates of an election there queue.
    pub(crate) lock: Lock,
    /// The client whose queue the lock has, if that is another one.
    pub(crate) layout: Option<Layout>,
    pub(crate) election: Option<LedElection>,
    pub(crate) pool: Option<Pool>,
}

impl Found {
    pub(crate) async fn at(session: &Session, path: &str, layout: Option<Layout>) -> Result<Self, Failure> {
        let (lock, layout) = queue::lock_at(session, path, layout).await?;
        let (lock, election) = match layout {
            Some(_) => (lock, None),
            None => with_candidates(session, lock).await?,
        };
        Ok(Self { lock, layout, election, pool: Pool::at(session, path).await? })
    }
}

/// This lock. If nobody holds it, and somebody leads an election at its path, the lock for which the candidates queue.
async fn with_candidates(session: &Session, lock: Lock) -> Result<(Lock, Option<LedElection>), Failure> {
    let election = match LedElection::of_queue(session, lock.path()).await? {
        None if lock.holder().await?.is_none() => LedElection::at(session, lock.path()).await?,
        election => election,
    };
    Ok(match election {
        Some(election) => (session.lock(&election.queue)?, Some(election)),
        None => (lock, None),
    })
}
