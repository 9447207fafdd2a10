//! What is done to the locks: two contenders, one fault.

use std::sync::PoisonError;
use std::time::Duration;

use clap::ValueEnum;
use futures::FutureExt;
use serde::Serialize;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zklock_contest::record::Who;
use zklock_proof::redis_lock::{Lock, Redisson, SetNxPx, SetnxExpire, SetnxGetset, Spring, Zklock};

use super::contender::{Contender, prompt};
use super::holds::{late, together};
use super::kind::Kind;
use super::outcome::{Outcome, Told};
use super::stage::{FIRST, Stage, TTL};
use crate::harness::{Instant, now};

/// A contender that has not got the lock by then never will: far more than a TTL and what clocks differ by.
const BOUND: Duration = Duration::from_secs(12);

/// How long both of two holders work on at the same time, if they believe that they hold the lock.
const WORK: Duration = Duration::from_millis(500);

/// What happens. The table's rows have these headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    /// the winning request's reply is later than the TTL
    LateReply,
    /// the holder is stopped past the TTL, between check and write
    Stopped,
}

/// The machine was too busy for this run to show what it is about.
#[derive(Debug, Error)]
#[error("the machine is too busy: what takes milliseconds took longer than the TTL")]
pub(super) struct Spoiled;

impl Fault {
    pub(super) async fn play(self, stage: &Stage) -> anyhow::Result<Outcome> {
        let mut outcome = match stage.kind {
            Kind::SetNxPx => self.of::<SetNxPx>(stage).await?,
            Kind::SetnxExpire => self.of::<SetnxExpire>(stage).await?,
            Kind::SetnxGetset => self.of::<SetnxGetset>(stage).await?,
            Kind::Spring => self.of::<Spring>(stage).await?,
            Kind::Redisson => self.of::<Redisson>(stage).await?,
            Kind::ZklockUnfenced | Kind::Zklock => self.of::<Zklock>(stage).await?,
        };
        let register = stage.register.lock().unwrap_or_else(PoisonError::into_inner);
        let (ledger, holds) = (&register.ledger, stage.holds.lock().unwrap_or_else(PoisonError::into_inner));
        (outcome.double_holds, outcome.longest) = together(&holds);
        (outcome.late_writes, outcome.refused) = (late(&ledger.writes, &holds), ledger.refused_writes);
        Ok(outcome)
    }

    async fn of<L: Lock>(self, stage: &Stage) -> anyhow::Result<Outcome> {
        let second = Contender::enter(stage, Who::process(1));
        let (first, second) = tokio::try_join!(Contender::<L>::enter(stage, FIRST), second)?;
        let mut outcome = Outcome::default();
        match self {
            Self::LateReply => late_reply(stage, first, second, &mut outcome).await?,
            Self::Stopped => stopped(first, second, &mut outcome).await?,
        }
        Ok(outcome)
    }
}

/// Waits until an acquisition returns, so long. `None` if it has not; else when it was granted, if it was.
async fn acquired(acquiring: &mut JoinHandle<Option<Instant>>) -> anyhow::Result<Option<Option<Instant>>> {
    Ok(timeout(BOUND, acquiring).await.ok().transpose()?)
}

async fn check_and_write<L: Lock>(contender: &Contender<L>) -> anyhow::Result<bool> {
    prompt(contender.tell(|it| async { it.check_and_write() }.boxed())).await
}

async fn release<L: Lock>(contender: &Contender<L>) -> anyhow::Result<bool> {
    prompt(contender.tell(|it| it.release().boxed())).await
}

/// The server does what the first one asks for, and its reply takes longer than the TTL. Meanwhile the second one acquires
/// the lock.
///
/// Where an acquisition has two steps, the late reply is the second one's: the TTL counts from there. If the first one's reply
/// were late, no client would hold the lock for so long, and the key would have no end yet.
async fn late_reply<L: Lock>(
    stage: &Stage,
    mut first: Contender<L>,
    second: Contender<L>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    first.way.hold(stage.kind.replies_before_the_last());
    let mut acquiring = first.tell(|it| it.acquire().boxed());
    first.way.held().await;
    let granted = now();

    let next = acquired(&mut second.tell(|it| it.acquire().boxed())).await?;
    outcome.next(granted, next.flatten());
    if outcome.stuck {
        return Ok(());
    }
    check_and_write(&second).await?;

    first.way.release();
    match timeout(TTL, &mut acquiring).await.ok().transpose()? {
        Some(Some(_)) => {
            stage.was_granted(granted);
            // Each of them believes that it has the lock to itself.
            check_and_write(&first).await?;
            tokio::time::sleep(WORK).await;
            check_and_write(&second).await?;
            outcome.told_by_release(release(&first).await?);
            release(&second).await?;
        }
        Some(None) => {
            outcome.told = Some(Told::AcquireFails);
            release(&second).await?;
        }
        None => {
            outcome.told = Some(Told::Waits);
            release(&second).await?;
            // Its turn has come, by a hold of its own.
            outcome.stuck |= acquired(&mut acquiring).await?.flatten().is_none();
            check_and_write(&first).await?;
            release(&first).await?;
        }
    }
    Ok(())
}

/// The first one asks its lock, is stopped before it writes, and continues once the second one holds the lock: it writes
/// what it was about to write, and works on.
async fn stopped<L: Lock>(
    first: Contender<L>,
    second: Contender<L>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    // A free lock: if that fails, a client was not served in time.
    acquired(&mut first.tell(|it| it.acquire().boxed())).await?.flatten().ok_or(Spoiled)?;
    check_and_write(&first).await?;
    let (stopped, resume) = first.stop().await?;

    let next = acquired(&mut second.tell(|it| it.acquire().boxed())).await?;
    outcome.next(stopped, next.flatten());
    if outcome.stuck {
        return Ok(());
    }
    if check_and_write(&second).await? {
        // It lost the lock before it wrote, so nothing shows that a late write is late.
        return Err(Spoiled.into());
    }

    // The write was decided upon by the check before the stop. This check only shows what the lock says by now.
    let check = first.tell(|it| async { it.look() }.boxed());
    let write = first.tell(|it| async { it.write() }.boxed());
    drop(resume);
    let check = prompt(check).await?;
    prompt(write).await?;
    if check == Some(false) {
        outcome.told = Some(Told::Check);
    } else {
        if prompt(first.tell(|it| it.inquire().boxed())).await? == Some(false) {
            outcome.told = Some(Told::IfItAsks);
        }
        tokio::time::sleep(WORK).await;
    }
    outcome.told_by_release(release(&first).await?);
    check_and_write(&second).await?;
    release(&second).await?;
    Ok(())
}
