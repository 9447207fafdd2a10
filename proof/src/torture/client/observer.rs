//! Observes who leads.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::orders::Orders;
use super::zklock::Zklock;
use crate::torture::record::{Event, Told, Who};

/// The pause before another session is asked for.
const PAUSE: Duration = Duration::from_millis(100);

/// Says what it is told, until it is told to look away.
pub(super) async fn run(client: u16, zklock: Arc<Zklock>, mut orders: Orders) -> anyhow::Result<()> {
    tokio::select! {
        () = orders.look_away() => Ok(()),
        failed = observe(Who::process(client), &zklock) => failed,
    }
}

async fn observe(who: Who, zklock: &Zklock) -> anyhow::Result<()> {
    loop {
        if let Ok(mut leaders) = zklock.observe().await {
            who.says(Event::Observes)?;
            while let Some(leader) = leaders.next().await {
                let leader = leader.map(|it| Told { value: it.value, token: it.token });
                who.says(Event::Told { leader })?;
            }
        }
        // There is no session, or it has ended for good.
        sleep(PAUSE).await;
    }
}
