//! Observes who leads.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::time::sleep;

use super::zklock::Zklock;
use crate::torture::record::{Event, Told, Who};

/// The pause before another session is asked for.
const PAUSE: Duration = Duration::from_millis(100);

/// Says what it is told. Ends with an error only.
pub(super) async fn observe(who: Who, zklock: Arc<Zklock>) -> anyhow::Result<()> {
    loop {
        if let Ok(mut leaders) = zklock.observe().await {
            who.says(Event::Observes)?;
            while let Some(leader) = leaders.next().await {
                let leader = leader.context("no server of the torture loses its data")?;
                let leader = leader.map(|it| Told { value: it.value, token: it.token });
                who.says(Event::Told { leader })?;
            }
        }
        // There is no session, or it has ended for good.
        sleep(PAUSE).await;
    }
}
