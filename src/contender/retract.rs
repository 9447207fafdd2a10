//! Takes back the announcement of a leader whose own node is gone.

use std::sync::Arc;

use crate::backoff::Tries;
use crate::requests;
use crate::settings::Settings;
use crate::zk::{Answer, Requester};

/// Asks until a server has answered, or until the session is over: then the announcement goes with it. The session's
/// background task awaits this.
pub(crate) async fn retract(requester: Requester, lock: Arc<Settings>, token: i64) {
    let Some(announcement) = &lock.announcement else { return };
    let mut tries = Tries::default();
    loop {
        let path = announcement.path.clone();
        let asked =
            requester.request(move |wire| async move { requests::retract(&wire.client, &path, token).await });
        if let Answer::Given(true, _) | Answer::Over(_) = asked.await {
            return announcement.ended(token);
        }
        tries.failed();
        if let Some(pause) = tries.pause() {
            tokio::time::sleep(pause).await;
        }
    }
}
