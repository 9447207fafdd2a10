//! The thing that a command waits for: locks, a slot that runs once, an election, or some of a semaphore or of slots.

use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use zklock::{
    AcquireError, Election, FencingToken, Guard, Leadership, LockOptions, Lost, LostReason, MultiGuard, Once,
    Permit, ReleaseError, Sequencer, Session, Slot,
    once::{self, Claim, OnceOptions, Record, RecordError, RecordState, RunEnd},
};

use super::locks::{Blocked, Locks, Names, Patience};
use super::pool::{self, Pool, Share};
use crate::args::{OnLost, Run};
use crate::civil;
use crate::failure::Failure;
use crate::text;

/// The thing that a command waits for.
pub(super) enum Target {
    Locks(Locks),
    /// A run that runs once, its lock, and its name.
    Once(Locks, Once, String),
    /// An election, its lock, and the value to announce.
    Lead(Locks, Election, String),
    /// A permit of a semaphore, or one of several slots.
    Pool(Pool),
}

/// What a command waited for.
pub(super) enum Taken {
    Granted(Grant),
    /// The run must not run.
    Done(Record),
}

/// Locks that are held, or a run whose run has begun under its lock, or an election that is won, or some of a pool.
pub(super) enum Grant {
    Locks(MultiGuard),
    Run(once::Run),
    Permit(Permit),
    Slot(Slot),
    Leadership(Leadership),
    /// The lock of a run whose end is recorded.
    Recorded(Guard),
}

impl Target {
    /// Finds out what the user asks for. With `--every`, the servers say which run that is. It stays the same, however
    /// long the command then waits.
    pub(super) async fn of(
        run: &Run,
        value: Option<String>,
        session: &Session,
        options: LockOptions,
    ) -> Result<Self, Failure> {
        if let Some(slot) = &run.slot {
            return Pool::slot(slot, session, options).map(Self::Pool);
        }
        if let Some(permits) = &run.permits {
            return Pool::permit(permits, session, options).map(Self::Pool);
        }
        let path = run.path.as_deref().unwrap_or_default();
        if let Some(value) = value {
            let election = session.election(path)?.with_options(options.clone())?;
            let locks = Locks::of_election(&election, session, options)?;
            return Ok(Self::Lead(locks, election, value));
        }
        let locks = Locks::of(run, session, options.clone())?;
        if run.once.is_none() && run.every.is_none() {
            return Ok(Self::Locks(locks));
        }
        if run.on_lost == OnLost::IgnoreAndWarn {
            return Err(Failure::usage(
                "--on-lost ignore-and-warn lets CMD run beside another CMD, and --once and --every forbid that; leave one of \
                 them out",
            ));
        }
        let options = OnceOptions::new().lock(options).keep(run.keep).retry(run.retry);
        let once = session.once(path)?.with_options(options)?;
        let name = match (run.every, &run.time_zone) {
            (Some(period), Some(zone)) => {
                let days = civil::days(period)?;
                civil::slot(once.now().await?, zone, days)?
            }
            (Some(period), None) => once.period_name(period).await?,
            (None, _) => run.once.clone().unwrap_or_default(),
        };
        Ok(Self::Once(locks, once, name))
    }

    pub(super) fn names(&self) -> Names {
        match self {
            Self::Locks(locks) | Self::Once(locks, ..) | Self::Lead(locks, ..) => locks.names(),
            Self::Pool(pool) => pool.names(),
        }
    }

    /// Whether there is only one thing to wait for.
    pub(super) fn is_one(&self) -> bool {
        match self {
            Self::Locks(locks) | Self::Once(locks, ..) | Self::Lead(locks, ..) => locks.is_one(),
            Self::Pool(_) => true,
        }
    }

    /// Says of its names that others have it.
    pub(super) fn busy(&self) -> String {
        match self {
            Self::Pool(pool) => format!("{} not free", pool.names().is()),
            _ if self.is_one() => "is taken".to_owned(),
            _ => "are not all free".to_owned(),
        }
    }

    /// What others keep from this session now.
    pub(super) async fn blocked(&self) -> Result<Vec<Blocked>, Failure> {
        match self {
            Self::Locks(locks) | Self::Once(locks, ..) | Self::Lead(locks, ..) => Ok(locks.blocked().await?),
            Self::Pool(pool) => Ok(Vec::from_iter(pool.blocked().await?)),
        }
    }

    /// Acquires the locks, and begins the run or announces the leader. `None` if the locks were not acquired in time.
    pub(super) async fn take(&self, patience: Patience) -> Result<Option<Taken>, AcquireError> {
        let grant = match self {
            Self::Locks(locks) => locks.take(patience).await?.map(Grant::Locks),
            Self::Once(_, once, name) => {
                let claim = match patience {
                    Patience::None => once.try_claim(name).await?,
                    Patience::For(timeout) => once.claim_timeout(name, timeout).await?,
                    Patience::Endless => Some(once.claim(name).await?),
                };
                match claim {
                    Some(Claim::Done(record)) => return Ok(Some(Taken::Done(record))),
                    Some(Claim::Run(run)) => Some(Grant::Run(run)),
                    None => None,
                }
            }
            Self::Lead(_, election, value) => {
                let leadership = match patience {
                    Patience::None => election.try_campaign(value).await?,
                    Patience::For(timeout) => election.campaign_timeout(value, timeout).await?,
                    Patience::Endless => Some(election.campaign(value).await?),
                };
                leadership.map(Grant::Leadership)
            }
            Self::Pool(pool) => pool.take(patience).await?.map(|share| match share {
                Share::Slot(slot) => Grant::Slot(slot),
                Share::Permit(permit) => Grant::Permit(permit),
            }),
        };
        Ok(grant.map(Taken::Granted))
    }
}

/// Calls a method that guards of every kind have.
macro_rules! guard {
    ($grant:expr, $guard:ident => $call:expr) => {
        match $grant {
            Grant::Locks($guard) => $call,
            Grant::Recorded($guard) => $call,
            Grant::Leadership($guard) => $call,
            Grant::Permit($guard) => $call,
            Grant::Slot($guard) => $call,
            Grant::Run(run) => {
                let $guard = run.guard();
                $call
            }
        }
    };
}

impl Grant {
    /// The name of the run, if it is one that runs once.
    pub(super) fn once(&self) -> Option<&str> {
        match self {
            Self::Run(run) => Some(run.name()),
            _ => None,
        }
    }

    /// The index, if it is one of several slots.
    pub(super) fn index(&self) -> Option<u32> {
        match self {
            Self::Slot(slot) => Some(slot.index()),
            _ => None,
        }
    }

    /// The weight, if it is a permit.
    pub(super) fn weight(&self) -> Option<u32> {
        match self {
            Self::Permit(permit) => Some(permit.weight()),
            _ => None,
        }
    }

    pub(super) fn names(&self) -> Names {
        match self {
            Self::Permit(permit) => pool::permits(permit.path(), permit.weight()),
            Self::Slot(slot) => pool::slot(slot.path(), slot.index()),
            _ => Names::of(self.paths()),
        }
    }

    pub(super) fn paths(&self) -> Vec<&str> {
        match self {
            Self::Locks(guard) => guard.paths().collect(),
            Self::Run(run) => vec![run.guard().path()],
            Self::Recorded(guard) => vec![guard.path()],
            Self::Leadership(leadership) => vec![leadership.path()],
            Self::Permit(permit) => vec![permit.path()],
            Self::Slot(slot) => vec![slot.path()],
        }
    }

    /// The claims that others can check. Permits and slots have none.
    pub(super) fn sequencers(&self) -> Result<Vec<Sequencer>, Lost> {
        Ok(match self {
            Self::Locks(guard) => guard.sequencers()?,
            Self::Run(run) => vec![run.guard().sequencer()?],
            Self::Recorded(guard) => vec![guard.sequencer()?],
            Self::Leadership(leadership) => vec![leadership.sequencer()?],
            Self::Permit(_) | Self::Slot(_) => Vec::new(),
        })
    }

    pub(super) fn token(&self) -> FencingToken {
        guard!(self, guard => guard.token())
    }

    pub(super) fn is_held(&self) -> bool {
        guard!(self, guard => guard.is_held())
    }

    pub(super) fn check(&self) -> Result<(), Lost> {
        guard!(self, guard => guard.check())
    }

    pub(super) fn remaining(&self) -> Duration {
        guard!(self, guard => guard.remaining())
    }

    pub(super) fn lost(&self) -> BoxFuture<'static, LostReason> {
        guard!(self, guard => guard.lost().boxed())
    }

    /// Records how the command has ended, if it ran in a run. The locks stay held.
    pub(super) async fn record(self, status: u8) -> Result<Self, RecordError> {
        let end = if status == 0 { RunEnd::Succeeded } else { RunEnd::Failed };
        match self {
            Self::Run(run) => run.record(end).await.map(Self::Recorded),
            held => Ok(held),
        }
    }

    /// Releases the locks. The record of a run stays as it is.
    pub(super) async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Self::Locks(guard) => guard.release().await,
            Self::Run(run) => run.into_guard().release().await,
            Self::Recorded(guard) => guard.release().await,
            Self::Leadership(leadership) => leadership.resign().await,
            Self::Permit(permit) => permit.release().await,
            Self::Slot(slot) => slot.release().await,
        }
    }
}

/// Says why a run does not run.
pub(super) fn already(record: &Record) -> String {
    let (name, owner) = (text::harmless(&record.name), text::harmless(&record.owner));
    let (begun, ended) = (time(record.begun), time(record.ended.unwrap_or(record.begun)));
    match record.state {
        RecordState::Succeeded => {
            format!("run {name} has been done already: succeeded on {owner} at {ended}")
        }
        RecordState::Failed => {
            format!("run {name} has been done already: failed on {owner} at {ended}; --retry begins it again")
        }
        _ => format!(
            "run {name} has been done already: begun on {owner} at {begun}, which vanished before the end; --retry begins it again"
        ),
    }
}

fn time(at: SystemTime) -> String {
    Timestamp::try_from(at).map_or_else(|_| "an unknown time".to_owned(), |at| format!("{at:.0}"))
}
