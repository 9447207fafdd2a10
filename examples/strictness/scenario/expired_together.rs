//! The holder has crashed and its lock has expired. Two ask for it, and both requests arrive at the same instant.

use super::Outcome;
use crate::kind::Step;
use crate::proxy::What;
use crate::stage::{Acquisition, Actor, Stage};

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

    match tokio::try_join!(one.acquired(stage.work()), other.acquired(stage.work()))? {
        (Acquisition::Done(_), Acquisition::Done(_)) => {
            one.check_and_write().await?;
            other.check_and_write().await?;
            one.check_and_write().await?;
            one.release().await?;
            other.release().await?;
        }
        (Acquisition::Done(_), _) => one_after_the_other(stage, &mut one, &mut other, &mut outcome).await?,
        (_, Acquisition::Done(_)) => one_after_the_other(stage, &mut other, &mut one, &mut outcome).await?,
        _ => outcome.stuck = true,
    }
    Ok(outcome)
}

/// The winner works and releases, and then it is the loser's turn.
async fn one_after_the_other(
    stage: &Stage,
    winner: &mut Actor,
    loser: &mut Actor,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    winner.check_and_write().await?;
    winner.release().await?;
    let turn = loser.acquired(stage.bound()).await?;
    outcome.stuck |= turn.done().is_none();
    if turn.done().is_some() {
        loser.check_and_write().await?;
        loser.release().await?;
    }
    Ok(())
}
