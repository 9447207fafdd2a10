//! The server does what the first one asks for, and its reply takes longer than the TTL. Meanwhile the second one acquires
//! the lock.
//!
//! Where an acquisition has two steps, the late reply is the second one's: the TTL counts from there. If the first one's reply
//! were late, no client would hold the lock for so long, and the key would have no end yet.

use crate::harness::Instant;
use crate::redis::kind::Step;
use crate::redis::outcome::{Outcome, Told};
use crate::redis::stage::{Acquisition, Stage};

pub(super) async fn play(stage: &Stage) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (mut first, mut second) = (stage.enter(0).await?, stage.enter(1).await?);
    let last = stage.kind.command(Step::Complete).map_or(Step::Win, |_| Step::Complete);
    let held = first.hold(last)?;
    first.begin_to_acquire().await?;
    held.reached().await;
    let granted = Instant::now();
    first.wire().cut_off();

    second.begin_to_acquire().await?;
    let next = second.acquired(stage.bound()).await?;
    outcome.next(granted, next);
    if outcome.stuck {
        return Ok(outcome);
    }
    second.check_and_write().await?;

    held.release();
    first.wire().restore();
    let late = first.acquired(stage.ttl).await?;
    match late {
        Acquisition::Done(_) => {
            first.note_grant(granted);
            // Each of them believes that it has the lock to itself.
            first.check_and_write().await?;
            tokio::time::sleep(stage.work()).await;
            second.check_and_write().await?;
            outcome.told_by_release(first.release().await?);
            second.release().await?;
        }
        Acquisition::Failed(_) => {
            outcome.told = Some(Told::AcquireFails);
            second.release().await?;
        }
        Acquisition::Waiting => {
            outcome.told = Some(Told::Waits);
            second.release().await?;
            // Its turn has come, by a hold of its own.
            let turn = first.acquired(stage.bound()).await?;
            outcome.stuck |= turn.done().is_none();
            first.check_and_write().await?;
            first.release().await?;
        }
    }
    Ok(outcome)
}
