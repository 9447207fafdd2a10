//! The holder has crashed and its lock has expired. Two ask for it, and both requests arrive at the same instant.

use crate::redis::kind::Step;
use crate::redis::outcome::Outcome;
use crate::redis::proxy::What;
use crate::redis::stage::Stage;

pub(super) async fn play(stage: &Stage) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut holder = stage.enter(0).await?;
    let (mut one, mut other) = (stage.enter(1).await?, stage.enter(2).await?);
    holder.acquire().await?;
    holder.kill().await?;
    stage.servers.until_expired(stage.kind, &stage.key, stage.ttl).await?;

    let held = (one.hold(What::Request, Step::Seize)?, other.hold(What::Request, Step::Seize)?);
    one.begin_to_acquire().await?;
    other.begin_to_acquire().await?;
    held.0.reached().await;
    held.1.reached().await;
    held.0.release();
    held.1.release();

    // The one that comes first, and whether the other one comes, too.
    let (winner, loser) = tokio::select! {
        acquired = one.acquired(stage.bound()) => (acquired?.done().map(|_| &mut one), &mut other),
        acquired = other.acquired(stage.bound()) => (acquired?.done().map(|_| &mut other), &mut one),
    };
    let Some(winner) = winner else {
        outcome.stuck = true;
        return Ok(outcome);
    };
    let both = loser.acquired(stage.work()).await?.done().is_some();
    winner.check_and_write().await?;
    if both {
        loser.check_and_write().await?;
        winner.check_and_write().await?;
    }
    winner.release().await?;
    if !both && loser.acquired(stage.bound()).await?.done().is_none() {
        outcome.stuck = true;
        return Ok(outcome);
    }
    loser.check_and_write().await?;
    loser.release().await?;
    Ok(outcome)
}
