//! The first one is killed between the two steps of its acquisition, or right after it if there is only one step.

use crate::redis::kind::Step;
use crate::redis::outcome::Outcome;
use crate::redis::proxy::What;
use crate::redis::stage::Stage;

pub(super) async fn play(stage: &Stage) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut first, mut second) = (stage.enter(0).await?, stage.enter(1).await?);
    let between = match stage.kind.command(Step::Complete) {
        Some(_) => {
            let between = first.hold(What::Request, Step::Complete)?;
            first.begin_to_acquire().await?;
            between.reached().await;
            Some(between)
        }
        None => {
            first.acquire().await?;
            first.check_and_write().await?;
            None
        }
    };
    let killed = first.kill().await?;

    second.begin_to_acquire().await?;
    let next = second.acquired(stage.bound()).await?;
    outcome.next(killed, next);
    if next.done().is_some() {
        second.check_and_write().await?;
        second.release().await?;
    }
    // What was held back is lost with its sender; it must not arrive before this.
    drop(between);
    Ok(outcome)
}
