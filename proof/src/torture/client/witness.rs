//! Keeps a guard beside the lock, and says how long it was valid.
//!
//! All guards of a session share its lease. So a contender of this process that has the lock without a guard to ask, because
//! its claim was given up, has lost it only if this guard was lost, too, or if somebody touched its node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::zklock::Zklock;
use crate::harness::Instant;
use crate::torture::record::{Event, Who};

/// How often it looks at its guard.
const LOOK: Duration = Duration::from_millis(200);
/// The pause before it asks for another one.
const PAUSE: Duration = Duration::from_millis(100);

/// Says what it sees. Ends with an error only.
pub(super) async fn witness(who: Who, zklock: Arc<Zklock>) -> anyhow::Result<()> {
    loop {
        if let Ok(guard) = zklock.beside(who.client).await {
            let since = Instant::now();
            loop {
                let valid = Instant::now();
                if guard.check().is_err() {
                    break;
                }
                who.says(Event::Witnesses { since, valid })?;
                let _lost = timeout(LOOK, guard.lost()).await;
            }
        }
        sleep(PAUSE).await;
    }
}
