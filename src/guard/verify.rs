//! Asking a quorum whether the lock is held.

use std::sync::PoisonError;
use std::time::Duration;

use super::LostReason;
use super::held::Held;
use crate::clock;
use crate::error::Lost;
use crate::recipe::Event;
use crate::session::fenced;

/// The pause after the first request that was not answered; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Held {
    /// Resolves once a quorum has answered. Goes on for ever without one: whoever awaits it stops at the lease's end. So
    /// does what a server refuses for good, for it refuses the heartbeats, too.
    pub(super) async fn confirm(&self) -> Result<(), Lost> {
        let (generation, own) = (self.holding.generation(), self.own);
        let mut pause = SHORTEST_PAUSE;
        loop {
            let node = self.path.contender(own.sequence);
            let request = generation.request(|client| async move {
                let sent = clock::now();
                (sent, fenced::confirm(&client, &node, own).await)
            });
            match request.await {
                Some((sent, Event::Confirmed)) => {
                    let connection = self.vitals().confirmed(sent);
                    let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
                    driver.iter_mut().for_each(|driver| driver.saw(connection));
                    drop(driver);
                    return self.check();
                }
                Some((_, Event::OwnTouched)) => return Err(self.touched()),
                Some((_, Event::SessionOver(end))) => return Err(self.lost_for(end.into())),
                Some(_) => {}
                None => return Err(self.lost_for(LostReason::SessionClosed)),
            }
            generation.sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}
