//! The first one holds the lock for longer than the TTL, because there is so much to do. The second one waits.

use crate::redis::outcome::{Outcome, Told};
use crate::redis::stage::Stage;

pub(super) async fn play(stage: &Stage) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut first, mut second) = (stage.enter(0).await?, stage.enter(1).await?);
    first.acquire().await?;
    first.check_and_write().await?;
    second.begin_to_acquire().await?;
    let long = stage.ttl + stage.ttl / 2;
    if second.acquired(long).await?.done().is_some() {
        second.check_and_write().await?;
        let lost = first.check_and_write().await?;
        if !lost {
            tokio::time::sleep(stage.work()).await;
        }
        if lost {
            outcome.told = Some(Told::Check);
        }
        outcome.told_by_release(first.release().await?);
    } else {
        first.check_and_write().await?;
        first.release().await?;
        outcome.stuck = second.acquired(stage.bound()).await?.done().is_none();
        if outcome.stuck {
            return Ok(outcome);
        }
    }
    second.check_and_write().await?;
    second.release().await?;
    Ok(outcome)
}
