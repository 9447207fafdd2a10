//! What is done to the locks: two contenders, one fault.

use std::sync::PoisonError;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use super::contender::{Contender, Order};
use super::holds::{late, together};
use super::outcome::{Outcome, Told};
use super::stage::{Stage, TTL};
use crate::harness::Instant;

/// A contender that has not got the lock by then never will: far more than a TTL and what clocks differ by.
const BOUND: Duration = Duration::from_secs(12);

/// How long both of two holders work on at the same time, if they believe that they hold the lock.
const WORK: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    /// The reply to the request that won is later than the TTL.
    LateReply,
    /// The holder is stopped for longer than the TTL, between its check and its write.
    Stopped,
}

/// The machine was too busy for this run to show what it is about.
#[derive(Debug, Error)]
#[error("the machine is too busy: what takes milliseconds took longer than the TTL")]
pub(super) struct Spoiled;

impl Fault {
    pub(super) const ALL: [Self; 2] = [Self::LateReply, Self::Stopped];

    /// The heading of its rows.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LateReply => "the winning request's reply is later than the TTL",
            Self::Stopped => "the holder is stopped past the TTL, between check and write",
        }
    }

    pub(super) async fn play(self, stage: &Stage) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        match self {
            Self::LateReply => late_reply(stage, &mut outcome).await?,
            Self::Stopped => stopped(stage, &mut outcome).await?,
        }
        let (ledger, holds) =
            (stage.register.ledger(), stage.holds.lock().unwrap_or_else(PoisonError::into_inner));
        (outcome.double_holds, outcome.longest) = together(&holds);
        (outcome.late_writes, outcome.refused) = (late(&ledger.writes, &holds), ledger.refused_writes);
        Ok(outcome)
    }
}

/// The server does what the first one asks for, and its reply takes longer than the TTL. Meanwhile the second one acquires
/// the lock.
///
/// Where an acquisition has two steps, the late reply is the second one's: the TTL counts from there. If the first one's reply
/// were late, no client would hold the lock for so long, and the key would have no end yet.
async fn late_reply(stage: &Stage, outcome: &mut Outcome) -> anyhow::Result<()> {
    let (mut first, mut second) = tokio::try_join!(Contender::enter(stage, 0), Contender::enter(stage, 1))?;
    first.way.hold(stage.kind.replies_before_the_last());
    first.tell(Order::Acquire)?;
    first.way.held().await;
    let granted = Instant::now();

    second.tell(Order::Acquire)?;
    outcome.next(granted, second.acquired(BOUND).await?.flatten());
    if outcome.stuck {
        return Ok(());
    }
    second.check_and_write().await?;

    first.way.release();
    match first.acquired(TTL).await? {
        Some(Some(_)) => {
            stage.was_granted(granted);
            // Each of them believes that it has the lock to itself.
            first.check_and_write().await?;
            tokio::time::sleep(WORK).await;
            second.check_and_write().await?;
            outcome.told_by_release(first.release().await?);
            second.release().await?;
        }
        Some(None) => {
            outcome.told = Some(Told::AcquireFails);
            second.release().await?;
        }
        None => {
            outcome.told = Some(Told::Waits);
            second.release().await?;
            // Its turn has come, by a hold of its own.
            outcome.stuck |= first.acquired(BOUND).await?.flatten().is_none();
            first.check_and_write().await?;
            first.release().await?;
        }
    }
    Ok(())
}

/// The first one asks its lock, is stopped before it writes, and continues once the second one holds the lock: it writes
/// what it was about to write, and works on.
async fn stopped(stage: &Stage, outcome: &mut Outcome) -> anyhow::Result<()> {
    let (mut first, mut second) = tokio::try_join!(Contender::enter(stage, 0), Contender::enter(stage, 1))?;
    first.tell(Order::Acquire)?;
    // A free lock: if that fails, a client was not served in time.
    first.acquired(BOUND).await?.flatten().ok_or(Spoiled)?;
    first.check_and_write().await?;
    let (stopped, resume) = first.stop().await?;

    second.tell(Order::Acquire)?;
    outcome.next(stopped, second.acquired(BOUND).await?.flatten());
    if outcome.stuck {
        return Ok(());
    }
    if second.check_and_write().await? {
        // It lost the lock before it wrote, so nothing shows that a late write is late.
        return Err(Spoiled.into());
    }

    // The write was decided upon by the check before the stop. This check only shows what the lock says by now.
    first.tell(Order::Check)?;
    first.tell(Order::Write)?;
    drop(resume);
    let check = first.held().await?;
    first.answer().await?;
    if check == Some(false) {
        outcome.told = Some(Told::Check);
    } else {
        first.tell(Order::Inquire)?;
        if first.held().await? == Some(false) {
            outcome.told = Some(Told::IfItAsks);
        }
        tokio::time::sleep(WORK).await;
    }
    outcome.told_by_release(first.release().await?);
    second.check_and_write().await?;
    second.release().await?;
    Ok(())
}
