//! Takes back the announcement of a leader whose own node is gone.

use std::sync::Arc;
use std::time::Duration;

use crate::requests;
use crate::settings::Settings;
use crate::zk::{Answer, Requester};

/// The pause after the first request that was not answered. Each further pause is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause after a request that was not answered.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Asks until a server has answered, or until the session is over: then the announcement goes with it. The session's
/// background task awaits this.
pub(crate) async fn retract(requester: Requester, lock: Arc<Settings>, token: i64) {
    let Some(announcement) = &lock.announcement else { return };
    let mut pause = SHORTEST_PAUSE;
    loop {
        let path = announcement.path.clone();
        let asked =
            requester.request(move |wire| async move { requests::retract(&wire.client, &path, token).await });
        if let Answer::Given(true, _) | Answer::Over(_) = asked.await {
            return announcement.ended(token);
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
