//! A slot or a permit that a command waits for.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;
use zklock::{LockOptions, Semaphore, Session, Slots, semaphore::PoolError};
use zookeeper_client::SessionId;

use super::guard::CommandGuard;
use super::kin::{Kin, Kinship};
use super::locks::{Blocked, Names, Patience};
use crate::failure::Failure;
use crate::pool::{PermitsOf, Pool, SlotOf, share_of};
use crate::queue::Entry;
use crate::text::counted;

/// How long others may take that are just passing the turnstile. Without any wait, of several commands that start at once
/// all but one would find it busy, though there is room for all.
const PASSING: Duration = Duration::from_secs(2);

/// A slot or a permit that a command waits for.
pub(super) struct Part {
    of: PartOf,
    path: String,
    /// How much it takes of what there is.
    weight: u32,
    names: Names,
    session: Session,
}

enum PartOf {
    Slots(Slots),
    Semaphore(Semaphore),
}

impl Part {
    /// One of these slots. It sends nothing.
    pub(super) fn slot(of: &SlotOf, session: &Session, options: LockOptions) -> Result<Self, Failure> {
        let slots = session.slots(&of.path, of.count)?.with_options(options)?;
        let slots = of.preferred.map_or_else(|| slots.clone(), |index| slots.preferring(index));
        let names = Names::new(format!("a slot of {}", of.path), false);
        let path = of.path.clone();
        Ok(Self { of: PartOf::Slots(slots), path, weight: 1, names, session: session.clone() })
    }

    /// A permit of this semaphore. It sends nothing.
    pub(super) fn permit(of: &PermitsOf, session: &Session, options: LockOptions) -> Result<Self, Failure> {
        let semaphore = session.semaphore(&of.path, of.capacity)?.with_options(options)?;
        let names = Names::permits(&of.path, of.weight);
        let path = of.path.clone();
        Ok(Self {
            of: PartOf::Semaphore(semaphore),
            path,
            weight: of.weight,
            names,
            session: session.clone(),
        })
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Acquires it. `None` if it was not acquired in time.
    pub(super) async fn acquire(&self, patience: Patience) -> Result<Option<CommandGuard>, PoolError> {
        let granted = self.acquire_within(patience).await?;
        if patience.is_none() && granted.is_none() && self.has_room().await {
            return self.acquire_within(Some(PASSING)).await;
        }
        Ok(granted)
    }

    async fn acquire_within(&self, patience: Patience) -> Result<Option<CommandGuard>, PoolError> {
        Ok(match (&self.of, patience) {
            (PartOf::Slots(slots), None) => slots.try_acquire().await?.map(CommandGuard::slot),
            (PartOf::Slots(slots), Some(time)) => slots.acquire_timeout(time).await?.map(CommandGuard::slot),
            (PartOf::Semaphore(semaphore), None) => {
                semaphore.try_acquire_many(self.weight).await?.map(CommandGuard::permit)
            }
            (PartOf::Semaphore(semaphore), Some(time)) => {
                semaphore.acquire_many_timeout(self.weight, time).await?.map(CommandGuard::permit)
            }
        })
    }

    async fn has_room(&self) -> bool {
        let seen = timeout(PASSING, Pool::at(&self.session, &self.path)).await;
        // Before the first command of all, everything is free.
        matches!(seen, Ok(Ok(pool)) if pool.as_ref().is_none_or(|pool| pool.free() >= self.weight.into()))
    }

    /// What others hold of it, and who waits. `None` if nobody keeps this session from it: ZooKeeper is slow, or a takeover
    /// delay runs.
    pub(super) async fn find_blocked(&self, kin: &Kin) -> Result<Option<Blocked>, Failure> {
        let Some(pool) = Pool::at(&self.session, &self.path).await? else { return Ok(None) };
        let own = self.session.id();
        let position = pool.waiting.iter().rposition(|entry| entry.session == Some(SessionId(own)));
        let in_front = &pool.waiting[..position.unwrap_or(pool.waiting.len())];
        if in_front.is_empty() && pool.free() >= self.weight.into() {
            return Ok(None);
        }
        let mut about = format!(", {} of {} held", pool.held, pool.stock.total());
        if let Some(oldest) = pool.oldest() {
            let _infallible =
                write!(about, ", by {}{}", oldest.owner_text(), oldest.came_text(Timestamp::now()));
            if pool.holders.len() > 1 {
                let _infallible = write!(about, ", and {}", counted(pool.holders.len() - 1, "other"));
            }
        }
        if !pool.waiting.is_empty() {
            let _infallible = write!(about, "; {} waiting", pool.waiting.len());
        }
        if let Some(first) = in_front.first() {
            let _infallible = write!(about, ", the first is {}", first.owner_text());
        }
        let held = |whose| {
            let is_of = |holder: &&Entry| kin.kinship_of(holder, own) == Some(whose);
            pool.holders.iter().filter(is_of).map(share_of).sum::<u64>()
        };
        // What a zklock around this command holds is not free before this command has ended.
        let kinship = if u64::from(pool.stock.total()) < held(Kinship::Around) + u64::from(self.weight) {
            Some(Kinship::Around)
        } else {
            (held(Kinship::FormerSession) > 0).then_some(Kinship::FormerSession)
        };
        about.push_str(kinship.map_or("", Kinship::text));
        Ok(Some(Blocked { name: self.names.to_string(), holder: about }))
    }
}
