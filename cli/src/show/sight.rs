//! One look at a path that is watched. Its kind may change: a lock, the queue of an election, a semaphore, slots.

use zklock::{Lock, Session};

use crate::args::Show;
use crate::failure::Failure;
use crate::found::Found;
use crate::pool::Pool;
use crate::queue::{Entry, entries};

/// What [`Sight::what`] says of a lock.
pub(super) const LOCK: &str = "is a lock";

/// What looks at the path again and again.
pub(super) struct Eye<'a> {
    pub(super) session: &'a Session,
    show: &'a Show,
    last: LastSeen,
}

/// Where the last look saw somebody. The next look begins there: between two leaders nothing announces that the queue is
/// that of an election.
enum LastSeen {
    Nowhere,
    Lock(Lock),
    Pool,
}

#[derive(Default)]
pub(super) struct Sight {
    /// The path of the lock in whose queue they are, or of the pool.
    pub(super) path: String,
    pub(super) queue: Vec<Entry>,
    /// How many foreign contenders are at the path, if nobody is in the queue.
    pub(super) foreign: usize,
    pub(super) pool: Option<Pool>,
    /// Says what the path is; `None` if nothing shows it.
    pub(super) what: Option<&'static str>,
}

impl<'a> Eye<'a> {
    pub(super) fn new(session: &'a Session, show: &'a Show) -> Self {
        Self { session, show, last: LastSeen::Nowhere }
    }

    /// Looks. It asks for the kind anew once nobody is left.
    pub(super) async fn look_at_path(&mut self) -> Result<Sight, Failure> {
        let again = match &self.last {
            LastSeen::Nowhere => None,
            LastSeen::Lock(lock) => Some(self.see_queue(lock).await?),
            LastSeen::Pool => Pool::at(self.session, &self.show.path).await?.map(|pool| self.see_pool(pool)),
        };
        let again = match again {
            Some(sight) if sight.what.is_some() => return Ok(sight),
            again => again,
        };
        let Found { lock, pool, .. } = Found::at(self.session, &self.show.path, self.show.layout).await?;
        if let Some(pool) = pool {
            self.last = LastSeen::Pool;
            return Ok(self.see_pool(pool));
        }
        let sight = self.see_queue(&lock).await?;
        if sight.what.is_some() {
            self.last = LastSeen::Lock(lock);
            return Ok(sight);
        }
        // An election without a candidate looks like nothing. Its next leader may come to the same queue.
        Ok(again.unwrap_or(sight))
    }

    async fn see_queue(&self, lock: &Lock) -> Result<Sight, Failure> {
        let queue = entries(&lock.contenders().await?);
        // Where somebody of zklock's is, a foreign contender changes nothing, and is not worth the reads of each look.
        let foreign = if queue.is_empty() { lock.foreign_contenders().await?.len() } else { 0 };
        let kind = if lock.path() == self.show.path { LOCK } else { "is the queue of an election" };
        let what = (!queue.is_empty()).then_some(kind);
        Ok(Sight { path: lock.path().to_owned(), queue, foreign, pool: None, what })
    }

    fn see_pool(&self, pool: Pool) -> Sight {
        let what = Some(pool.stock.what());
        Sight { path: self.show.path.clone(), pool: Some(pool), what, ..Sight::default() }
    }
}

impl Sight {
    pub(super) fn holders(&self) -> Vec<&Entry> {
        match &self.pool {
            Some(pool) => pool.holders.iter().collect(),
            None => self.queue.iter().filter(|entry| entry.holds).collect(),
        }
    }

    pub(super) fn waiting(&self) -> Vec<&Entry> {
        match &self.pool {
            Some(pool) => pool.waiting.iter().collect(),
            None => self.queue.iter().filter(|entry| !entry.holds).collect(),
        }
    }
}
