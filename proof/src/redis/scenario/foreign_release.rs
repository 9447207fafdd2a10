//! The first one releases in time, but its request is under way for longer than the TTL, and arrives when the second one
//! holds the lock. Then the third one, which never held it, releases it. Does the third one get in while the second one
//! works?

use crate::harness::Instant;
use crate::redis::kind::Step;
use crate::redis::outcome::Outcome;
use crate::redis::proxy::What;
use crate::redis::stage::Stage;

pub(super) async fn play(stage: &Stage) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut first, mut second) = (stage.enter(0).await?, stage.enter(1).await?);
    let mut third = stage.enter(2).await?;
    first.acquire().await?;
    first.check_and_write().await?;
    let held = first.hold(What::Request, Step::Release)?;
    first.begin_to_release().await?;
    held.reached().await;
    first.wire().cut_off();

    second.begin_to_acquire().await?;
    let Some(acquired) = second.acquired(stage.bound()).await?.done() else {
        outcome.stuck = true;
        return Ok(outcome);
    };
    second.check_and_write().await?;

    held.release();
    first.wire().restore();
    first.released().await?;
    third.release().await?;
    third.begin_to_acquire().await?;
    let intruded = third.acquired(stage.ttl / 2).await?.done();
    // Otherwise the lock may have expired by itself.
    stage.fresh(acquired, intruded.unwrap_or_else(Instant::now))?;
    if intruded.is_some() {
        third.check_and_write().await?;
        tokio::time::sleep(stage.work()).await;
    }
    second.check_and_write().await?;
    second.release().await?;
    if intruded.is_none() && third.acquired(stage.bound()).await?.done().is_none() {
        outcome.stuck = true;
        return Ok(outcome);
    }
    third.release().await?;
    Ok(outcome)
}
