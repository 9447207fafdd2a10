//! The first one asks its lock, is stopped before it writes, and continues once the second one holds the lock: it writes
//! what it was about to write, and works on.

use crate::redis::outcome::{Outcome, Told};
use crate::redis::stage::{Spoiled, Stage};

pub(super) async fn play(stage: &Stage) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut first, mut second) = (stage.enter(0).await?, stage.enter(1).await?);
    first.acquire().await?;
    first.check_and_write().await?;
    first.check().await?;
    let stopped = first.stop().await?;

    second.begin_to_acquire().await?;
    let next = second.acquired(stage.bound()).await?;
    outcome.next(stopped, next);
    if outcome.stuck {
        return Ok(outcome);
    }
    if second.check_and_write().await? {
        // It lost the lock before it wrote, so nothing shows that a late write is late.
        return Err(Spoiled.into());
    }

    // The write was decided upon by the check before the stop. This check only shows what the lock says by now.
    first.begin_to_check_and_write().await?;
    first.resume()?;
    let check = first.checked().await?;
    first.wrote().await?;
    if check == Some(false) {
        outcome.told = Some(Told::Check);
    } else if first.inquire().await? == Some(false) {
        outcome.told = Some(Told::IfItAsks);
    }
    if check != Some(false) {
        tokio::time::sleep(stage.work()).await;
    }
    outcome.told_by_release(first.release().await?);
    second.check_and_write().await?;
    second.release().await?;
    Ok(outcome)
}
