//! The first one holds the lock, and the second one's clock is 5 s ahead. Then the holder's clock is ahead, and the holder
//! crashes: how long does its lock last?

use std::time::Duration;

use crate::redis::outcome::Outcome;
use crate::redis::stage::Stage;

const AHEAD: Duration = Duration::from_secs(5);

pub(super) async fn play(stage: &Stage) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut first, mut second) = (stage.enter(0).await?, stage.enter_ahead(1, AHEAD).await?);
    first.acquire().await?;
    first.check_and_write().await?;
    second.begin_to_acquire().await?;
    if second.acquired(stage.ttl / 2).await?.done().is_some() {
        second.check_and_write().await?;
        tokio::time::sleep(stage.work()).await;
        first.check_and_write().await?;
        outcome.told_by_release(first.release().await?);
    } else {
        first.release().await?;
        outcome.stuck |= second.acquired(stage.bound()).await?.done().is_none();
    }
    second.release().await?;

    let (mut third, mut fourth) = (stage.enter_ahead(2, AHEAD).await?, stage.enter(3).await?);
    // Whatever the release above has left behind.
    third.begin_to_acquire().await?;
    if third.acquired(stage.bound()).await?.done().is_none() {
        outcome.stuck = true;
        return Ok(outcome);
    }
    let killed = third.kill().await?;
    fourth.begin_to_acquire().await?;
    let next = fourth.acquired(stage.bound()).await?;
    outcome.next(killed, next);
    Ok(outcome)
}
