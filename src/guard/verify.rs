//! Asking a quorum whether the lock is held.

use std::sync::PoisonError;
use std::time::Duration;

use super::held::Held;
use crate::error::Lost;
use crate::recipe::Event;
use crate::session::{Answer, fenced};

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
            let request = generation
                .request(move |wire| async move { fenced::confirm(&wire.client, &node, own).await });
            match request.await {
                Answer::Given(Event::Confirmed, sent) => {
                    self.vitals().confirmed(sent);
                    let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
                    driver.iter_mut().for_each(|driver| driver.saw(sent.connection));
                    drop(driver);
                    self.saw(sent.connection);
                    return self.check();
                }
                Answer::Given(Event::OwnTouched, _) => return Err(self.touched()),
                Answer::Given(Event::SessionOver(end), _) | Answer::Over(end) => {
                    return Err(self.lost_for(end.into()));
                }
                Answer::Given(..) | Answer::Lost => {}
            }
            generation.sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }
}
