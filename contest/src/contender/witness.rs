//! Keeps a guard beside the lock, and says how long it was valid.
//!
//! All guards of a session share its lease. So a contender of this process that has the lock without a guard to ask, because
//! its claim was given up, has lost it only if this guard was lost, too, or if somebody touched its node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::place::Place;
use super::world::World;
use super::zklock::Zklock;
use crate::record::{Event, Who};

const PAUSE: Duration = Duration::from_millis(100);

pub async fn witness<W: World>(who: Who, place: Place<W>, zklock: Arc<Zklock<W>>) {
    let look = place.part.pace.look.max(place.part.pace.timeout / 20);
    loop {
        if let Ok(guard) = zklock.beside(who.client).await {
            let guard = Arc::new(guard);
            let since = place.world.now();
            place.world.witnesses(who, since, &guard);
            loop {
                let valid = place.world.now();
                if guard.check().is_err() {
                    break;
                }
                place.say(who, Event::Witnesses { since, valid });
                let _lost = timeout(look, guard.lost()).await;
            }
        }
        sleep(PAUSE).await;
    }
}
