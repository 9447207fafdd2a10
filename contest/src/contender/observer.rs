//! Observes who leads.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::place::Place;
use super::world::World;
use super::zklock::Zklock;
use crate::record::{Event, Told, Who};

const PAUSE: Duration = Duration::from_millis(100);

pub async fn observe<W: World>(who: Who, place: Place<W>, zklock: Arc<Zklock<W>>) {
    loop {
        if let Ok(mut leaders) = zklock.observe().await {
            place.say(who, Event::Observes);
            while let Some(told) = leaders.next().await {
                match told {
                    Ok(leader) => {
                        let leader = leader.map(|it| Told { value: it.value, token: it.token });
                        place.say(who, Event::Told { leader });
                    }
                    // It observes anew then.
                    Err(why) => place.say(who, Event::Blinded { why: why.to_string() }),
                }
            }
        }
        // There is no session, or it has ended for good.
        sleep(PAUSE).await;
    }
}
