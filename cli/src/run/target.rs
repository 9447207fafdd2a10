//! The thing that a command waits for: locks, a run that happens once, an election, or some of a semaphore or of slots.

use zklock::{
    Election, LockOptions, Once, OnceOptions, Session,
    once::{Claim, Record, RecordState},
};

use super::guard::CommandGuard;
use super::kin::Kin;
use super::locks::{Blocked, Locks, Names, Patience};
use super::pool::Part;
use crate::args::{OnLost, Wanted};
use crate::console::Console;
use crate::failure::Failure;
use crate::queue::time_text;
use crate::{civil, text};

/// What the user asks for.
pub(crate) enum Goal {
    /// Locks, a run that happens once, or some of a pool.
    Wanted(Wanted),
    /// The lead of an election at this path, and what to announce.
    Lead { path: String, value: String },
}

pub(super) enum Target {
    Locks(Locks),
    /// A run that happens once, its lock, and its name.
    Once(Locks, Once, String),
    /// An election, its lock, and the value to announce.
    Lead(Locks, Election, String),
    /// A permit of a semaphore, or one of several slots.
    Part(Part),
}

/// What a command waited for.
pub(super) enum Taken {
    Granted(CommandGuard),
    /// The run must not happen.
    Done(Record),
}

impl Target {
    /// Finds out what the user asks for. With `--every`, the servers say which run that is. It stays the same, however
    /// long the command then waits.
    pub(super) async fn of(
        goal: Goal,
        on_lost: OnLost,
        session: &Session,
        options: LockOptions,
    ) -> Result<Self, Failure> {
        let wanted = match goal {
            Goal::Wanted(wanted) => wanted,
            Goal::Lead { path, value } => {
                let election = session.election(&path)?.with_options(options.clone())?;
                let locks = Locks::of_election(&election, session, options)?;
                return Ok(Self::Lead(locks, election, value));
            }
        };
        let options = options.layout(wanted.layout.map(Into::into).unwrap_or_default());
        if let Some(slot) = &wanted.slot {
            return Part::slot(slot, session, options).map(Self::Part);
        }
        if let Some(permits) = &wanted.permits {
            return Part::permit(permits, session, options).map(Self::Part);
        }
        let locks = Locks::of(&wanted, session, options.clone())?;
        if wanted.once.is_none() && wanted.every.is_none() {
            return Ok(Self::Locks(locks));
        }
        if on_lost == OnLost::IgnoreAndWarn {
            return Err(Failure::usage(
                "--on-lost ignore-and-warn cannot be used with --once or --every, because it may let two CMDs run at \
                 once; leave out one of these options",
            ));
        }
        let options = OnceOptions::new().lock(options).keep(wanted.keep).retry(wanted.retry);
        let once = session.once(wanted.path.as_deref().unwrap_or_default())?.with_options(options)?;
        let name = match (wanted.every, &wanted.time_zone) {
            (Some(period), Some(zone)) => {
                let days = civil::days(period)?;
                civil::run_name(once.now().await?, zone, days)?
            }
            (Some(period), None) => once.period_name(period).await?,
            (None, _) => wanted.once.unwrap_or_default(),
        };
        Ok(Self::Once(locks, once, name))
    }

    pub(super) fn names(&self) -> Names {
        match self {
            Self::Locks(locks) | Self::Once(locks, ..) | Self::Lead(locks, ..) => locks.names(),
            Self::Part(part) => part.names().clone(),
        }
    }

    pub(super) fn is_one(&self) -> bool {
        match self {
            Self::Locks(locks) | Self::Once(locks, ..) | Self::Lead(locks, ..) => locks.is_one(),
            Self::Part(_) => true,
        }
    }

    /// Says what a run is left as whose end is not recorded.
    pub(super) fn tell_unended(&self, console: Console) {
        if let Self::Once(_, _, run) = self {
            console.error(format_args!(
                "run {run} has begun, and its end is not recorded; it does not run again without --retry"
            ));
        }
    }

    /// Says of its names that others have it.
    pub(super) fn busy_text(&self) -> String {
        match self {
            Self::Part(part) => format!("{} not free", part.names().is()),
            _ if self.is_one() => "is not free".to_owned(),
            _ => "are not all free".to_owned(),
        }
    }

    /// What others keep from this session now.
    pub(super) async fn find_blocked(&self, kin: &Kin) -> Result<Vec<Blocked>, Failure> {
        match self {
            Self::Locks(locks) | Self::Once(locks, ..) | Self::Lead(locks, ..) => {
                Ok(locks.find_blocked(kin).await?)
            }
            Self::Part(part) => Ok(Vec::from_iter(part.find_blocked(kin).await?)),
        }
    }

    /// Acquires the locks, and begins the run or announces the leader. `None` if the locks were not acquired in time.
    pub(super) async fn acquire(&self, patience: Patience) -> Result<Option<Taken>, Failure> {
        let guard = match self {
            Self::Locks(locks) => locks.acquire_all(patience).await?.map(CommandGuard::locks),
            Self::Once(_, once, name) => {
                let claim = match patience {
                    None => once.try_claim(name).await?,
                    Some(timeout) => once.claim_timeout(name, timeout).await?,
                };
                match claim {
                    Some(Claim::Recorded(record)) => return Ok(Some(Taken::Done(record))),
                    Some(Claim::Run(run)) => Some(CommandGuard::run(run)),
                    None => None,
                }
            }
            Self::Lead(_, election, value) => {
                let leadership = match patience {
                    None => election.try_campaign(value).await?,
                    Some(timeout) => election.campaign_timeout(value, timeout).await?,
                };
                leadership.map(CommandGuard::leadership)
            }
            Self::Part(part) => part.acquire(patience).await?,
        };
        Ok(guard.map(Taken::Granted))
    }
}

/// Says of a run that it does not begin, and what its record has.
pub(super) fn recorded_text(record: &Record) -> String {
    let name = text::harmless(&record.name);
    let owner = text::harmless(&record.owner);
    let begun = time_text(record.begun);
    let ended = time_text(record.ended.unwrap_or(record.begun));
    match record.state {
        RecordState::Succeeded => {
            format!("run {name} has been done already: succeeded on {owner} at {ended}")
        }
        RecordState::Failed => {
            format!("run {name} has failed already, on {owner} at {ended}; give --retry to begin it again")
        }
        _ => format!(
            "run {name} has begun already, on {owner} at {begun}, and its end was not recorded; give --retry to begin \
             it again"
        ),
    }
}
