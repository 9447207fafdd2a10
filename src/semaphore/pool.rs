//! A pool: what a semaphore and slots have in common. Acquiring a permit of it, and changing how much it has.

use std::pin::pin;
use std::sync::Arc;

use zklock_recipe::{Event, Kind, Stock, Tries, Wish};

use super::admission::admit;
use super::error::{InvalidPool, PoolError};
use super::requests::{self, Stocked};
use super::statement::Statement;
use crate::acquire::acquirer::{Acquirer, Wait};
use crate::acquire::contender::Contender;
use crate::acquire::options::{LockOptions, invalid_path, parse_path};
use crate::acquire::query::query;
use crate::error::{AcquireError, QueryError};
use crate::guard::Guard;
use crate::node::PoolData;
use crate::requests::QueueNode;
use crate::settings::{Queue, Settings};
use crate::telemetry::FamilyMember;
use crate::wire::LinkAnswer;
use crate::zk::Succession;

/// A pool of one session. The clones of a semaphore, or of slots, share it.
pub(super) struct Pool {
    turnstile: Acquirer,
    pub(super) statement: Arc<Statement>,
    /// Locked by the one who changes how much the pool has.
    changing: tokio::sync::Mutex<()>,
}

impl Pool {
    pub(super) fn new(
        succession: Arc<Succession>,
        path: &str,
        stated: Stock,
        options: LockOptions,
    ) -> Result<Self, InvalidPool> {
        let session = succession.present();
        let path = parse_path(path, &session)?;
        options.refuse_layout(path.as_str())?;
        let options = options.check(&path, &session)?;
        let invalid = |problem| invalid_path(path.as_str(), problem);
        let queue = Queue::of_turnstile(&path, stated.into(), &session.chroot).map_err(invalid)?;
        let permits = Queue::of_permits(&path, &session.chroot).map_err(invalid)?;
        let queue = Arc::new(Settings::new(queue, options.of_turnstile()));
        let permits = Arc::new(Settings::new(permits, options));
        let turnstile = Acquirer::of_one(succession, queue, Kind::Exclusive);
        let statement = Arc::new(Statement::new(permits, stated));
        Ok(Self { turnstile, statement, changing: tokio::sync::Mutex::new(()) })
    }

    pub(super) fn path(&self) -> &str {
        self.statement.path()
    }

    pub(super) fn succession(&self) -> &Arc<Succession> {
        &self.turnstile.succession
    }

    /// Acquires what `wish` says, and waits for as long as that takes.
    pub(super) async fn acquire<K: 'static>(&self, wish: Wish) -> Result<Guard<K>, PoolError> {
        self.turnstile.at_last(self.acquire_within(wish, Wait::FOR_EVER).await?)
    }

    /// Acquires the turnstile, as any lock is, and then the permit that `wish` says. `None` if it would have to wait for longer
    /// than that.
    pub(super) async fn acquire_within<K: 'static>(
        &self,
        wish: Wish,
        wait: Wait,
    ) -> Result<Option<Guard<K>>, PoolError> {
        let turnstile = &self.turnstile;
        let stages = |guard, arrival| admit(self.statement.clone(), guard, arrival, wish, wait.patience());
        let member = match wish {
            Wish::Permit(_) => FamilyMember::Semaphore,
            Wish::Slot(_) => FamilyMember::Slots,
        };
        let acquisition = pin!(turnstile.within(wait, turnstile.acquire_in_stages(wait, stages)));
        match turnstile.instrument(member, wait, acquisition).await {
            // The error names the turnstile, which the caller does not know.
            Err(PoolError::Acquire(AcquireError::Unanswered { waited, .. })) => {
                Err(AcquireError::Unanswered { path: self.path().to_owned(), waited }.into())
            }
            outcome => outcome,
        }
    }

    /// Writes to the pool how much it has. From then on this process states that, too.
    pub(super) async fn set_stock(&self, stock: Stock) -> Result<(), PoolError> {
        let path = || self.path().to_owned();
        let Some(entry) = self.turnstile.entries.first() else { return Ok(()) };
        let set = async {
            // Of two changes at once, the later one would not know what the pool has in the end.
            let _alone = self.changing.lock().await;
            // An acquisition that waits here may see the change before its answer does.
            self.statement.begin_change(stock);
            let mut answered = true;
            let mut tries = Tries::default();
            loop {
                let session =
                    self.succession().living().await.map_err(|over| AcquireError::over(path(), over))?;
                let queue = entry.lock.clone();
                let permits = self.statement.permits.clone();
                let request = session
                    .requester
                    .request(move |wire| requests::set_stock(wire.client, queue, permits, stock));
                match request.await {
                    LinkAnswer::Given(Ok(Stocked::Done), _) => {
                        self.statement.finish_change(stock);
                        return Ok(Stocked::Done);
                    }
                    LinkAnswer::Given(outcome @ (Ok(_) | Err(Event::Refused(_))), _) => {
                        if answered {
                            self.statement.undo_change();
                        }
                        return match outcome {
                            Err(Event::Refused(refusal)) => Err(AcquireError::refused(path(), refusal)),
                            Err(_) => Ok(Stocked::Foreign),
                            Ok(stocked) => Ok(stocked),
                        };
                    }
                    // It is asked again: the stock is the same. A request that comes late fails by its version. Once the
                    // session is over, the pause ends at once: its runtime may be gone, and with it the timer.
                    _ => {
                        answered = false;
                        session.repeat(&mut tries).await;
                    }
                }
            }
        };
        match self.succession().patiently(set).await {
            Ok(Ok(Stocked::Done)) => Ok(()),
            Ok(Ok(Stocked::OtherKind(other))) => {
                Err(AcquireError::other_kind(path(), stock.into(), other).into())
            }
            Ok(Ok(Stocked::Foreign)) => {
                Err(PoolError::UnknownData { directory: self.statement.permits.queue.path.to_string() })
            }
            Ok(Err(refused)) => Err(refused.into()),
            Err(waited) => Err(AcquireError::Unanswered { path: path(), waited }.into()),
        }
    }

    /// Asks how much the pool has, and who holds it.
    pub(super) async fn holders(&self) -> Result<(Option<Stock>, Vec<Contender>), QueryError> {
        let permits = self.statement.permits.clone();
        let found = query(self.succession(), self.statement.permits.queue.path.as_str(), |wire| {
            requests::read_permits(wire.client, permits)
        })
        .await?;
        let Some((data, nodes)) = found else { return Ok((None, Vec::new())) };
        let holder = |(position, node): (usize, QueueNode)| Contender::new(position, true, node);
        Ok((PoolData::decode(&data), nodes.into_iter().enumerate().map(holder).collect()))
    }
}
